/* The kept report without what names a machine's parts or a person's files. What the program reports is for those who run the
 * machine; what is gathered is handed on. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/log.h"
#include "gather.h"

/* Words that a person chose are quoted from these two. */
static const char *const quoted[] = {"/proc/cmdline", "/proc/driver/nvidia/params"};

static char *redacted(const char *text)
{
	size_t cap = 2 * strlen(text) + 16; /* an empty "pid=" gets longer */
	char *out = malloc(cap);
	if (out != NULL)
		p2s_log_redact(text, out, cap);
	return out;
}

/* 1 for a file's name, and for a UUID; also for the beginning of one, since a quoted text may be cut anywhere. */
static int names_something(const char *text)
{
	char *clean = redacted(text);
	int same = clean != NULL && strcmp(clean, text) == 0;
	size_t digits = 0;
	free(clean);
	if (!same || strchr(text, '/') != NULL)
		return 1;
	for (const char *p = text; *p != '\0'; p++) {
		if (strncmp(p, "GPU-", 4) == 0 && isxdigit((unsigned char)p[4]))
			return 1;
		digits = isxdigit((unsigned char)*p) ? digits + 1 : 0;
		if (digits >= 8 && p[1] == '-')
			return 1;
	}
	return 0;
}

static void clean_parameters(json_t *parameters)
{
	const char *name;
	void *next;
	json_t *value;
	json_object_foreach_safe(parameters, next, name, value)
	{
		if (json_is_string(value) && names_something(json_string_value(value)))
			json_string_set(value, "*");
	}
}

/* A piece of evidence: {source, text}. */
static void clean_quote(json_t *evidence)
{
	const char *source = json_string_value(json_object_get(evidence, "source"));
	json_t *text = json_object_get(evidence, "text");
	for (size_t i = 0; source != NULL && json_is_string(text) && i < sizeof(quoted) / sizeof(quoted[0]); i++) {
		if (strcmp(source, quoted[i]) == 0 && names_something(json_string_value(text)))
			json_string_set(text, "left out: it names a file or a part");
	}
}

/* Every text, at any depth. A report is a few levels deep. */
static void clean_all(json_t *value)
{
	const char *name;
	json_t *inner;
	size_t i;
	if (json_is_object(value)) {
		clean_quote(value);
		json_object_foreach(value, name, inner) clean_all(inner);
	} else if (json_is_array(value)) {
		json_array_foreach(value, i, inner) clean_all(inner);
	} else if (json_is_string(value)) {
		char *clean = redacted(json_string_value(value));
		json_string_set(value, clean != NULL ? clean : "*");
		free(clean);
	}
}

void gather_clean_report(json_t *report)
{
	size_t i;
	json_t *gpu;
	json_array_foreach(json_object_get(report, "gpus"), i, gpu) json_object_set_new(gpu, "uuid", json_null());
	json_object_del(report, "kept"); /* where it is kept may name a user */
	clean_parameters(json_object_get(json_object_get(json_object_get(report, "host"), "driver"), "parameters"));
	clean_all(report);
}
