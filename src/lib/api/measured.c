#include "api/measured.h"

#include <stdlib.h>
#include <string.h>

#include "api/recheck.h"
#include "emit/emit.h"
#include "kept/key.h"
#include "kept/store.h"

static int32_t any_speed(const struct p2s_bandwidth *b)
{
	return b->ce_write != 0 || b->ce_read != 0 || b->sm_store != 0 || b->sm_load != 0;
}

static int32_t has_numbers(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->pair_count; i++)
		if (any_speed(&m->pairs[i].bandwidth))
			return 1;
	for (size_t i = 0; i < m->staged_count; i++)
		if (any_speed(&m->staged[i].bandwidth))
			return 1;
	return 0;
}

void p2s_measured_now(struct p2s_model *m)
{
	if (m->measured_unix == 0 && has_numbers(m))
		m->measured_unix = m->created_unix;
}

static int32_t at(const struct p2s_model *m, const char *address)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		if (strcmp(m->gpus[i].address, address) == 0)
			return (int32_t)i;
	return -1;
}

/* Index in the kept model of each GPU of m. */
static void map_gpus(const struct p2s_model *m, const struct p2s_model *kept, int32_t *map)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		map[i] = at(kept, m->gpus[i].address);
}

static void copy_gpu(struct p2s_gpu_facts *to, const struct p2s_gpu_facts *from)
{
	to->to_host = from->to_host;
	to->from_host = from->from_host;
	to->host_both_ways = from->host_both_ways;
	to->all_to_one = from->all_to_one;
	to->one_to_all = from->one_to_all;
	to->host_node = from->host_node;
	for (size_t i = 0; i < to->hop_count && i < P2S_HOPS && to->hop_count == from->hop_count; i++) {
		if (strcmp(to->hops[i].address, from->hops[i].address) != 0)
			break;
		to->hops[i].speed_loaded_mts = from->hops[i].speed_loaded_mts;
		to->hops[i].width_loaded = from->hops[i].width_loaded;
	}
}

/* The rows change their owner. */
static void take_sizes(struct p2s_size_row **to, size_t *to_count, struct p2s_size_row **from, size_t *from_count)
{
	free(*to);
	*to = *from;
	*to_count = *from_count;
	*from = NULL;
	*from_count = 0;
}

static void take_numbers(struct p2s_model *m, struct p2s_model *kept)
{
	int32_t map[P2S_MAX_GPUS];

	map_gpus(m, kept, map);
	for (size_t i = 0; i < m->gpu_count; i++)
		if (map[i] >= 0)
			copy_gpu(&m->gpus[i].facts, &kept->gpus[map[i]].facts);
	for (size_t i = 0; i < m->pair_count; i++) {
		struct p2s_pair *p = &m->pairs[i];
		struct p2s_pair *k = p2s_model_pair(kept, map[p->src], map[p->dst]);

		if (k == NULL)
			continue;
		p->bandwidth = k->bandwidth;
		p->latency = k->latency;
		take_sizes(&p->sizes, &p->size_count, &k->sizes, &k->size_count);
	}
	for (size_t i = 0; i < m->staged_count; i++) {
		struct p2s_staged *p = &m->staged[i];
		struct p2s_staged *k = p2s_model_staged(kept, map[p->a], map[p->b]);

		/* Same key, same order of GPUs: by address. */
		if (k == NULL || k->a != map[p->a])
			continue;
		p->bandwidth = k->bandwidth;
		p->latency = k->latency;
		take_sizes(&p->sizes, &p->size_count, &k->sizes, &k->size_count);
	}
	m->measured_unix = kept->measured_unix;
}

void p2s_measured_recall(struct p2s_session *s, int dir, struct p2s_model *m)
{
	struct p2s_request any = s->request;
	struct p2s_recheck spoken;
	struct p2s_record old;
	struct p2s_model kept;
	const char *why;
	char reason[200];
	size_t len = 0;
	char *text;

	any.level = 0; /* speed does not depend on it */
	if (dir < 0 || has_numbers(m) || !p2s_store_newest(dir, &old, &why))
		return;
	p2s_model_init(&kept);
	if (p2s_key_matches(&old, m, &s->host, &any, reason, sizeof reason) && p2s_recheck_record(dir, &old, m, &spoken)) {
		text = p2s_store_full(dir, &old, &len);
		if (text != NULL && p2s_emit_parse_full(text, len, &kept) == 1 && has_numbers(&kept))
			take_numbers(m, &kept);
		free(text);
	}
	p2s_model_free(&kept);
	p2s_record_free(&old);
}
