/* The settings as text for other programs. Each form quotes by the rules of who reads it; what a form cannot say becomes a comment
 * that says so, and what could break out of it is not written at all: a value may come from a path that a person chose. */
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/names.h"
#include "emit/emit.h"

static int32_t is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/* A name that a shell, an environment block and a YAML reader all take for one. */
static int32_t is_variable(const char *name)
{
	if ((name[0] < 'A' || name[0] > 'Z') && (name[0] < 'a' || name[0] > 'z') && name[0] != '_')
		return 0;
	for (; *name != '\0'; name++)
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", *name) == NULL)
			return 0;
	return 1;
}

static int32_t has_control(const char *text)
{
	for (; *text != '\0'; text++)
		if (is_control(*text))
			return 1;
	return 0;
}

/* Nothing of a comment may become a line of its own. */
static void one_line(struct p2s_buf *b, const char *text)
{
	for (; *text != '\0'; text++)
		p2s_buf_add(b, is_control(*text) ? "?" : text, 1);
}

static void comment(struct p2s_buf *b, const char *head, const struct p2s_setting *s, const char *between)
{
	p2s_buf_str(b, "# ");
	p2s_buf_str(b, head);
	one_line(b, s->name);
	if (s->value[0] != '\0') {
		p2s_buf_str(b, between);
		one_line(b, s->value);
	}
	p2s_buf_str(b, ": ");
	one_line(b, s->why);
	p2s_buf_str(b, "\n");
}

/* What a form cannot express must not be lost. */
static void cannot(struct p2s_buf *b, const struct p2s_setting *s)
{
	switch (s->kind) {
	case P2PSAFE_SETTING_UNSET:
		comment(b, "this form removes no variable, make sure that it is not set: ", s, "=");
		break;
	case P2PSAFE_SETTING_ARGUMENT:
		comment(b, "argument: ", s, " ");
		break;
	case P2PSAFE_SETTING_YAML:
		comment(b, "yaml: ", s, ": ");
		break;
	case P2PSAFE_SETTING_FILE:
		comment(b, "file: ", s, " ");
		break;
	case P2PSAFE_SETTING_ADVICE:
		p2s_buf_str(b, "# ");
		one_line(b, s->why);
		p2s_buf_str(b, "\n");
		break;
	default:
		comment(b, "this form has no place for: ", s, "=");
		break;
	}
}

/* Inside '...' a shell changes nothing. */
static void shell(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (s->kind == P2PSAFE_SETTING_UNSET && is_variable(s->name)) {
		p2s_buf_printf(b, "unset %s\n", s->name);
		return;
	}
	if (s->kind != P2PSAFE_SETTING_ENV || !is_variable(s->name)) {
		cannot(b, s);
		return;
	}
	p2s_buf_printf(b, "export %s='", s->name);
	for (const char *p = s->value; *p != '\0'; p++) {
		if (*p == '\'')
			p2s_buf_str(b, "'\\''");
		else
			p2s_buf_add(b, p, 1);
	}
	p2s_buf_str(b, "'\n");
}

/* docker run --env-file, and nccl.conf: the line as it is, nothing quotes and nothing can end it. */
static void plain_line(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (s->kind == P2PSAFE_SETTING_ENV && is_variable(s->name) && !has_control(s->value))
		p2s_buf_printf(b, "%s=%s\n", s->name, s->value);
	else
		cannot(b, s);
}

/* Only NCCL reads nccl.conf, and the environment wins over it. */
static void nccl_conf(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (strncmp(s->name, "NCCL_", 5) == 0)
		plain_line(b, s);
}

/* EnvironmentFile= of systemd: inside "..." a backslash protects these four, and % means nothing. */
static void systemd(struct p2s_buf *b, const struct p2s_setting *s)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+./:,^=@";
	const char *end = s->value + strspn(s->value, plain);

	if (s->kind != P2PSAFE_SETTING_ENV || !is_variable(s->name) || has_control(s->value)) {
		cannot(b, s);
		return;
	}
	if (*end == '\0') {
		p2s_buf_printf(b, "%s=%s\n", s->name, s->value);
		return;
	}
	p2s_buf_printf(b, "%s=\"", s->name);
	for (const char *p = s->value; *p != '\0'; p++) {
		if (strchr("\"\\`$", *p) != NULL)
			p2s_buf_str(b, "\\");
		p2s_buf_add(b, p, 1);
	}
	p2s_buf_str(b, "\"\n");
}

/* Lines of a [Service] section: specifiers (%) are expanded, and C escapes are read inside "...". */
static void systemd_unit(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (s->kind == P2PSAFE_SETTING_UNSET && is_variable(s->name)) {
		p2s_buf_printf(b, "UnsetEnvironment=%s\n", s->name);
		return;
	}
	if (s->kind != P2PSAFE_SETTING_ENV || !is_variable(s->name) || has_control(s->value)) {
		cannot(b, s);
		return;
	}
	p2s_buf_printf(b, "Environment=\"%s=", s->name);
	for (const char *p = s->value; *p != '\0'; p++) {
		if (*p == '"' || *p == '\\')
			p2s_buf_str(b, "\\");
		if (*p == '%')
			p2s_buf_str(b, "%");
		p2s_buf_add(b, p, 1);
	}
	p2s_buf_str(b, "\"\n");
}

/* An item of a container's env list. YAML's "..." takes C escapes; $(NAME) is expanded by Kubernetes, $$ is one dollar. */
static void kubernetes(struct p2s_buf *b, const struct p2s_setting *s)
{
	if (s->kind != P2PSAFE_SETTING_ENV || !is_variable(s->name)) {
		cannot(b, s);
		return;
	}
	p2s_buf_printf(b, "- name: %s\n  value: \"", s->name);
	for (const char *p = s->value; *p != '\0'; p++) {
		if (*p == '"' || *p == '\\')
			p2s_buf_str(b, "\\");
		if (is_control(*p))
			p2s_buf_printf(b, "\\x%02x", (unsigned)(unsigned char)*p);
		else
			p2s_buf_add(b, p, 1);
		if (*p == '$')
			p2s_buf_str(b, "$");
	}
	p2s_buf_str(b, "\"\n");
}

struct form {
	void (*setting)(struct p2s_buf *b, const struct p2s_setting *s);
	const char *head;
	const char *nothing; /* what stands for no settings at all */
	int32_t elsewhere;   /* read in another environment than ours */
};

static const struct form forms[] = {
	[P2PSAFE_FORMAT_SHELL] = {shell, "", "", 0},
	[P2PSAFE_FORMAT_DOCKER] = {plain_line, "", "", 1},
	[P2PSAFE_FORMAT_SYSTEMD] = {systemd, "", "", 1},
	[P2PSAFE_FORMAT_KUBERNETES] = {kubernetes, "", "[]\n", 1},
	[P2PSAFE_FORMAT_NCCL_CONF] = {nccl_conf, "", "", 1},
	[P2PSAFE_FORMAT_SYSTEMD_UNIT] = {systemd_unit, "[Service]\n", "", 1},
};

/* A level counts on NCCL's own view of the paths. Whether somebody hands it another topology is known here, not where this text
 * will be read: there NCCL is told to use no peer at all. */
static void write_setting(struct p2s_buf *b, const struct form *form, const struct p2s_setting *s)
{
	struct p2s_setting off = *s;

	if (form->elsewhere && !s->gives && strcmp(s->name, "NCCL_P2P_LEVEL") == 0) {
		memcpy(off.name, "NCCL_P2P_DISABLE", sizeof "NCCL_P2P_DISABLE");
		memcpy(off.value, "1", sizeof "1");
	}
	form->setting(b, &off);
}

char *p2s_emit_text(const struct p2s_model *m, int32_t format)
{
	struct p2s_buf b = {0};
	const struct form *form;

	if (format == P2PSAFE_FORMAT_JSON) {
		json_t *list = p2s_emit_settings_json(m);
		char *text = p2s_emit_dump(list, JSON_INDENT(2));

		json_decref(list);
		return text;
	}
	if (format <= P2PSAFE_FORMAT_UNKNOWN || format >= (int32_t)(sizeof forms / sizeof forms[0]))
		return NULL;
	form = &forms[format];
	p2s_buf_str(&b, form->head);
	if (m->setting_count == 0)
		p2s_buf_str(&b, form->nothing);
	for (size_t i = 0; i < m->setting_count; i++)
		write_setting(&b, form, &m->settings[i]);
	return p2s_buf_take(&b);
}
