#define _GNU_SOURCE
#include "helper/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ipc/codec.h"

#define HIGH_FD 200 /* inherited descriptors are parked above this before they get their numbers */

static int open_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
	long fd = syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by definition; absent before 5.3 */

	return fd >= 0 ? (int)fd : -1;
#else
	(void)pid;
	return -1;
#endif
}

/* In the child, between fork and exec: only async-signal-safe calls. */
static void become(const struct p2s_spawn *what, char **argv, char **envp, pid_t parent)
{
	int parked[P2S_PROC_FDS];
	sigset_t none;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(127);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < what->fd_count; i++) {
		parked[i] = fcntl(what->fds[i], F_DUPFD_CLOEXEC, HIGH_FD);
		if (parked[i] < 0)
			_exit(127);
	}
	for (size_t i = 0; i < what->fd_count; i++)
		if (dup2(parked[i], what->as[i]) < 0) /* clears close-on-exec */
			_exit(127);
	execve("/proc/self/exe", argv, envp);
	_exit(127);
}

int p2s_spawn_start(struct p2s_proc *proc, const struct p2s_spawn *what)
{
	char *argv[16];
	char *envp[24];
	pid_t parent = getpid();
	size_t n = 0;
	pid_t pid;

	if (what->fd_count > P2S_PROC_FDS) {
		errno = E2BIG;
		return 0;
	}
	argv[n++] = (char *)(uintptr_t) "p2psafe-helper";
	for (size_t i = 0; what->args[i] != NULL && n < 15; i++)
		argv[n++] = (char *)(uintptr_t)what->args[i];
	argv[n] = NULL;
	for (n = 0; n < 23 && what->env[n] != NULL; n++)
		envp[n] = (char *)(uintptr_t)what->env[n];
	envp[n] = NULL;
	pid = fork();
	if (pid == 0)
		become(what, argv, envp, parent);
	if (pid < 0)
		return 0;
	proc->pid = pid;
	proc->pidfd = open_pidfd(pid);
	return 1;
}

static int immune(const struct p2s_seam *seam)
{
	return seam->immune_until_ns != 0 && p2s_now_ns() < seam->immune_until_ns;
}

int p2s_spawn_poll(struct p2s_proc *proc, const struct p2s_seam *seam)
{
	int status;
	pid_t r;

	if (proc->gone || proc->pid == 0)
		return 1;
	if (proc->killed && immune(seam))
		return 0;
	do
		r = waitpid(proc->pid, &status, WNOHANG);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return 0;
	proc->gone = 1;
	if (r < 0)
		snprintf(proc->how, sizeof proc->how, "lost");
	else if (WIFSIGNALED(status))
		snprintf(proc->how, sizeof proc->how, "signal %d", WTERMSIG(status));
	else
		snprintf(proc->how, sizeof proc->how, "exit %d", WEXITSTATUS(status));
	return 1;
}

int p2s_spawn_wait(struct p2s_proc *proc, const struct p2s_seam *seam, uint64_t deadline_ns)
{
	for (;;) {
		uint64_t now;
		uint64_t left;

		if (p2s_spawn_poll(proc, seam))
			return 1;
		now = p2s_now_ns();
		if (now >= deadline_ns)
			return 0;
		left = deadline_ns - now;
		if (proc->pidfd >= 0 && !(proc->killed && immune(seam))) {
			struct pollfd p = {.fd = proc->pidfd, .events = POLLIN};

			poll(&p, 1, (int)(left / 1000000 > 1000 ? 1000 : left / 1000000 + 1));
		} else {
			struct timespec ts = {.tv_nsec = (long)(left < 2000000 ? left : 2000000)};

			nanosleep(&ts, NULL);
		}
	}
}

void p2s_spawn_kill(struct p2s_proc *proc, const struct p2s_seam *seam)
{
	if (proc->gone || proc->pid == 0)
		return;
	proc->killed = 1;
	if (!immune(seam))
		kill(proc->pid, SIGKILL); /* our own unreaped child: the number cannot be another process */
}
