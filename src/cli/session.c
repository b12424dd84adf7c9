/* Opens the context, fills the options, prints the log. */
#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const log_words[] = {"none", "error", "warning", "info", "debug"};

static void wipe_progress(struct cli_session *s)
{
	if (s->progress_shown) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
		s->progress_shown = 0;
	}
}

static void print_log(void *user, int32_t level, const char *line)
{
	struct cli_session *s = user;
	if (level == P2PSAFE_LOG_PROGRESS) {
		if (!s->progress_terminal)
			return;
		fprintf(stderr, "\r\033[K%s", line);
		fflush(stderr);
		s->progress_shown = 1;
		return;
	}
	if (level < P2PSAFE_LOG_ERROR || level > s->log_level)
		return;
	wipe_progress(s);
	fprintf(stderr, "p2psafe: %s: %s\n", log_words[level], line);
}

/* The level that P2PSAFE_LOG names. An unknown word is told and changes nothing. */
static int log_level(void)
{
	const char *word = getenv("P2PSAFE_LOG");
	if (word == NULL || word[0] == '\0')
		return P2PSAFE_LOG_WARNING;
	for (int i = 0; i <= P2PSAFE_LOG_DEBUG; i++) {
		if (strcmp(word, log_words[i]) == 0)
			return i;
	}
	cli_say("P2PSAFE_LOG: expected none, error, warning, info or debug, got '%s'", word);
	return P2PSAFE_LOG_WARNING;
}

static void fill_options(struct p2psafe_options *o, const struct cli_args *args)
{
	p2psafe_options_init(o, sizeof(*o));
	o->flags = P2PSAFE_FLAG_ENVIRONMENT;
	if (cli_args_has(args, CLI_OPTION_NO_CACHE))
		o->flags |= P2PSAFE_FLAG_NO_CACHE;
	if (cli_args_has(args, CLI_OPTION_RECHECK))
		o->flags |= P2PSAFE_FLAG_RECHECK;
	if (cli_args_has(args, CLI_OPTION_KEEP_GOING))
		o->flags |= P2PSAFE_FLAG_KEEP_GOING;
	if (cli_args_has(args, CLI_OPTION_PROMOTE))
		o->flags |= P2PSAFE_FLAG_PROMOTE;
	if (args->command == CLI_COMMAND_TEST && !cli_args_has(args, CLI_OPTION_NO_MEASURE))
		o->flags |= P2PSAFE_FLAG_MEASURE;
	if (cli_args_has(args, CLI_OPTION_LEVEL))
		o->level = p2psafe_level_from_name(args->value[CLI_OPTION_LEVEL]);
	if (cli_args_has(args, CLI_OPTION_DEADLINE))
		(void)cli_seconds_parse(args->value[CLI_OPTION_DEADLINE], &o->deadline_ms);
	if (cli_args_has(args, CLI_OPTION_SOAK))
		(void)cli_seconds_parse(args->value[CLI_OPTION_SOAK], &o->soak_ms);
	o->gpus = args->value[CLI_OPTION_GPUS];
	o->host_dir = args->value[CLI_OPTION_HOST];
	o->cuda_library = args->value[CLI_OPTION_CUDA_LIBRARY];
	o->helper_path = args->value[CLI_OPTION_HELPER];
	o->topology_file = args->value[CLI_OPTION_TOPOLOGY];
	o->placement_file = args->value[CLI_OPTION_PLACEMENT];
}

int cli_session_failed(const struct p2psafe_error *err, int32_t status)
{
	cli_say("%s (%s)", err->text[0] != '\0' ? err->text : "the library gave no reason", p2psafe_status_name(status));
	if (status == P2PSAFE_E_CONFIG || status == P2PSAFE_E_INVALID || status == P2PSAFE_E_NEWER)
		return CLI_EXIT_USAGE;
	return CLI_EXIT_NO_REPORT;
}

int cli_session_open(struct cli_session *s, const struct cli_args *args)
{
	struct p2psafe_error err = {.size = sizeof(err)};
	memset(s, 0, sizeof(*s));
	s->log_level = log_level();
	s->progress_terminal = isatty(STDERR_FILENO) == 1;
	fill_options(&s->options, args);
	int32_t status = p2psafe_context_new(&s->ctx, print_log, s, &err);
	return status == P2PSAFE_OK ? 0 : cli_session_failed(&err, status);
}

void cli_session_close(struct cli_session *s)
{
	p2psafe_context_free(s->ctx);
	s->ctx = NULL;
}

int cli_session_report(struct cli_session *s, enum cli_command command, p2psafe_report **report)
{
	struct p2psafe_error err = {.size = sizeof(err)};
	int32_t status;
	*report = NULL;
	if (command == CLI_COMMAND_PROBE)
		status = p2psafe_probe(s->ctx, &s->options, report, &err);
	else if (command == CLI_COMMAND_TEST)
		status = p2psafe_test(s->ctx, &s->options, report, &err);
	else
		status = p2psafe_decide(s->ctx, &s->options, report, &err);
	wipe_progress(s);
	return status == P2PSAFE_OK ? 0 : cli_session_failed(&err, status);
}
