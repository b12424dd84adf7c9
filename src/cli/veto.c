/* The settings as `run` applies them. */
#include "veto.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int add(struct cli_veto *v, const struct p2psafe_setting *from, int veto)
{
	struct cli_setting *grown = realloc(v->settings, (v->count + 1) * sizeof(*grown));
	if (grown == NULL)
		return 0;
	v->settings = grown;
	struct cli_setting *s = &grown[v->count++];
	s->consumer = from->consumer;
	s->kind = from->kind;
	s->applied = from->applied;
	s->veto = veto;
	s->name = strdup(from->name);
	s->value = strdup(from->value);
	s->why = strdup(from->why);
	return s->name != NULL && s->value != NULL && s->why != NULL;
}

/* Which consumers are vetoed, and which of these a setting alone makes obey, stands in the report's JSON form. What cannot be
 * read is vetoed and enforced by nothing. */
static void load_vetoes(struct cli_veto *v, const p2psafe_report *report)
{
	char *text = NULL;
	json_t *json = p2psafe_report_json(report, &text, NULL) == P2PSAFE_OK ? json_loads(text, 0, NULL) : NULL;
	const json_t *decision = json_object_get(json, "decision");
	const json_t *vetoes = json_object_get(decision, "vetoes");
	for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c <= P2PSAFE_CONSUMER_MULTICAST; c++) {
		const json_t *consumer = json_object_get(json_object_get(decision, "consumers"), p2psafe_consumer_name(c));
		size_t i;
		json_t *name;
		v->denied[c] = !json_is_array(vetoes);
		json_array_foreach(vetoes, i, name)
		{
			if (p2psafe_consumer_from_name(json_string_value(name)) == c)
				v->denied[c] = 1;
		}
		v->enforced[c] = json_array_size(json_object_get(consumer, "enforced_by")) > 0;
	}
	json_decref(json);
	p2psafe_string_free(text);
}

static int load_report(struct cli_veto *v, const p2psafe_report *report)
{
	load_vetoes(v, report);
	int32_t count = p2psafe_report_setting_count(report);
	for (int32_t i = 0; i < count; i++) {
		struct p2psafe_setting s = {.size = sizeof(s)};
		if (p2psafe_report_setting(report, i, &s) != P2PSAFE_OK)
			return 0;
		if (!add(v, &s, !s.gives_permission))
			return 0;
	}
	return 1;
}

static int32_t kind_of(const char *name)
{
	for (int32_t kind = P2PSAFE_SETTING_ENV; kind <= P2PSAFE_SETTING_ADVICE; kind++) {
		if (name != NULL && strcmp(name, p2psafe_setting_kind_name(kind)) == 0)
			return kind;
	}
	return P2PSAFE_SETTING_UNKNOWN;
}

/* The full veto has no report to ask, only its text form. */
static int load_json(struct cli_veto *v, const json_t *list)
{
	size_t i;
	json_t *entry;
	int enforcing = 0;
	json_array_foreach(list, i, entry)
	{
		const char *name = json_string_value(json_object_get(entry, "name"));
		const char *value = json_string_value(json_object_get(entry, "value"));
		const char *why = json_string_value(json_object_get(entry, "why"));
		struct p2psafe_setting s = {.size = sizeof(s)};
		s.consumer = p2psafe_consumer_from_name(json_string_value(json_object_get(entry, "consumer")));
		s.kind = kind_of(json_string_value(json_object_get(entry, "kind")));
		s.applied = json_is_true(json_object_get(entry, "applied"));
		s.name = name;
		s.value = value != NULL ? value : "";
		s.why = why != NULL ? why : "";
		if (name == NULL || !add(v, &s, 1))
			return 0;
		enforcing += s.applied && s.kind == P2PSAFE_SETTING_ENV;
	}
	return enforcing > 0;
}

int cli_veto_load(struct cli_veto *v, const p2psafe_report *report)
{
	char *text = NULL;
	memset(v, 0, sizeof(*v));
	if (report != NULL)
		return load_report(v, report);
	for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c <= P2PSAFE_CONSUMER_MULTICAST; c++)
		v->denied[c] = 1;
	if (p2psafe_report_env(NULL, P2PSAFE_FORMAT_JSON, &text, NULL) != P2PSAFE_OK)
		return 0;
	json_t *json = json_loads(text, 0, NULL);
	int rc = load_json(v, json_is_array(json) ? json : json_object_get(json, "settings"));
	json_decref(json);
	p2psafe_string_free(text);
	return rc;
}

void cli_veto_free(struct cli_veto *v)
{
	for (size_t i = 0; i < v->count; i++) {
		free(v->settings[i].name);
		free(v->settings[i].value);
		free(v->settings[i].why);
	}
	free(v->settings);
	memset(v, 0, sizeof(*v));
}

int cli_veto_apply(const struct cli_veto *v)
{
	for (size_t i = 0; i < v->count; i++) {
		const struct cli_setting *s = &v->settings[i];
		if (!s->applied)
			continue;
		if (s->kind == P2PSAFE_SETTING_ENV && !cli_veto_is_stricter(s->name, getenv(s->name), s->value) &&
		    setenv(s->name, s->value, s->veto) != 0)
			return 0;
		if (s->kind == P2PSAFE_SETTING_UNSET && s->veto && unsetenv(s->name) != 0)
			return 0;
	}
	return 1;
}

/* 1 if CMD has the argument: NAME alone, and with a value NAME=VALUE or NAME VALUE. */
static int has_argument(char *const *command, const char *name, const char *value)
{
	size_t len = strlen(name);
	for (size_t i = 1; command[0] != NULL && command[i] != NULL; i++) {
		const char *given = NULL;
		if (strncmp(command[i], name, len) != 0)
			continue;
		if (command[i][len] == '=')
			given = command[i] + len + 1;
		else if (command[i][len] == '\0')
			given = value[0] != '\0' ? command[i + 1] : "";
		if (given != NULL && (value[0] == '\0' || strcasecmp(given, value) == 0))
			return 1;
	}
	return 0;
}

/* The arguments with which a program obeys; those that are no setting here are not needed. A program refuses what it does not
 * know, so one row that is there in whole says which program it is, too. */
static const struct {
	int32_t consumer;
	const char *arguments[2];
} obeying[] = {
	/* vLLM */
	{P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE, {"--disable-custom-all-reduce", "--compilation-config.pass_config.fuse_allreduce_rms"}},
	/* SGLang */
	{P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE, {"--disable-custom-all-reduce", "--enforce-disable-flashinfer-allreduce-fusion"}},
};

static const struct cli_setting *argument_of(const struct cli_veto *v, int32_t consumer, const char *name)
{
	for (size_t i = 0; i < v->count; i++) {
		const struct cli_setting *s = &v->settings[i];
		if (s->consumer == consumer && s->kind == P2PSAFE_SETTING_ARGUMENT && strcmp(s->name, name) == 0)
			return s;
	}
	return NULL;
}

static int obeys(const struct cli_veto *v, int32_t consumer, char *const *command)
{
	for (size_t row = 0; row < sizeof(obeying) / sizeof(obeying[0]); row++) {
		int needed = 0;
		int given = 0;
		for (size_t k = 0; k < 2 && obeying[row].consumer == consumer; k++) {
			const struct cli_setting *s = argument_of(v, consumer, obeying[row].arguments[k]);
			needed += s != NULL;
			given += s != NULL && has_argument(command, s->name, s->value);
		}
		if (needed > 0 && given == needed)
			return 1;
	}
	return 0;
}

int cli_veto_unenforced(const struct cli_veto *v, char *const *command)
{
	int unenforced = 0;
	for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c <= P2PSAFE_CONSUMER_MULTICAST; c++) {
		int by_arguments = obeys(v, c, command);
		int enforced = v->enforced[c] || by_arguments;
		for (size_t i = 0; v->denied[c] && i < v->count; i++) {
			const struct cli_setting *s = &v->settings[i];
			if (s->consumer != c || s->applied)
				continue;
			if (s->kind == P2PSAFE_SETTING_ARGUMENT && (by_arguments || has_argument(command, s->name, s->value)))
				continue;
			if (s->kind == P2PSAFE_SETTING_ADVICE)
				cli_say("veto of %s: to be done by you: %s", p2psafe_consumer_name(c), s->why);
			else
				cli_say("veto of %s: to be done by you: %s %s%s%s%s%s", p2psafe_consumer_name(c),
				        p2psafe_setting_kind_name(s->kind), s->name, s->value[0] != '\0' ? " " : "", s->value,
				        s->why[0] != '\0' ? ": " : "", s->why);
		}
		if (v->denied[c] && !enforced) {
			cli_say("veto of %s: nothing in this environment enforces it for every program", p2psafe_consumer_name(c));
			unenforced++;
		}
	}
	return unenforced;
}
