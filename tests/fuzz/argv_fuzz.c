/* Any words as the command line of the program (a line each): taken apart or refused, with a reason, and nothing accepted that the
 * tables do not know. */
#include <stdarg.h>

#include "cli.h"
#include "fuzz.h"

#define WORDS 64

static int reasons;

void cli_say(const char *format, ...)
{
	char text[65536];
	va_list list;

	va_start(list, format);
	FUZZ_ASSERT(vsnprintf(text, sizeof text, format, list) >= 0);
	va_end(list);
	reasons++;
}

/* The commands are not run here: they are the tables' to name. */
#define NOT_RUN(name)                                \
	int name(const struct cli_args *args)            \
	{                                                \
		(void)args;                                  \
		abort();                                     \
	}
NOT_RUN(cli_cmd_report)
NOT_RUN(cli_cmd_explain)
NOT_RUN(cli_cmd_gather)
NOT_RUN(cli_cmd_env)
NOT_RUN(cli_cmd_run)
NOT_RUN(cli_cmd_cache)
NOT_RUN(cli_cmd_groups)
NOT_RUN(cli_cmd_merge)
NOT_RUN(cli_cmd_help)

static int from_text(const char *p, const char *text, size_t size)
{
	return p >= text && p <= text + size;
}

static void accepted(const struct cli_args *args, const char *text, size_t size)
{
	FUZZ_ASSERT(args->command >= CLI_COMMAND_NONE && args->command < CLI_COMMANDS);
	FUZZ_ASSERT(args->rest_count >= 0 && args->rest_count < WORDS && args->rest[args->rest_count] == NULL);
	for (int i = 0; i < args->rest_count; i++)
		FUZZ_ASSERT(from_text(args->rest[i], text, size));
	for (int i = 0; i < CLI_OPTIONS; i++) {
		uint64_t ms = 0;

		if (args->value[i] == NULL)
			continue;
		FUZZ_ASSERT(cli_options[i].argument == NULL ? args->value[i][0] == '\0' : from_text(args->value[i], text, size));
		if (args->command == CLI_COMMAND_NONE)
			continue;
		FUZZ_ASSERT(cli_options[i].commands & (1u << args->command));
		if (i == CLI_OPTION_DEADLINE || i == CLI_OPTION_SOAK)
			FUZZ_ASSERT(cli_seconds_parse(args->value[i], &ms) && ms > 0 && ms <= UINT64_C(86400000));
		if (i == CLI_OPTION_LEVEL)
			FUZZ_ASSERT(p2psafe_level_from_name(args->value[i]) != 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text = fuzz_text(bytes, size);
	char *argv[WORDS + 1] = {(char[]){"p2psafe"}};
	struct cli_args args;
	int argc = 1;
	int rc;

	for (char *at = text; at != NULL && argc < WORDS;) {
		char *end = strchr(at, '\n');

		if (end != NULL)
			*end++ = '\0';
		argv[argc++] = at;
		at = end;
	}
	argv[argc] = NULL;
	reasons = 0;
	rc = cli_args_parse(&args, argc, argv);
	FUZZ_ASSERT(rc == 0 ? reasons == 0 : rc == CLI_EXIT_USAGE && reasons == 1);
	if (rc == 0)
		accepted(&args, text, size);
	free(text);
	return 0;
}
