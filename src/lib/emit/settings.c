#include <stdio.h>
#include <string.h>

#include "choose/choose.h"
#include "core/names.h"
#include "emit/emit.h"
#include "rules/rules.h"

enum when { ALWAYS, OFF, NEAR, FABRIC, LINES, FUSED, PROMOTED, FAR };

struct row {
	int32_t consumer;
	int32_t kind;
	enum when when;
	int32_t enforces;
	int32_t scope;
	const char *name;
	const char *value;
	const char *why;
};

static const struct row table[] = {
#define P2S_EMIT(consumer, kind, when, enforces, scope, name, value, why)                                                      \
	{P2PSAFE_CONSUMER_##consumer, P2PSAFE_SETTING_##kind, when, enforces, P2PSAFE_SCOPE_##scope, name, value, why},
#include "emit/settings.def"
#undef P2S_EMIT
};

static int32_t found(const struct p2s_model *m, const char *prefix)
{
	for (size_t i = 0; i < m->finding_count; i++)
		if (strncmp(m->findings[i].code, prefix, strlen(prefix)) == 0)
			return 1;
	return 0;
}

/* NVML's state of the fabric is 0 only where there is none; not read, there may be one. */
static int32_t may_be_fabric(const struct p2s_model *m)
{
	size_t group = 0;

	for (size_t i = 0; i < m->gpu_count; i++) {
		if (!m->gpus[i].in_group)
			continue;
		group++;
		if (m->gpus[i].facts.fabric_state != 0)
			return 1;
	}
	return group == 0;
}

void p2s_emit_note(struct p2s_model *m)
{
	if (!m->kept_hit) /* a record says what was found then */
		m->fabric |= may_be_fabric(m);
	m->torn_lines |= found(m, "TEARING_128");
}

/* The level may be used: it is known, and NCCL will see the paths that it was made for. */
static int32_t near_only(const struct p2s_model *m)
{
	return m->nccl_level != P2PSAFE_PATH_UNKNOWN && m->own_topology;
}

/* What is not known may be as far as can be. */
static int32_t farthest(const struct p2s_model *m)
{
	int32_t far = P2PSAFE_PATH_UNKNOWN;

	for (size_t i = 0; i < m->pair_count; i++) {
		int32_t path = m->pairs[i].nccl_path == P2PSAFE_PATH_UNKNOWN ? P2PSAFE_PATH_SYS : m->pairs[i].nccl_path;

		far = path > far ? path : far;
	}
	return far;
}

/* vLLM and SGLang fuse all-reduces by themselves on sm_90 and sm_100 only. Unknown may be one of these. */
static int32_t fuses(const struct p2s_model *m)
{
	size_t group = 0;

	for (size_t i = 0; i < m->gpu_count; i++) {
		int32_t cc = m->gpus[i].cc_major;

		if (!m->gpus[i].in_group)
			continue;
		group++;
		if (cc == 9 || cc == 10 || cc <= 0)
			return 1;
	}
	return group == 0;
}

static int32_t applies(const struct p2s_model *m, const struct row *r, int32_t vetoed)
{
	switch (r->when) {
	case ALWAYS:
		return vetoed;
	case OFF:
		return vetoed && !near_only(m);
	case NEAR:
		return vetoed && near_only(m);
	case FABRIC:
		return vetoed && m->fabric;
	case FUSED:
		return vetoed && fuses(m);
	case LINES: /* takes one protocol away from whoever is allowed; who is vetoed needs no more */
		return m->torn_lines && (!vetoed || near_only(m));
	case PROMOTED:
		return m->promote && m->consumers[r->consumer].allowed == 1 && p2s_choose_all_faster(m);
	case FAR: /* nearer than this NCCL goes by itself */
		return m->promote && m->consumers[r->consumer].allowed == 1 && p2s_choose_all_faster(m) && farthest(m) > P2PSAFE_PATH_PXB;
	}
	return 0;
}

/* NCCL's name of the level: as far as near_only() may go, or as far as the farthest pair of a proven group. */
static const char *level_name(const struct p2s_model *m, enum when when)
{
	return p2s_word_name(P2S_GROUP_PATH, when == NEAR ? m->nccl_level : farthest(m));
}

static int32_t has(const struct p2s_model *m, const char *name)
{
	for (size_t i = 0; i < m->setting_count; i++)
		if (strcmp(m->settings[i].name, name) == 0)
			return 1;
	return 0;
}

static void note_enforced(struct p2s_consumer *c, const char *name)
{
	for (size_t i = 0; i < sizeof c->enforced_by / sizeof c->enforced_by[0]; i++) {
		if (c->enforced_by[i][0] != '\0')
			continue;
		snprintf(c->enforced_by[i], sizeof c->enforced_by[i], "%s", name);
		return;
	}
}

static int32_t emit(struct p2s_model *m, const struct row *r)
{
	int32_t applied = r->kind == P2PSAFE_SETTING_ENV || r->kind == P2PSAFE_SETTING_UNSET;

	if (r->enforces)
		note_enforced(&m->consumers[r->consumer], r->name);
	/* One setting may serve several consumers; it is listed once, for the first. */
	if (has(m, r->name))
		return 1;
	if (!p2s_model_add_setting(m, r->consumer, r->kind, applied, r->name,
	                           r->value[0] == '@' ? level_name(m, r->when) : r->value, r->why))
		return 0;
	m->settings[m->setting_count - 1].scope = r->scope;
	m->settings[m->setting_count - 1].gives = r->when == PROMOTED || r->when == FAR;
	return 1;
}

int32_t p2s_emit_settings(struct p2s_model *m, int32_t pass_untested)
{
	int32_t ok = 1;

	p2s_emit_note(m);
	m->setting_count = 0;
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		memset(m->consumers[c].enforced_by, 0, sizeof m->consumers[c].enforced_by);
	for (size_t i = 0; i < sizeof table / sizeof table[0] && ok; i++) {
		int32_t vetoed = p2s_rules_vetoed(m, table[i].consumer, pass_untested);

		if (applies(m, &table[i], vetoed))
			ok = emit(m, &table[i]);
	}
	return ok;
}

int32_t p2s_emit_full_veto(struct p2s_model *m)
{
	m->nothing_tested = 1;
	return p2s_emit_settings(m, 0);
}
