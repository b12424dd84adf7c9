/* env: the settings as text. Without a report it prints the full veto: a program that evaluates the output must never be left
 * without an answer because something failed. */
#include "caches.h"
#include "session.h"

#include <string.h>

int cli_cmd_env(const struct cli_args *args)
{
	struct cli_session s;
	struct p2psafe_error err = {.size = sizeof(err)};
	p2psafe_report *report = NULL;
	char *text = NULL;
	int32_t format = P2PSAFE_FORMAT_SHELL;
	if (args->rest_count > 0) {
		cli_say("'p2psafe env' takes no argument, got '%s'", args->rest[0]);
		return CLI_EXIT_USAGE;
	}
	if (cli_args_has(args, CLI_OPTION_FORMAT))
		format = p2psafe_format_from_name(args->value[CLI_OPTION_FORMAT]);
	int rc = cli_session_open(&s, args);
	if (rc == 0)
		rc = cli_session_report(&s, CLI_COMMAND_DECIDE, &report);
	if (rc != 0)
		cli_say("no report: the full veto is printed");
	else
		rc = (int)p2psafe_report_exit_code(report);
	if (report != NULL && p2psafe_report_is_simulated(report))
		cli_say("SIMULATED: these settings are not about this machine");
	int heard = rc == CLI_EXIT_USAGE || cli_caches_write(args, report);
	int32_t status = p2psafe_report_env(report, format, &text, &err);
	if (status != P2PSAFE_OK) {
		rc = cli_session_failed(&err, status);
	} else {
		size_t len = strlen(text);
		fputs(text, stdout);
		if (len > 0 && text[len - 1] != '\n')
			putchar('\n');
		/* a wrong --gpus stays an error; what the machine is like is none */
		if (!cli_args_has(args, CLI_OPTION_STRICT) && rc != CLI_EXIT_USAGE)
			rc = CLI_EXIT_OK;
		if (!heard && rc == CLI_EXIT_OK)
			rc = 1;
	}
	p2psafe_string_free(text);
	p2psafe_report_free(report);
	cli_session_close(&s);
	return cli_finish(rc);
}
