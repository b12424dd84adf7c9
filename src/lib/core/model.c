#include "core/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one more element of a list and returns it zeroed, NULL when out of memory. A list has room for the next power of
 * two above its count, so that 4032 pairs of 64 GPUs are not moved 4032 times; no list of the model is made any other way. */
static void *grow(void **list, size_t *count, size_t size)
{
	unsigned char *more = *list;

	if ((*count & (*count - 1)) == 0) {
		more = realloc(*list, (*count == 0 ? 1 : 2 * *count) * size);
		if (more == NULL)
			return NULL;
		*list = more;
	}
	memset(more + *count * size, 0, size);
	return more + (*count)++ * size;
}

#define GROW(list, count) grow((void **)&(list), &(count), sizeof *(list))

static void copy(char *to, size_t cap, const char *from)
{
	snprintf(to, cap, "%s", from == NULL ? "" : from);
}

#define COPY(to, from) copy(to, sizeof(to), from)

void p2s_model_init(struct p2s_model *m)
{
	memset(m, 0, sizeof *m);
	p2s_facts_init(&m->facts);
	m->snp_host = -1;
	m->transport = P2PSAFE_TRANSPORT_NONE;
	for (int i = 1; i < P2S_CONSUMERS; i++)
		m->consumers[i].verdict = P2PSAFE_VERDICT_UNTESTED;
}

void p2s_model_free(struct p2s_model *m)
{
	for (size_t i = 0; i < m->pair_count; i++) {
		free(m->pairs[i].legs);
		free(m->pairs[i].sizes);
	}
	for (size_t i = 0; i < m->staged_count; i++)
		free(m->staged[i].sizes);
	for (size_t i = 0; i < m->finding_count; i++)
		free(m->findings[i].evidence);
	for (size_t i = 0; i < m->island_count; i++)
		free(m->islands[i]);
	for (int i = 0; i < P2S_CONSUMERS; i++)
		free(m->consumers[i].failed);
	p2s_facts_free(&m->facts);
	free(m->iommu_evidence);
	free(m->gpus);
	free(m->pairs);
	free(m->staged);
	free(m->findings);
	free(m->remedies);
	free(m->islands);
	free(m->settings);
	free(m->timings);
	memset(m, 0, sizeof *m);
}

struct p2s_gpu *p2s_model_add_gpu(struct p2s_model *m)
{
	struct p2s_gpu *g;

	if (m->gpu_count == P2S_MAX_GPUS)
		return NULL;
	g = GROW(m->gpus, m->gpu_count);
	if (g != NULL) {
		g->ordinal = -1;
		g->driver_order = -1;
		g->minor = -1;
		g->numa_node = -1;
		p2s_facts_gpu_init(&g->facts);
	}
	return g;
}

const struct p2s_pair *p2s_model_pair_const(const struct p2s_model *m, int32_t src, int32_t dst)
{
	for (size_t i = 0; i < m->pair_count; i++)
		if (m->pairs[i].src == src && m->pairs[i].dst == dst)
			return &m->pairs[i];
	return NULL;
}

struct p2s_staged *p2s_model_staged(struct p2s_model *m, int32_t a, int32_t b)
{
	for (size_t i = 0; i < m->staged_count; i++)
		if ((m->staged[i].a == a && m->staged[i].b == b) || (m->staged[i].a == b && m->staged[i].b == a))
			return &m->staged[i];
	return NULL;
}

struct p2s_pair *p2s_model_pair(struct p2s_model *m, int32_t src, int32_t dst)
{
	for (size_t i = 0; i < m->pair_count; i++)
		if (m->pairs[i].src == src && m->pairs[i].dst == dst)
			return &m->pairs[i];
	return NULL;
}

static int pair_order(const void *a, const void *b)
{
	const struct p2s_pair *x = a, *y = b;

	return x->src != y->src ? x->src - y->src : x->dst - y->dst;
}

static int staged_order(const void *a, const void *b)
{
	const struct p2s_staged *x = a, *y = b;

	return x->a != y->a ? x->a - y->a : x->b - y->b;
}

static int32_t add_pair(struct p2s_model *m, int32_t src, int32_t dst)
{
	struct p2s_pair *p = GROW(m->pairs, m->pair_count);

	if (p == NULL)
		return 0;
	p->src = src;
	p->dst = dst;
	p->can_access = -1;
	p->native_atomics = -1;
	p->score = -1;
	p->efficiency = -1;
	p->verdict = P2PSAFE_VERDICT_UNTESTED;
	p->transport = P2PSAFE_TRANSPORT_NONE;
	return 1;
}

static int32_t add_staged(struct p2s_model *m, int32_t a, int32_t b)
{
	struct p2s_staged *s = GROW(m->staged, m->staged_count);

	if (s == NULL)
		return 0;
	s->a = a;
	s->b = b;
	s->verdict = P2PSAFE_VERDICT_UNTESTED;
	return 1;
}

int32_t p2s_model_make_pairs(struct p2s_model *m)
{
	const size_t pairs = m->pair_count, staged = m->staged_count;

	for (int32_t a = 0; a < (int32_t)m->gpu_count; a++) {
		for (int32_t b = 0; b < (int32_t)m->gpu_count; b++) {
			if (a == b || !m->gpus[a].in_group || !m->gpus[b].in_group)
				continue;
			if ((pairs == 0 || p2s_model_pair(m, a, b) == NULL) && !add_pair(m, a, b))
				return 0;
			if (a < b && (staged == 0 || p2s_model_staged(m, a, b) == NULL) && !add_staged(m, a, b))
				return 0;
		}
	}
	if (pairs > 0 && m->pair_count > pairs)
		qsort(m->pairs, m->pair_count, sizeof *m->pairs, pair_order);
	if (staged > 0 && m->staged_count > staged)
		qsort(m->staged, m->staged_count, sizeof *m->staged, staged_order);
	return 1;
}

static int32_t inside(const struct p2s_model *m, int32_t a, int32_t b)
{
	return m->gpus[a].in_group && m->gpus[b].in_group;
}

void p2s_model_drop_outsiders(struct p2s_model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->pair_count; i++) {
		if (inside(m, m->pairs[i].src, m->pairs[i].dst)) {
			m->pairs[n++] = m->pairs[i];
			continue;
		}
		free(m->pairs[i].legs);
		free(m->pairs[i].sizes);
	}
	m->pair_count = n;
	n = 0;
	for (size_t i = 0; i < m->staged_count; i++) {
		if (inside(m, m->staged[i].a, m->staged[i].b))
			m->staged[n++] = m->staged[i];
		else
			free(m->staged[i].sizes);
	}
	m->staged_count = n;
}

struct p2s_leg *p2s_model_leg(struct p2s_pair *pair, int32_t leg, int32_t mapping)
{
	struct p2s_leg *l;

	for (size_t i = 0; i < pair->leg_count; i++)
		if (pair->legs[i].leg == leg && pair->legs[i].mapping == mapping)
			return &pair->legs[i];
	l = GROW(pair->legs, pair->leg_count);
	if (l != NULL) {
		l->leg = leg;
		l->mapping = mapping;
		l->initiator = pair->src;
		l->verdict = P2PSAFE_VERDICT_UNTESTED;
	}
	return l;
}

static int32_t add_evidence(struct p2s_evidence **list, size_t *count, const char *source, const char *text)
{
	struct p2s_evidence *e = grow((void **)list, count, sizeof **list);

	if (e == NULL)
		return 0;
	COPY(e->source, source);
	COPY(e->text, text);
	return 1;
}

int32_t p2s_model_find(struct p2s_model *m, const char *code, int32_t severity, int32_t confidence, int32_t src, int32_t dst,
                       const char *source, const char *text)
{
	struct p2s_finding *f = NULL;

	for (size_t i = 0; i < m->finding_count && f == NULL; i++)
		if (strcmp(m->findings[i].code, code) == 0 && m->findings[i].src == src && m->findings[i].dst == dst)
			f = &m->findings[i];
	if (f == NULL) {
		f = GROW(m->findings, m->finding_count);
		if (f == NULL)
			return 0;
		COPY(f->code, code);
		f->src = src;
		f->dst = dst;
	}
	if (severity > f->severity)
		f->severity = severity;
	if (confidence > f->confidence)
		f->confidence = confidence;
	for (size_t i = 0; source != NULL && i < f->evidence_count; i++)
		if (strcmp(f->evidence[i].source, source) == 0 && text != NULL && strcmp(f->evidence[i].text, text) == 0)
			return 1; /* said before */
	return source == NULL ? 1 : add_evidence(&f->evidence, &f->evidence_count, source, text);
}

int32_t p2s_model_add_setting(struct p2s_model *m, int32_t consumer, int32_t kind, int32_t applied, const char *name,
                              const char *value, const char *why)
{
	struct p2s_setting *s = GROW(m->settings, m->setting_count);

	if (s == NULL)
		return 0;
	s->consumer = consumer;
	s->kind = kind;
	s->applied = applied;
	COPY(s->name, name);
	COPY(s->value, value);
	COPY(s->why, why);
	return 1;
}

int32_t p2s_model_add_iommu_evidence(struct p2s_model *m, const char *source, const char *text)
{
	return add_evidence(&m->iommu_evidence, &m->iommu_evidence_count, source, text);
}

int32_t p2s_model_add_timing(struct p2s_model *m, const char *name, uint64_t ms)
{
	struct p2s_timing *t = GROW(m->timings, m->timing_count);

	if (t == NULL)
		return 0;
	COPY(t->name, name);
	t->ms = ms;
	return 1;
}

int32_t p2s_model_add_failed(struct p2s_consumer *c, int32_t src, int32_t dst, int32_t leg, int32_t mapping)
{
	struct p2s_failed_leg *f = GROW(c->failed, c->failed_count);

	if (f == NULL)
		return 0;
	f->src = src;
	f->dst = dst;
	f->leg = leg;
	f->mapping = mapping;
	return 1;
}
