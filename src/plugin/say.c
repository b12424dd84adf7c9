/* The host's descriptor 2 is not ours: the line must neither wait for a reader nor raise a signal. */
#define _GNU_SOURCE
#include "say.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Writes once, with the signals of a gone reader and of a full file held back and, if they came from here, taken away again. */
static void write_quietly(const char *text, size_t len)
{
	const struct timespec now = {.tv_sec = 0};
	sigset_t ours, before, waiting;

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	sigpending(&waiting);
	if (pthread_sigmask(SIG_BLOCK, &ours, &before) != 0)
		return;
	if (write(STDERR_FILENO, text, len) < 0) {
		if (sigismember(&waiting, SIGPIPE))
			sigdelset(&ours, SIGPIPE);
		if (sigismember(&waiting, SIGXFSZ))
			sigdelset(&ours, SIGXFSZ);
		while (sigtimedwait(&ours, NULL, &now) > 0)
			;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void to_stderr(const char *line)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	const char *level = secure_getenv("P2PSAFE_LOG");
	char text[sizeof ((struct p2s_veto *)0)->line + 32];
	int n;

	if (level != NULL && (strcmp(level, "none") == 0 || strcmp(level, "error") == 0))
		return;
	n = snprintf(text, sizeof text, "p2psafe: warning: %s\n", line);
	if (n > 0 && poll(&p, 1, 0) == 1 && p.revents & POLLOUT)
		write_quietly(text, (size_t)n);
}

void p2s_plugin_say(const struct p2s_veto *v, nccl_logger log)
{
	if (v->tell == P2S_TELL_NOTHING)
		return;
	if (log != NULL)
		log(v->tell == P2S_TELL_WARNING ? NCCL_LOG_WARN : NCCL_LOG_INFO, NCCL_LOG_INIT | NCCL_LOG_ENV, "p2psafe", 0, "%s", v->line);
	else if (v->tell == P2S_TELL_WARNING)
		to_stderr(v->line);
}
