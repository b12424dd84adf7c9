#define _GNU_SOURCE
#include "ipc/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ipc/codec.h"

extern char **environ;

/* What a helper may inherit. Everything that changes how CUDA behaves, injects code or writes files stays out. */
static const char *const inherited[] = {
	"PATH=",           "HOME=",         "LD_LIBRARY_PATH=", "TMPDIR=",        "LANG=",       "LC_ALL=",
	"XDG_CACHE_HOME=", "ASAN_OPTIONS=", "LSAN_OPTIONS=",    "UBSAN_OPTIONS=", "P2PSAFE_SIM_"};

#define ENVIRONMENT_MAX 32

/* Pointers into the caller's environment: nothing is copied, nothing changed. A program that was started with more rights than
 * its user has (setuid, file capabilities) hands on nothing: the user chose these values, and after such a program has made its new
 * rights complete the dynamic linker of a child would trust LD_LIBRARY_PATH again. */
static void pick_environment(char **out)
{
	size_t n = 0;

	out[0] = NULL;
	if (getauxval(AT_SECURE) != 0)
		return;
	for (char **e = environ; e != NULL && *e != NULL && n < ENVIRONMENT_MAX - 1; e++)
		for (size_t i = 0; i < sizeof inherited / sizeof inherited[0]; i++)
			if (strncmp(*e, inherited[i], strlen(inherited[i])) == 0) {
				out[n++] = *e;
				break;
			}
	out[n] = NULL;
}

/* Moves a descriptor above the ones the child needs: a caller may have closed 0, 1 or 2. */
static int lift(int fd)
{
	int up;

	if (fd > P2S_CHILD_SOCKET)
		return fd;
	up = fcntl(fd, F_DUPFD_CLOEXEC, P2S_CHILD_SOCKET + 1);
	close(fd);
	return up;
}

static int spawn(const char *path, int sock, pid_t *pid)
{
	char name[] = "p2psafe-helper";
	char role[] = "conductor";
	char *argv[] = {name, role, NULL};
	char *env[ENVIRONMENT_MAX];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all;
	sigset_t none;
	int e;

	pick_environment(env);
	sigfillset(&all);
	sigemptyset(&none);
	e = posix_spawn_file_actions_init(&actions);
	if (e != 0)
		return e;
	e = posix_spawnattr_init(&attr);
	if (e != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return e;
	}
	if (e == 0)
		e = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	if (e == 0)
		e = posix_spawnattr_setpgroup(&attr, 0);
	if (e == 0)
		e = posix_spawnattr_setsigdefault(&attr, &all);
	if (e == 0)
		e = posix_spawnattr_setsigmask(&attr, &none);
	for (int fd = 0; fd <= 2 && e == 0; fd++)
		e = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	if (e == 0)
		e = posix_spawn_file_actions_adddup2(&actions, sock, P2S_CHILD_SOCKET);
	if (e == 0)
		e = posix_spawn_file_actions_addclosefrom_np(&actions, P2S_CHILD_SOCKET + 1);
	if (e == 0)
		e = posix_spawn(pid, path, &actions, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return e;
}

int p2s_child_start(const char *path, pid_t *pid, int *pidfd, int *sock)
{
	int pair[2];
	int e;

	*pid = -1;
	*pidfd = -1;
	*sock = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return errno;
	pair[0] = lift(pair[0]);
	pair[1] = lift(pair[1]);
	if (pair[0] < 0 || pair[1] < 0) {
		e = errno;
	} else {
		e = spawn(path, pair[1], pid);
	}
	if (pair[1] >= 0)
		close(pair[1]);
	if (e != 0) {
		if (pair[0] >= 0)
			close(pair[0]);
		return e;
	}
	*pidfd = (int)syscall(SYS_pidfd_open, *pid, 0);
	*sock = pair[0];
	return 0;
}

int32_t p2s_child_deaf(const struct p2s_reaper *r)
{
	return r->deaf_until_ns != 0 && p2s_now_ns() < r->deaf_until_ns;
}

void p2s_child_kill_group(const struct p2s_reaper *r, pid_t pid)
{
	if (pid > 1 && !p2s_child_deaf(r))
		kill(-pid, SIGKILL);
}

void p2s_child_kill(const struct p2s_reaper *r, int pidfd)
{
	if (pidfd >= 0 && !p2s_child_deaf(r))
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

int32_t p2s_child_gone(int pidfd, uint64_t deadline_ns)
{
	if (pidfd < 0)
		return 0;
	for (;;) {
		struct pollfd p = {.fd = pidfd, .events = POLLIN};
		uint64_t now = p2s_now_ns();
		uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
		struct timespec ts = {.tv_sec = (time_t)(left / UINT64_C(1000000000)), .tv_nsec = (long)(left % UINT64_C(1000000000))};
		int n = ppoll(&p, 1, &ts, NULL);

		if (n > 0)
			return (p.revents & POLLIN) != 0;
		if (n == 0 && left == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return 0;
	}
}

void p2s_child_bury_orphans(pid_t group, uint64_t deadline_ns)
{
	for (;;) {
		struct timespec pause = {.tv_nsec = 2000000};
		siginfo_t info = {0};

		if (waitid(P_PGID, (id_t)group, &info, WEXITED | WNOHANG) != 0)
			return; /* ECHILD: there is none */
		if (info.si_pid != 0)
			continue;
		if (p2s_now_ns() >= deadline_ns)
			return;
		nanosleep(&pause, NULL);
	}
}

int32_t p2s_child_reap(pid_t pid, int pidfd, uint64_t deadline_ns)
{
	for (;;) {
		struct timespec pause = {.tv_nsec = 5000000};
		pid_t got = waitpid(pid, NULL, WNOHANG);

		if (got == pid)
			return 1;
		/* ECHILD: it ended and somebody else reaped it, or the kernel did because the caller ignores SIGCHLD. */
		if (got < 0 && errno == ECHILD)
			return pidfd < 0 || p2s_child_gone(pidfd, deadline_ns);
		if (p2s_now_ns() >= deadline_ns)
			return 0;
		if (pidfd >= 0)
			p2s_child_gone(pidfd, deadline_ns);
		else
			nanosleep(&pause, NULL);
	}
}
