/* The report as JSON. Keys are part of the interface (docs/report.schema.json): more may be added, none renamed. Integers only,
 * 64-bit words as hex strings, unknown is null. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/names.h"
#include "emit/emit.h"
#include "ipc/proto.h"
#include "rules/rules.h"

json_t *p2s_emit_text_or_null(const char *text)
{
	/* What the system printed may be no UTF-8; JSON must be. */
	json_t *s = text[0] == '\0' ? NULL : json_string(text);
	char clean[512];
	size_t n = 0;

	if (s != NULL || text[0] == '\0')
		return s != NULL ? s : json_null();
	for (; n < sizeof clean - 1 && text[n] != '\0'; n++)
		clean[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
	clean[n] = '\0';
	return json_string(clean);
}

json_t *p2s_emit_text_json(const char *text)
{
	return text[0] != '\0' ? p2s_emit_text_or_null(text) : json_string("");
}

#define TEXT p2s_emit_text_or_null

static json_t *word(enum p2s_word_group group, int32_t value)
{
	const char *name = p2s_word_name(group, value);

	return value == 0 && group != P2S_GROUP_DAMAGE ? json_null() : json_string(name);
}

/* A state is a word even when it is not known. */
static json_t *state(enum p2s_word_group group, int32_t value)
{
	return json_string(p2s_word_name(group, value));
}

static json_t *number_or_null(uint64_t v)
{
	return v == 0 || v > INT64_MAX ? json_null() : json_integer((json_int_t)v);
}

static json_t *int_or_null(int32_t v)
{
	return v < 0 ? json_null() : json_integer(v);
}

static json_t *tristate(int32_t v)
{
	return v < 0 ? json_null() : json_boolean(v);
}

static json_t *hex(uint64_t v)
{
	char text[24];

	snprintf(text, sizeof text, "0x%016" PRIx64, v);
	return json_string(text);
}

static json_t *address(const struct p2s_model *m, int32_t i)
{
	return i < 0 || (size_t)i >= m->gpu_count ? json_null() : json_string(m->gpus[i].address);
}

void p2s_emit_failed_leg(const struct p2s_model *m, const struct p2s_failed_leg *f, char *out, size_t cap)
{
	snprintf(out, cap, "%s>%s %s %s", m->gpus[f->src].address, m->gpus[f->dst].address, p2s_word_name(P2S_GROUP_LEG, f->leg),
			 p2s_word_name(P2S_GROUP_MAPPING, f->mapping));
}

void p2s_emit_subject(const struct p2s_model *m, const struct p2s_finding *f, char *out, size_t cap)
{
	if (f->src < 0 || (size_t)f->src >= m->gpu_count)
		snprintf(out, cap, "host");
	else if (f->dst < 0 || (size_t)f->dst >= m->gpu_count)
		snprintf(out, cap, "%s", m->gpus[f->src].address);
	else
		snprintf(out, cap, "%s>%s", m->gpus[f->src].address, m->gpus[f->dst].address);
}

static json_t *evidence(const struct p2s_evidence *e, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		p2s_emit_append(list, json_pack("{s:o, s:o}", "source", TEXT(e[i].source), "text", TEXT(e[i].text)));
	return list;
}

/* "Name: value" lines as an object; numbers stay text, as the driver prints them. */
static json_t *driver_parameters(const char *lines)
{
	json_t *o = json_object();
	char name[64];

	while (*lines != '\0') {
		size_t n = strcspn(lines, "\n");
		const char *colon = memchr(lines, ':', n);

		if (colon != NULL && (size_t)(colon - lines) < sizeof name) {
			char value[512];
			const char *v = colon + 1;

			while (*v == ' ')
				v++;
			snprintf(name, sizeof name, "%.*s", (int)(colon - lines), lines);
			snprintf(value, sizeof value, "%.*s", (int)(lines + n - v > 511 ? 511 : lines + n - v), v);
			p2s_emit_set(o, name, p2s_emit_text_json(value));
		}
		lines += n + (lines[n] == '\n');
	}
	return o;
}

static json_t *host(const struct p2s_model *m)
{
	json_t *driver = json_pack("{s:o, s:o, s:o, s:o}", "version", TEXT(m->driver_version), "flavour", TEXT(m->driver_flavour),
							   "parameters", driver_parameters(m->driver_parameters), "cuda_version",
							   m->cuda_version > 0 ? json_integer(m->cuda_version) : json_null());

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kernel", TEXT(m->kernel), "driver", driver, "virtualization",
					 TEXT(m->virtualization), "container", TEXT(m->container), "snp_host", tristate(m->snp_host), "privileged",
					 json_boolean(m->privileged), "log_state", TEXT(m->log_state), "log_position",
					 number_or_null(m->facts.host.log_position));
}

static json_t *gpu(const struct p2s_gpu *g)
{
	json_t *cc = json_null();
	char text[24];
	json_t *o;

	if (g->cc_major > 0) {
		snprintf(text, sizeof text, "%d.%d", (int)g->cc_major, (int)g->cc_minor);
		cc = json_string(text);
	}
	o = json_pack("{s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "bdf", g->address, "uuid", TEXT(g->uuid),
				  "name", TEXT(g->name), "ordinal", int_or_null(g->ordinal), "ours", g->ours != 0, "state",
				  state(P2S_GROUP_GPU_STATE, g->state), "numa_node", int_or_null(g->numa_node), "domain_type",
				  TEXT(g->domain_type), "bar1_bytes", number_or_null(g->bar1_bytes), "memory_bytes",
				  number_or_null(g->memory_bytes), "compute_capability", cc, "driver", TEXT(g->driver));
	if (o == NULL)
		return NULL;
	snprintf(text, sizeof text, "%04x:%04x", g->vendor & 0xffff, g->device & 0xffff);
	p2s_emit_set(o, "id", json_string(text));
	p2s_emit_set(o, "minor", int_or_null(g->minor));
	p2s_emit_set(o, "free_bytes", number_or_null(g->free_bytes));
	p2s_emit_set(o, "error", TEXT(g->error));
	p2s_emit_set(o, "vbios", TEXT(g->vbios));
	p2s_emit_set(o, "mig", tristate(g->facts.mig));
	p2s_emit_set(o, "display_active", tristate(g->facts.display_active));
	p2s_emit_set(o, "nvlinks", json_pack("{s:o, s:o}", "active", int_or_null(g->facts.nvlinks_active), "total",
												int_or_null(g->facts.nvlinks_total)));
	p2s_emit_gpu_numbers(o, &g->facts);
	p2s_emit_set(o, "link", p2s_emit_link(&g->facts));
	p2s_emit_set(o, "path", p2s_emit_path(&g->facts));
	return o;
}

static json_t *leg(const struct p2s_model *m, const struct p2s_leg *l)
{
	json_t *coverage = json_pack("{s:o, s:o, s:o}", "bytes", number_or_null(l->coverage_bytes), "of_bytes",
								 number_or_null(l->coverage_of_bytes), "max_handle", number_or_null(l->max_handle_bytes));
	json_t *detail = l->has_detail ? json_pack("{s:I, s:o, s:o}", "offset", (json_int_t)l->offset, "expected", hex(l->expected),
											   "found", hex(l->found))
								   : json_null();

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "leg", word(P2S_GROUP_LEG, l->leg),
					 "mapping", word(P2S_GROUP_MAPPING, l->mapping), "initiator", address(m, l->initiator), "verdict",
					 word(P2S_GROUP_VERDICT, l->verdict), "damage", word(P2S_GROUP_DAMAGE, l->damage), "bytes",
					 (json_int_t)l->bytes, "rounds", (json_int_t)l->rounds, "error_bound", number_or_null(l->error_bound_ppb),
					 "coverage", coverage, "detail", detail, "cuda_error",
					 l->cuda_error != 0 ? json_integer(l->cuda_error) : json_null(), "note", TEXT(l->note),
					 "verified_bytes_per_s", number_or_null(l->verified_bytes_per_s));
}

static json_t *pair(const struct p2s_model *m, const struct p2s_pair *p)
{
	json_t *legs = json_array();
	json_t *o;

	for (size_t i = 0; i < p->leg_count; i++)
		p2s_emit_append(legs, leg(m, &p->legs[i]));
	o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "src", address(m, p->src), "dst",
				  address(m, p->dst), "path", state(P2S_GROUP_PATH, p->path), "nccl_path", state(P2S_GROUP_PATH, p->nccl_path),
				  "verdict", word(P2S_GROUP_VERDICT, p->verdict), "transport", word(P2S_GROUP_TRANSPORT, p->transport), "score",
				  int_or_null(p->score), "limit_bytes_per_s", number_or_null(p->limit_bytes_per_s), "bandwidth",
				  p2s_emit_bandwidth(&p->bandwidth), "latency", p2s_emit_latency(&p->latency), "sizes",
				  p2s_emit_sizes(p->sizes, p->size_count), "legs",
				  legs);
	if (o == NULL)
		return NULL;
	p2s_emit_pair_numbers(o, p);
	p2s_emit_set(o, "can_access", tristate(p->can_access));
	p2s_emit_set(o, "native_atomics", tristate(p->native_atomics));
	p2s_emit_set(o, "shared_bridge", tristate(p2s_facts_shared_bridge(&m->gpus[p->src].facts, &m->gpus[p->dst].facts)));
	return o;
}

static json_t *staged(const struct p2s_model *m, const struct p2s_staged *s)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "a", address(m, s->a), "b", address(m, s->b), "verdict",
					 word(P2S_GROUP_VERDICT, s->verdict), "bandwidth", p2s_emit_bandwidth(&s->bandwidth), "latency",
					 p2s_emit_latency(&s->latency), "sizes", p2s_emit_sizes(s->sizes, s->size_count));
}

static json_t *consumer(const struct p2s_model *m, const struct p2s_consumer *c)
{
	json_t *failed = json_array();
	json_t *enforced = json_array();

	for (size_t i = 0; i < c->failed_count; i++) {
		char text[96];

		p2s_emit_failed_leg(m, &c->failed[i], text, sizeof text);
		p2s_emit_append(failed, json_string(text));
	}
	for (size_t i = 0; i < sizeof c->enforced_by / sizeof c->enforced_by[0]; i++)
		if (c->enforced_by[i][0] != '\0')
			p2s_emit_append(enforced, json_string(c->enforced_by[i]));
	return json_pack("{s:o, s:o, s:o, s:o}", "allowed", tristate(c->allowed), "verdict", word(P2S_GROUP_VERDICT, c->verdict),
					 "failed_legs", failed, "enforced_by", enforced);
}

json_t *p2s_emit_settings_json(const struct p2s_model *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->setting_count; i++) {
		const struct p2s_setting *s = &m->settings[i];

		p2s_emit_append(list,
							  json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:b}", "consumer", word(P2S_GROUP_CONSUMER, s->consumer),
										"kind", word(P2S_GROUP_SETTING, s->kind), "name", TEXT(s->name), "value", p2s_emit_text_json(s->value),
										"applied", s->applied != 0, "why", TEXT(s->why), "scope",
		                                word(P2S_GROUP_SCOPE, s->scope), "gives_permission", s->gives != 0));
	}
	return list;
}

static json_t *decision(const struct p2s_model *m, int32_t pass_untested)
{
	json_t *o;
	json_t *gpus = json_array();
	json_t *consumers = json_object();
	json_t *vetoes = json_array();
	json_t *islands = json_array();

	for (size_t i = 0; i < m->gpu_count; i++)
		if (m->gpus[i].in_group)
			p2s_emit_append(gpus, json_string(m->gpus[i].address));
	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		const char *name = p2s_word_name(P2S_GROUP_CONSUMER, c);

		p2s_emit_set(consumers, name, consumer(m, &m->consumers[c]));
		if (p2s_rules_vetoed(m, c, pass_untested))
			p2s_emit_append(vetoes, json_string(name));
	}
	for (size_t i = 0; i < m->island_count; i++) {
		json_t *island = json_array();

		for (const int32_t *g = m->islands[i]; *g >= 0; g++)
			p2s_emit_append(island, address(m, *g));
		p2s_emit_append(islands, island);
	}
	o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:i}", "gpus", gpus, "transport", word(P2S_GROUP_TRANSPORT, m->transport),
	              "consumers", consumers, "vetoes", vetoes, "islands", islands, "settings", p2s_emit_settings_json(m), "exit_code",
	              (int)p2s_rules_exit_code(m));
	if (o != NULL && m->joined > 0)
		p2s_emit_set(o, "joined", json_integer(m->joined));
	if (o == NULL || p2s_emit_groups(o, m))
		return o;
	json_decref(o);
	return NULL;
}

static json_t *findings(const struct p2s_model *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->finding_count; i++) {
		const struct p2s_finding *f = &m->findings[i];
		char subject[64];

		p2s_emit_subject(m, f, subject, sizeof subject);
		p2s_emit_append(list, json_pack("{s:o, s:o, s:o, s:s, s:o}", "code", TEXT(f->code), "severity",
											  word(P2S_GROUP_SEVERITY, f->severity), "confidence",
											  word(P2S_GROUP_CONFIDENCE, f->confidence), "subject", subject, "evidence",
											  evidence(f->evidence, f->evidence_count)));
	}
	return list;
}

static json_t *remedies(const struct p2s_model *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->remedy_count; i++) {
		const struct p2s_remedy *r = &m->remedies[i];
		json_t *needs = json_array();

		for (const char *at = r->needs; *at != '\0';) {
			size_t n = strcspn(at, ",");

			if (n > 0)
				p2s_emit_append(needs, json_stringn(at, n));
			at += n + (at[n] == ',');
		}
		p2s_emit_append(list,
		                      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "code", TEXT(r->code), "effect", TEXT(r->effect), "needs",
		                                needs, "what", TEXT(r->what), "risk", TEXT(r->risk), "why", TEXT(r->why)));
	}
	return list;
}

/* Adds a list of parts; 0 when one could not be made. */
static int32_t add_list(json_t *top, const char *key, json_t *list)
{
	return list != NULL && json_object_set_new(top, key, list) == 0;
}

json_t *p2s_emit_report(const struct p2s_model *m, int32_t pass_untested)
{
	json_t *top =
		json_pack("{s:i, s:{s:s}, s:b, s:o, s:o, s:b, s:o}", "schema", 1, "tool", "version", P2S_VERSION_TEXT, "simulated",
				  m->simulated != 0, "created_unix", m->created_unix > 0 ? json_integer(m->created_unix) : json_null(), "level",
				  word(P2S_GROUP_LEVEL, m->level), "deadline_hit", m->deadline_hit != 0, "measured_unix",
				  m->measured_unix > 0 ? json_integer(m->measured_unix) : json_null());
	json_t *gpus = json_array();
	json_t *pairs = json_array();
	json_t *staged_list = json_array();
	json_t *timing = json_object();
	int32_t ok = top != NULL;

	for (size_t i = 0; i < m->gpu_count; i++)
		ok &= json_array_append_new(gpus, gpu(&m->gpus[i])) == 0;
	for (size_t i = 0; i < m->pair_count; i++)
		ok &= json_array_append_new(pairs, pair(m, &m->pairs[i])) == 0;
	for (size_t i = 0; i < m->staged_count; i++)
		ok &= json_array_append_new(staged_list, staged(m, &m->staged[i])) == 0;
	for (size_t i = 0; i < m->timing_count; i++)
		p2s_emit_set(timing, m->timings[i].name, json_integer((json_int_t)m->timings[i].ms));
	if (top == NULL) {
		json_decref(gpus);
		json_decref(pairs);
		json_decref(staged_list);
		json_decref(timing);
		return NULL;
	}
	ok &= add_list(top, "host", host(m));
	ok &= add_list(top, "iommu",
				   json_pack("{s:o, s:o, s:o}", "state", state(P2S_GROUP_IOMMU, m->iommu_state), "confidence",
							 word(P2S_GROUP_CONFIDENCE, m->iommu_confidence), "evidence",
							 evidence(m->iommu_evidence, m->iommu_evidence_count)));
	ok &= add_list(top, "gpus", gpus);
	ok &= add_list(top, "pairs", pairs);
	ok &= add_list(top, "staged", staged_list);
	ok &= add_list(top, "decision", decision(m, pass_untested));
	ok &= add_list(top, "findings", findings(m));
	ok &= add_list(top, "remedies", remedies(m));
	ok &= add_list(
		top, "kept",
		json_pack("{s:b, s:o, s:o}", "hit", m->kept_hit != 0, "path", TEXT(m->kept_path), "reason", TEXT(m->kept_reason)));
	ok &= add_list(top, "timing_ms", timing);
	if (ok)
		return top;
	json_decref(top);
	return NULL;
}
