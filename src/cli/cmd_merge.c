/* merge: the reports of a job's nodes become one set of settings, the same for every rank. It reads files and nothing of this
 * machine. What is damaged vetoes everything: a job script that evaluates the output is never left with less than it needs. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "show.h"

#define REPORT_MAX ((size_t)64 << 20)

/* The whole file, NULL when it cannot be had. */
static char *read_file(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t len = 0;
	size_t room = 0;
	if (f == NULL) {
		cli_say("merge: %s: %s", path, strerror(errno));
		return NULL;
	}
	for (;;) {
		if (len + 1 >= room) {
			char *more = room < REPORT_MAX ? realloc(text, room = room == 0 ? 65536 : 2 * room) : NULL;
			if (more == NULL)
				break;
			text = more;
		}
		size_t n = fread(text + len, 1, room - len - 1, f);
		len += n;
		if (n == 0 && !ferror(f)) {
			text[len] = '\0';
			fclose(f);
			return text;
		}
		if (n == 0)
			break;
	}
	cli_say("merge: %s: %s", path, ferror(f) ? strerror(errno) : "larger than a report can be");
	free(text);
	fclose(f);
	return NULL;
}

/* Tells which files speak of the same GPU. The worst of them counts, as of all. */
static void tell_twins(char *const *texts, char *const *names, int count)
{
	json_t *seen = json_object();
	for (int i = 0; i < count; i++) {
		json_t *report = texts[i] != NULL ? json_loads(texts[i], 0, NULL) : NULL;
		json_t *gpu;
		size_t k;
		json_array_foreach(json_object_get(report, "gpus"), k, gpu)
		{
			const char *uuid = json_string_value(json_object_get(gpu, "uuid"));
			const json_t *first = uuid != NULL ? json_object_get(seen, uuid) : NULL;
			const char *twin = first != NULL ? names[json_integer_value(first)] : names[i];
			if (strcmp(twin, names[i]) != 0) {
				cli_say("merge: %s and %s speak of the same machine (%s): the worse one counts", twin, names[i], uuid);
				break;
			}
			if (uuid != NULL)
				json_object_set_new(seen, uuid, json_integer(i)); /* a file's name may be no UTF-8 */
		}
		json_decref(report);
	}
	json_decref(seen);
}

static int print_settings(const p2psafe_report *report, const struct cli_args *args)
{
	struct p2psafe_error err = {.size = sizeof(err)};
	int32_t format = P2PSAFE_FORMAT_SHELL;
	char *text = NULL;
	if (cli_args_has(args, CLI_OPTION_FORMAT))
		format = p2psafe_format_from_name(args->value[CLI_OPTION_FORMAT]);
	int32_t status = p2psafe_report_env(report, format, &text, &err);
	if (status != P2PSAFE_OK)
		return cli_session_failed(&err, status);
	size_t len = strlen(text);
	fputs(text, stdout);
	if (len > 0 && text[len - 1] != '\n')
		putchar('\n');
	p2psafe_string_free(text);
	return 0;
}

int cli_cmd_merge(const struct cli_args *args)
{
	struct p2psafe_error err = {.size = sizeof(err)};
	p2psafe_report *report = NULL;
	int count = args->rest_count;
	int damaged = 0;
	if (count == 0) {
		cli_say("'p2psafe merge' needs the reports of the nodes: p2psafe merge FILE...");
		return CLI_EXIT_USAGE;
	}
	char **texts = calloc((size_t)count, sizeof(*texts));
	int32_t *codes = calloc((size_t)count, sizeof(*codes));
	int32_t status = P2PSAFE_E_NOMEM;
	if (texts != NULL && codes != NULL) {
		for (int i = 0; i < count; i++)
			texts[i] = read_file(args->rest[i]);
		tell_twins(texts, args->rest, count);
		status = p2psafe_merge((const char *const *)texts, count, codes, &report, &err);
	}
	for (int i = 0; i < count && status == P2PSAFE_OK; i++) {
		if (codes[i] != CLI_EXIT_NO_REPORT)
			continue;
		damaged++;
		if (texts[i] != NULL)
			cli_say("merge: %s: no whole report of a version that this program reads", args->rest[i]);
	}
	if (damaged > 0)
		cli_say("merge: %d of %d reports cannot be used: everything is vetoed", damaged, count);
	if (report != NULL && p2psafe_report_is_simulated(report))
		cli_say("SIMULATED: these settings are not about real machines");
	int rc = status == P2PSAFE_OK ? (int)p2psafe_report_exit_code(report) : cli_session_failed(&err, status);
	if (status != P2PSAFE_OK || damaged > 0)
		rc = CLI_EXIT_NO_REPORT;
	/* without a report the full veto */
	int failed = report != NULL && cli_args_has(args, CLI_OPTION_JSON) ? cli_show_print_json(report) : print_settings(report, args);
	for (int i = 0; texts != NULL && i < count; i++)
		free(texts[i]);
	free(texts);
	free(codes);
	p2psafe_report_free(report);
	return cli_finish(failed != 0 ? failed : rc);
}
