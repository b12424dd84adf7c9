#define _GNU_SOURCE
#include "failing.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH 14
#define WAY 4 /* return addresses that tell a place */

extern char __executable_start; /* from the linker: where this program's code begins and ends */
extern char etext;

static enum failing_mode mode;
static int kinds;
static int target;
static int met;
static int inside; /* our own calls pass */
static int places;
static uint64_t known[FAILING_PLACES];
static const char *names[FAILING_PLACES];
static unsigned char in_parser[FAILING_PLACES];
static long live;

static void *frames[DEPTH];
static int frame_count;

static uint64_t place_now(const char *name)
{
	uint64_t hash = UINT64_C(14695981039346656037) ^ (uint64_t)(uintptr_t)name;
	int n = backtrace(frames, DEPTH);

	frame_count = n;

	/* The way through the library, not through the test: who asks may be another line of it. */
	for (int i = 2; i < n && i < 2 + WAY; i++)
		if ((char *)frames[i] < &__executable_start || (char *)frames[i] >= &etext)
			hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * UINT64_C(1099511628211);
	return hash;
}

/* Called from jansson itself, on the way from one of its json_load functions. */
static int parsing(void)
{
	Dl_info info;

	if (frame_count < 4 || dladdr(frames[2], &info) == 0 || strstr(info.dli_fname, "libjansson") == NULL)
		return 0;
	for (int i = 3; i < frame_count; i++)
		if (dladdr(frames[i], &info) != 0 && info.dli_sname != NULL && strncmp(info.dli_sname, "json_load", 9) == 0)
			return 1;
	return 0;
}

static int find(uint64_t hash)
{
	for (int i = 0; i < places; i++)
		if (known[i] == hash)
			return i;
	return -1;
}

/* For a person: FAILING_TRACE=PLACE in the environment prints the way to that place, for addr2line. */
static void show(void)
{
	backtrace_symbols_fd(frames, frame_count, 2);
}

/* 1: fail now; 2: die after the call. */
static int now(int kind, const char *name)
{
	uint64_t hash;
	int at;
	int saved = errno;
	int answer = 0;

	if (mode == FAILING_OFF || inside || !(kinds & kind) || (mode != FAILING_LEARN && met))
		return 0;
	inside = 1;
	hash = place_now(name);
	at = find(hash);
	if (mode == FAILING_LEARN) {
		if (at < 0 && places < FAILING_PLACES) {
			known[places] = hash;
			in_parser[places] = (unsigned char)parsing();
			names[places++] = name;
		}
	} else if (at == target && !met) {
		met = 1;
		if (getenv("FAILING_TRACE") != NULL && atoi(getenv("FAILING_TRACE")) == at)
			show();
		if (mode == FAILING_DIE)
			raise(SIGKILL);
		answer = mode == FAILING_AFTER ? 2 : 1;
	}
	inside = 0;
	errno = saved;
	return answer;
}

static void after(int answer)
{
	if (answer == 2)
		raise(SIGKILL);
}

void failing_set(enum failing_mode new_mode, int new_kinds, int place)
{
	void *warm[2];

	inside = 1;
	backtrace(warm, 2); /* loads what it needs the first time */
	inside = 0;
	kinds = new_kinds;
	target = place;
	met = 0;
	mode = new_mode;
}

int failing_places(void)
{
	return places;
}

void failing_forget(void)
{
	places = 0;
}

int failing_met(void)
{
	return met;
}

const char *failing_name(int place)
{
	return place >= 0 && place < places ? names[place] : "?";
}

int failing_in_parser(int place)
{
	return place >= 0 && place < places && in_parser[place];
}

long failing_live(void)
{
	return live;
}

#ifndef __SANITIZE_ADDRESS__
/* glibc's own names for what is replaced here. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *old);

static void *counted(void *p)
{
	if (p != NULL && !inside)
		__atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
	return p;
}

void *malloc(size_t size)
{
	if (now(FAILING_MEMORY, "malloc") == 1) {
		errno = ENOMEM;
		return NULL;
	}
	return counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
	if (now(FAILING_MEMORY, "calloc") == 1) {
		errno = ENOMEM;
		return NULL;
	}
	return counted(__libc_calloc(count, size));
}

void *realloc(void *old, size_t size)
{
	if (now(FAILING_MEMORY, "realloc") == 1) {
		errno = ENOMEM;
		return NULL;
	}
	return old == NULL ? counted(__libc_realloc(old, size)) : __libc_realloc(old, size);
}

void free(void *old)
{
	if (old != NULL && !inside)
		__atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
	__libc_free(old);
}
#endif

/* The function of libc behind ours. */
static void *real(const char *name)
{
	void *found;

	inside++;
	found = dlsym(RTLD_NEXT, name);
	inside--;
	if (found == NULL)
		abort();
	return found;
}

#define WRAP(kind, type, name, parameters, arguments, failed, error) \
	type name parameters; \
	type name parameters \
	{ \
		static type(*libc) parameters; \
		type result; \
		int answer = now(kind, #name); \
 \
		if (answer == 1) { \
			errno = error; \
			return failed; \
		} \
		if (libc == NULL) \
			*(void **)&libc = real(#name); \
		result = libc arguments; \
		after(answer); \
		return result; \
	}

WRAP(FAILING_FILES, ssize_t, read, (int fd, void *to, size_t size), (fd, to, size), -1, EIO)
WRAP(FAILING_FILES, ssize_t, pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at), -1, EIO)
WRAP(FAILING_FILES, ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), -1, ENOSPC)
WRAP(FAILING_FILES, ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at), -1, ENOSPC)
WRAP(FAILING_FILES, int, fsync, (int fd), (fd), -1, EIO)
WRAP(FAILING_FILES, int, ftruncate, (int fd, off_t size), (fd, size), -1, EIO)
WRAP(FAILING_FILES, int, linkat, (int from, const char *old, int to, const char *name, int flags), (from, old, to, name, flags), -1, EIO)
WRAP(FAILING_FILES, int, renameat, (int from, const char *old, int to, const char *name), (from, old, to, name), -1, EIO)
WRAP(FAILING_FILES, int, renameat2, (int from, const char *old, int to, const char *name, unsigned flags), (from, old, to, name, flags), -1,
     EIO)
WRAP(FAILING_FILES, int, rename, (const char *old, const char *name), (old, name), -1, EIO)
WRAP(FAILING_FILES, int, unlink, (const char *path), (path), -1, EIO)
WRAP(FAILING_FILES, int, mkostemp, (char *name, int flags), (name, flags), -1, EACCES)
WRAP(FAILING_FILES, int, fchmod, (int fd, mode_t bits), (fd, bits), -1, EPERM)
WRAP(FAILING_FILES, FILE *, fopen, (const char *path, const char *how), (path, how), NULL, EMFILE)
WRAP(FAILING_FILES, int, mkdir, (const char *path, mode_t bits), (path, bits), -1, EACCES)
WRAP(FAILING_FILES, int, unlinkat, (int dir, const char *name, int flags), (dir, name, flags), -1, EIO)
WRAP(FAILING_FILES, int, fstat, (int fd, struct stat *st), (fd, st), -1, EIO)
WRAP(FAILING_FILES, int, stat, (const char *path, struct stat *st), (path, st), -1, EIO)
WRAP(FAILING_FILES, int, fstatat, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags), -1, EIO)
WRAP(FAILING_FILES, int, statvfs, (const char *path, struct statvfs *st), (path, st), -1, EIO)
WRAP(FAILING_FILES, int, access, (const char *path, int bits), (path, bits), -1, EACCES)
WRAP(FAILING_FILES, int, faccessat, (int dir, const char *path, int bits, int flags), (dir, path, bits, flags), -1, EACCES)
WRAP(FAILING_FILES, DIR *, fdopendir, (int fd), (fd), NULL, ENOMEM)
WRAP(FAILING_FILES, struct dirent *, readdir, (DIR * dir), (dir), NULL, EIO)
WRAP(FAILING_FILES, ssize_t, readlink, (const char *path, char *to, size_t size), (path, to, size), -1, EACCES)
WRAP(FAILING_FILES, ssize_t, readlinkat, (int dir, const char *path, char *to, size_t size), (dir, path, to, size), -1, EACCES)
WRAP(FAILING_FILES, char *, realpath, (const char *path, char *to), (path, to), NULL, EACCES)
WRAP(FAILING_FILES, int, flock, (int fd, int what), (fd, what), -1, ENOLCK)
WRAP(FAILING_FILES, char *, getcwd, (char *to, size_t size), (to, size), NULL, ENOENT)
WRAP(FAILING_REST, int, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds), -1, EMFILE)
WRAP(FAILING_REST, int, posix_spawn,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const argv[],
      char *const environment[]),
     (pid, path, actions, attributes, argv, environment), EAGAIN, EAGAIN)
WRAP(FAILING_REST, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1, ENOBUFS)
WRAP(FAILING_REST, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1, ENOMEM)
WRAP(FAILING_REST, int, ppoll, (struct pollfd * list, nfds_t count, const struct timespec *time, const sigset_t *mask),
     (list, count, time, mask), -1, ENOMEM)
WRAP(FAILING_REST, pid_t, waitpid, (pid_t pid, int *status, int flags), (pid, status, flags), -1, EINTR)
WRAP(FAILING_REST, ssize_t, getrandom, (void *to, size_t size, unsigned flags), (to, size, flags), -1, EAGAIN)

/* With a mode behind, when one is needed. */
static int opened(const char *name, int answer, int dir, const char *path, int flags, va_list more)
{
	static int (*libc)(int, const char *, int, ...);
	mode_t bits = 0;
	int fd;

	(void)name;
	if (flags & (O_CREAT | O_TMPFILE))
		bits = (mode_t)va_arg(more, int);
	if (answer == 1) {
		errno = EMFILE;
		return -1;
	}
	if (libc == NULL)
		*(void **)&libc = real("openat");
	fd = libc(dir, path, flags, bits);
	after(answer);
	return fd;
}

int open(const char *path, int flags, ...)
{
	va_list more;
	int fd;

	va_start(more, flags);
	fd = opened("open", now(FAILING_FILES, "open"), AT_FDCWD, path, flags, more);
	va_end(more);
	return fd;
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list more;
	int fd;

	va_start(more, flags);
	fd = opened("openat", now(FAILING_FILES, "openat"), dir, path, flags, more);
	va_end(more);
	return fd;
}

/* pidfd_open and pidfd_send_signal come through here. */
long syscall(long number, ...)
{
	static long (*libc)(long, ...);
	long a[6];
	va_list more;

	va_start(more, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(more, long);
	va_end(more);
	if (now(FAILING_REST, "syscall") == 1) {
		errno = ENOSYS;
		return -1;
	}
	if (libc == NULL)
		*(void **)&libc = real("syscall");
	return libc(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
