#include "helper/judge.h"

#include <string.h>

#include "core/word.h"
#include "p2psafe/p2psafe.h"

#define DAMAGES 16
#define STARTED_NS 20000 /* two GPUs hear the start at about the same time */
#define WAITED 16 /* of so many messages a reader waited for one at least, if it was about as fast as its writer */

uint64_t p2s_judge_bound_ppb(uint64_t rounds)
{
	const uint64_t three = UINT64_C(3000000000);
	uint64_t ppb = rounds == 0 ? 0 : (three + rounds - 1) / rounds;

	return ppb > UINT64_C(1000000000) ? UINT64_C(1000000000) : ppb;
}

/* Bits of the word at off that lie inside the transfer. */
static uint64_t inside_mask(const struct p2s_expect *e, uint64_t off)
{
	uint64_t mask = 0;

	for (uint64_t i = 0; i < 8; i++)
		if (off + i >= e->in_begin && off + i < e->in_end)
			mask |= UINT64_C(0xff) << (8 * i);
	return mask;
}

uint64_t p2s_judge_word(const struct p2s_expect *e, uint64_t off)
{
	uint64_t mask = inside_mask(e, off);

	return (p2s_word(e->want.seed, off / 8) & mask) | (p2s_word(e->outside, off / 8) & ~mask);
}

/* 1 if every byte of found is that of one or the other word and each gave at least two that tell them apart: a single byte may
 * agree by chance. */
static int is_mix(uint64_t found, uint64_t one, uint64_t other)
{
	int from_one = 0;
	int from_other = 0;

	for (unsigned i = 0; i < 64; i += 8) {
		uint8_t f = (uint8_t)(found >> i);
		uint8_t a = (uint8_t)(one >> i);
		uint8_t b = (uint8_t)(other >> i);

		if (f != a && f != b)
			return 0;
		if (a != b) {
			from_one += f == a;
			from_other += f == b;
		}
	}
	return from_one >= 2 && from_other >= 2;
}

/* How many bytes are still what they were before, where all others are as they should be; -1: some byte is neither. */
static int kept_bytes(uint64_t found, uint64_t want, uint64_t before)
{
	int kept = 0;

	for (unsigned i = 0; i < 64; i += 8) {
		uint8_t f = (uint8_t)(found >> i);

		if (f == (uint8_t)(want >> i))
			continue;
		if (f != (uint8_t)(before >> i))
			return -1;
		kept++;
	}
	return kept;
}

static int bits(uint64_t x)
{
	int n = 0;

	for (; x != 0; x &= x - 1)
		n++;
	return n;
}

int p2s_judge_decode(const struct p2s_expect *e, uint64_t found, struct p2s_tag *tag)
{
	if (!p2s_word_decode(found, e->want.key, e->bytes / 8, e->gpus, tag))
		return 0;
	if (tag->leg != 0) /* poison is where it is */
		tag->offset ^= (e->want.seed ^ e->want.key) & P2S_WORD_OFFSET_MASK;
	return tag->offset < e->bytes / 8;
}

/* A word that is a valid pattern word under one of the known keys, but not the one that belongs here. */
static int32_t decoded_name(const struct p2s_expect *e, uint64_t off, uint64_t found)
{
	struct p2s_tag tag;
	uint32_t epoch = (uint32_t)((e->want.seed ^ e->want.key) >> P2S_WORD_EPOCH_SHIFT) & 2047;

	if (p2s_judge_decode(e, found, &tag)) {
		if (tag.leg == 0 && tag.dst == e->dst)
			return tag.offset == off / 8 ? P2PSAFE_DAMAGE_DROPPED : P2PSAFE_DAMAGE_SHIFTED;
		if (tag.src != e->src || tag.dst != e->dst)
			return P2PSAFE_DAMAGE_MISDIRECTED;
		if (tag.epoch != epoch)
			return P2PSAFE_DAMAGE_STALE;
		return P2PSAFE_DAMAGE_SHIFTED;
	}
	for (size_t i = 0; i < e->earlier_count; i++) {
		if (!p2s_word_decode(found, e->earlier[i].key, e->bytes / 8, e->gpus, &tag))
			continue;
		return tag.dst == e->dst || tag.src == e->dst ? P2PSAFE_DAMAGE_STALE : P2PSAFE_DAMAGE_MISDIRECTED;
	}
	return P2PSAFE_DAMAGE_UNKNOWN;
}

int32_t p2s_judge_name(const struct p2s_expect *e, uint64_t off, uint64_t found)
{
	const uint64_t nan = UINT64_C(0x7fc000007fc00000);
	uint64_t want = p2s_judge_word(e, off);
	uint64_t before = p2s_word(e->outside, off / 8);
	uint64_t mask = inside_mask(e, off);
	int guard_ok = (found & ~mask) == (want & ~mask);
	int32_t name;

	if (found == want)
		return P2PSAFE_DAMAGE_NONE;
	/* Two words of the pattern differ in 32 bits on average; three or fewer are a fault of bits, whatever else they resemble.
	 */
	if (mask == UINT64_MAX && bits(found ^ want) <= 3)
		return P2PSAFE_DAMAGE_BIT_ERROR;
	if (guard_ok && mask != 0) {
		if (e->has_before && (found == before || (mask != UINT64_MAX && kept_bytes(found, want, before) >= 2)))
			return P2PSAFE_DAMAGE_DROPPED;
		if ((found & mask) == 0)
			return P2PSAFE_DAMAGE_ZEROS;
		if ((found & mask) == mask)
			return P2PSAFE_DAMAGE_ONES;
		if ((found & mask) == (nan & mask))
			return P2PSAFE_DAMAGE_NAN;
		for (size_t i = 0; i < e->earlier_count; i++)
			if ((found & mask) == (p2s_word(e->earlier[i].seed, off / 8) & mask))
				return P2PSAFE_DAMAGE_STALE;
	}
	if (found == 0)
		return P2PSAFE_DAMAGE_ZEROS;
	if (found + 1 == 0)
		return P2PSAFE_DAMAGE_ONES;
	name = decoded_name(e, off, found);
	if (name != P2PSAFE_DAMAGE_UNKNOWN)
		return name;
	if (mask == UINT64_MAX) {
		if (is_mix(found, want, before) || is_mix(found, want, 0))
			return P2PSAFE_DAMAGE_TORN;
		for (size_t i = 0; i < e->earlier_count; i++)
			if (is_mix(found, want, p2s_word(e->earlier[i].seed, off / 8)))
				return P2PSAFE_DAMAGE_TORN;
	}
	return bits(found ^ want) <= 8 ? P2PSAFE_DAMAGE_BIT_ERROR : P2PSAFE_DAMAGE_UNKNOWN;
}

/* The name that at least eight of n words agree on (all, when fewer were hit). */
static int32_t vote(const uint32_t votes[DAMAGES], uint64_t words)
{
	uint64_t need = words < P2S_JUDGE_AGREE ? words : P2S_JUDGE_AGREE;
	int32_t best = P2PSAFE_DAMAGE_UNKNOWN;
	uint32_t most = 0;

	for (int32_t d = P2PSAFE_DAMAGE_DROPPED; d <= P2PSAFE_DAMAGE_UNKNOWN; d++) {
		if (votes[d] > most) {
			most = votes[d];
			best = d;
		}
	}
	/* Bytes that went elsewhere are missing where they belong, too: the place where they turned up says more. */
	if (best == P2PSAFE_DAMAGE_DROPPED && votes[P2PSAFE_DAMAGE_SHIFTED] > 0 && votes[P2PSAFE_DAMAGE_SHIFTED] >= need)
		best = P2PSAFE_DAMAGE_SHIFTED;
	return most > 0 && most >= need ? best : P2PSAFE_DAMAGE_UNKNOWN;
}

static void judgement(struct p2s_judgement *out, int32_t verdict, int32_t damage, const char *note)
{
	memset(out, 0, sizeof *out);
	out->verdict = verdict;
	out->damage = damage;
	out->note = note;
}

static void detail(struct p2s_judgement *out, uint64_t off, uint64_t expected, uint64_t found)
{
	out->has_detail = 1;
	out->offset = off;
	out->expected = expected;
	out->found = found;
}

void p2s_judge_check(const struct p2s_expect *e, uint64_t bad_words, uint64_t first_bad, const struct p2s_sample *samples,
                     size_t count, struct p2s_judgement *out)
{
	uint32_t votes[DAMAGES] = {0};
	size_t lowest = 0;

	if (bad_words == 0) {
		judgement(out, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE, "");
		return;
	}
	judgement(out, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_UNKNOWN, "");
	if (count == 0) {
		out->offset = first_bad;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		votes[p2s_judge_name(e, samples[i].offset, samples[i].found) & (DAMAGES - 1)]++;
		if (samples[i].offset < samples[lowest].offset)
			lowest = i;
	}
	out->damage = vote(votes, bad_words < count ? bad_words : count);
	detail(out, samples[lowest].offset, p2s_judge_word(e, samples[lowest].offset), samples[lowest].found);
	p2s_judge_say(e, samples, count, out);
}

static void judge_stalled(const struct p2s_expect *e, const struct p2s_mp_shape *shape, const struct p2s_role_result *reader,
                          struct p2s_judgement *out)
{
	uint64_t off = reader->rounds_done * shape->slot_bytes + shape->flag_off;
	uint64_t want = p2s_word(p2s_seed_epoch(e->want.seed, reader->rounds_done + 1), off / 8);
	uint64_t found = reader->flag_found;
	int32_t damage = P2PSAFE_DAMAGE_UNKNOWN;
	const char *note =
		reader->payload_bad == 0 && reader->payload_ok > 0 ? "flag never seen, payload there" : "neither flag nor payload seen";

	if (shape->own_flags) {
		damage = reader->payload_bad > 0 && found == p2s_word(e->outside, reader->rounds_done * shape->slot_bytes / 8)
		             ? P2PSAFE_DAMAGE_DROPPED
		             : P2PSAFE_DAMAGE_UNKNOWN;
		judgement(out, P2PSAFE_VERDICT_CORRUPT, damage, "words with their flags never came");
		return;
	}
	if (shape->owner_good == 1) {
		damage = shape->pull ? P2PSAFE_DAMAGE_STALE : P2PSAFE_DAMAGE_UNKNOWN;
		note = shape->pull ? "reader never saw what its owner holds" : "flag arrived after the reader gave up";
	} else if (found == p2s_word(e->outside, off / 8)) {
		damage = P2PSAFE_DAMAGE_DROPPED;
	} else if (found == 0) {
		damage = P2PSAFE_DAMAGE_ZEROS;
	} else if (found + 1 == 0) {
		damage = P2PSAFE_DAMAGE_ONES;
	} else if (is_mix(found, want, p2s_word(e->outside, off / 8))) {
		damage = P2PSAFE_DAMAGE_TORN;
	} else if (bits(found ^ want) <= 8) {
		damage = P2PSAFE_DAMAGE_BIT_ERROR;
	}
	judgement(out, P2PSAFE_VERDICT_CORRUPT, damage, note);
	detail(out, off, want, found);
}

/* A payload word that was wrong although its flag had been seen. */
static int32_t late_name(const struct p2s_expect *round, uint64_t off, uint64_t found, int owner_good)
{
	int32_t name = p2s_judge_name(round, off, found);

	return name == P2PSAFE_DAMAGE_DROPPED && owner_good != 0 ? P2PSAFE_DAMAGE_REORDERED : name;
}

/* A word whose flag was there. Half of it new and half of it old is torn; a line whose words are old is, too. */
static int32_t own_flag_name(const struct p2s_expect *round, const struct p2s_mp_shape *shape, uint64_t off, uint64_t want,
                             uint64_t found)
{
	uint64_t before = p2s_word(round->outside, off / 8);

	if (shape->mode == P2S_LL_LINE && found == before)
		return P2PSAFE_DAMAGE_TORN;
	if (shape->mode != P2S_LL_LINE && (found & UINT32_MAX) == (before & UINT32_MAX))
		return P2PSAFE_DAMAGE_TORN;
	if ((found & UINT32_MAX) == 0)
		return P2PSAFE_DAMAGE_ZEROS;
	return bits(found ^ want) <= 3 ? P2PSAFE_DAMAGE_BIT_ERROR : P2PSAFE_DAMAGE_UNKNOWN;
}

uint64_t p2s_judge_own_flag(const struct p2s_mp_shape *shape, uint64_t seed, uint64_t off)
{
	uint64_t w = p2s_word(seed, off / 8);
	uint64_t slot = off / shape->slot_bytes * shape->slot_bytes;

	return shape->mode == P2S_LL_LINE ? w : (w & UINT32_MAX) | p2s_word(seed, slot / 8) >> 32 << 32;
}

/* Kernels that begin together need not get their GPUs together: another program's kernels may run in between. Nor do their
 * clocks agree to the last look: a writer that was ready in the first half of the reader's time was not late. */
static int writer_was_late(const struct p2s_role_result *writer, const struct p2s_role_result *reader)
{
	return reader->status == P2S_ROLE_TIMEOUT && writer->status == P2S_ROLE_DONE && writer->elapsed_ns > reader->elapsed_ns / 2;
}

int p2s_judge_mp_late(const struct p2s_mp_shape *shape, const struct p2s_role_result *writer,
                      const struct p2s_role_result *reader)
{
	return writer != NULL && reader->bad_words == 0 && reader->status == P2S_ROLE_TIMEOUT && shape->owner_good == 1 &&
	       (writer->status == P2S_ROLE_TIMEOUT || writer_was_late(writer, reader));
}

/* A reader looks at each message once: if that takes it longer than the writer leaves between two of them, it falls behind from
 * the second on and ends later by all that. One that got its GPU when all was sent ends sooner than its writer, and never found a
 * flag missing. */
int p2s_judge_mp_behind(uint64_t rounds, const struct p2s_role_result *writer, const struct p2s_role_result *reader)
{
	return rounds >= P2S_JUDGE_FEW && writer->status == P2S_ROLE_DONE && reader->status == P2S_ROLE_DONE &&
	       (reader->polls < rounds / WAITED ||
	        reader->elapsed_ns > writer->elapsed_ns + STARTED_NS + 4 * reader->elapsed_ns / rounds);
}

void p2s_judge_mp(const struct p2s_expect *e, const struct p2s_mp_shape *shape, const struct p2s_role_result *writer,
                  const struct p2s_role_result *reader, struct p2s_judgement *out)
{
	uint32_t votes[DAMAGES] = {0};
	size_t count = reader->samples < P2S_SAMPLES ? (size_t)reader->samples : P2S_SAMPLES;

	if (reader->bad_words > 0) {
		judgement(out, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_UNKNOWN, "flag seen, payload wrong");
		for (size_t i = 0; i < count; i++) {
			struct p2s_expect round = *e;
			uint64_t off = reader->sample[i].offset;
			uint64_t found = reader->sample[i].found;
			uint64_t want;
			int32_t name;

			round.want.seed = p2s_seed_epoch(e->want.seed, off / shape->slot_bytes + 1);
			round.in_begin = 0;
			round.in_end = UINT64_MAX;
			want = shape->own_flags ? p2s_judge_own_flag(shape, round.want.seed, off) : p2s_word(round.want.seed, off / 8);
			name = shape->own_flags ? own_flag_name(&round, shape, off, want, found)
			                        : late_name(&round, off, found, shape->owner_good);
			votes[name & (DAMAGES - 1)]++;
			if (!out->has_detail || off < out->offset)
				detail(out, off, want, found);
		}
		out->damage = vote(votes, reader->bad_words < count ? reader->bad_words : count);
		return;
	}
	if (reader->status == P2S_ROLE_TIMEOUT) {
		if (writer != NULL && writer->status != P2S_ROLE_DONE && writer->rounds_done <= reader->rounds_done) {
			judgement(out, P2PSAFE_VERDICT_UNTESTED, P2PSAFE_DAMAGE_NONE, "writer ran out of time");
			return;
		}
		/* Copies are asked for by a process, which may wait for a CPU longer than a kernel waits for a message. */
		if (writer == NULL && !shape->pull && shape->owner_good == 1) {
			judgement(out, P2PSAFE_VERDICT_UNTESTED, P2PSAFE_DAMAGE_NONE, "copies came after the reader gave up");
			return;
		}
		if (p2s_judge_mp_late(shape, writer, reader)) {
			judgement(out, P2PSAFE_VERDICT_UNTESTED, P2PSAFE_DAMAGE_NONE, "messages came after the reader gave up");
			return;
		}
		judge_stalled(e, shape, reader, out);
		return;
	}
	if (reader->status == P2S_ROLE_DONE && reader->rounds_done == shape->rounds &&
	    (writer == NULL || (writer->status == P2S_ROLE_DONE && writer->rounds_done == shape->rounds))) {
		judgement(out, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE, "");
		return;
	}
	judgement(out, P2PSAFE_VERDICT_UNTESTED, P2PSAFE_DAMAGE_NONE,
	          reader->status == P2S_ROLE_NO_GO ? "kernels were not resident together" : "message passing was cut short");
}

int p2s_judge_tear_again(const struct p2s_role_result *writer, const struct p2s_role_result *reader,
                         const struct p2s_judgement *j)
{
	return (j->verdict == P2PSAFE_VERDICT_UNTESTED && reader->status == P2S_ROLE_DONE) ||
	       (reader->bad_words == 0 && writer_was_late(writer, reader));
}

void p2s_judge_tear(uint64_t seed_a, uint64_t seed_b, const struct p2s_role_result *writer,
                    const struct p2s_role_result *reader, struct p2s_judgement *out)
{
	uint64_t poison = seed_a ^ seed_b ^ P2S_TEAR_POISON;
	uint32_t torn = 0;
	uint32_t zeros = 0;
	size_t count = reader->samples < P2S_SAMPLES ? (size_t)reader->samples : P2S_SAMPLES;

	if (reader->bad_words > 0) {
		judgement(out, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_UNKNOWN, "");
		for (size_t i = 0; i < count; i++) {
			uint64_t off = reader->sample[i].offset;
			uint64_t f = reader->sample[i].found;
			uint64_t a = p2s_word(seed_a, off / 8);
			uint64_t b = p2s_word(seed_b, off / 8);
			uint64_t p = p2s_word(poison, off / 8);

			torn += is_mix(f, a, b) || is_mix(f, a, p) || is_mix(f, b, p);
			if (!out->has_detail || off < out->offset)
				detail(out, off, a, f);
		}
		for (size_t i = 0; i < count; i++)
			zeros += reader->sample[i].found == 0;
		if (zeros > 0 && zeros >= (count < P2S_JUDGE_AGREE ? count : P2S_JUDGE_AGREE))
			out->damage = P2PSAFE_DAMAGE_ZEROS;
		if (torn > 0 && torn >= (count < P2S_JUDGE_AGREE ? count : P2S_JUDGE_AGREE))
			out->damage = P2PSAFE_DAMAGE_TORN;
		return;
	}
	if (reader->status == P2S_ROLE_TIMEOUT && writer->status == P2S_ROLE_DONE) {
		judgement(out, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_DROPPED, "end mark never seen");
		return;
	}
	if (reader->status != P2S_ROLE_DONE || writer->status != P2S_ROLE_DONE) {
		judgement(out, P2PSAFE_VERDICT_UNTESTED, P2PSAFE_DAMAGE_NONE,
		          reader->status == P2S_ROLE_NO_GO ? "kernels were not resident together" : "the test was cut short");
		return;
	}
	if (reader->seen_a == 0 || reader->seen_b == 0) {
		judgement(out, P2PSAFE_VERDICT_UNTESTED, P2PSAFE_DAMAGE_NONE, "reader never saw both patterns: no power");
		return;
	}
	judgement(out, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE, "");
}

void p2s_judge_atomic(const uint64_t start[2], const uint64_t end[2], const uint64_t far[2], const uint64_t near[2],
                      uint64_t off, struct p2s_judgement *out)
{
	for (uint64_t i = 0; i < 2; i++) {
		uint64_t want = start[i] + far[i] + near[i];
		int32_t damage = P2PSAFE_DAMAGE_UNKNOWN;

		if (end[i] == want)
			continue;
		if (end[i] == start[i] || end[i] == start[i] + near[i])
			damage = P2PSAFE_DAMAGE_DROPPED;
		else if (end[i] == 0)
			damage = P2PSAFE_DAMAGE_ZEROS;
		else if (end[i] + 1 == 0)
			damage = P2PSAFE_DAMAGE_ONES;
		judgement(out, P2PSAFE_VERDICT_CORRUPT, damage,
		          end[i] - start[i] < want - start[i] ? "increments were lost" : "counter is wrong");
		detail(out, off + 8 * i, want, end[i]);
		return;
	}
	judgement(out, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE, "");
}
