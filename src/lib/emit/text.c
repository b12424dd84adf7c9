#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/names.h"
#include "emit/emit.h"

/* Every value of settings.def is plain, but a kept record is a file: quote as if anything could be in it. */
static void shell_quoted(struct p2s_buf *b, const char *text)
{
	p2s_buf_str(b, "'");
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '\'')
			p2s_buf_str(b, "'\\''");
		else
			p2s_buf_add(b, p, 1);
	}
	p2s_buf_str(b, "'");
}

/* Inside double quotes, as systemd and YAML read them; systemd also expands "%". */
static void double_quoted(struct p2s_buf *b, const char *text, int percent)
{
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '"' || *p == '\\')
			p2s_buf_str(b, "\\");
		if (*p == '%' && percent)
			p2s_buf_str(b, "%");
		p2s_buf_add(b, p, 1);
	}
}

/* What a format cannot express becomes a comment: it must not be lost. */
static void comment(struct p2s_buf *b, const struct p2s_setting *s)
{
	switch (s->kind) {
	case P2PSAFE_SETTING_UNSET:
		p2s_buf_printf(b, "# remove %s from the environment: %s\n", s->name, s->why);
		break;
	case P2PSAFE_SETTING_ARGUMENT:
		p2s_buf_printf(b, "# argument: %s%s%s (%s)\n", s->name, s->value[0] != '\0' ? " " : "", s->value, s->why);
		break;
	case P2PSAFE_SETTING_YAML:
		p2s_buf_printf(b, "# yaml: %s: %s (%s)\n", s->name, s->value, s->why);
		break;
	case P2PSAFE_SETTING_FILE:
		p2s_buf_printf(b, "# file: %s (%s)\n", s->name, s->why);
		break;
	case P2PSAFE_SETTING_ADVICE:
		p2s_buf_printf(b, "# %s\n", s->why);
		break;
	default:
		p2s_buf_printf(b, "# %s=%s (%s)\n", s->name, s->value, s->why);
		break;
	}
}

static void shell(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (s->kind == P2PSAFE_SETTING_ENV) {
		p2s_buf_printf(b, "export %s=", s->name);
		shell_quoted(b, s->value);
		p2s_buf_str(b, "\n");
	} else if (s->kind == P2PSAFE_SETTING_UNSET) {
		p2s_buf_printf(b, "unset %s\n", s->name);
	} else {
		comment(b, s);
	}
}

/* For docker run --env-file. */
static void docker(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (s->kind == P2PSAFE_SETTING_ENV)
		p2s_buf_printf(b, "%s=%s\n", s->name, s->value);
	else
		comment(b, s);
}

static void systemd(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (s->kind == P2PSAFE_SETTING_ENV) {
		p2s_buf_printf(b, "Environment=\"%s=", s->name);
		double_quoted(b, s->value, 1);
		p2s_buf_str(b, "\"\n");
	} else if (s->kind == P2PSAFE_SETTING_UNSET) {
		p2s_buf_printf(b, "UnsetEnvironment=%s\n", s->name);
	} else {
		comment(b, s);
	}
}

static void kubernetes(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (s->kind == P2PSAFE_SETTING_ENV) {
		p2s_buf_printf(b, "- name: %s\n  value: \"", s->name);
		double_quoted(b, s->value, 0);
		p2s_buf_str(b, "\"\n");
	} else {
		comment(b, s);
	}
}

/* nccl.conf never overrides the environment; only NCCL reads it. */
static void nccl_conf(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (s->kind == P2PSAFE_SETTING_ENV && strncmp(s->name, "NCCL_", 5) == 0)
		p2s_buf_printf(b, "%s=%s\n", s->name, s->value);
}

char *p2s_emit_text(const struct p2s_model *m, int32_t format)
{
	struct p2s_buf b = {0};

	if (format == P2PSAFE_FORMAT_JSON) {
		json_t *list = p2s_emit_settings_json(m);
		char *text = p2s_emit_dump(list, JSON_INDENT(2));

		json_decref(list);
		return text;
	}
	if (format <= P2PSAFE_FORMAT_UNKNOWN || format > P2PSAFE_FORMAT_JSON)
		return NULL;
	if (format == P2PSAFE_FORMAT_SYSTEMD)
		p2s_buf_str(&b, "[Service]\n");
	if (format == P2PSAFE_FORMAT_KUBERNETES && m->setting_count == 0)
		p2s_buf_str(&b, "[]\n");
	for (size_t i = 0; i < m->setting_count; i++) {
		switch (format) {
		case P2PSAFE_FORMAT_SHELL:
			shell(&b, &m->settings[i]);
			break;
		case P2PSAFE_FORMAT_DOCKER:
			docker(&b, &m->settings[i]);
			break;
		case P2PSAFE_FORMAT_SYSTEMD:
			systemd(&b, &m->settings[i]);
			break;
		case P2PSAFE_FORMAT_KUBERNETES:
			kubernetes(&b, &m->settings[i]);
			break;
		default:
			nccl_conf(&b, &m->settings[i]);
			break;
		}
	}
	return p2s_buf_take(&b);
}
