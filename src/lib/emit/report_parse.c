/* Reads a report back. Every value is checked: the file may be cut, old or hostile. What is missing stays unknown. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bdf.h"
#include "core/names.h"
#include "emit/emit.h"

static void text(const json_t *o, const char *key, char *out, size_t cap)
{
	const char *s = json_string_value(json_object_get(o, key));

	snprintf(out, cap, "%s", s != NULL ? s : "");
}

#define TEXT(o, key, to) text(o, key, to, sizeof(to))

static uint64_t number(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 ? (uint64_t)v : 0;
}

/* A number in [0, max], or none. */
static int32_t small(const json_t *o, const char *key, int32_t max, int32_t none)
{
	const json_t *v = json_object_get(o, key);
	json_int_t n = json_integer_value(v);

	return json_is_integer(v) && n >= 0 && n <= max ? (int32_t)n : none;
}

static int32_t flag(const json_t *o, const char *key, int32_t none)
{
	const json_t *v = json_object_get(o, key);

	return json_is_boolean(v) ? json_is_true(v) : none;
}

static int32_t word(const json_t *o, const char *key, enum p2s_word_group group)
{
	return p2s_word_value(group, json_string_value(json_object_get(o, key)));
}

static uint64_t hex(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL && strncmp(s, "0x", 2) == 0 ? strtoull(s, NULL, 16) : 0;
}

static int32_t gpu_at(const struct p2s_model *m, const json_t *o, const char *key)
{
	const char *address = json_string_value(json_object_get(o, key));

	for (size_t i = 0; address != NULL && i < m->gpu_count; i++)
		if (strcmp(m->gpus[i].address, address) == 0)
			return (int32_t)i;
	return -1;
}

static int32_t read_gpu(const json_t *o, struct p2s_model *m)
{
	struct p2s_gpu *g;
	struct p2psafe_bdf bdf;
	const char *address = json_string_value(json_object_get(o, "bdf"));
	const char *cc = json_string_value(json_object_get(o, "compute_capability"));
	const char *id = json_string_value(json_object_get(o, "id"));
	const json_t *links = json_object_get(o, "nvlinks");
	int major, minor;

	if (address == NULL || !p2s_bdf_parse(address, &bdf))
		return -1;
	for (size_t i = 0; i < m->gpu_count; i++)
		if (p2s_bdf_compare(&m->gpus[i].bdf, &bdf) == 0)
			return -1; /* the same GPU twice: whose numbers would count? */
	g = p2s_model_add_gpu(m);
	if (g == NULL)
		return m->gpu_count == P2S_MAX_GPUS ? -1 : 0;
	g->bdf = bdf;
	p2s_bdf_format(&bdf, g->address);
	p2s_emit_parse_path(o, &g->facts);
	p2s_emit_parse_gpu_numbers(o, &g->facts);
	TEXT(o, "uuid", g->uuid);
	TEXT(o, "name", g->name);
	TEXT(o, "driver", g->driver);
	TEXT(o, "domain_type", g->domain_type);
	TEXT(o, "error", g->error);
	TEXT(o, "vbios", g->vbios);
	g->facts.mig = flag(o, "mig", P2S_UNREAD);
	g->facts.display_active = flag(o, "display_active", P2S_UNREAD);
	g->facts.nvlinks_active = small(links, "active", 1000, P2S_UNREAD);
	g->facts.nvlinks_total = small(links, "total", 1000, P2S_UNREAD);
	g->minor = small(o, "minor", 255, -1);
	g->numa_node = small(o, "numa_node", 65535, -1);
	g->ours = flag(o, "ours", 0);
	g->state = word(o, "state", P2S_GROUP_GPU_STATE);
	g->bar1_bytes = number(o, "bar1_bytes");
	g->memory_bytes = number(o, "memory_bytes");
	g->free_bytes = number(o, "free_bytes");
	if (cc != NULL && sscanf(cc, "%3d.%3d", &major, &minor) == 2 && major > 0 && minor >= 0) {
		g->cc_major = major;
		g->cc_minor = minor;
	}
	if (id != NULL)
		sscanf(id, "%4x:%4x", &g->vendor, &g->device);
	return 1;
}

static int32_t read_leg(const json_t *o, const struct p2s_model *m, struct p2s_pair *p)
{
	const json_t *coverage = json_object_get(o, "coverage");
	const json_t *detail = json_object_get(o, "detail");
	int32_t leg = word(o, "leg", P2S_GROUP_LEG);
	int32_t mapping = word(o, "mapping", P2S_GROUP_MAPPING);
	struct p2s_leg *l;

	if (leg == 0 || mapping == 0)
		return 1; /* a leg of a newer version */
	l = p2s_model_leg(p, leg, mapping);
	if (l == NULL)
		return 0;
	l->initiator = gpu_at(m, o, "initiator");
	if (l->initiator < 0)
		l->initiator = p->src;
	l->verdict = word(o, "verdict", P2S_GROUP_VERDICT);
	if (l->verdict == 0)
		l->verdict = P2PSAFE_VERDICT_UNTESTED;
	l->damage = word(o, "damage", P2S_GROUP_DAMAGE);
	l->bytes = number(o, "bytes");
	l->rounds = number(o, "rounds");
	l->error_bound_ppb = number(o, "error_bound");
	l->cuda_error = small(o, "cuda_error", 99999, 0);
	l->coverage_bytes = number(coverage, "bytes");
	l->coverage_of_bytes = number(coverage, "of_bytes");
	l->max_handle_bytes = number(coverage, "max_handle");
	l->verified_bytes_per_s = number(o, "verified_bytes_per_s");
	l->has_detail = json_is_object(detail);
	if (l->has_detail) {
		l->offset = number(detail, "offset");
		l->expected = hex(detail, "expected");
		l->found = hex(detail, "found");
	}
	TEXT(o, "note", l->note);
	return 1;
}

static int32_t read_pair(const json_t *o, struct p2s_model *m)
{
	struct p2s_pair *p = p2s_model_pair(m, gpu_at(m, o, "src"), gpu_at(m, o, "dst"));
	const json_t *leg;
	size_t i;

	if (p == NULL)
		return -1;
	p->path = word(o, "path", P2S_GROUP_PATH);
	p->nccl_path = word(o, "nccl_path", P2S_GROUP_PATH);
	p->can_access = flag(o, "can_access", -1);
	p->native_atomics = flag(o, "native_atomics", -1);
	p->limit_bytes_per_s = number(o, "limit_bytes_per_s");
	p->told = word(o, "verdict", P2S_GROUP_VERDICT);
	p2s_emit_parse_bandwidth(json_object_get(o, "bandwidth"), &p->bandwidth);
	p2s_emit_parse_latency(json_object_get(o, "latency"), &p->latency);
	if (!p2s_emit_parse_sizes(json_object_get(o, "sizes"), &p->sizes, &p->size_count))
		return 0;
	json_array_foreach(json_object_get(o, "legs"), i, leg)
		if (!read_leg(leg, m, p))
			return 0;
	return 1;
}

static int32_t read_staged(const json_t *o, struct p2s_model *m)
{
	int32_t a = gpu_at(m, o, "a");
	int32_t b = gpu_at(m, o, "b");

	for (size_t i = 0; i < m->staged_count; i++) {
		struct p2s_staged *s = &m->staged[i];

		if (s->a != a || s->b != b)
			continue;
		s->verdict = word(o, "verdict", P2S_GROUP_VERDICT);
		if (s->verdict == 0)
			s->verdict = P2PSAFE_VERDICT_UNTESTED;
		p2s_emit_parse_bandwidth(json_object_get(o, "bandwidth"), &s->bandwidth);
		p2s_emit_parse_latency(json_object_get(o, "latency"), &s->latency);
		return p2s_emit_parse_sizes(json_object_get(o, "sizes"), &s->sizes, &s->size_count);
	}
	return -1;
}

static void read_subject(const char *subject, const struct p2s_model *m, int32_t *src, int32_t *dst)
{
	size_t n = strcspn(subject, ">");

	*src = -1;
	*dst = -1;
	for (int32_t i = 0; i < (int32_t)m->gpu_count; i++) {
		if (strlen(m->gpus[i].address) == n && strncmp(m->gpus[i].address, subject, n) == 0)
			*src = i;
		if (subject[n] == '>' && strcmp(m->gpus[i].address, subject + n + 1) == 0)
			*dst = i;
	}
}

static int32_t read_finding(const json_t *o, struct p2s_model *m)
{
	const char *code = json_string_value(json_object_get(o, "code"));
	const char *subject = json_string_value(json_object_get(o, "subject"));
	int32_t severity = word(o, "severity", P2S_GROUP_SEVERITY);
	int32_t confidence = word(o, "confidence", P2S_GROUP_CONFIDENCE);
	int32_t src, dst;
	const json_t *e;
	size_t i;

	if (code == NULL || subject == NULL)
		return -1;
	read_subject(subject, m, &src, &dst);
	if (!p2s_model_find(m, code, severity, confidence, src, dst, NULL, NULL))
		return 0;
	json_array_foreach(json_object_get(o, "evidence"), i, e) {
		const char *source = json_string_value(json_object_get(e, "source"));
		const char *what = json_string_value(json_object_get(e, "text"));

		if (i < 64 && !p2s_model_find(m, code, severity, confidence, src, dst, source != NULL ? source : "", what))
			return 0;
	}
	return 1;
}

static int32_t read_remedy(const json_t *o, struct p2s_model *m)
{
	struct p2s_remedy *more = realloc(m->remedies, (m->remedy_count + 1) * sizeof *more);
	const json_t *need;
	struct p2s_remedy *r;
	size_t used = 0;
	size_t i;

	if (more == NULL)
		return 0;
	m->remedies = more;
	r = &more[m->remedy_count++];
	memset(r, 0, sizeof *r);
	TEXT(o, "code", r->code);
	TEXT(o, "effect", r->effect);
	TEXT(o, "what", r->what);
	TEXT(o, "risk", r->risk);
	TEXT(o, "why", r->why);
	json_array_foreach(json_object_get(o, "needs"), i, need) {
		const char *s = json_string_value(need);

		if (s != NULL && used + strlen(s) + 2 < sizeof r->needs)
			used += (size_t)snprintf(r->needs + used, sizeof r->needs - used, "%s%s", used > 0 ? "," : "", s);
	}
	return 1;
}

static void read_host(const json_t *o, struct p2s_model *m)
{
	const json_t *driver = json_object_get(o, "driver");
	const char *name;
	json_t *value;
	size_t used = 0;

	TEXT(o, "kernel", m->kernel);
	TEXT(o, "virtualization", m->virtualization);
	TEXT(o, "container", m->container);
	TEXT(o, "log_state", m->log_state);
	m->facts.host.log_position = number(o, "log_position");
	m->snp_host = flag(o, "snp_host", -1);
	m->privileged = flag(o, "privileged", 0);
	TEXT(driver, "version", m->driver_version);
	TEXT(driver, "flavour", m->driver_flavour);
	m->cuda_version = small(driver, "cuda_version", 1000000, 0);
	json_object_foreach(json_object_get(driver, "parameters"), name, value) {
		const char *v = json_string_value(value);
		size_t n = strlen(name) + (v != NULL ? strlen(v) : 0) + 3;

		if (v == NULL || used + n + 1 > sizeof m->driver_parameters)
			continue;
		used += (size_t)snprintf(m->driver_parameters + used, sizeof m->driver_parameters - used, "%s: %s\n", name, v);
	}
}

static int32_t read_iommu(const json_t *o, struct p2s_model *m)
{
	const json_t *e;
	size_t i;

	m->iommu_state = word(o, "state", P2S_GROUP_IOMMU);
	m->iommu_confidence = word(o, "confidence", P2S_GROUP_CONFIDENCE);
	json_array_foreach(json_object_get(o, "evidence"), i, e) {
		const char *source = json_string_value(json_object_get(e, "source"));
		const char *what = json_string_value(json_object_get(e, "text"));

		if (i < 256 && !p2s_model_add_iommu_evidence(m, source, what))
			return 0;
	}
	return 1;
}

/* Calls one reader per element; nonsense elements are an error, except where the reader forgives them. */
static int32_t each(const json_t *list, struct p2s_model *m, int32_t (*read)(const json_t *, struct p2s_model *))
{
	const json_t *o;
	size_t i;

	json_array_foreach(list, i, o) {
		int32_t r = json_is_object(o) ? read(o, m) : -1;

		if (r != 1)
			return r;
	}
	return 1;
}

int32_t p2s_emit_parse(const json_t *report, struct p2s_model *m)
{
	const json_t *group = json_object_get(json_object_get(report, "decision"), "gpus");
	const json_t *timing = json_object_get(report, "timing_ms");
	const char *name;
	const json_t *o;
	json_t *value;
	size_t i;
	int32_t r;

	if (!json_is_object(report) || small(report, "schema", 1, 0) != 1)
		return -1;
	m->level = word(report, "level", P2S_GROUP_LEVEL);
	m->simulated = flag(report, "simulated", 1);
	m->deadline_hit = flag(report, "deadline_hit", 0);
	m->created_unix = (int64_t)number(report, "created_unix");
	m->measured_unix = (int64_t)number(report, "measured_unix");
	read_host(json_object_get(report, "host"), m);
	r = each(json_object_get(report, "gpus"), m, read_gpu);
	if (r != 1)
		return r;
	json_array_foreach(group, i, o) {
		const char *address = json_string_value(o);

		for (size_t k = 0; address != NULL && k < m->gpu_count; k++)
			if (strcmp(m->gpus[k].address, address) == 0)
				m->gpus[k].in_group = 1;
	}
	if (!p2s_model_make_pairs(m) || !read_iommu(json_object_get(report, "iommu"), m))
		return 0;
	r = each(json_object_get(report, "pairs"), m, read_pair);
	if (r == 1)
		r = each(json_object_get(report, "staged"), m, read_staged);
	if (r == 1)
		r = each(json_object_get(report, "findings"), m, read_finding);
	if (r == 1)
		r = each(json_object_get(report, "remedies"), m, read_remedy);
	json_object_foreach((json_t *)timing, name, value)
		if (r == 1 && m->timing_count < 64 && !p2s_model_add_timing(m, name, number(timing, name)))
			r = 0;
	return r;
}
