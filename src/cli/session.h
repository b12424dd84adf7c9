/* One context with the options of the command line and a log that knows about terminals. */
#ifndef P2S_CLI_SESSION_H
#define P2S_CLI_SESSION_H

#include "cli.h"

struct cli_session {
	p2psafe_context *ctx;
	struct p2psafe_options options;
	int log_level;         /* P2PSAFE_LOG_*: what is printed; P2PSAFE_LOG names it, warning by default */
	int progress_terminal; /* stderr is a terminal: progress may be shown */
	int progress_shown;    /* a progress line stands there and must be wiped before other output */
};

/* Returns 0, or the exit code after one line on stderr. Close it in every case. */
int cli_session_open(struct cli_session *s, const struct cli_args *args);
void cli_session_close(struct cli_session *s);
/* Calls p2psafe_probe(), _test() or _decide(). Returns 0 with *report set, or the exit code after one line on stderr. */
int cli_session_report(struct cli_session *s, enum cli_command command, p2psafe_report **report);
/* cmd_explain.c: the same without ever testing: the kept report where it is valid, else a probe. */
int cli_explain_report(struct cli_session *s, p2psafe_report **report);
/* Says what failed; returns the exit code that belongs to the error. */
int cli_session_failed(const struct p2psafe_error *err, int32_t status);

#endif
