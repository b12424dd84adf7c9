/* What the samples say beyond the name of the damage: how far bytes were moved, which address bit is lost, which bits of the
 * words are wrong, whose bytes they are. Said only where enough samples agree. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "helper/judge.h"
#include "p2psafe/p2psafe.h"

static uint64_t needed(size_t count)
{
	return count < P2S_JUDGE_AGREE ? count : P2S_JUDGE_AGREE;
}

/* Bytes from where the word belongs to where it lies; 0: it belongs here, or is no word of this transfer. */
static int64_t moved_by(const struct p2s_expect *e, const struct p2s_sample *s)
{
	struct p2s_tag tag;

	if (!p2s_judge_decode(e, s->found, &tag) || tag.src != e->src || tag.dst != e->dst)
		return 0;
	return (int64_t)(s->offset - tag.offset * 8);
}

static int is_power(uint64_t x)
{
	return x != 0 && (x & (x - 1)) == 0;
}

static unsigned power_of(uint64_t x)
{
	unsigned n = 0;

	for (; x > 1; x >>= 1)
		n++;
	return n;
}

/* The distance that most of the moved words share; *agree: how many. */
static int64_t common_move(const struct p2s_expect *e, const struct p2s_sample *samples, size_t count, uint64_t *agree)
{
	int64_t best = 0;

	*agree = 0;
	for (size_t i = 0; i < count; i++) {
		int64_t m = moved_by(e, &samples[i]);
		uint64_t same = 0;

		for (size_t k = 0; m != 0 && k < count; k++)
			same += moved_by(e, &samples[k]) == m;
		if (same > *agree) {
			*agree = same;
			best = m;
		}
	}
	return best;
}

/* The one power of two by which the offsets of all moved words differ from where they belong, in a transfer that wrote to both
 * places: what is smaller was moved, for all that can be seen. 0 none. *both: some lie too low by it and some too high, which
 * no lost bit does. */
static uint64_t common_bit(const struct p2s_expect *e, const struct p2s_sample *samples, size_t count, int *both)
{
	uint64_t bit = 0;
	int low = 0;
	int high = 0;

	for (size_t i = 0; i < count; i++) {
		int64_t m = moved_by(e, &samples[i]);
		uint64_t x = samples[i].offset ^ (samples[i].offset - (uint64_t)m);

		if (m == 0)
			continue;
		if (!is_power(x) || (bit != 0 && bit != x) || e->in_end - e->in_begin <= x || samples[i].offset < e->in_begin ||
		    samples[i].offset >= e->in_end)
			return 0;
		bit = x;
		low |= m < 0;
		high |= m > 0;
	}
	*both = low && high;
	return bit;
}

static void say_moved(const struct p2s_expect *e, const struct p2s_sample *samples, size_t count, struct p2s_judgement *out)
{
	uint64_t agree;
	int64_t move = common_move(e, samples, count, &agree);
	int both = 0;
	uint64_t bit = common_bit(e, samples, count, &both);

	if (agree < needed(count))
		return;
	out->moved = move;
	if (bit != 0 && both) {
		snprintf(out->said, sizeof out->said, "what is 0x%" PRIx64 " bytes apart changed places", bit);
		return;
	}
	if (bit != 0) {
		out->damage = P2PSAFE_DAMAGE_ALIASED;
		snprintf(out->said, sizeof out->said, "address bit %u is lost: what is 0x%" PRIx64 " bytes apart shares one place",
		         power_of(bit), bit);
		return;
	}
	snprintf(out->said, sizeof out->said, "arrived %" PRIu64 " bytes %s", (uint64_t)(move < 0 ? -move : move),
	         move < 0 ? "before its place" : "behind its place");
}

static void say_bits(const struct p2s_expect *e, const struct p2s_sample *samples, size_t count, struct p2s_judgement *out)
{
	uint64_t any = 0;
	uint64_t all = UINT64_MAX;
	size_t words = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t x = samples[i].found ^ p2s_judge_word(e, samples[i].offset);

		if (p2s_judge_name(e, samples[i].offset, samples[i].found) != P2PSAFE_DAMAGE_BIT_ERROR)
			continue;
		any |= x;
		all &= x;
		words++;
	}
	if (words == 0)
		return;
	out->bits = any;
	if (is_power(any))
		snprintf(out->said, sizeof out->said, "bit %u of the 8-byte words", power_of(any));
	else if (any == all)
		snprintf(out->said, sizeof out->said, "bits 0x%016" PRIx64 " of the 8-byte words", any);
	else
		snprintf(out->said, sizeof out->said, "bits among 0x%016" PRIx64 " of the 8-byte words", any);
}

/* Which bytes of the words are as they should be, in all samples; the others were not. */
static void say_torn(const struct p2s_expect *e, const struct p2s_sample *samples, size_t count, struct p2s_judgement *out)
{
	unsigned good = 0xff;
	size_t words = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t x = samples[i].found ^ p2s_judge_word(e, samples[i].offset);

		if (p2s_judge_name(e, samples[i].offset, samples[i].found) != P2PSAFE_DAMAGE_TORN)
			continue;
		for (unsigned b = 0; b < 8; b++)
			if ((x >> (8 * b) & 0xff) != 0)
				good &= ~(1u << b);
		words++;
	}
	if (words < needed(count))
		return;
	if (good == 0x0f || good == 0xf0)
		snprintf(out->said, sizeof out->said, "%s half of the 8-byte words new, the other old",
		         good == 0x0f ? "lower" : "upper");
	else
		snprintf(out->said, sizeof out->said, "part of the 8-byte words new, part old");
}

static void say_whose(const struct p2s_expect *e, const struct p2s_sample *samples, size_t count, struct p2s_judgement *out)
{
	struct p2s_tag first = {0};
	uint64_t same = 0;

	for (size_t i = 0; i < count; i++) {
		struct p2s_tag tag;

		if (!p2s_judge_decode(e, samples[i].found, &tag) || (tag.src == e->src && tag.dst == e->dst))
			continue;
		if (same == 0)
			first = tag;
		same += tag.src == first.src && tag.dst == first.dst;
	}
	if (same >= needed(count))
		snprintf(out->said, sizeof out->said, "bytes meant for %u>%u lie here", first.src, first.dst);
}

void p2s_judge_say(const struct p2s_expect *e, const struct p2s_sample *samples, size_t count, struct p2s_judgement *out)
{
	out->said[0] = '\0';
	switch (out->damage) {
	case P2PSAFE_DAMAGE_SHIFTED:
		say_moved(e, samples, count, out);
		break;
	case P2PSAFE_DAMAGE_BIT_ERROR:
		say_bits(e, samples, count, out);
		break;
	case P2PSAFE_DAMAGE_TORN:
		say_torn(e, samples, count, out);
		break;
	case P2PSAFE_DAMAGE_MISDIRECTED:
		say_whose(e, samples, count, out);
		break;
	case P2PSAFE_DAMAGE_STALE:
		snprintf(out->said, sizeof out->said, "the bytes of an earlier transfer");
		break;
	default:
		break;
	}
}
