/* p2s_mp, p2s_tear and p2s_atomic against their twins: both roles of one GPU on one buffer, and readers alone on prepared
 * bytes. */
#include "twin.h"

#include <stdio.h>
#include <string.h>

#define POISON UINT64_C(0x1111222233334444)
#define SEED UINT64_C(0xa5a5000012345678)
#define SEED_B UINT64_C(0x5a5a00009abcdef0)
#define ROLES 2
#define WRITER 0
#define READER 1
#define MAX_NS UINT64_C(200000000)

struct p2s_role_result twin_role(const struct twin *t, int s, int which)
{
	struct p2s_role_result r;

	memcpy(&r, t->answer[s].roles + (size_t)which * sizeof r, sizeof r);
	return r;
}

static int same_samples(const struct p2s_role_result *a, const struct p2s_role_result *b)
{
	if (a->samples != b->samples)
		return 0;
	if (a->samples > P2S_SAMPLES)
		return 1; /* which ones were kept is a race */
	for (uint64_t i = 0; i < a->samples; i++) {
		int found = 0;

		for (uint64_t k = 0; k < b->samples; k++)
			found |= a->sample[i].offset == b->sample[k].offset && a->sample[i].found == b->sample[k].found;
		if (!found)
			return 0;
	}
	return 1;
}

/* polls and elapsed_ns are the machine's own. */
void twin_compare_role(struct twin *t, int which, const char *what)
{
	struct p2s_role_result a = twin_role(t, TWIN_REAL, which);
	struct p2s_role_result b = twin_role(t, TWIN_SIM, which);
	char line[240];
	int same = a.status == b.status && a.rounds_done == b.rounds_done && a.bad_words == b.bad_words &&
			   a.flag_found == b.flag_found && a.payload_ok == b.payload_ok && a.payload_bad == b.payload_bad &&
			   a.cas_done == b.cas_done && same_samples(&a, &b);

	snprintf(line, sizeof line,
			 "%s role %d: status %d/%d rounds %d/%d bad %d/%d flag %llx/%llx ok %d/%d bad %d/%d samples %d/%d", what, which,
			 (int)a.status, (int)b.status, (int)a.rounds_done, (int)b.rounds_done, (int)a.bad_words, (int)b.bad_words,
			 (unsigned long long)a.flag_found, (unsigned long long)b.flag_found, (int)a.payload_ok, (int)b.payload_ok,
			 (int)a.payload_bad, (int)b.payload_bad, (int)a.samples, (int)b.samples);
	twin_expect(t, same, line, 0);
}

static void damage(struct twin *t, uint64_t at, unsigned char mask)
{
	for (int s = 0; s < TWIN_SIDES; s++)
		t->host[s][at] ^= mask;
}

static void mp_clean(struct twin *t, uint32_t idiom, uint32_t words, uint32_t flag_off, uint32_t slot)
{
	struct p2s_op_request q = {.op = P2S_OP_MP,
							   .buf = TWIN_A,
							   .off = 64,
							   .buf2 = TWIN_A,
							   .off2 = 64,
							   .seed = SEED,
							   .seed2 = SEED,
							   .rounds = 64,
							   .words = words,
							   .slot_bytes = slot,
							   .flag_off = flag_off,
							   .idiom = idiom,
							   .max_ns = MAX_NS};
	struct p2s_op_request f = q;
	char what[80];

	snprintf(what, sizeof what, "mp idiom %u, %u words, slot %u", idiom, words, slot);
	twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
	if (twin_ask_go(t, &q, ROLES, what)) {
		struct p2s_role_result r = twin_role(t, TWIN_REAL, READER);

		twin_compare_role(t, WRITER, what);
		twin_compare_role(t, READER, what);
		twin_expect(t, r.status == P2S_ROLE_DONE && r.rounds_done == 64 && r.bad_words == 0, what, r.status);
	}
	twin_down(t, TWIN_A);
	twin_same_bytes(t, what);
	for (uint64_t k = 0; k < q.rounds; k++) {
		const unsigned char *at = t->host[TWIN_REAL] + q.off + k * slot;
		uint64_t seed = p2s_seed_epoch(SEED, k + 1);
		uint64_t word = 0;

		memcpy(&word, at + flag_off, 8);
		twin_expect(t, word == p2s_word(seed, (k * slot + flag_off) / 8), "mp: flag by definition", k);
		memcpy(&word, at + (words - 1) * 8, 8);
		twin_expect(t, word == p2s_word(seed, (k * slot) / 8 + words - 1), "mp: last payload word by definition", k);
	}
	/* FILL_SLOTS must write the same bytes */
	f.op = P2S_OP_FILL_SLOTS;
	f.buf = TWIN_B;
	twin_fill(t, TWIN_B, 0, TWIN_BYTES, POISON);
	twin_ask(t, &f, P2S_RC_OK, "fill slots");
	for (int s = 0; s < TWIN_SIDES; s++) {
		static unsigned char kept[TWIN_BYTES];
		struct p2s_op_request d = {.op = P2S_OP_HOST_COPY, .buf = TWIN_B, .buf2 = TWIN_HOST, .len = TWIN_BYTES, .mode = 0};

		memcpy(kept, t->host[s], TWIN_BYTES);
		drive_ask(&t->drive[s], 0, &d, -1, NULL, &t->answer[s]);
		twin_expect(t, memcmp(kept, t->host[s], TWIN_BYTES) == 0, "fill slots writes what the writer writes", (uint64_t)s);
	}
}

/* A reader alone on slots that were filled before and damaged. bad_flag: slot whose flag is wrong, -1 none. */
static void mp_damaged(struct twin *t, uint32_t idiom, uint32_t words, int bad_flag, const char *what)
{
	const uint32_t slot = 1024;
	struct p2s_op_request f = {.op = P2S_OP_FILL_SLOTS,
							   .buf = TWIN_A,
							   .off = 128,
							   .seed = SEED,
							   .rounds = 16,
							   .words = words,
							   .slot_bytes = slot,
							   .flag_off = 1000};
	struct p2s_op_request q = f;

	twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
	twin_ask(t, &f, P2S_RC_OK, what);
	twin_down(t, TWIN_A);
	damage(t, 128 + 3 * slot, 1);
	damage(t, 128 + 3 * slot + (words - 1) * 8 + 7, 0x80);
	damage(t, 128 + 4 * slot + (words / 2) * 8 + 4, 0x10);
	damage(t, 128 + 9 * slot + 2, 0xff);
	if (bad_flag >= 0)
		damage(t, 128 + (uint64_t)bad_flag * slot + 1000, 0x55);
	twin_up(t, TWIN_A);
	q.op = P2S_OP_MP;
	q.buf = 0;
	q.off = 0;
	q.buf2 = TWIN_A;
	q.off2 = 128;
	q.seed2 = SEED;
	q.idiom = idiom;
	q.max_ns = UINT64_C(30000000);
	if (twin_ask_go(t, &q, ROLES, what)) {
		struct p2s_role_result w = twin_role(t, TWIN_REAL, WRITER);
		struct p2s_role_result r = twin_role(t, TWIN_REAL, READER);

		twin_compare_role(t, WRITER, what);
		twin_compare_role(t, READER, what);
		twin_expect(t, w.status == P2S_ROLE_IDLE, what, w.status);
		twin_expect(t, r.status == (bad_flag < 0 ? P2S_ROLE_DONE : P2S_ROLE_TIMEOUT), what, r.status);
		twin_expect(t, r.bad_words != 0 || bad_flag == 3, what, r.bad_words);
		if (bad_flag >= 0)
			twin_expect(t, r.rounds_done == (uint64_t)bad_flag && r.payload_ok + r.payload_bad == words, what, r.rounds_done);
	}
}

void twin_mp_cases(struct twin *t)
{
	static const uint32_t words[] = {1, 2, 15, 31, 32, 33, 64, 65, 120};
	struct p2s_op_request q = {.op = P2S_OP_MP,
							   .buf2 = TWIN_A,
							   .seed2 = SEED,
							   .rounds = 4,
							   .words = 4,
							   .slot_bytes = 64,
							   .flag_off = 56,
							   .max_ns = MAX_NS,
							   .timeout_ns = UINT64_C(16000000000)}; /* the twin waits longer for go */

	for (uint32_t idiom = 0; idiom <= 3; idiom++) {
		for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
			mp_clean(t, idiom, words[i], 1008, 1024);
		mp_clean(t, idiom, 16, 128, 136); /* slots that are not multiples of 16 */
		mp_clean(t, idiom, 500, 4096, 8192);
		mp_damaged(t, idiom, 33, -1, "mp with damaged slots");
		mp_damaged(t, idiom, 120, 3, "mp, flag 3 missing");
		mp_damaged(t, idiom, 7, 15, "mp, flag 15 missing");
	}
	/* go never comes: the GPU's own clock ends the wait */
	if (twin_ask_go(t, &q, 0, "mp without go")) {
		twin_compare_role(t, WRITER, "mp without go");
		twin_compare_role(t, READER, "mp without go");
		twin_expect(t, twin_role(t, TWIN_REAL, READER).status == P2S_ROLE_NO_GO, "mp without go", 0);
	}
	/* a late flag, and the worker's own time limit: abort ends the kernel, the engine comes back */
	q.max_ns = UINT64_C(20000000000);
	q.timeout_ns = UINT64_C(100000000);
	twin_fill(t, TWIN_A, 0, 65536, POISON);
	if (twin_ask_go(t, &q, ROLES, "mp aborted")) {
		twin_compare_role(t, READER, "mp aborted");
		twin_expect(t, twin_role(t, TWIN_REAL, READER).status == P2S_ROLE_ABORTED, "mp aborted", twin_role(t, TWIN_REAL, READER).status);
	}
}

static void tear_prepared(struct twin *t, int mark)
{
	const uint32_t words = 100;
	struct p2s_op_request q = {.op = P2S_OP_TEAR,
							   .buf2 = TWIN_A,
							   .words = words,
							   .seed = SEED,
							   .seed2 = SEED_B,
							   .rounds = 1000,
							   .max_ns = UINT64_C(20000000)};
	uint64_t poison = SEED ^ SEED_B ^ P2S_TEAR_POISON;
	struct p2s_role_result a;
	struct p2s_role_result b;

	twin_fill(t, TWIN_A, 0, (words + 1) * 8, SEED); /* the word behind the last is the end mark */
	twin_fill(t, TWIN_A, 160, 80, SEED_B);
	twin_fill(t, TWIN_A, 320, 40, poison);
	twin_fill(t, TWIN_A, 404, 4, SEED_B); /* half of one, half of the other */
	if (!mark)
		twin_fill(t, TWIN_A, words * 8, 8, poison);
	if (!twin_ask_go(t, &q, ROLES, "tear, prepared"))
		return;
	a = twin_role(t, TWIN_REAL, READER);
	b = twin_role(t, TWIN_SIM, READER);
	if (mark) {
		twin_compare_role(t, READER, "tear, prepared");
		twin_expect(t, a.seen_a == b.seen_a && a.seen_b == b.seen_b, "tear: values seen", a.seen_a);
		twin_expect(t, a.seen_a == words - 10 - 5 - 1 && a.seen_b == 10 && a.bad_words == 1, "tear: planted value",
					a.bad_words);
		twin_expect(t, a.sample[0].offset == 400, "tear: where", a.sample[0].offset);
	} else {
		/* passes until the bound are the machine's own, what one pass finds is not */
		twin_expect(t, a.status == P2S_ROLE_TIMEOUT && b.status == P2S_ROLE_TIMEOUT, "tear without end mark", a.status);
		twin_expect(t, a.rounds_done > 0 && a.bad_words == a.rounds_done, "tear: once per pass", a.bad_words);
		twin_expect(t, b.rounds_done > 0 && b.bad_words == b.rounds_done, "tear: once per pass, twin", b.bad_words);
	}
}

void twin_tear_cases(struct twin *t)
{
	struct p2s_op_request q = {.op = P2S_OP_TEAR,
							   .buf = TWIN_A,
							   .off = 64,
							   .buf2 = TWIN_A,
							   .off2 = 64,
							   .words = 48,
							   .seed = SEED,
							   .seed2 = SEED_B,
							   .rounds = 3000,
							   .max_ns = UINT64_C(2000000000)};

	tear_prepared(t, 1);
	tear_prepared(t, 0);
	twin_fill(t, TWIN_A, 0, 4096, POISON);
	/* poison as the reader expects it, counted from off */
	for (int s = 0; s < TWIN_SIDES; s++)
		for (uint64_t i = 0; i <= q.words; i++) {
			uint64_t w = p2s_word(SEED ^ SEED_B ^ P2S_TEAR_POISON, i);

			memcpy(t->host[s] + q.off + i * 8, &w, 8);
		}
	twin_up(t, TWIN_A);
	if (twin_ask_go(t, &q, ROLES, "tear")) {
		for (int s = 0; s < TWIN_SIDES; s++) {
			struct p2s_role_result w = twin_role(t, s, WRITER);
			struct p2s_role_result r = twin_role(t, s, READER);

			twin_expect(t, w.status == P2S_ROLE_DONE && w.rounds_done == 3000, "tear: writer", w.status);
			twin_expect(t, r.status == P2S_ROLE_DONE && r.bad_words == 0, "tear: reader", r.bad_words);
			twin_expect(t, r.seen_a > 0 && r.seen_b > 0, "tear: power", r.seen_a);
		}
	}
	twin_down(t, TWIN_A);
	twin_same_bytes(t, "tear: last pattern and end mark");
}

void twin_atomic_cases(struct twin *t)
{
	struct p2s_op_request q = {.op = P2S_OP_ATOMIC, .buf = TWIN_A, .off = 256, .rounds = 1000, .max_ns = MAX_NS};
	uint64_t had[2];

	twin_fill(t, TWIN_A, 0, 4096, POISON);
	had[0] = p2s_word(POISON, 256 / 8);
	had[1] = p2s_word(POISON, 256 / 8 + 1);
	if (twin_ask_go(t, &q, 1, "atomic")) {
		struct p2s_role_result r = twin_role(t, TWIN_REAL, 0);

		twin_compare_role(t, 0, "atomic");
		twin_expect(t, r.status == P2S_ROLE_DONE && r.rounds_done == 32000 && r.cas_done == 1000, "atomic", r.rounds_done);
	}
	twin_down(t, TWIN_A);
	twin_same_bytes(t, "atomic: bytes");
	for (int i = 0; i < 2; i++) {
		uint64_t now = 0;

		memcpy(&now, t->host[TWIN_REAL] + 256 + i * 8, 8);
		twin_expect(t, now == had[i] + (i == 0 ? 32000 : 1000), "atomic: sum", (uint64_t)i);
	}
}
