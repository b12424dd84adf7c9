/* run: executes CMD with the decision in its environment. It always executes: without a report every veto is set. Only
 * --require-enforced refuses. */
#include "caches.h"
#include "session.h"
#include "veto.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int execute(char **command, void (*before)(int))
{
	signal(SIGPIPE, before);
	execvp(command[0], command);
	int why = errno;
	cli_say("cannot execute '%s': %s", command[0], strerror(why));
	return why == ENOENT ? CLI_EXIT_NOT_FOUND : CLI_EXIT_CANNOT_RUN;
}

int cli_cmd_run(const struct cli_args *args)
{
	struct cli_session s;
	struct cli_veto veto;
	p2psafe_report *report = NULL;
	if (args->rest_count == 0 || args->rest[0][0] == '\0') {
		cli_say("'p2psafe run' needs a command: p2psafe run -- CMD ARGS");
		return CLI_EXIT_USAGE;
	}
	/* who reads our messages may be gone: CMD is executed all the same */
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	int rc = cli_session_open(&s, args);
	if (rc == 0)
		rc = cli_session_report(&s, CLI_COMMAND_DECIDE, &report);
	if (rc != 0)
		cli_say("no report: every veto is set for '%s'", args->rest[0]);
	else
		rc = (int)p2psafe_report_exit_code(report);
	if (report != NULL && p2psafe_report_is_simulated(report))
		cli_say("SIMULATED: these settings are not about this machine");
	int ready = cli_veto_load(&veto, report);
	int unenforced = ready ? cli_veto_unenforced(&veto, args->rest) : 0;
	if (rc != CLI_EXIT_USAGE && !cli_caches_write(args, report))
		unenforced++;
	ready = ready && cli_veto_apply(&veto);
	cli_veto_free(&veto);
	p2psafe_report_free(report);
	cli_session_close(&s);
	if (!ready) {
		cli_say("cannot set the vetoes: '%s' is not executed", args->rest[0]);
		return CLI_EXIT_NO_REPORT;
	}
	if (unenforced > 0 && cli_args_has(args, CLI_OPTION_REQUIRE_ENFORCED)) {
		cli_say("--require-enforced: '%s' is not executed", args->rest[0]);
		return rc != 0 ? rc : 1;
	}
	return execute(args->rest, before);
}
