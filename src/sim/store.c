#include "sim/store.h"

#include <string.h>
#include <sys/mman.h>

#include "core/word.h"
#include "sim/lock.h"

static uint32_t kind_of(const struct sim_chunk *c)
{
	return __atomic_load_n(&c->kind, __ATOMIC_ACQUIRE);
}

static uint64_t piece_word(uint32_t kind, uint64_t seed, uint64_t base, uint64_t i)
{
	return kind == SIM_CHUNK_PATTERN ? p2s_word(seed, base + i) : seed;
}

/* Whole words from the i-th on, the bulk of all that host memory ever sees: the kind is asked once. */
static void formula_words(uint32_t kind, uint64_t seed, uint64_t base, uint64_t i, unsigned char *out, uint64_t words)
{
	uint64_t word;

	if (kind == SIM_CHUNK_PATTERN) {
		for (; words; words--, i++, out += 8) {
			word = p2s_word(seed, base + i);
			memcpy(out, &word, 8);
		}
	} else {
		for (; words; words--, out += 8)
			memcpy(out, &seed, 8);
	}
}

static void formula_bytes(uint32_t kind, uint64_t seed, uint64_t base, uint64_t at, unsigned char *out, uint64_t len)
{
	while (len) {
		uint64_t word, skip = at % 8, n = 8 - skip;

		if (!skip && len >= 8) {
			n = len - len % 8;
			formula_words(kind, seed, base, at / 8, out, n / 8);
		} else {
			n = n < len ? n : len;
			word = piece_word(kind, seed, base, at / 8);
			memcpy(out, (unsigned char *)&word + skip, n);
		}
		out += n;
		at += n;
		len -= n;
	}
}

void sim_piece_bytes(const struct sim_piece *p, uint64_t at, unsigned char *out, uint64_t len)
{
	if (p->kind == SIM_CHUNK_BYTES)
		memcpy(out, p->bytes + at, len);
	else
		formula_bytes(p->kind, p->seed, p->base, at, out, len);
}

/* Under the chunk's lock. The bytes are complete before the kind says so. */
static unsigned char *make_bytes(struct sim_store *s, uint64_t index, int keep)
{
	struct sim_chunk *c = &s->chunks[index];
	unsigned char *data = s->data + index * SIM_CHUNK;

	if (c->kind != SIM_CHUNK_BYTES) {
		if (keep)
			formula_bytes(c->kind, c->seed, c->base, 0, data, SIM_CHUNK);
		__atomic_store_n(&c->kind, SIM_CHUNK_BYTES, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&c->present, 1, __ATOMIC_RELEASE);
	return data;
}

static void set_formula(struct sim_store *s, uint64_t index, uint32_t kind, uint64_t seed, uint64_t base)
{
	struct sim_chunk *c = &s->chunks[index];

	sim_lock(&c->lock);
	c->seed = seed;
	c->base = base;
	__atomic_store_n(&c->kind, kind, __ATOMIC_RELEASE);
	__atomic_store_n(&c->present, 1, __ATOMIC_RELEASE);
	sim_unlock(&c->lock);
}

static void remember(const struct sim_store *s, uint64_t at, uint64_t len)
{
	if (s->old)
		sim_store_copy(s->old, at, s, at, len);
}

void sim_store_read(const struct sim_store *s, uint64_t at, void *out, uint64_t len)
{
	unsigned char *to = out;

	while (len) {
		uint64_t index = at / SIM_CHUNK, in = at % SIM_CHUNK, n = SIM_CHUNK - in;
		struct sim_chunk *c = &s->chunks[index];

		if (n > len)
			n = len;
		sim_lock(&c->lock);
		if (c->kind == SIM_CHUNK_BYTES)
			memcpy(to, s->data + at, n);
		else
			formula_bytes(c->kind, c->seed, c->base, in, to, n);
		sim_unlock(&c->lock);
		to += n;
		at += n;
		len -= n;
	}
}

void sim_store_write(struct sim_store *s, uint64_t at, const void *in, uint64_t len)
{
	const unsigned char *from = in;

	remember(s, at, len);
	while (len) {
		uint64_t index = at / SIM_CHUNK, skip = at % SIM_CHUNK, n = SIM_CHUNK - skip;
		struct sim_chunk *c = &s->chunks[index];

		if (n > len)
			n = len;
		sim_lock(&c->lock);
		memcpy(make_bytes(s, index, 1) + skip, from, n);
		sim_unlock(&c->lock);
		from += n;
		at += n;
		len -= n;
	}
}

/* Writes a formula over [at, at + len): whole chunks as such, the rest as bytes. word0: index of the word at byte 0 of
 * the store. */
static void write_formula(struct sim_store *s, uint64_t at, uint64_t len, uint32_t kind, uint64_t seed, uint64_t word0)
{
	remember(s, at, len);
	while (len) {
		uint64_t index = at / SIM_CHUNK, skip = at % SIM_CHUNK, n = SIM_CHUNK - skip;
		struct sim_chunk *c = &s->chunks[index];
		uint64_t base = word0 + index * SIM_CHUNK_WORDS;

		if (n > len)
			n = len;
		if (n == SIM_CHUNK) {
			set_formula(s, index, kind, seed, kind == SIM_CHUNK_PATTERN ? base : 0);
		} else {
			sim_lock(&c->lock);
			formula_bytes(kind, seed, base, skip, make_bytes(s, index, 1) + skip, n);
			sim_unlock(&c->lock);
		}
		at += n;
		len -= n;
	}
}

void sim_store_pattern(struct sim_store *s, uint64_t at, uint64_t len, uint64_t seed, uint64_t from)
{
	/* May lie below zero: only words inside the range are ever made of it. */
	write_formula(s, at, len, SIM_CHUNK_PATTERN, seed, (uint64_t)((int64_t)(from - at) / 8));
}

void sim_store_const(struct sim_store *s, uint64_t at, uint64_t len, uint64_t word)
{
	write_formula(s, at, len, SIM_CHUNK_CONST, word, 0);
}

/* The stretch of SIM_CHUNK bytes at any `at`: a formula when both chunks it touches belong to one, else bytes in buffer. */
static void any_piece(const struct sim_store *s, uint64_t at, unsigned char *buffer, struct sim_piece *out)
{
	uint64_t index = at / SIM_CHUNK, in = at % SIM_CHUNK;
	struct sim_chunk *c = &s->chunks[index];
	struct sim_piece next;

	if (!in) {
		sim_store_piece(s, at, buffer, out);
		return;
	}
	sim_lock(&c->lock);
	*out = (struct sim_piece){ c->kind, c->seed, c->base, buffer };
	sim_unlock(&c->lock);
	if (out->kind != SIM_CHUNK_BYTES && in % 8 == 0) {
		c = &s->chunks[index + 1];
		sim_lock(&c->lock);
		next = (struct sim_piece){ c->kind, c->seed, c->base, NULL };
		sim_unlock(&c->lock);
		if (next.kind == out->kind && next.seed == out->seed &&
		    (next.kind == SIM_CHUNK_CONST || next.base == out->base + SIM_CHUNK_WORDS)) {
			out->base += in / 8;
			return;
		}
	}
	out->kind = SIM_CHUNK_BYTES;
	sim_store_read(s, at, buffer, SIM_CHUNK);
}

void sim_store_piece(const struct sim_store *s, uint64_t at, unsigned char *buffer, struct sim_piece *out)
{
	struct sim_chunk *c = &s->chunks[at / SIM_CHUNK];

	sim_lock(&c->lock);
	*out = (struct sim_piece){ c->kind, c->seed, c->base, buffer };
	if (c->kind == SIM_CHUNK_BYTES)
		memcpy(buffer, s->data + at, SIM_CHUNK);
	sim_unlock(&c->lock);
}

void sim_store_copy(struct sim_store *to, uint64_t at, const struct sim_store *from, uint64_t from_at, uint64_t len)
{
	unsigned char buffer[SIM_CHUNK];

	remember(to, at, len);
	while (len) {
		uint64_t index = at / SIM_CHUNK, skip = at % SIM_CHUNK, n = SIM_CHUNK - skip;
		struct sim_chunk *c = &to->chunks[index];
		struct sim_piece p;

		if (n > len)
			n = len;
		if (n == SIM_CHUNK) {
			any_piece(from, from_at, buffer, &p);
			if (p.kind != SIM_CHUNK_BYTES) {
				set_formula(to, index, p.kind, p.seed, p.base);
			} else {
				sim_lock(&c->lock);
				memcpy(make_bytes(to, index, 0), buffer, SIM_CHUNK);
				sim_unlock(&c->lock);
			}
		} else {
			sim_store_read(from, from_at, buffer, n);
			sim_lock(&c->lock);
			memcpy(make_bytes(to, index, 1) + skip, buffer, n);
			sim_unlock(&c->lock);
		}
		at += n;
		from_at += n;
		len -= n;
	}
}

uint64_t sim_store_load(const struct sim_store *s, uint64_t at)
{
	const struct sim_chunk *c = &s->chunks[at / SIM_CHUNK];
	uint64_t word;

	if (kind_of(c) == SIM_CHUNK_BYTES)
		return __atomic_load_n((const uint64_t *)(const void *)(s->data + at), __ATOMIC_ACQUIRE);
	sim_store_read(s, at, &word, 8);
	return word;
}

uint64_t *sim_store_word(struct sim_store *s, uint64_t at)
{
	struct sim_chunk *c = &s->chunks[at / SIM_CHUNK];

	if (kind_of(c) != SIM_CHUNK_BYTES) {
		sim_lock(&c->lock);
		make_bytes(s, at / SIM_CHUNK, 1);
		sim_unlock(&c->lock);
	}
	return (uint64_t *)(void *)(s->data + at);
}

void sim_store_put(struct sim_store *s, uint64_t at, uint64_t value, unsigned bytes)
{
	uint64_t *word;

	remember(s, at, bytes);
	word = sim_store_word(s, at & ~UINT64_C(7));
	if (bytes == 8)
		__atomic_store_n(word, value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)(void *)(s->data + at), (uint32_t)value, __ATOMIC_RELEASE);
}

void sim_store_scrub(struct sim_store *s, uint64_t at, uint64_t len)
{
	uint64_t i, first = at / SIM_CHUNK, end = (at + len) / SIM_CHUNK;

	for (i = first; i < end; i++) {
		struct sim_chunk *c = &s->chunks[i];

		if (kind_of(c) == SIM_CHUNK_CONST && !c->seed && !c->present)
			continue;
		sim_lock(&c->lock);
		c->seed = c->base = 0;
		c->present = 0;
		__atomic_store_n(&c->kind, SIM_CHUNK_CONST, __ATOMIC_RELEASE);
		sim_unlock(&c->lock);
	}
	madvise(s->data + at, len, MADV_REMOVE);
	if (s->old)
		sim_store_scrub(s->old, at, len);
}

int sim_store_present(const struct sim_store *s, uint64_t at)
{
	return __atomic_load_n(&s->chunks[at / SIM_CHUNK].present, __ATOMIC_ACQUIRE) != 0;
}
