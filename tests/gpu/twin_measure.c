/* The kernels that measure against their twins, on one GPU: what they move and report, not how long it takes. */
#include "twin.h"

#include <stdio.h>
#include <string.h>

#define POISON UINT64_C(0x1111222233334444)
#define SEED UINT64_C(0xa5a5000012345678)
#define MAX_NS UINT64_C(200000000)

void twin_measure_begin(struct twin *t)
{
	struct p2s_op_request q = {.op = P2S_OP_SPEED_INIT};

	twin_ask(t, &q, P2S_RC_OK, "speed init");
}

void twin_gate_cases(struct twin *t)
{
	struct p2s_op_request q = {.op = P2S_OP_SPEED,
							   .buf = TWIN_A,
							   .buf2 = TWIN_B,
							   .len = 65536,
							   .rounds = 1,
							   .words = 1,
							   .idiom = 41,
							   .max_ns = MAX_NS};

	twin_ask_go(t, &q, 2, "gate opened");
	for (int s = 0; s < TWIN_SIDES; s++)
		twin_expect(t, t->answer[s].value == 41 && t->answer[s].device_ns > 0, "the party comes back", t->answer[s].value);
	for (int s = 0; s < TWIN_SIDES; s++) {
		struct p2s_op_request copy = q;

		/* Aborted before go: everything ends, and nothing counts. */
		drive_clear(&t->drive[s], 0);
		t->drive[s].control[0]->abort.word = 1;
		twin_expect(t,
					drive_send(&t->drive[s], 0, &copy, -1) &&
						drive_receive(&t->drive[s], 0, NULL, &t->answer[s]) == P2S_RC_OK && t->answer[s].value == 0,
					"gate aborted", t->answer[s].value);
		t->drive[s].control[0]->abort.word = 0;
	}
}

void twin_pump_cases(struct twin *t)
{
	static const struct {
		uint64_t off, off2, len;
		uint32_t rounds;
	} cases[] = {{0, 0, TWIN_BYTES, 1},         {0, 0, 32, 3},       {1 << 20, 0, 1 << 20, 2},
				 {16, 4096, (1 << 20) + 32, 1}, {4080, 16, 4128, 2}, {0, 2097152, 1048576 + 8192, 1}};
	char what[80];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct p2s_op_request q = {.op = P2S_OP_SPEED,
								   .buf = TWIN_A,
								   .off = cases[i].off,
								   .buf2 = TWIN_B,
								   .off2 = cases[i].off2,
								   .len = cases[i].len,
								   .mode = P2S_SPEED_PUMP,
								   .rounds = cases[i].rounds,
								   .words = 2,
								   .flag_off = 1,
								   .idiom = 7,
								   .max_ns = MAX_NS};
		uint64_t bad = 0;

		snprintf(what, sizeof what, "pump %llu bytes", (unsigned long long)q.len);
		twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
		twin_fill(t, TWIN_B, 0, TWIN_BYTES, SEED);
		twin_ask_go(t, &q, 2, what);
		twin_down(t, TWIN_A);
		twin_same_bytes(t, what);
		for (uint64_t at = 0; at < TWIN_BYTES; at++) {
			int in = at >= q.off && at < q.off + q.len;

			bad += t->host[TWIN_REAL][at] != (in ? p2s_word_byte(SEED, at - q.off + q.off2) : p2s_word_byte(POISON, at));
		}
		twin_expect(t, bad == 0, what, bad);
	}
}

void twin_chase_cases(struct twin *t)
{
	for (uint32_t rounds = 1; rounds <= 4096; rounds *= 16) {
		struct p2s_op_request q = {.op = P2S_OP_LATENCY,
								   .mode = P2S_LATENCY_CHASE,
								   .buf = TWIN_A,
								   .len = 1 << 20,
								   .slot_bytes = 128,
								   .rounds = rounds,
								   .words = 3};

		twin_ask(t, &q, P2S_RC_OK, "chase");
		for (int s = 0; s < TWIN_SIDES; s++) {
			struct p2s_role_result r = twin_role(t, s, 0);

			twin_expect(t,
						r.status == P2S_ROLE_DONE && r.rounds_done == rounds &&
							r.seen_a == (P2S_CHASE_WARM + (uint64_t)rounds) * 128 % q.len,
						"chase goes where it should", r.seen_a);
			/* Between a hit in the nearest cache and a page that nobody has. */
			twin_expect(t, rounds < 64 || (t->answer[s].value > 5000 && t->answer[s].value < 5000000), "a load takes its time",
						t->answer[s].value);
		}
	}
}

void twin_issue_cases(struct twin *t)
{
	static const uint32_t counts[] = {1, 255, 4096};

	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		struct p2s_op_request q = {
			.op = P2S_OP_LATENCY, .mode = P2S_LATENCY_ISSUE, .buf = TWIN_A, .off = 512, .slot_bytes = counts[i], .rounds = 3};

		twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
		twin_ask(t, &q, P2S_RC_OK, "issue");
		twin_compare_role(t, 0, "issue");
		twin_down(t, TWIN_A);
		twin_same_bytes(t, "issue");
	}
}

/* A message of round k as the other side would have sent it to off. */
static void put_message(struct twin *t, uint64_t off, uint64_t k, uint64_t payload)
{
	for (int s = 0; s < TWIN_SIDES; s++) {
		memcpy(t->host[s] + off, &k, 8);
		memcpy(t->host[s] + off + 128, &payload, 8);
	}
}

void twin_pong_cases(struct twin *t)
{
	struct p2s_op_request q = {.op = P2S_OP_PONG,
							   .buf = TWIN_A,
							   .off = 4096,
							   .buf2 = TWIN_A,
							   .off2 = 4096,
							   .seed = SEED,
							   .rounds = 300,
							   .words = 5,
							   .mode = 1,
							   .max_ns = MAX_NS};

	/* It hears itself: what it sends is what it waits for. */
	twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
	twin_ask_go(t, &q, 1, "pong alone");
	twin_compare_role(t, 0, "pong alone");
	twin_expect(t, twin_role(t, TWIN_REAL, 0).rounds_done == 300 && twin_role(t, TWIN_REAL, 0).bad_words == 0, "pong alone", 0);
	twin_down(t, TWIN_A);
	twin_same_bytes(t, "pong alone");
	/* One message is there, good or bad; it is answered, and no second one comes. */
	for (int bad = 0; bad < 2; bad++) {
		q.off2 = 8192;
		q.mode = 0;
		q.max_ns = MAX_NS / 10;
		twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
		twin_down(t, TWIN_A);
		put_message(t, q.off2, 1, 1 ^ SEED ^ (uint64_t)bad);
		twin_up(t, TWIN_A);
		twin_ask_go(t, &q, 1, "pong, one message");
		twin_compare_role(t, 0, "pong, one message");
		twin_expect(
			t, twin_role(t, TWIN_REAL, 0).status == P2S_ROLE_TIMEOUT && twin_role(t, TWIN_REAL, 0).bad_words == (uint64_t)bad,
			"pong, one message", twin_role(t, TWIN_REAL, 0).bad_words);
		twin_down(t, TWIN_A);
		twin_same_bytes(t, "pong, one message");
	}
}
