/* Views one word at a time, for kernels that poll while others write. */
#include <sched.h>
#include <string.h>

#include "sim/lock.h"
#include "sim/ring.h"
#include "sim/view.h"

#define TORN_NS UINT64_C(40000) /* how late the second half of a torn word comes */
#define NANS UINT64_C(0x7fc000007fc00000)

static struct sim_store *mirror(const struct sim_view *v)
{
	struct sim_store *m = &v->host->mirrors[sim_pair(v->host, v->accessor, v->owner)];

	return sim_view_remote(v) && m->chunks ? m : NULL;
}

static void put_elsewhere(struct sim_store *s, uint64_t phys, int64_t shift, uint64_t value)
{
	uint64_t to = phys + (uint64_t)shift;

	if (to < s->bytes && to + 8 <= s->bytes)
		sim_store_put(s, to, value, 8);
}

static int gone(const struct sim_view *v)
{
	return sim_view_remote(v) && sim_gpu_lost(v->host, v->owner);
}

/* The address when one of its bits is lost. */
static uint64_t aliased(const struct sim_view *v, const struct sim_fault *f, uint64_t at)
{
	uint64_t bit = UINT64_C(1) << f->bit;

	return (v->offset + at) & bit ? v->phys + at - bit : v->phys + at;
}

void sim_view_post(const struct sim_view *v, const struct sim_hit *hit, uint64_t at, uint64_t value, uint64_t due_ns)
{
	const struct sim_fault *f = hit->fault && sim_hit_at(hit, v->offset + at) ? hit->fault : NULL;
	uint64_t phys = v->phys + at;
	struct sim_store *m;

	if (gone(v))
		return;
	switch (f ? f->effect : SIM_NONE) {
	case SIM_DROP:
	case SIM_STALE:
	case SIM_HANG:
		return;
	case SIM_MIRROR:
		m = mirror(v);
		if (m)
			sim_store_put(m, phys, value, 8);
		return;
	case SIM_MISDIRECT:
		put_elsewhere(&v->host->memory[f->target], phys, f->shift, value);
		return;
	case SIM_SHIFT:
		put_elsewhere(sim_view_store(v), phys, f->shift, value);
		return;
	case SIM_ALIAS:
		phys = aliased(v, f, at);
		break;
	case SIM_TORN:
		sim_ring_post(v->host, v->accessor, v->owner, phys, value & UINT32_MAX, 4, due_ns);
		sim_ring_post(v->host, v->accessor, v->owner, phys + 4, value >> 32, 4, sim_now() + TORN_NS);
		return;
	case SIM_ZEROS:
		value = 0;
		break;
	case SIM_ONES:
		value = ~UINT64_C(0);
		break;
	case SIM_NAN:
		value = NANS;
		break;
	case SIM_BIT_FLIP:
		value ^= f->bits;
		break;
	default:
		break;
	}
	sim_ring_post(v->host, v->accessor, v->owner, phys, value, 8, due_ns);
}

void sim_view_post_run(const struct sim_view *v, const struct sim_hit *hit, uint64_t at, const uint64_t *words, uint32_t count)
{
	uint32_t i;

	if (!hit->fault && !gone(v)) {
		sim_ring_post_run(v->host, v->accessor, v->owner, v->phys + at, words, count);
		return;
	}
	for (i = 0; i < count; i++)
		sim_view_post(v, hit, at + i * 8, words[i], 0);
}

static uint64_t load_elsewhere(const struct sim_store *s, uint64_t phys, int64_t shift)
{
	uint64_t from = phys + (uint64_t)shift;

	/* An address that nothing decodes reads as all ones. */
	return from < s->bytes && from + 8 <= s->bytes ? sim_store_load(s, from) : ~UINT64_C(0);
}

static uint64_t load_plain(const struct sim_view *v, uint64_t phys)
{
	const struct sim_store *m = mirror(v);

	return sim_store_load(m && sim_store_present(m, phys) ? m : sim_view_store(v), phys);
}

uint64_t sim_view_word(const struct sim_view *v, const struct sim_hit *hit, uint64_t at)
{
	const struct sim_fault *f = hit->fault && sim_hit_at(hit, v->offset + at) ? hit->fault : NULL;
	uint64_t phys = v->phys + at, low;

	if (gone(v))
		return ~UINT64_C(0);
	switch (f ? f->effect : SIM_NONE) {
	case SIM_DROP:
	case SIM_HANG:
	case SIM_ZEROS:
		return 0;
	case SIM_ONES:
		return ~UINT64_C(0);
	case SIM_NAN:
		return NANS;
	case SIM_STALE:
		return sim_store_load(&v->host->old[v->owner], phys);
	case SIM_MIRROR:
		return mirror(v) ? sim_store_load(mirror(v), phys) : 0;
	case SIM_MISDIRECT:
		return load_elsewhere(&v->host->memory[f->target], phys, f->shift);
	case SIM_SHIFT:
		return load_elsewhere(sim_view_store(v), phys, f->shift);
	case SIM_ALIAS:
		return load_plain(v, aliased(v, f, at));
	case SIM_TORN:
		low = load_plain(v, phys) & UINT32_MAX;
		sched_yield();
		sim_ring_pump(v->host, v->owner);
		return low | load_plain(v, phys) >> 32 << 32;
	case SIM_BIT_FLIP:
		return load_plain(v, phys) ^ f->bits;
	default:
		return load_plain(v, phys);
	}
}

uint64_t sim_view_cached(const struct sim_view *v, const struct sim_hit *hit, uint64_t at, struct sim_cache *cache)
{
	uint64_t phys = v->phys + at, line = phys / SIM_LINE * SIM_LINE, word;
	uint64_t slot = phys / SIM_LINE % SIM_LINES;
	uint64_t i;

	/* The own memory's L2 is where everybody meets; damaged loads are not worth caching. */
	if (!sim_view_remote(v) || hit->fault || gone(v) || line < v->phys || line + SIM_LINE > v->phys + v->bytes)
		return sim_view_word(v, hit, at);
	if (cache->tag[slot] != line + 1) {
		cache->tag[slot] = line + 1;
		for (i = 0; i < SIM_LINE; i += 8) {
			word = load_plain(v, line + i);
			memcpy(&cache->data[slot][i], &word, 8);
		}
	}
	memcpy(&word, &cache->data[slot][phys % SIM_LINE], 8);
	return word;
}

void sim_cache_drop(struct sim_cache *cache)
{
	memset(cache->tag, 0, sizeof(cache->tag));
}
