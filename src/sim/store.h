/* Memory of one GPU (or a private copy of it) in chunks of 64 KiB. A chunk is one word repeated, a stretch of the test
 * pattern, or bytes. Patterns are kept as their seed, so that filling, copying and checking hundreds of megabytes costs
 * microseconds; whatever is partial, damaged or finer than a chunk becomes bytes. Several processes work on the same
 * store. */
#ifndef P2S_SIM_STORE_H
#define P2S_SIM_STORE_H

#include <stddef.h>
#include <stdint.h>

#define SIM_CHUNK 65536u
#define SIM_CHUNK_WORDS (SIM_CHUNK / 8)

enum sim_chunk_kind { SIM_CHUNK_CONST = 0, SIM_CHUNK_PATTERN = 1, SIM_CHUNK_BYTES = 2 };

/* All zero: a chunk of zeros, as new memory is. */
struct sim_chunk {
	uint32_t lock;
	uint32_t kind;
	uint64_t seed; /* PATTERN: word i is p2s_word(seed, base + i). CONST: every word */
	uint64_t base;
	uint32_t present; /* a private copy: something was written here */
	uint32_t unused;
};

struct sim_store {
	struct sim_chunk *chunks;
	unsigned char *data;
	uint64_t bytes;
	struct sim_store *old; /* gets the bytes before each change; NULL: not kept */
};

/* What a chunk-sized stretch holds. bytes: SIM_CHUNK of them, valid for SIM_CHUNK_BYTES. */
struct sim_piece {
	uint32_t kind;
	uint64_t seed;
	uint64_t base;
	unsigned char *bytes;
};

/* Ranges must lie inside the store; callers have checked. */
void sim_store_read(const struct sim_store *s, uint64_t at, void *out, uint64_t len);
void sim_store_write(struct sim_store *s, uint64_t at, const void *in, uint64_t len);
/* The pattern of seed; `from` is the byte offset in the pattern of the first byte. at - from must be a multiple of 8. */
void sim_store_pattern(struct sim_store *s, uint64_t at, uint64_t len, uint64_t seed, uint64_t from);
/* Every aligned word becomes `word`. */
void sim_store_const(struct sim_store *s, uint64_t at, uint64_t len, uint64_t word);
/* Never overlapping in the same store. */
void sim_store_copy(struct sim_store *to, uint64_t at, const struct sim_store *from, uint64_t from_at, uint64_t len);
/* One aligned 8-byte word; one aligned piece of 4 or 8 bytes. Single-copy atomic. */
uint64_t sim_store_load(const struct sim_store *s, uint64_t at);
void sim_store_put(struct sim_store *s, uint64_t at, uint64_t value, unsigned bytes);
/* Address of an aligned word, made bytes first, for atomic operations. */
uint64_t *sim_store_word(struct sim_store *s, uint64_t at);
/* Describes the chunk-sized stretch at `at`; bytes are copied to buffer when it is no formula. at must be chunk aligned. */
void sim_store_piece(const struct sim_store *s, uint64_t at, unsigned char *buffer, struct sim_piece *out);
/* Byte values of a piece. */
void sim_piece_bytes(const struct sim_piece *p, uint64_t at, unsigned char *out, uint64_t len);
/* Back to zeros, the memory given back to the system. at and len in whole chunks. */
void sim_store_scrub(struct sim_store *s, uint64_t at, uint64_t len);
/* 1 if something was written to the chunk of this byte (private copies). */
int sim_store_present(const struct sim_store *s, uint64_t at);

#endif
