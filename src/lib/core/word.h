/* The test pattern: one 64-bit word that says where it belongs.
 *
 * A pattern is described by one seed. The word at offset o (in 8-byte units, relative to the start of the handle) is
 * mix(seed ^ o), where mix is invertible. The seed holds, below a random key, who the bytes are meant for:
 *
 *   bits  0..32  offset, in 8-byte units (64 GiB)
 *   bits 33..38  src: index of the accessor, 6 bits
 *   bits 39..44  dst: index of the owner, 6 bits
 *   bits 45..48  leg (P2PSAFE_LEG_*), 0 for poison
 *   bits 49..59  epoch, 0..2047: one per round; the key changes with every leg and every 2048 rounds
 *   bits 60..63  check, always 0xA
 *
 * So a wrong word found anywhere decodes to the transfer it was meant for, or to nothing (bit damage, foreign data).
 * All-zero and all-one words are never valid: 0 and ~0 found in memory mean dropped, aborted or unsupported
 * accesses. The same function runs in C (conductor, twins) and in PTX (kernels.ptx); tests compare both.
 * Why these fields: facts measured on other tools' patterns (periods of 1 byte to 2 MiB hide aliasing, wrong GPUs
 * and old runs). */
#ifndef P2S_CORE_WORD_H
#define P2S_CORE_WORD_H

#include <stdint.h>

#define P2S_WORD_OFFSET_BITS 33
#define P2S_WORD_OFFSET_MASK ((UINT64_C(1) << P2S_WORD_OFFSET_BITS) - 1)
#define P2S_WORD_EPOCH_SHIFT 49
#define P2S_WORD_EPOCHS 2048
#define P2S_WORD_CHECK UINT64_C(0xA)
#define P2S_WORD_FIX UINT64_C(0x5555555555555555)

/* Multipliers of the 64-bit finaliser by Appleby (MurmurHash3, public domain) and their inverses mod 2^64. */
#define P2S_MIX_1 UINT64_C(0xff51afd7ed558ccd)
#define P2S_MIX_2 UINT64_C(0xc4ceb9fe1a85ec53)
#define P2S_UNMIX_1 UINT64_C(0x4f74430c22a54005)
#define P2S_UNMIX_2 UINT64_C(0x9cb4b2f8129337db)

struct p2s_tag {
	uint64_t offset; /* 8-byte units */
	uint32_t src;
	uint32_t dst;
	uint32_t leg;
	uint32_t epoch;
};

static inline uint64_t p2s_mix(uint64_t x)
{
	x ^= x >> 33;
	x *= P2S_MIX_1;
	x ^= x >> 33;
	x *= P2S_MIX_2;
	x ^= x >> 33;
	return x;
}

static inline uint64_t p2s_unmix(uint64_t x)
{
	x ^= x >> 33;
	x *= P2S_UNMIX_2;
	x ^= x >> 33;
	x *= P2S_UNMIX_1;
	x ^= x >> 33;
	return x;
}

/* The seed of a pattern with offset 0. */
static inline uint64_t p2s_seed(uint64_t key, uint32_t src, uint32_t dst, uint32_t leg, uint32_t epoch)
{
	return key ^ ((uint64_t)(src & 63) << 33 | (uint64_t)(dst & 63) << 39 | (uint64_t)(leg & 15) << 45 |
	              (uint64_t)(epoch & 2047) << 49 | P2S_WORD_CHECK << 60);
}

/* The seed of round r of a pattern whose own epoch is 0. */
static inline uint64_t p2s_seed_epoch(uint64_t seed, uint64_t round)
{
	return seed ^ (round & 2047) << P2S_WORD_EPOCH_SHIFT;
}

/* The word at offset (8-byte units). */
static inline uint64_t p2s_word(uint64_t seed, uint64_t offset)
{
	uint64_t w = p2s_mix(seed ^ offset);

	return w + 1 <= 1 ? w ^ P2S_WORD_FIX : w;
}

/* The byte at byte offset o: words are little-endian, as on every machine with these GPUs. */
static inline uint8_t p2s_word_byte(uint64_t seed, uint64_t o)
{
	return (uint8_t)(p2s_word(seed, o / 8) >> (8 * (o % 8)));
}

/* Decodes a word under a key. Returns 1 and fills *tag when every field is in range, else 0. */
static inline int p2s_word_decode(uint64_t word, uint64_t key, uint64_t max_offset, uint32_t gpus, struct p2s_tag *tag)
{
	uint64_t x = p2s_unmix(word) ^ key;

	if (x >> 60 != P2S_WORD_CHECK)
		return 0;
	tag->offset = x & P2S_WORD_OFFSET_MASK;
	tag->src = (uint32_t)(x >> 33) & 63;
	tag->dst = (uint32_t)(x >> 39) & 63;
	tag->leg = (uint32_t)(x >> 45) & 15;
	tag->epoch = (uint32_t)(x >> 49) & 2047;
	return tag->offset < max_offset && tag->src < gpus && tag->dst < gpus;
}

#endif
