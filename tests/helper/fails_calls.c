#define _GNU_SOURCE
#include "fails_control.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH 12
#define WAY 3 /* return addresses inside the helper that tell a place */

extern char __executable_start; /* from the linker: where this program begins, and where its code ends */
extern char etext;

static struct fails_control *control;
static pid_t owner; /* between fork and exec everything passes: nothing there may look at the stack */
static const char *role = "";
static _Thread_local int inside; /* our own calls pass */

/* Where a call may come from on its way from the helper: libraries that call for it. */
static struct range {
	uintptr_t from, to;
	int pci;
} between[8];
static int betweens;

static int note_range(struct dl_phdr_info *info, size_t size, void *unused)
{
	static const char *const names[] = {"libc.so", "libpci.so", "libnuma.so"};

	(void)size;
	(void)unused;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		for (int p = 0; strstr(info->dlpi_name, names[i]) != NULL && p < info->dlpi_phnum; p++) {
			const ElfW(Phdr) *part = &info->dlpi_phdr[p];
			uintptr_t from = info->dlpi_addr + part->p_vaddr;

			if (part->p_type == PT_LOAD && (part->p_flags & PF_X) && betweens < 8)
				between[betweens++] = (struct range){.from = from, .to = from + part->p_memsz, .pci = i == 1};
		}
	return 0;
}

static void crashed(int sig)
{
	atomic_fetch_add(&control->crashes, 1);
	strncpy(control->crashed, role, sizeof control->crashed - 1);
	signal(sig, SIG_DFL);
	raise(sig);
}

__attribute__((constructor)) static void begin(int argc, char **argv)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
	char path[4096];
	ssize_t n;
	char *slash;
	void *page;
	int fd;

	inside = 1;
	n = readlink("/proc/self/exe", path, sizeof path - sizeof FAILS_FILE);
	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash != NULL && argc > 1) {
		memcpy(slash + 1, FAILS_FILE, sizeof FAILS_FILE);
		fd = open(path, O_RDWR | O_CLOEXEC);
		page = fd >= 0 ? mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
		if (fd >= 0)
			close(fd);
		if (page != MAP_FAILED) {
			void *warm[2];

			backtrace(warm, 2); /* loads what it needs the first time */
			dl_iterate_phdr(note_range, NULL);
			role = argv[1];
			owner = getpid();
			for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
				signal(signals[i], crashed);
			control = page;
		}
	}
	inside = 0;
}

/* 0 when the call does not come from the helper. */
static uint64_t place_now(const char *call, int *in_pci)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	void *frames[DEPTH];
	int n = backtrace(frames, DEPTH);
	int way = 0;

	for (int i = 2; i < n && way < WAY; i++) {
		uintptr_t at = (uintptr_t)frames[i];
		int known = 0;

		if (at >= (uintptr_t)&__executable_start && at < (uintptr_t)&etext) {
			hash = (hash ^ (at - (uintptr_t)&__executable_start)) * UINT64_C(1099511628211);
			way++;
			continue;
		}
		for (int r = 0; r < betweens; r++) {
			int here = at >= between[r].from && at < between[r].to;

			known |= here;
			*in_pci |= way == 0 && here && between[r].pci;
		}
		if (way == 0 && !known)
			return 0;
	}
	if (way == 0)
		return 0;
	for (const char *names[2] = {call, role}, **name = names; name < names + 2; name++)
		for (const char *c = *name; *c != '\0'; c++)
			hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
	return hash | 1;
}

static void learn(uint64_t hash, const char *call, int in_pci)
{
	int n;

	while (atomic_flag_test_and_set(&control->lock))
		;
	n = atomic_load(&control->places);
	for (int i = 0; i < n; i++)
		if (control->place[i].hash == hash)
			n = FAILS_PLACES;
	if (n < FAILS_PLACES) {
		struct fails_place *p = &control->place[n];

		p->hash = hash;
		p->in_pci = in_pci;
		strncpy(p->role, role, sizeof p->role - 1);
		strncpy(p->call, call, sizeof p->call - 1);
		atomic_store(&control->places, n + 1);
	}
	atomic_flag_clear(&control->lock);
}

static int now(const char *call)
{
	int saved = errno;
	int mode;
	int answer = 0;
	int in_pci = 0;
	uint64_t hash;

	if (control == NULL || inside)
		return 0;
	mode = atomic_load(&control->mode);
	if (mode == FAILS_OFF || (mode == FAILS_ONCE && atomic_load(&control->met)))
		return 0;
	inside = 1;
	if (getpid() == owner) {
		hash = place_now(call, &in_pci);
		if (hash != 0 && mode == FAILS_LEARN)
			learn(hash, call, in_pci);
		else if (hash != 0 && hash == control->place[atomic_load(&control->target)].hash)
			answer = !atomic_exchange(&control->met, 1);
	}
	inside = 0;
	errno = saved;
	return answer;
}

/* The function of libc behind ours. */
static void *real(const char *name)
{
	int was = inside;
	void *found;

	inside = 1;
	found = dlsym(RTLD_NEXT, name);
	inside = was;
	if (found == NULL)
		abort();
	return found;
}

#ifndef __SANITIZE_ADDRESS__
/* glibc's own names for what is replaced here. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
	if (now("malloc")) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	if (now("calloc")) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	if (now("realloc")) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_realloc(old, size);
}
#endif

#define WRAP(type, name, parameters, arguments, failed, error) \
	type name parameters; \
	type name parameters \
	{ \
		static type(*libc) parameters; \
 \
		if (now(#name)) { \
			errno = error; \
			return failed; \
		} \
		if (libc == NULL) \
			*(void **)&libc = real(#name); \
		return libc arguments; \
	}

WRAP(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size), -1, EIO)
WRAP(ssize_t, pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at), -1, EIO)
WRAP(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), -1, ENOSPC)
WRAP(off_t, lseek, (int fd, off_t at, int from), (fd, at, from), -1, EINVAL)
WRAP(int, ftruncate, (int fd, off_t size), (fd, size), -1, ENOSPC)
WRAP(int, fstat, (int fd, struct stat *st), (fd, st), -1, EIO)
WRAP(int, access, (const char *path, int bits), (path, bits), -1, EACCES)
WRAP(int, faccessat, (int dir, const char *path, int bits, int flags), (dir, path, bits, flags), -1, EACCES)
WRAP(int, mkdir, (const char *path, mode_t bits), (path, bits), -1, ENOSPC)
WRAP(DIR *, fdopendir, (int fd), (fd), NULL, ENOMEM)
WRAP(struct dirent *, readdir, (DIR * dir), (dir), NULL, EIO)
WRAP(ssize_t, readlink, (const char *path, char *to, size_t size), (path, to, size), -1, EACCES)
WRAP(ssize_t, readlinkat, (int dir, const char *path, char *to, size_t size), (dir, path, to, size), -1, EACCES)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1, EMFILE)
WRAP(int, dup2, (int from, int to), (from, to), -1, EBADF)
WRAP(int, pipe2, (int fds[2], int flags), (fds, flags), -1, EMFILE)
WRAP(int, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds), -1, EMFILE)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1, ENOBUFS)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1, ENOMEM)
WRAP(ssize_t, recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags), -1, ENOMEM)
WRAP(int, poll, (struct pollfd * list, nfds_t count, int ms), (list, count, ms), -1, ENOMEM)
WRAP(int, ppoll, (struct pollfd * list, nfds_t count, const struct timespec *time, const sigset_t *mask),
     (list, count, time, mask), -1, ENOMEM)
WRAP(pid_t, fork, (void), (), -1, EAGAIN)
WRAP(pid_t, waitpid, (pid_t pid, int *status, int flags), (pid, status, flags), -1, ECHILD)
WRAP(int, setpgid, (pid_t pid, pid_t group), (pid, group), -1, EPERM)
WRAP(void *, mmap, (void *at, size_t size, int may, int flags, int fd, off_t from),
     (at, size, may, flags, fd, from), MAP_FAILED, ENOMEM)
WRAP(void *, dlopen, (const char *path, int flags), (path, flags), NULL, ENOMEM)
WRAP(int, pthread_create, (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (thread, attr, run, arg), EAGAIN, EAGAIN)

static int opened(int dir, const char *path, int flags, va_list more)
{
	static int (*libc)(int, const char *, int, ...);
	mode_t bits = flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(more, int) : 0;

	if (libc == NULL)
		*(void **)&libc = real("openat");
	return libc(dir, path, flags, bits);
}

int open(const char *path, int flags, ...)
{
	va_list more;
	int fd;

	if (now("open")) {
		errno = EMFILE;
		return -1;
	}
	va_start(more, flags);
	fd = opened(AT_FDCWD, path, flags, more);
	va_end(more);
	return fd;
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list more;
	int fd;

	if (now("openat")) {
		errno = EMFILE;
		return -1;
	}
	va_start(more, flags);
	fd = opened(dir, path, flags, more);
	va_end(more);
	return fd;
}

/* openat2 and pidfd_open come through here. */
long syscall(long number, ...)
{
	static long (*libc)(long, ...);
	long a[6];
	va_list more;

	va_start(more, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(more, long);
	va_end(more);
	if (now("syscall")) {
		errno = EMFILE;
		return -1;
	}
	if (libc == NULL)
		*(void **)&libc = real("syscall");
	return libc(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
