/* p2s_fill, p2s_check and p2s_load against their twins, and against the pattern as core/word.h defines it. */
#include "twin.h"

#include <stdio.h>
#include <string.h>

#define POISON UINT64_C(0x1111222233334444)
#define SEED UINT64_C(0xa5a5000012345678)
#define OUTSIDE UINT64_C(0x0f0f777700001234)

struct range {
	uint64_t off, len;
};

/* [off, off + len) holds seed, the rest POISON: on the real side, by definition and not by the twin. */
static void expect_pattern(struct twin *t, uint64_t off, uint64_t len, const char *what)
{
	uint64_t bad = 0;

	for (uint64_t i = 0; i < TWIN_BYTES; i++)
		bad += t->host[TWIN_REAL][i] != p2s_word_byte(i >= off && i < off + len ? SEED : POISON, i);
	twin_expect(t, bad == 0, what, bad);
}

void twin_fill_cases(struct twin *t)
{
	static const struct range cases[] = {{0, TWIN_BYTES},
										 {0, 1},
										 {1, 1},
										 {3, 7},
										 {5, 16},
										 {15, 2},
										 {16, 16},
										 {17, 33},
										 {8, 24},
										 {9, 6},
										 {0, 128},
										 {128, 512},
										 {511, 514},
										 {7, (1 << 20) + 13},
										 {4095, 4098},
										 {TWIN_BYTES - 1, 1},
										 {TWIN_BYTES - 17, 17}};
	char what[80];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(what, sizeof what, "fill at %llu, %llu bytes", (unsigned long long)cases[i].off,
				 (unsigned long long)cases[i].len);
		twin_fill(t, TWIN_A, 0, TWIN_BYTES, POISON);
		twin_fill(t, TWIN_A, cases[i].off, cases[i].len, SEED);
		twin_down(t, TWIN_A);
		twin_same_bytes(t, what);
		expect_pattern(t, cases[i].off, cases[i].len, what);
	}
}

static int sample_at(const struct p2s_op_answer *a, uint64_t i, struct p2s_sample *s)
{
	if ((i + 1) * sizeof *s > a->samples_len)
		return 0;
	memcpy(s, a->samples + i * sizeof *s, sizeof *s);
	return 1;
}

/* What the judges must find, from the bytes themselves. */
static void compare_checks(struct twin *t, const struct p2s_op_request *q, const char *what)
{
	const struct p2s_op_answer *real = &t->answer[TWIN_REAL];
	const struct p2s_op_answer *sim = &t->answer[TWIN_SIM];
	uint64_t bad = 0;
	uint64_t first = ~UINT64_C(0);
	uint64_t taken = 0;
	struct p2s_sample s;

	for (uint64_t o = q->off; o < q->off + q->len; o += 8) {
		int wrong = 0;

		for (uint64_t i = o; i < o + 8; i++)
			wrong |=
				t->host[TWIN_REAL][i] != p2s_word_byte(i >= q->in_off && i < q->in_off + q->in_len ? q->seed : q->seed2, i);
		if (wrong && bad++ == 0)
			first = o;
	}
	twin_expect(t, real->bad_words == bad && sim->bad_words == bad, what, real->bad_words);
	twin_expect(t, real->first_bad == first && sim->first_bad == first, what, real->first_bad);
	while (sample_at(real, taken, &s)) {
		uint64_t have = 0;

		taken++;
		if (s.offset < q->off || s.offset >= q->off + q->len || s.offset % 8 != 0) {
			twin_expect(t, 0, what, s.offset);
			continue;
		}
		memcpy(&have, t->host[TWIN_REAL] + s.offset, 8);
		twin_expect(t, have == s.found, what, s.offset);
	}
	twin_expect(t, taken == (bad < P2S_SAMPLES ? bad : P2S_SAMPLES), what, taken);
	twin_expect(t, real->samples_len == sim->samples_len, what, sim->samples_len);
}

void twin_check_cases(struct twin *t)
{
	static const struct {
		struct range region, in;
	} cases[] = {{{0, TWIN_BYTES}, {0, TWIN_BYTES}},
				 {{0, TWIN_BYTES}, {4099, 70001}},
				 {{8, 16}, {8, 16}},
				 {{8, 8}, {8, 8}},
				 {{0, 8}, {0, 8}},
				 {{24, 1000}, {100, 301}},
				 {{16, 4104}, {64, 0}},
				 {{4096, 65536}, {4097, 1}},
				 {{8, TWIN_BYTES - 16}, {12345, 3000000}}};
	/* bytes to damage: edges of buffer, region, window and 16-byte units */
	static const uint64_t spots[] = {
		0,    7,     8,     23,    24,    31,    99,      100,     401,     4096,           4097,           4098,
		4099, 12344, 12345, 65535, 74099, 74100, 1000000, 3012344, 3012345, TWIN_BYTES - 9, TWIN_BYTES - 8, TWIN_BYTES - 1};
	char what[120];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		for (int damage = 0; damage < 3; damage++) {
			struct p2s_op_request q = {.op = P2S_OP_CHECK,
									   .buf = TWIN_A,
									   .off = cases[i].region.off,
									   .len = cases[i].region.len,
									   .in_off = cases[i].in.off,
									   .in_len = cases[i].in.len,
									   .seed = SEED,
									   .seed2 = OUTSIDE};

			snprintf(what, sizeof what, "check region %zu, damage %d", i, damage);
			twin_fill(t, TWIN_A, 0, TWIN_BYTES, OUTSIDE);
			if (q.in_len != 0)
				twin_fill(t, TWIN_A, q.in_off, q.in_len, SEED);
			twin_down(t, TWIN_A);
			for (size_t k = 0; damage == 1 && k < sizeof spots / sizeof spots[0]; k++)
				for (int s = 0; s < TWIN_SIDES; s++)
					t->host[s][spots[k]] ^= (unsigned char)(1 << (k % 8));
			for (uint64_t o = q.off; damage == 2 && o < q.off + q.len; o += 8)
				for (int s = 0; s < TWIN_SIDES; s++)
					memset(t->host[s] + o, 0, 8);
			twin_up(t, TWIN_A);
			if (twin_ask(t, &q, P2S_RC_OK, what))
				compare_checks(t, &q, what);
		}
	}
}

void twin_load_cases(struct twin *t)
{
	static const struct {
		uint32_t mode;
		struct range r;
	} cases[] = {{0, {0, TWIN_BYTES}}, {0, {1, 1}},        {0, {3, 29}},   {0, {15, 2}},         {0, {5, 6}},
				 {0, {8, 24}},         {0, {13, 1000003}}, {0, {0, 16}},   {1, {0, TWIN_BYTES}}, {1, {8, 8}},
				 {1, {8, 100008}},     {2, {0, 65536}},    {2, {24, 1048}}};
	char what[80];

	twin_fill(t, TWIN_A, 0, TWIN_BYTES, SEED);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct p2s_op_request q = {.op = P2S_OP_LOAD,
								   .buf = TWIN_B,
								   .buf2 = TWIN_A,
								   .off = cases[i].r.off,
								   .len = cases[i].r.len,
								   .mode = cases[i].mode};

		snprintf(what, sizeof what, "load mode %u at %llu, %llu bytes", q.mode, (unsigned long long)q.off,
				 (unsigned long long)q.len);
		twin_fill(t, TWIN_B, 0, TWIN_BYTES, POISON);
		twin_ask(t, &q, P2S_RC_OK, what);
		twin_down(t, TWIN_B);
		twin_same_bytes(t, what);
		expect_pattern(t, q.off, q.len, what);
	}
}
