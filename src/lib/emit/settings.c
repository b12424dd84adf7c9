#include <stdio.h>
#include <string.h>

#include "emit/emit.h"
#include "rules/rules.h"

enum when { ALWAYS, FABRIC, LINES };

struct row {
	int32_t consumer;
	int32_t kind;
	enum when when;
	int32_t enforces;
	const char *name;
	const char *value;
	const char *why;
};

static const struct row table[] = {
#define P2S_EMIT(consumer, kind, when, enforces, name, value, why)                                                      \
	{P2PSAFE_CONSUMER_##consumer, P2PSAFE_SETTING_##kind, when, enforces, name, value, why},
#include "emit/settings.def"
#undef P2S_EMIT
};

static int32_t is_fabric(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->finding_count; i++)
		if (strncmp(m->findings[i].code, "NVLINK_FABRIC", 13) == 0)
			return 1;
	return 0;
}

/* A pair whose lines of 128 bytes come in pieces. */
static int32_t tears_lines(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->finding_count; i++)
		if (strcmp(m->findings[i].code, "TEARING_128") == 0)
			return 1;
	return 0;
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

	if (r->when == FABRIC && !is_fabric(m))
		return 1;
	if (r->enforces)
		note_enforced(&m->consumers[r->consumer], r->name);
	/* One setting may serve several consumers; it is listed once, for the first. */
	if (has(m, r->name))
		return 1;
	return p2s_model_add_setting(m, r->consumer, r->kind, applied, r->name, r->value, r->why);
}

int32_t p2s_emit_settings(struct p2s_model *m, int32_t pass_untested)
{
	int32_t ok = 1;

	m->setting_count = 0;
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		memset(m->consumers[c].enforced_by, 0, sizeof m->consumers[c].enforced_by);
	for (size_t i = 0; i < sizeof table / sizeof table[0] && ok; i++) {
		int32_t vetoed = p2s_rules_vetoed(m, table[i].consumer, pass_untested);

		/* LINES: takes one protocol away from whoever is allowed; who is vetoed needs no more. */
		if (table[i].when == LINES ? !vetoed && tears_lines(m) : vetoed)
			ok = emit(m, &table[i]);
	}
	return ok;
}

int32_t p2s_emit_full_veto(struct p2s_model *m)
{
	m->nothing_tested = 1;
	return p2s_emit_settings(m, 0);
}
