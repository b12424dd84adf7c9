#include "sim/view.h"

#include <string.h>

#include "sim/lock.h"
#include "sim/ring.h"

#define ONES (~UINT64_C(0))
#define NANS UINT64_C(0x7fc000007fc00000)

struct sim_transfer sim_view_transfer(const struct sim_view *v, uint32_t op, uint64_t at, uint64_t bytes)
{
	return (struct sim_transfer){ v->accessor, v->owner, op, v->mapping, v->offset + at, bytes, NULL };
}

static struct sim_store *mirror(const struct sim_view *v)
{
	struct sim_store *m = &v->host->mirrors[sim_pair(v->host, v->accessor, v->owner)];

	return m->chunks ? m : NULL;
}

/* Where a word of a hit range goes or comes from, apart from what its value becomes. NULL: nowhere. */
struct place {
	struct sim_store *store;
	uint64_t phys;
};

static const struct sim_fault gone_write = { .effect = SIM_DROP, .rate = 1000000 };
static const struct sim_fault gone_read = { .effect = SIM_ONES, .rate = 1000000 };

/* A GPU that fell off the bus swallows what it is sent and answers with ones. */
static struct sim_hit unless_gone(const struct sim_view *v, const struct sim_hit *hit, const struct sim_fault *gone)
{
	if (sim_view_remote(v) && sim_gpu_lost(v->host, v->owner))
		return (struct sim_hit){ gone, 0, 8 };
	return *hit;
}

/* The address when one of its bits is lost. */
static uint64_t aliased(const struct sim_view *v, const struct sim_fault *f, uint64_t phys)
{
	uint64_t bit = UINT64_C(1) << f->bit;

	return (v->offset + phys - v->phys) & bit ? phys - bit : phys;
}

static struct place elsewhere(struct sim_store *s, uint64_t phys, int64_t shift)
{
	uint64_t to = phys + (uint64_t)shift;

	return to < s->bytes && to + 8 <= s->bytes ? (struct place){ s, to } : (struct place){ NULL, 0 };
}

/* Stores of a hit unit. */
static struct place write_place(const struct sim_view *v, const struct sim_fault *f, uint64_t phys)
{
	struct sim_store *own = sim_view_store(v);

	switch (f->effect) {
	case SIM_DROP:
	case SIM_STALE: /* the old bytes stay */
	case SIM_HANG:
		return (struct place){ NULL, 0 };
	case SIM_MIRROR:
		return (struct place){ mirror(v), phys };
	case SIM_MISDIRECT:
		return elsewhere(&v->host->memory[f->target], phys, f->shift);
	case SIM_SHIFT:
		return elsewhere(own, phys, f->shift);
	case SIM_ALIAS:
		return (struct place){ own, aliased(v, f, phys) };
	default:
		return (struct place){ own, phys };
	}
}

/* Loads of a hit unit. drop: the register keeps what it had; bulk loads leave the destination as it is. */
static struct place read_place(const struct sim_view *v, const struct sim_fault *f, uint64_t phys)
{
	struct sim_store *own = sim_view_store(v);

	switch (f->effect) {
	case SIM_DROP:
	case SIM_HANG:
		return (struct place){ NULL, 0 };
	case SIM_STALE:
		return (struct place){ &v->host->old[v->owner], phys };
	case SIM_MIRROR:
		return (struct place){ mirror(v), phys };
	case SIM_MISDIRECT:
		return elsewhere(&v->host->memory[f->target], phys, f->shift);
	case SIM_SHIFT:
		return elsewhere(own, phys, f->shift);
	case SIM_ALIAS:
		return (struct place){ own, aliased(v, f, phys) };
	default:
		return (struct place){ own, phys };
	}
}

/* 1 if the effect replaces the value by *word. */
static int constant(const struct sim_fault *f, uint64_t *word)
{
	*word = f->effect == SIM_ONES ? ONES : f->effect == SIM_NAN ? NANS : 0;
	return f->effect == SIM_ZEROS || f->effect == SIM_ONES || f->effect == SIM_NAN;
}

/* Where undamaged loads come from: the accessor reads back what a private copy kept for it. */
static struct sim_store *read_store(const struct sim_view *v, uint64_t phys)
{
	struct sim_store *m = sim_view_remote(v) ? mirror(v) : NULL;

	return m && sim_store_present(m, phys) ? m : sim_view_store(v);
}

/* The source of a bulk write. */
struct source {
	const struct sim_view *view; /* NULL: a pattern or a constant */
	int pattern;
	uint64_t seed;
	uint64_t from; /* byte offset in the pattern, or in the view */
};

static void write_plain(struct sim_store *to, uint64_t phys, const struct source *src, uint64_t skip, uint64_t len)
{
	if (!src->view) {
		if (src->pattern && (phys - src->from - skip) % 8 == 0) {
			sim_store_pattern(to, phys, len, src->seed, src->from + skip);
		} else if (!src->pattern) {
			sim_store_const(to, phys, len, src->seed);
		} else {
			struct sim_piece p = { SIM_CHUNK_PATTERN, src->seed, 0, NULL };
			unsigned char bytes[4096];

			while (len) {
				uint64_t n = len < sizeof(bytes) ? len : sizeof(bytes);

				sim_piece_bytes(&p, src->from + skip, bytes, n);
				sim_store_write(to, phys, bytes, n);
				phys += n;
				skip += n;
				len -= n;
			}
		}
	} else if (src->view->host_bytes) {
		sim_store_write(to, phys, src->view->host_bytes + src->from + skip, len);
	} else {
		uint64_t at = src->view->phys + src->from + skip;

		/* In pieces, as a private copy may hold some chunks only. */
		while (len) {
			uint64_t n = SIM_CHUNK - at % SIM_CHUNK;

			n = n < len && mirror(src->view) ? n : len;
			sim_store_copy(to, phys, read_store(src->view, at), at, n);
			phys += n;
			at += n;
			len -= n;
		}
	}
}

static void flip_range(struct sim_store *to, uint64_t phys, uint64_t len, uint64_t bits)
{
	unsigned char mask[8];
	unsigned char byte;
	uint64_t i;

	memcpy(mask, &bits, 8);
	/* One word of the unit, the first whole one; a shorter range gets the bits of its bytes. */
	for (i = 0; i < len && i < 8 + (8 - phys % 8) % 8; i++) {
		if (len >= 16 && i < (8 - phys % 8) % 8)
			continue;
		sim_store_read(to, phys + i, &byte, 1);
		byte ^= mask[(phys + i) % 8];
		sim_store_write(to, phys + i, &byte, 1);
	}
}

/* A copy that is reported done when only the lower half of each word is there. Nobody waits for the rest. */
static void halve(struct sim_store *to, uint64_t phys, uint64_t len, const unsigned char *before)
{
	uint64_t i;

	for (i = 0; i < len; i++)
		if ((phys + i) % 8 >= 4)
			sim_store_write(to, phys + i, before + i, 1);
}

static void write_halves(struct sim_store *to, uint64_t phys, const struct source *src, uint64_t skip, uint64_t len)
{
	unsigned char before[4096];

	while (len) {
		uint64_t n = len < sizeof(before) ? len : sizeof(before);

		sim_store_read(to, phys, before, n);
		write_plain(to, phys, src, skip, n);
		halve(to, phys, n, before);
		phys += n;
		skip += n;
		len -= n;
	}
}

/* Writes one hit stretch. */
static void write_hit(const struct sim_view *v, const struct sim_hit *hit, uint64_t at, const struct source *src, uint64_t skip,
                      uint64_t len)
{
	const struct sim_fault *f = hit->fault;
	struct place p = write_place(v, f, v->phys + at);
	uint64_t word;

	if (!p.store)
		return;
	if (p.phys + len > p.store->bytes)
		len = p.store->bytes - p.phys;
	if (constant(f, &word)) {
		sim_store_const(p.store, p.phys, len, word);
		return;
	}
	/* The flag alone comes whole in the end: who waits for it sees nothing. */
	if (f->effect == SIM_TORN && src->view && (f->ops & SIM_OP_CE_WRITE)) {
		write_halves(p.store, p.phys, src, skip, len);
		return;
	}
	write_plain(p.store, p.phys, src, skip, len);
	if (f->effect == SIM_DUPLICATE) {
		struct place too = elsewhere(&v->host->memory[f->target], v->phys + at, f->shift);

		if (too.store)
			write_plain(too.store, too.phys, src, skip, len < too.store->bytes - too.phys ? len : too.store->bytes - too.phys);
	}
	if (f->effect == SIM_BIT_FLIP) {
		uint64_t i, n;

		for (i = 0; i < len; i += n) {
			n = hit->granularity - (v->offset + at + i) % hit->granularity;
			n = n < len - i ? n : len - i;
			flip_range(p.store, p.phys + i, n, f->bits);
		}
	}
}

/* The next stretch from `at` that is all hit or all spared: its length. */
static uint64_t stretch(const struct sim_hit *hit, uint64_t offset, uint64_t len, int *is_hit)
{
	const struct sim_fault *f = hit->fault;
	uint64_t n, unit = hit->granularity, end = f->to ? (uint64_t)f->to : UINT64_MAX;

	/* An alias ends where its address bit changes. */
	if (f->effect == SIM_ALIAS) {
		n = (UINT64_C(1) << f->bit) - (offset & ((UINT64_C(1) << f->bit) - 1));
		len = n < len ? n : len;
	}
	*is_hit = sim_hit_at(hit, offset);
	if (sim_hit_whole(hit)) {
		n = offset < (uint64_t)f->from ? (uint64_t)f->from - offset : offset < end ? end - offset : len;
		return n < len ? n : len;
	}
	n = unit - offset % unit;
	while (n < len && sim_hit_at(hit, offset + n) == *is_hit)
		n += unit;
	return n < len ? n : len;
}

static enum sim_outcome stop_effect(const struct sim_view *v, const struct sim_hit *hit, int *error)
{
	int stop = sim_fault_stop(v->host, hit->fault, v->accessor);

	if (stop == SIM_FAULT_WEDGED)
		return SIM_WEDGED;
	*error = stop;
	return stop ? SIM_FAILED : SIM_OK;
}

/* A bulk write under a hit. */
static enum sim_outcome write_under(const struct sim_view *v, const struct sim_hit *found, uint64_t at, uint64_t len,
                                    const struct source *src, int *error)
{
	const struct sim_hit now = unless_gone(v, found, &gone_write), *hit = &now;
	enum sim_outcome stop = stop_effect(v, hit, error);
	uint64_t done, n;

	if (stop != SIM_OK)
		return stop;
	sim_ring_settle(v->host, v->owner);
	if (!hit->fault) {
		write_plain(sim_view_store(v), v->phys + at, src, 0, len);
		return SIM_OK;
	}
	for (done = 0; done < len; done += n) {
		int is_hit;

		n = stretch(hit, v->offset + at + done, len - done, &is_hit);
		if (is_hit)
			write_hit(v, hit, at + done, src, done, n);
		else
			write_plain(sim_view_store(v), v->phys + at + done, src, done, n);
	}
	return SIM_OK;
}

static enum sim_outcome write_range(const struct sim_view *v, uint32_t op, uint64_t at, uint64_t len, const struct source *src,
                                    int *error)
{
	struct sim_transfer t = sim_view_transfer(v, op, at, len);
	struct sim_hit hit = { NULL, 0, 8 };

	if (!len)
		return SIM_OK;
	if (op)
		hit = sim_fault_find(v->host, &t);
	return write_under(v, &hit, at, len, src, error);
}

/* The bytes that a remote read brings, written to `to` (local or host). */
static void bring(const struct sim_view *to, uint64_t to_at, struct sim_store *from, uint64_t phys, uint64_t len)
{
	if (to->host_bytes)
		sim_store_read(from, phys, to->host_bytes + to_at, len);
	else
		sim_store_copy(sim_view_store(to), to->phys + to_at, from, phys, len);
}

static void bring_view(const struct sim_view *to, uint64_t to_at, const struct sim_view *from, uint64_t at, uint64_t len)
{
	struct source src = { from, 0, 0, at };

	if (to->host_bytes && from->host_bytes)
		memmove(to->host_bytes + to_at, from->host_bytes + at, len);
	else if (to->host_bytes)
		bring(to, to_at, read_store(from, from->phys + at), from->phys + at, len);
	else
		write_plain(sim_view_store(to), to->phys + to_at, &src, 0, len);
}

static void bring_const(const struct sim_view *to, uint64_t to_at, uint64_t len, uint64_t word)
{
	uint64_t i;

	for (i = 0; to->host_bytes && i < len; i++)
		to->host_bytes[to_at + i] = (unsigned char)(word >> 8 * (i % 8));
	if (!to->host_bytes)
		sim_store_const(sim_view_store(to), to->phys + to_at, len, word);
}

static void read_hit(const struct sim_view *to, uint64_t to_at, const struct sim_view *from, uint64_t at, uint64_t len,
                     const struct sim_hit *hit, uint32_t op)
{
	struct place p = read_place(from, hit->fault, from->phys + at);
	struct source src = { from, 0, 0, at };
	uint64_t word, i, n;

	if (constant(hit->fault, &word)) {
		bring_const(to, to_at, len, word);
		return;
	}
	if (!p.store)
		return;
	if (p.phys + len > p.store->bytes)
		len = p.store->bytes - p.phys;
	if (hit->fault->effect == SIM_TORN && op == SIM_OP_CE_READ && !to->host_bytes) {
		write_halves(sim_view_store(to), to->phys + to_at, &src, 0, len);
		return;
	}
	bring(to, to_at, p.store, p.phys, len);
	if (hit->fault->effect != SIM_BIT_FLIP || to->host_bytes)
		return;
	for (i = 0; i < len; i += n) {
		n = hit->granularity - (from->offset + at + i) % hit->granularity;
		n = n < len - i ? n : len - i;
		flip_range(sim_view_store(to), to->phys + to_at + i, n, hit->fault->bits);
	}
}

static enum sim_outcome read_under(const struct sim_view *to, uint64_t to_at, const struct sim_view *from, uint64_t at,
	uint64_t len, const struct sim_hit *found, uint32_t op, int *error)
{
	const struct sim_hit now = unless_gone(from, found, &gone_read), *hit = &now;
	enum sim_outcome stop = stop_effect(from, hit, error);
	uint64_t done, n;

	if (stop != SIM_OK || !len)
		return stop;
	if (!from->host_bytes)
		sim_ring_settle(from->host, from->owner);
	if (!hit->fault) {
		bring_view(to, to_at, from, at, len);
		return SIM_OK;
	}
	for (done = 0; done < len; done += n) {
		int is_hit;

		n = stretch(hit, from->offset + at + done, len - done, &is_hit);
		if (is_hit)
			read_hit(to, to_at + done, from, at + done, n, hit, op);
		else
			bring_view(to, to_at + done, from, at + done, n);
	}
	return SIM_OK;
}

struct sim_hit sim_view_copy_hit(const struct sim_view *to, const struct sim_view *from, uint64_t bytes)
{
	/* A copy of one word may be a flag: the plan can mean it by either name. */
	uint32_t write_op = bytes == 8 ? SIM_OP_CE_WRITE | SIM_OP_FLAG : SIM_OP_CE_WRITE;
	struct sim_transfer t;

	if (sim_view_remote(to))
		t = sim_view_transfer(to, write_op, 0, bytes);
	else if (sim_view_remote(from))
		t = sim_view_transfer(from, SIM_OP_CE_READ, 0, bytes);
	else
		return (struct sim_hit){ NULL, 0, 8 };
	return sim_fault_find(to->host, &t);
}

enum sim_outcome sim_view_copy(const struct sim_view *to, const struct sim_view *from, uint64_t bytes,
	const struct sim_hit *hit, int *error)
{
	struct source src = { from, 0, 0, 0 };

	if (!from->host_bytes)
		sim_ring_settle(from->host, from->owner);
	if (sim_view_remote(from) && !sim_view_remote(to))
		return read_under(to, 0, from, 0, bytes, hit, SIM_OP_CE_READ, error);
	if (!to->host_bytes)
		return write_under(to, hit, 0, bytes, &src, error);
	bring_view(to, 0, from, 0, bytes);
	return SIM_OK;
}

enum sim_outcome sim_view_fill(const struct sim_view *v, uint64_t begin, uint64_t end, uint64_t seed, int *error)
{
	struct source src = { NULL, 1, seed, begin };

	return write_range(v, sim_view_remote(v) ? SIM_OP_SM_STORE : 0, begin, end - begin, &src, error);
}

enum sim_outcome sim_view_set(const struct sim_view *v, uint64_t bytes, unsigned char value, int *error)
{
	struct source src = { NULL, 0, value * UINT64_C(0x0101010101010101), 0 };

	return write_range(v, sim_view_remote(v) ? SIM_OP_SM_STORE : 0, 0, bytes, &src, error);
}

enum sim_outcome sim_view_load(const struct sim_view *to, const struct sim_view *from, uint64_t begin, uint64_t end, int *error)
{
	if (end <= begin)
		return SIM_OK;
	if (sim_view_remote(from)) {
		struct sim_transfer t = sim_view_transfer(from, SIM_OP_SM_LOAD, begin, end - begin);
		struct sim_hit hit = sim_fault_find(from->host, &t);

		return read_under(to, begin, from, begin, end - begin, &hit, SIM_OP_SM_LOAD, error);
	}
	bring_view(to, begin, from, begin, end - begin);
	return SIM_OK;
}
