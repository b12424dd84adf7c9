/* Looks for torn words, and messages, whose kernels are played: what one look saw is taken back by a look that sees more, and
 * by nothing else; a message that waited for its writer is sent again. No process, no clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "helper/legs_both.h"

#define MOST_LOOKS 16

/* What a look of the direction 0>1 comes to; the other way sees everything and is right, where nothing else is said. */
enum look {
	SEES,  /* both patterns, nothing torn */
	BLIND, /* one pattern only */
	LATE,  /* no end mark, as its writer got its GPU late */
	LOST,  /* no end mark, of a writer that was there in time */
	TORN,  /* halves of two words */
	SLOW,  /* right, but its reader was not done with a message when the next one came */
	GONE,  /* right, but its reader was without its GPU for long */
	MISSED, /* right, but its reader got its GPU when all was sent */
	AWAY   /* the kernels do not get their GPUs together */
};

static struct {
	struct p2s_run run;
	struct p2s_device gpu[2];
	struct p2s_way way[4];
	const enum look *looks;
	const enum look *back; /* of 1>0; NULL SEES */
	int pull;
	uint32_t begun;    /* looks */
	int mark_is_away;  /* the owner does not find the end mark afterwards */
	uint32_t asked[2]; /* what each GPU has to do; 0 nothing */
	uint64_t rounds[2];
	uint64_t seed[2];  /* of what it reads */
	uint64_t pace_ns[MOST_LOOKS]; /* of each look */
	uint32_t sent[MOST_LOOKS];
	struct p2s_lib_leg leg[2];
} w;

const int32_t p2s_mapping_word[P2S_M_COUNT] = {P2PSAFE_MAPPING_CUMEM, P2PSAFE_MAPPING_IPC, P2PSAFE_MAPPING_PEER};

void p2s_klog_drain(struct p2s_run *run)
{
	(void)run;
}

void p2s_link_fact(struct p2s_run *run, const char *code, int32_t severity, int32_t src, int32_t dst, const char *source,
                   const char *text)
{
	(void)run, (void)severity, (void)src, (void)dst, (void)source;
	if (strcmp(code, "TEARING_128") != 0)
		fail_msg("%s", text);
}

void p2s_link_gpu(struct p2s_run *run, uint32_t gpu)
{
	(void)run;
	fail_msg("GPU %u is told of", gpu);
}

void p2s_link_leg(struct p2s_run *run, const struct p2s_lib_leg *leg)
{
	(void)run;
	w.leg[leg->src] = *leg;
}

void p2s_workers_kill(struct p2s_run *run, struct p2s_proc *proc)
{
	(void)run, (void)proc;
	fail_msg("a worker is killed");
}

void p2s_chan_follow(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req)
{
	(void)run, (void)chan, (void)req;
	fail_msg("nothing follows here");
}

void p2s_chan_arm(struct p2s_chan *chan)
{
	w.begun += chan->gpu == 0;
	assert_true(w.begun <= MOST_LOOKS);
}

void p2s_chan_post(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, int fd)
{
	(void)run;
	assert_true(fd == -1 && w.asked[chan->gpu] == 0);
	assert_true(req->op == P2S_OP_TEAR || req->op == P2S_OP_MP || req->op == P2S_OP_LL || req->op == P2S_OP_FILL);
	w.asked[chan->gpu] = req->op;
	w.rounds[chan->gpu] = req->rounds;
	w.seed[chan->gpu] = req->seed2;
	if (req->op == P2S_OP_MP || req->op == P2S_OP_LL) {
		w.pace_ns[w.begun - 1] = req->pace_ns;
		w.sent[w.begun - 1] = req->rounds;
		assert_true(req->pace_ns * req->rounds <= P2S_WAIT_NS / 4);
	}
}

int p2s_chan_ready(struct p2s_run *run, struct p2s_chan *chan, unsigned mask, uint64_t until_ns)
{
	(void)run, (void)chan, (void)mask, (void)until_ns;
	return w.looks[w.begun - 1] != AWAY;
}

void p2s_chan_go(struct p2s_chan *chan)
{
	(void)chan;
}

void p2s_chan_abort(struct p2s_chan *chan)
{
	(void)chan;
}

static void write_as(enum look look, struct p2s_role_result *writer)
{
	if (look == LATE)
		writer->elapsed_ns = 900;
	if (look == LOST)
		writer->elapsed_ns = 100;
}

static void read_as(enum look look, struct p2s_role_result *reader)
{
	if (look == LATE || look == LOST) {
		reader->status = P2S_ROLE_TIMEOUT;
		reader->rounds_done--;
	}
	if (look == SLOW)
		reader->elapsed_ns = reader->rounds_done * 7000;
	if (look == GONE)
		reader->elapsed_ns = reader->rounds_done * 12000000;
	if (look == MISSED)
		reader->polls = 0;
	if (look == BLIND)
		reader->seen_b = 0;
	if (look == TORN) {
		reader->bad_words = reader->samples = 1;
		reader->sample[0].found = UINT64_C(0x1234);
	}
}

/* role[0]: what this GPU wrote for one direction, role[1]: what it read of the other. */
int p2s_chan_wait(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_answer *answer, int *fd)
{
	const uint32_t asked = w.asked[chan->gpu];
	const uint32_t at = asked != P2S_OP_FILL ? w.begun - 1 : 0;
	const uint64_t rounds = w.rounds[chan->gpu];
	const enum look back = w.back != NULL ? w.back[at] : SEES;
	const int writes = chan->gpu == (w.pull ? 1u : 0u); /* in the direction 0>1, and reads in the other */
	struct p2s_role_result role[2] = {
		{.status = P2S_ROLE_DONE, .rounds_done = rounds, .elapsed_ns = 1000},
		{.status = P2S_ROLE_DONE, .rounds_done = rounds, .elapsed_ns = 1000, .polls = rounds, .seen_a = 50, .seen_b = 50}};

	(void)run;
	assert_null(fd);
	assert_int_not_equal(asked, 0);
	w.asked[chan->gpu] = 0;
	memset(answer, 0, sizeof *answer);
	if (asked == P2S_OP_FILL)
		return P2S_RC_OK;
	write_as(writes ? w.looks[at] : back, &role[0]);
	read_as(writes ? back : w.looks[at], &role[1]);
	answer->rc = P2S_RC_OK;
	answer->roles_len = sizeof role;
	memcpy(answer->roles, role, sizeof role);
	return P2S_RC_OK;
}

int p2s_chan_call(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, struct p2s_op_answer *answer)
{
	(void)run;
	memset(answer, 0, sizeof *answer);
	assert_true(req->op == P2S_OP_FILL || req->op == P2S_OP_CHECK || req->op == P2S_OP_PEEK);
	answer->bad_words = req->op == P2S_OP_CHECK && w.mark_is_away;
	for (uint64_t i = 0; req->op == P2S_OP_PEEK && i < req->len; i += 8) {
		const uint64_t seed = p2s_seed_epoch(w.seed[chan->gpu], w.rounds[chan->gpu]);
		const uint64_t word = w.mark_is_away && i == 0 ? 0 : p2s_word(seed, (req->off + i) / 8);

		memcpy(answer->samples + i, &word, sizeof word);
		answer->samples_len = (uint32_t)i + 8;
	}
	return P2S_RC_OK;
}

static void machine(void)
{
	memset(&w, 0, sizeof w);
	w.run.n = 2;
	w.run.gpu = w.gpu;
	w.run.way = w.way;
	w.run.stop_ns = UINT64_MAX;
	for (uint32_t i = 0; i < 2; i++) {
		w.gpu[i].bytes[P2S_B_CUMEM] = 8 * P2S_MIB;
		w.gpu[i].info[P2S_CHAN_GPU].module = 1;
		w.gpu[i].chan[P2S_CHAN_GPU].gpu = i;
	}
	w.way[1].map[P2S_M_CUMEM] = w.way[2].map[P2S_M_CUMEM] = P2S_MAP_READY;
}

/* Few words, or many. Says what becomes of 0>1; w.leg[1] is the other. back NULL: it sees everything, and must be right unless
 * nothing ran. */
static int32_t tear_both(const enum look *looks, const enum look *back, int wide, int pull, int mark_is_away)
{
	struct p2s_both x;

	machine();
	w.looks = looks;
	w.back = back;
	w.pull = pull;
	w.mark_is_away = mark_is_away;
	assert_true(p2s_tear_begin(&w.run, 0, 1, P2S_M_CUMEM, 3, &x));
	if (wide)
		p2s_tear_wide(&x, pull, 100);
	else
		p2s_tear_form(&x, pull, 100);
	p2s_both_end(&x);
	if (back == NULL && looks[w.begun - 1] != AWAY)
		assert_int_equal(w.leg[1].verdict, P2PSAFE_VERDICT_OK);
	return w.leg[0].verdict;
}

static int32_t tear(const enum look *looks, int wide, int pull, int mark_is_away)
{
	return tear_both(looks, NULL, wide, pull, mark_is_away);
}

#define OK P2PSAFE_VERDICT_OK
#define CORRUPT P2PSAFE_VERDICT_CORRUPT
#define UNTESTED P2PSAFE_VERDICT_UNTESTED

static const struct {
	enum look looks[MOST_LOOKS];
	uint32_t few, many;      /* looks that are had, of few and of many words */
	int32_t of_few, of_many; /* verdicts */
} rows[] = {
	{{SEES}, 1, 1, OK, OK},
	{{BLIND, SEES}, 2, 1, OK, OK}, /* many words only add to what few words proved */
	{{BLIND, BLIND, BLIND}, 3, 1, UNTESTED, OK},
	{{LATE, SEES}, 2, 2, OK, OK},
	{{LATE, BLIND, SEES}, 3, 3, OK, OK},
	{{LATE, BLIND, BLIND}, 3, 3, CORRUPT, CORRUPT},
	{{LATE, LATE, LATE}, 3, 3, CORRUPT, CORRUPT},
	{{LATE, AWAY}, 2, 2, CORRUPT, CORRUPT},
	{{LATE, BLIND, AWAY}, 3, 3, CORRUPT, CORRUPT},
	{{BLIND, LATE, AWAY}, 3, 1, CORRUPT, OK},
	{{BLIND, AWAY}, 2, 1, UNTESTED, OK},
	{{AWAY}, 1, 1, UNTESTED, UNTESTED},
	{{LOST}, 1, 1, CORRUPT, CORRUPT},
	{{TORN}, 1, 1, CORRUPT, CORRUPT},
	{{BLIND, TORN}, 2, 1, CORRUPT, OK},
	{{LATE, TORN}, 2, 2, CORRUPT, CORRUPT},
};

static void only_a_look_that_sees_takes_damage_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		for (int k = 0; k < 4; k++) {
			const int wide = k / 2;
			const int32_t verdict = tear(rows[i].looks, wide, k % 2, 0);

			if (verdict != (wide ? rows[i].of_many : rows[i].of_few) || w.begun != (wide ? rows[i].many : rows[i].few))
				fail_msg("row %zu, %s, %s: verdict %d after %u looks", i, wide ? "many words" : "few words",
				         k % 2 ? "loads" : "stores", verdict, w.begun);
		}
	}
}

/* However late its writer was: a mark that its owner does not find after all is over was stored and is not there. */
static void a_mark_that_the_owner_misses_is_lost(void **state)
{
	static const enum look late[MOST_LOOKS] = {LATE, SEES};

	(void)state;
	for (int wide = 0; wide < 2; wide++) {
		assert_int_equal(tear(late, wide, 0, 1), CORRUPT);
		assert_int_equal(w.begun, 1);
		/* the owner stored it itself: what a load does not see is no less there */
		assert_int_equal(tear(late, wide, 1, 1), OK);
		assert_int_equal(w.begun, 2);
	}
}

/* Both directions run again where one needs it. What the other passed stays: a look that sees less takes back nothing, and one
 * that sees damage does. */
static void what_one_way_passed_outlives_looks_for_the_other(void **state)
{
	static const struct {
		enum look there[MOST_LOOKS], back[MOST_LOOKS];
		uint32_t begun;
		int32_t of_there, of_back;
	} both[] = {
		{{SEES, BLIND, BLIND}, {BLIND, BLIND, SEES}, 3, OK, OK},
		{{SEES, BLIND}, {BLIND, SEES}, 2, OK, OK},
		{{BLIND, SEES, BLIND}, {BLIND, BLIND, BLIND}, 3, OK, UNTESTED},
		{{SEES, TORN}, {BLIND, SEES}, 2, CORRUPT, OK},
		{{SEES, LATE, BLIND}, {BLIND, BLIND, SEES}, 3, CORRUPT, OK},
		{{SEES, LATE, SEES}, {BLIND, SEES, BLIND}, 3, OK, OK},
	};

	(void)state;
	for (size_t i = 0; i < sizeof both / sizeof both[0]; i++) {
		for (int k = 0; k < 4; k++) {
			const int turned = k / 2;
			const int32_t first = tear_both(turned ? both[i].back : both[i].there, turned ? both[i].there : both[i].back, 0, k % 2, 0);
			const int32_t there = turned ? w.leg[1].verdict : first;
			const int32_t back = turned ? first : w.leg[1].verdict;

			if (there != both[i].of_there || back != both[i].of_back || w.begun != both[i].begun)
				fail_msg("row %zu, %s, %s: verdicts %d and %d after %u looks", i, turned ? "turned" : "as it is",
				         k % 2 ? "loads" : "stores", there, back, w.begun);
		}
	}
}

/* Messages: the first one alone, or a line of words that carry their flags. */
static int32_t message(const enum look *looks, const enum look *back, int line, int pull, int is_away)
{
	machine();
	w.looks = looks;
	w.back = back;
	w.pull = pull;
	w.mark_is_away = is_away;
	if (line)
		p2s_tear_line(&w.run, 0, 1, P2S_M_CUMEM, 3);
	else
		p2s_leg_message(&w.run, 0, 1, P2S_M_CUMEM, 3, pull, P2S_MESSAGE_ONE);
	return w.leg[0].verdict;
}

static const struct {
	enum look looks[MOST_LOOKS];
	uint32_t begun;
	int32_t verdict;
} messages[] = {
	{{SEES}, 1, OK},
	{{LATE, SEES}, 2, OK},
	{{LATE, LATE, LATE, SEES}, 4, OK},
	{{LATE, LATE, LATE, LATE}, 4, UNTESTED},
	{{LATE, AWAY}, 2, UNTESTED},
	{{LATE, LOST}, 2, CORRUPT},
	{{LATE, TORN}, 2, CORRUPT},
	{{LOST}, 1, CORRUPT},
	{{AWAY}, 1, UNTESTED},
};

/* A writer that got its GPU late proves nothing against the link; one that was there in time, or whose words are not there,
 * does. The other way is not asked again. */
static void messages_that_waited_are_sent_again(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
		for (int k = 0; k < 3; k++) {
			const int32_t verdict = message(messages[i].looks, NULL, k == 2, k == 1, 0);

			if (verdict != messages[i].verdict || w.begun != messages[i].begun)
				fail_msg("row %zu, form %d: verdict %d after %u looks", i, k, verdict, w.begun);
			if (messages[i].looks[0] != AWAY)
				assert_int_equal(w.leg[1].verdict, OK);
			assert_true(w.pace_ns[0] > 0); /* of what lay there before somebody looked nothing is proven */
		}
	}
}

/* All forms, pushed: nine runs, the last of them the control without fences. */
static int32_t all_forms(const enum look *looks)
{
	machine();
	w.looks = looks;
	p2s_leg_message(&w.run, 0, 1, P2S_M_CUMEM, 3, 0, P2S_MESSAGE_ALL);
	assert_int_equal(w.leg[1].verdict, OK);
	return w.leg[0].verdict;
}

/* A reader that is not there yet when its message comes proves nothing of its order: the writer waits for it longer. */
static void the_writer_waits_for_a_slow_reader(void **state)
{
	static const enum look quick[MOST_LOOKS] = {SEES};
	static const enum look slow[MOST_LOOKS] = {SLOW, SEES};
	static const enum look never[MOST_LOOKS] = {SLOW, SLOW, SLOW, SLOW};
	static const enum look away[MOST_LOOKS] = {SLOW, AWAY};
	static const enum look torn[MOST_LOOKS] = {SLOW, TORN};
	static const enum look lost[MOST_LOOKS] = {SLOW, LOST};
	static const enum look gone[MOST_LOOKS] = {GONE, SEES};
	static const enum look missed[MOST_LOOKS] = {MISSED, SEES};
	static const enum look late_away[MOST_LOOKS] = {SLOW, LATE, AWAY};
	static const enum look late[MOST_LOOKS] = {SLOW, LATE, LATE, LATE};
	static const enum look again[MOST_LOOKS] = {SLOW, SLOW, SLOW, SLOW, SLOW};
	uint64_t counts;

	(void)state;
	assert_int_equal(all_forms(quick), OK);
	assert_int_equal(w.begun, 9);
	counts = w.leg[0].rounds;
	assert_int_equal(w.leg[1].rounds, counts);
	assert_int_equal(all_forms(slow), OK);
	assert_int_equal(w.begun, 10);
	assert_int_equal(w.leg[0].rounds, counts + 1); /* what came behind counts once */
	assert_int_equal(w.leg[1].rounds, counts);     /* the other way is not asked again */
	assert_true(w.pace_ns[1] >= 14000 && w.pace_ns[2] == w.pace_ns[0]);
	assert_int_equal(all_forms(missed), OK);
	assert_int_equal(w.begun, 10);
	assert_int_equal(w.leg[0].rounds, counts + 1);
	/* Too slow for any pace: told, and next to nothing counts; its bytes were right. */
	assert_int_equal(all_forms(never), OK);
	assert_int_equal(w.begun, 12);
	assert_int_equal(w.leg[0].rounds, counts - 1024 + 4);
	assert_true(w.pace_ns[3] > w.pace_ns[2] && w.pace_ns[2] > w.pace_ns[1]);
	/* What passed stays where the second run could not be had, and falls where it shows damage. */
	assert_int_equal(all_forms(away), OK);
	assert_int_equal(all_forms(late_away), OK);
	assert_int_equal(all_forms(late), OK);
	assert_int_equal(all_forms(gone), OK);
	assert_int_equal(w.sent[1], P2S_JUDGE_FEW);
	assert_int_equal(all_forms(torn), CORRUPT);
	assert_int_equal(all_forms(lost), CORRUPT);
	/* What one form came to is told also where the next one needed a second run. */
	assert_int_equal(all_forms(again), OK);
	assert_int_equal(strncmp(w.leg[0].note, "messages of 128 words", 21), 0);
}

static void a_control_that_cannot_be_had_changes_nothing(void **state)
{
	static const enum look away[MOST_LOOKS] = {SEES, SEES, SEES, SEES, SEES, SEES, SEES, SEES, AWAY};
	static const enum look form[MOST_LOOKS] = {SEES, SEES, SEES, SEES, SEES, SEES, SEES, AWAY};

	(void)state;
	assert_int_equal(all_forms(away), OK);
	assert_int_equal(w.begun, 9);
	machine();
	w.looks = form; /* unlike a form */
	p2s_leg_message(&w.run, 0, 1, P2S_M_CUMEM, 3, 0, P2S_MESSAGE_ALL);
	assert_int_equal(w.leg[0].verdict, UNTESTED);
}

static void messages_that_the_owner_misses_are_lost(void **state)
{
	static const enum look late[MOST_LOOKS] = {LATE, SEES};

	(void)state;
	for (int k = 0; k < 2; k++) {
		assert_int_equal(message(late, NULL, k, 0, 1), CORRUPT);
		assert_int_equal(w.begun, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_look_that_sees_takes_damage_back),
		cmocka_unit_test(a_mark_that_the_owner_misses_is_lost),
		cmocka_unit_test(what_one_way_passed_outlives_looks_for_the_other),
		cmocka_unit_test(messages_that_waited_are_sent_again),
		cmocka_unit_test(messages_that_the_owner_misses_are_lost),
		cmocka_unit_test(the_writer_waits_for_a_slow_reader),
		cmocka_unit_test(a_control_that_cannot_be_had_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
