/* Measured numbers: checked, and put where they belong. Zero is "not measured" in the model, so it is no number. */
#include <stdlib.h>
#include <string.h>

#include "ipc/fill.h"

#define ROWS_MAX 64

static struct p2s_size_row *size_row(struct p2s_size_row **rows, size_t *count, uint64_t bytes)
{
	struct p2s_size_row *more;
	size_t at = 0;

	while (at < *count && (*rows)[at].bytes < bytes)
		at++;
	if (at < *count && (*rows)[at].bytes == bytes)
		return &(*rows)[at];
	if (*count >= ROWS_MAX)
		return NULL;
	more = realloc(*rows, (*count + 1) * sizeof **rows);
	if (more == NULL)
		return NULL;
	*rows = more;
	memmove(&more[at + 1], &more[at], (*count - at) * sizeof *more);
	memset(&more[at], 0, sizeof *more);
	more[at].bytes = bytes;
	++*count;
	return &more[at];
}

/* Of two directions the worse one. */
static void slower(uint64_t *to, uint64_t bytes_per_s)
{
	if (*to == 0 || bytes_per_s < *to)
		*to = bytes_per_s;
}

static void later(uint64_t *to, uint64_t ns)
{
	if (ns > *to)
		*to = ns;
}

static int32_t fill_row(struct p2s_pair *p, struct p2s_staged *s, const struct p2s_lib_measure *in)
{
	int staged = in->kind == P2S_MEASURE_STAGED || in->kind == P2S_MEASURE_STAGED_NS;
	struct p2s_size_row *row;
	struct p2s_size_row *both;

	if (!staged && in->kind != P2S_MEASURE_SIZE && in->kind != P2S_MEASURE_SIZE_NS)
		return -1;
	row = size_row(&p->sizes, &p->size_count, in->bytes);
	if (row == NULL)
		return 0;
	if (in->kind == P2S_MEASURE_SIZE)
		row->p2p_bytes_per_s = in->value;
	if (in->kind == P2S_MEASURE_SIZE_NS)
		row->p2p_ns = in->value;
	if (!staged)
		return 1;
	both = size_row(&s->sizes, &s->size_count, in->bytes);
	if (both == NULL)
		return 0;
	if (in->kind == P2S_MEASURE_STAGED) {
		row->staged_bytes_per_s = in->value;
		slower(&both->staged_bytes_per_s, in->value);
	} else {
		row->staged_ns = in->value;
		later(&both->staged_ns, in->value);
	}
	return 1;
}

static uint64_t *number_of(struct p2s_pair *p, struct p2s_staged *s, int32_t kind)
{
	switch (kind) {
	case P2S_MEASURE_CE_WRITE:
		return &p->bandwidth.ce_write;
	case P2S_MEASURE_CE_READ:
		return &p->bandwidth.ce_read;
	case P2S_MEASURE_SM_STORE:
		return &p->bandwidth.sm_store;
	case P2S_MEASURE_SM_LOAD:
		return &p->bandwidth.sm_load;
	case P2S_MEASURE_BOTH_WAYS:
		return &p->bandwidth.both_ways;
	case P2S_MEASURE_LOADED:
		return &p->bandwidth.loaded;
	case P2S_MEASURE_WRITE_ISSUE_NS:
		return &p->latency.write_issue_ns;
	case P2S_MEASURE_LOAD_NS:
		return &p->latency.load_ns;
	case P2S_MEASURE_STORE_FLAG_NS:
		return &p->latency.store_flag_ns;
	case P2S_MEASURE_STAGED:
		return p->src < p->dst ? &s->bandwidth.ce_write : &s->bandwidth.ce_read;
	case P2S_MEASURE_STAGED_BOTH_WAYS:
		return &s->bandwidth.both_ways;
	default:
		return NULL;
	}
}

int32_t p2s_fill_measure(struct p2s_model *m, const struct p2s_lib_measure *in)
{
	struct p2s_pair *p;
	struct p2s_staged *s;
	uint64_t *number;

	if (in->src >= m->gpu_count || in->dst >= m->gpu_count || in->value == 0)
		return -1;
	p = p2s_model_pair(m, (int32_t)in->src, (int32_t)in->dst);
	s = p2s_model_staged(m, (int32_t)in->src, (int32_t)in->dst);
	if (p == NULL || s == NULL)
		return -1;
	if (in->bytes != 0)
		return fill_row(p, s, in);
	if (in->kind == P2S_MEASURE_STAGED_NS) {
		later(&s->latency.store_flag_ns, in->value);
		return 1;
	}
	number = number_of(p, s, in->kind);
	if (number == NULL)
		return -1;
	*number = in->value;
	return 1;
}
