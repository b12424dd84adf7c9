/* Any bytes as what the checkers on the GPUs counted and sampled. Damage is never judged OK, damage is never named without a verdict that
 * says so, and a pass needs everything that a pass needs. */
#include "fuzz.h"
#include "core/word.h"
#include "helper/judge.h"
#include "helper/tally.h"
#include "p2psafe/p2psafe.h"

#define GPUS 4
#define BYTES (UINT64_C(1) << 20)

static uint64_t word(struct fuzz_in *in)
{
	uint64_t low = fuzz_number(in, 4);

	return low | (uint64_t)fuzz_number(in, 4) << 32;
}

static void sane(const struct p2s_judgement *j)
{
	FUZZ_ASSERT(j->verdict == P2PSAFE_VERDICT_OK || j->verdict == P2PSAFE_VERDICT_CORRUPT || j->verdict == P2PSAFE_VERDICT_UNTESTED);
	FUZZ_ASSERT(j->damage >= P2PSAFE_DAMAGE_NONE && j->damage <= P2PSAFE_DAMAGE_UNKNOWN);
	FUZZ_ASSERT((j->damage != P2PSAFE_DAMAGE_NONE) == (j->verdict == P2PSAFE_VERDICT_CORRUPT));
	FUZZ_ASSERT(j->note != NULL && memchr(j->said, '\0', sizeof j->said) != NULL);
}

/* Samples are what a checker found: an offset inside the handle, and a word that is now a fitting one, now any. */
static size_t samples(struct fuzz_in *in, const struct p2s_expect *e, struct p2s_sample *out)
{
	size_t n = fuzz_number(in, 1) % (P2S_SAMPLES + 1);

	for (size_t i = 0; i < n; i++) {
		uint32_t how = fuzz_number(in, 1);
		uint64_t from = (uint64_t)fuzz_number(in, 3) % (BYTES / 8) * 8;

		out[i].offset = how & 1 ? (uint64_t)i * 8 : (uint64_t)fuzz_number(in, 3) % (BYTES / 8) * 8;
		out[i].found = how & 2   ? p2s_word(e->want.seed, from / 8)
		               : how & 4 ? p2s_word(e->outside, from / 8)
		               : how & 8 ? p2s_judge_word(e, out[i].offset) ^ (uint64_t)1 << how / 16 * 4
		                         : word(in);
	}
	return n;
}

static void role(struct fuzz_in *in, const struct p2s_expect *e, struct p2s_role_result *r)
{
	memset(r, 0, sizeof *r);
	r->status = fuzz_number(in, 1) % 7;
	r->rounds_done = fuzz_number(in, 1) % 9;
	r->bad_words = fuzz_number(in, 1) % 4 == 0 ? fuzz_number(in, 2) : 0;
	r->flag_found = fuzz_number(in, 1) % 2 ? word(in) : p2s_word(e->outside, 511);
	r->payload_ok = fuzz_number(in, 1) % 4;
	r->payload_bad = fuzz_number(in, 1) % 4;
	r->seen_a = fuzz_number(in, 1) % 3;
	r->seen_b = fuzz_number(in, 1) % 3;
	r->cas_done = fuzz_number(in, 1);
	r->samples = samples(in, e, r->sample);
	if (fuzz_number(in, 1) % 4 == 0)
		r->samples = word(in); /* more than were kept */
}

static void whole(const struct p2s_role_result *r, const char *what)
{
	if (r->status == P2S_ROLE_DONE && r->bad_words == 0)
		return;
	fprintf(stderr, "%s passed with status %d and %d bad words\n", what, (int)r->status, (int)r->bad_words);
	abort();
}

static void add_up(struct fuzz_in *in)
{
	struct p2s_tally kept = {0};
	int bad = 0;

	for (int again = 0; in->left > 0; again = 1) {
		struct p2s_lib_leg leg = {.verdict = 1 + (int32_t)(fuzz_number(in, 1) % P2PSAFE_VERDICT_UNTESTED), .bytes = fuzz_number(in, 2)};

		bad |= leg.verdict == P2PSAFE_VERDICT_CORRUPT || leg.verdict == P2PSAFE_VERDICT_HANG || leg.verdict == P2PSAFE_VERDICT_ERROR;
		if (p2s_tally_add(&kept, &leg, again))
			FUZZ_ASSERT(leg.verdict >= P2PSAFE_VERDICT_OK && leg.verdict <= P2PSAFE_VERDICT_UNTESTED && leg.verdict == kept.verdict);
		/* Damage seen once stays. */
		FUZZ_ASSERT(!bad || (kept.verdict != P2PSAFE_VERDICT_OK && kept.verdict != P2PSAFE_VERDICT_DEGRADED &&
		                     kept.verdict != P2PSAFE_VERDICT_UNTESTED && kept.verdict != P2PSAFE_VERDICT_UNSUPPORTED));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct p2s_role_result writer, reader;
	struct fuzz_in in = {bytes, size};
	struct p2s_pattern earlier[3];
	struct p2s_expect e = {.src = 0, .dst = 1, .leg = 3, .gpus = GPUS, .bytes = BYTES, .earlier = earlier};
	struct p2s_mp_shape shape = {.rounds = 1 + fuzz_number(&in, 1) % 8, .words = 512, .slot_bytes = 8192, .flag_off = 4096};
	struct p2s_sample list[P2S_SAMPLES];
	struct p2s_judgement j;
	uint64_t counters[4][2];
	uint32_t how = fuzz_number(&in, 1);
	uint64_t bad;
	size_t n;

	e.want.key = word(&in);
	e.want.seed = p2s_seed(e.want.key, 0, 1, 3, 1);
	e.outside = how & 1 ? p2s_seed(e.want.key, 0, 1, 0, 0) : word(&in);
	e.has_before = how >> 1 & 1;
	e.in_begin = (uint64_t)fuzz_number(&in, 2) * 8;
	e.in_end = e.in_begin + (uint64_t)fuzz_number(&in, 2) * 8;
	e.earlier_count = how >> 2 & 3;
	for (size_t i = 0; i < e.earlier_count; i++)
		earlier[i] = (struct p2s_pattern){word(&in), word(&in)};
	n = samples(&in, &e, list);
	bad = fuzz_number(&in, 2);
	p2s_judge_check(&e, bad, list[0].offset, list, n, &j);
	sane(&j);
	FUZZ_ASSERT((j.verdict == P2PSAFE_VERDICT_OK) == (bad == 0));
	shape.pull = how >> 4 & 1;
	shape.own_flags = how >> 5 & 1;
	shape.mode = (how >> 6) % 3;
	shape.owner_good = (int)(fuzz_number(&in, 1) % 3) - 1;
	role(&in, &e, &writer);
	role(&in, &e, &reader);
	p2s_judge_mp(&e, &shape, how & 8 ? NULL : &writer, &reader, &j);
	sane(&j);
	if (j.verdict == P2PSAFE_VERDICT_OK) {
		whole(&reader, "messages");
		FUZZ_ASSERT(reader.rounds_done == shape.rounds && (how & 8 || writer.rounds_done == shape.rounds));
	}
	p2s_judge_tear(e.want.seed, e.outside, &writer, &reader, &j);
	sane(&j);
	if (j.verdict == P2PSAFE_VERDICT_OK) {
		whole(&reader, "words in halves");
		FUZZ_ASSERT(writer.status == P2S_ROLE_DONE && reader.seen_a > 0 && reader.seen_b > 0);
	}
	for (int i = 0; i < 8; i++)
		counters[i / 2][i % 2] = i < 4 && fuzz_number(&in, 1) % 2 ? word(&in) : fuzz_number(&in, 2);
	p2s_judge_atomic(counters[0], counters[1], counters[2], counters[3], 0, &j);
	sane(&j);
	for (int i = 0; i < 2; i++)
		FUZZ_ASSERT(j.verdict == P2PSAFE_VERDICT_CORRUPT || counters[1][i] == counters[0][i] + counters[2][i] + counters[3][i]);
	FUZZ_ASSERT(p2s_judge_bound_ppb(bad) <= 1000000000);
	add_up(&in);
	return 0;
}
