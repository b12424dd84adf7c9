/* Filling and judging without kernels, for a driver that cannot compile them: this GPU's own copy engine carries its own memory
 * to and from pinned host memory, and the CPU makes and compares the words. Only ever the GPU's own memory: what a peer's window shows
 * proves nothing. */
#include "helper/channel.h"

#include <string.h>

#include "core/word.h"

int p2s_channel_host_init(struct p2s_channel *c, struct p2s_op_answer *a)
{
	void *at = NULL;

	if (!P2S_CU(c, a, cuMemHostAlloc, &at, P2S_BOUNCE_BYTES, P2S_CU_HOST_ALLOC_PORTABLE))
		return 0;
	c->bounce = at;
	return 1;
}

/* Bytes [at, at + n) of the pattern. */
static void make(unsigned char *to, uint64_t at, uint64_t n, uint64_t seed)
{
	uint64_t i = 0;

	for (; i < n && (at + i) % 8 != 0; i++)
		to[i] = p2s_word_byte(seed, at + i);
	for (; i + 8 <= n; i += 8) {
		uint64_t word = p2s_word(seed, (at + i) / 8);

		memcpy(to + i, &word, 8);
	}
	for (; i < n; i++)
		to[i] = p2s_word_byte(seed, at + i);
}

void p2s_channel_host_fill(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q,
						   const struct p2s_buffer *b)
{
	for (uint64_t done = 0; done < q->len;) {
		uint64_t n = q->len - done < P2S_BOUNCE_BYTES ? q->len - done : P2S_BOUNCE_BYTES;

		make(c->bounce, q->off + done, n, q->seed);
		if (!P2S_CU(c, a, cuMemcpyHtoDAsync_v2, b->ptr + q->off + done, c->bounce, n, c->stream) ||
			!p2s_channel_wait(c, a, q->timeout_ns))
			return;
		done += n;
	}
}

/* The word that belongs at byte offset at (a multiple of 8): seed inside the transfer, seed2 outside. */
static uint64_t expected(const struct p2s_op_request *q, uint64_t at)
{
	uint64_t end = q->in_off + q->in_len;
	uint64_t mask = 0;

	if (at >= q->in_off && at + 8 <= end)
		return p2s_word(q->seed, at / 8);
	for (uint64_t i = 0; i < 8; i++)
		if (at + i >= q->in_off && at + i < end)
			mask |= UINT64_C(0xff) << (8 * i);
	return (p2s_word(q->seed, at / 8) & mask) | (p2s_word(q->seed2, at / 8) & ~mask);
}

static void compare(const unsigned char *from, uint64_t at, uint64_t n, const struct p2s_op_request *q,
					struct p2s_check_result *r)
{
	for (uint64_t i = 0; i < n; i += 8) {
		uint64_t found;

		memcpy(&found, from + i, 8);
		if (found == expected(q, at + i))
			continue;
		if (r->bad_words++ == 0)
			r->first_bad = at + i;
		if (r->samples < P2S_SAMPLES)
			r->sample[r->samples++] = (struct p2s_sample){at + i, found};
	}
}

/* Before the copy every word is the opposite of what it should become: a copy that did nothing is wrong everywhere. */
static void spoil(unsigned char *to, uint64_t at, uint64_t n, const struct p2s_op_request *q)
{
	for (uint64_t i = 0; i < n; i += 8) {
		uint64_t word = ~expected(q, at + i);

		memcpy(to + i, &word, 8);
	}
}

int p2s_channel_host_check(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q,
						   const struct p2s_buffer *b, struct p2s_check_result *r)
{
	memset(r, 0, sizeof *r);
	r->first_bad = ~UINT64_C(0);
	for (uint64_t done = 0; done < q->len;) {
		uint64_t n = q->len - done < P2S_BOUNCE_BYTES ? q->len - done : P2S_BOUNCE_BYTES;

		spoil(c->bounce, q->off + done, n, q);
		if (!P2S_CU(c, a, cuMemcpyDtoHAsync_v2, c->bounce, b->ptr + q->off + done, n, c->stream) ||
			!p2s_channel_wait(c, a, q->timeout_ns))
			return 0;
		compare(c->bounce, q->off + done, n, q, r);
		done += n;
	}
	return 1;
}
