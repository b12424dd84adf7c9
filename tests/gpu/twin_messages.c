/* p2s_wide and p2s_ll against their twins: both roles of one GPU on one buffer, and readers alone on prepared bytes. */
#include "twin.h"

#include <stdio.h>
#include <string.h>

#define POISON UINT64_C(0x1111222233334444)
#define SEED UINT64_C(0xa5a5000012345678)
#define ROLES 2
#define WRITER 0
#define READER 1
#define MAX_NS UINT64_C(200000000)
#define SHORT_NS UINT64_C(30000000)

static void damage(struct twin *t, uint64_t at, unsigned char mask)
{
	for (int s = 0; s < TWIN_SIDES; s++)
		t->host[s][at] ^= mask;
}

static void reader_is(struct twin *t, uint64_t status, uint64_t rounds, uint64_t bad, const char *what)
{
	for (int s = 0; s < TWIN_SIDES; s++) {
		struct p2s_role_result r = twin_role(t, s, READER);

		twin_expect(t, r.status == status && r.rounds_done == rounds && r.bad_words == bad, what,
					r.status << 32 | r.rounds_done << 8 | (r.bad_words & 255));
	}
}

static struct p2s_op_request wide(uint32_t idiom, uint32_t threads, uint32_t words, uint32_t flag_off, uint32_t slot)
{
	return (struct p2s_op_request){.op = P2S_OP_MP,
								   .mode = threads,
								   .buf = TWIN_A,
								   .off = 64,
								   .buf2 = TWIN_A,
								   .off2 = 64,
								   .seed = SEED,
								   .seed2 = SEED,
								   .rounds = 48,
								   .words = words,
								   .slot_bytes = slot,
								   .flag_off = flag_off,
								   .idiom = idiom,
								   .max_ns = MAX_NS};
}

static void wide_clean(struct twin *t, uint32_t idiom, uint32_t threads, uint32_t words, uint32_t flag_off, uint32_t slot)
{
	struct p2s_op_request q = wide(idiom, threads, words, flag_off, slot);
	char what[80];

	snprintf(what, sizeof what, "wide idiom %u, %u threads, %u words", idiom, threads, words);
	twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
	if (twin_ask_go(t, &q, ROLES, what)) {
		twin_compare_role(t, WRITER, what);
		twin_compare_role(t, READER, what);
		reader_is(t, P2S_ROLE_DONE, q.rounds, 0, what);
	}
	twin_down(t, TWIN_A);
	twin_same_bytes(t, what);
	for (uint64_t k = 0; k < q.rounds; k++) {
		uint64_t seed = p2s_seed_epoch(SEED, k + 1);
		uint64_t word = 0;

		memcpy(&word, t->host[TWIN_REAL] + q.off + k * slot + flag_off, 8);
		twin_expect(t, word == p2s_word(seed, (k * slot + flag_off) / 8), "wide: flag by definition", k);
		memcpy(&word, t->host[TWIN_REAL] + q.off + k * slot + (words - 1) * 8, 8);
		twin_expect(t, word == p2s_word(seed, (k * slot) / 8 + words - 1), "wide: last payload word by definition", k);
	}
}

/* A reader alone on slots that were filled before. bad_flag: slot whose flag is wrong, -1 none. */
static void wide_damaged(struct twin *t, uint32_t idiom, int bad_flag, const char *what)
{
	const uint32_t slot = 2048;
	struct p2s_op_request f = wide(0, 0, 150, 2000, slot);
	struct p2s_op_request q = wide(idiom, 96, 150, 2000, slot);

	f.op = P2S_OP_FILL_SLOTS;
	twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
	twin_ask(t, &f, P2S_RC_OK, what);
	twin_down(t, TWIN_A);
	damage(t, 64 + 3 * slot, 1);
	damage(t, 64 + 3 * slot + 149 * 8 + 7, 0x80);
	damage(t, 64 + 9 * slot + 77 * 8 + 2, 0xff);
	if (bad_flag >= 0)
		damage(t, 64 + (uint64_t)bad_flag * slot + 2000, 0x55);
	twin_up(t, TWIN_A);
	q.buf = 0;
	q.off = 0;
	q.max_ns = SHORT_NS;
	if (twin_ask_go(t, &q, ROLES, what)) {
		twin_compare_role(t, WRITER, what);
		twin_compare_role(t, READER, what);
		if (bad_flag < 0)
			reader_is(t, P2S_ROLE_DONE, q.rounds, 3, what);
		else
			reader_is(t, P2S_ROLE_TIMEOUT, (uint64_t)bad_flag, bad_flag > 9 ? 3 : bad_flag > 3 ? 2 : 0, what);
	}
}

void twin_wide_cases(struct twin *t)
{
	static const uint32_t idioms[] = {0, 1, 2, 3, P2S_WIDE_WARM, P2S_WIDE_WARM | 3};
	struct p2s_op_request q = wide(P2S_WIDE_BARE, 64, 40, 1000, 1024);

	for (size_t i = 0; i < sizeof idioms / sizeof idioms[0]; i++) {
		wide_clean(t, idioms[i], 32, 5, 56, 64);
		wide_clean(t, idioms[i], 64, 1, 8, 64);
		wide_clean(t, idioms[i], 128, 500, 4096, 8192);
		wide_clean(t, idioms[i], 96, 33, 272, 280); /* slots that are not multiples of 16 */
		wide_clean(t, idioms[i], 1024, 4096, 49152, 65536);
		wide_damaged(t, idioms[i], -1, "wide with damaged slots");
		wide_damaged(t, idioms[i], 3, "wide, flag 3 missing");
		wide_damaged(t, idioms[i], 47, "wide, flag 47 missing");
	}
	/* the control writes the same bytes; what its reader sees is the machine's own */
	twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
	q.buf2 = 0;
	if (twin_ask_go(t, &q, ROLES, "wide, bare"))
		twin_compare_role(t, WRITER, "wide, bare");
	twin_down(t, TWIN_A);
	twin_same_bytes(t, "wide, bare");
	/* go never comes, and an abort that ends the wait */
	q = wide(0, 64, 4, 56, 64);
	q.buf = 0;
	q.off = 0;
	q.timeout_ns = UINT64_C(16000000000); /* the twin waits longer for go */
	if (twin_ask_go(t, &q, 0, "wide without go")) {
		twin_compare_role(t, READER, "wide without go");
		twin_expect(t, twin_role(t, TWIN_REAL, READER).status == P2S_ROLE_NO_GO, "wide without go", 0);
	}
	twin_fill(t, TWIN_A, 0, 65536, POISON);
	q.max_ns = UINT64_C(20000000000);
	q.timeout_ns = UINT64_C(100000000);
	if (twin_ask_go(t, &q, ROLES, "wide aborted"))
		twin_expect(t, twin_role(t, TWIN_REAL, READER).status == P2S_ROLE_ABORTED, "wide aborted",
					twin_role(t, TWIN_REAL, READER).status);
}

static uint64_t ll_word(uint64_t seed, uint64_t slot_word, uint64_t j, uint32_t mode)
{
	uint64_t w = p2s_word(seed, slot_word + j);

	return mode == P2S_LL_LINE ? w : (w & UINT32_MAX) | p2s_word(seed, slot_word) >> 32 << 32;
}

static void ll_prepare(struct twin *t, const struct p2s_op_request *q, uint64_t off)
{
	twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
	twin_down(t, TWIN_A);
	for (uint64_t k = 0; k < q->rounds; k++) {
		for (uint64_t j = 0; j < q->words; j++) {
			uint64_t w = ll_word(p2s_seed_epoch(SEED, k + 1), k * q->slot_bytes / 8, j, q->mode);

			for (int s = 0; s < TWIN_SIDES; s++)
				memcpy(t->host[s] + off + k * q->slot_bytes + j * 8, &w, 8);
		}
	}
}

static void ll_case(struct twin *t, uint32_t mode, uint32_t words, uint32_t slot)
{
	struct p2s_op_request q = {.op = P2S_OP_LL,
							   .mode = mode,
							   .buf = TWIN_A,
							   .off = 128,
							   .buf2 = TWIN_A,
							   .off2 = 128,
							   .seed = SEED,
							   .seed2 = SEED,
							   .rounds = 40,
							   .words = words,
							   .slot_bytes = slot,
							   .max_ns = MAX_NS};
	uint64_t last = words - (mode == P2S_LL_LINE ? 2 : 1);
	char what[80];

	snprintf(what, sizeof what, "ll mode %u, %u words, slot %u", mode, words, slot);
	twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
	if (twin_ask_go(t, &q, ROLES, what)) {
		twin_compare_role(t, WRITER, what);
		for (int s = 0; s < TWIN_SIDES; s++) {
			struct p2s_role_result r = twin_role(t, s, READER);

			/* whether the twin's lines are whole is a property of its host; all else must be */
			twin_expect(t, r.status == P2S_ROLE_DONE && r.rounds_done == q.rounds, what, r.status);
			twin_expect(t, r.bad_words == 0 || (mode == P2S_LL_LINE && s == TWIN_SIM), what, r.bad_words);
		}
	}
	twin_down(t, TWIN_A);
	twin_same_bytes(t, what);
	for (uint64_t k = 0; k < q.rounds; k++) {
		uint64_t word = 0;

		memcpy(&word, t->host[TWIN_REAL] + q.off + k * slot + last * 8, 8);
		twin_expect(t, word == ll_word(p2s_seed_epoch(SEED, k + 1), k * slot / 8, last, mode), "ll: word by definition", k);
	}
	/* a reader alone: two wrong values, then a flag that is missing as well */
	q.buf = 0;
	q.off = 0;
	q.max_ns = SHORT_NS;
	for (int missing = 0; missing < 2; missing++) {
		ll_prepare(t, &q, 128);
		damage(t, 128 + 3 * slot, 4);
		damage(t, 128 + 7 * slot + last * 8 + 1, 0x10);
		if (missing)
			damage(t, 128 + 20 * slot + words * 8 - 1, 1);
		twin_up(t, TWIN_A);
		if (!twin_ask_go(t, &q, ROLES, what))
			continue;
		twin_compare_role(t, WRITER, what);
		twin_compare_role(t, READER, what);
		reader_is(t, missing ? P2S_ROLE_TIMEOUT : P2S_ROLE_DONE, missing ? 20 : q.rounds, 2, what);
	}
}

void twin_ll_cases(struct twin *t)
{
	ll_case(t, P2S_LL_SINGLE, 2, 16);
	ll_case(t, P2S_LL_SINGLE, 64, 512);
	ll_case(t, P2S_LL_SINGLE, 70, 1024);
	ll_case(t, P2S_LL_PAIR, 6, 64);
	ll_case(t, P2S_LL_PAIR, 512, 4096);
	ll_case(t, P2S_LL_LINE, 16, 128);
	ll_case(t, P2S_LL_LINE, 64, 512);
	ll_case(t, P2S_LL_LINE, 80, 768);
}
