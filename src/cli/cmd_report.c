/* probe, test, decide: make a report and print it. */
#include "session.h"
#include "show.h"

int cli_cmd_report(const struct cli_args *args)
{
	struct cli_session s;
	p2psafe_report *report = NULL;
	if (args->rest_count > 0) {
		cli_say("'p2psafe %s' takes no argument, got '%s'", cli_commands[args->command].name, args->rest[0]);
		return CLI_EXIT_USAGE;
	}
	int rc = cli_session_open(&s, args);
	if (rc == 0)
		rc = cli_session_report(&s, args->command, &report);
	if (rc == 0) {
		rc = (int)p2psafe_report_exit_code(report);
		if (cli_args_has(args, CLI_OPTION_JSON)) {
			int failed = cli_show_print_json(report);
			rc = failed != 0 ? failed : rc;
		} else {
			struct cli_style style;
			cli_style_init(&style, stdout);
			cli_show_report(&style, report, args);
		}
	}
	p2psafe_report_free(report);
	cli_session_close(&s);
	return cli_finish(rc);
}
