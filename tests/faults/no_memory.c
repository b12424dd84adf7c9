/* Loaded before a program (LD_PRELOAD): the allocation that NO_MEMORY_AT names, from 1, fails; others do not. The file
 * NO_MEMORY_COUNT, two numbers of 64 bits, holds how many there were, and 1 if one failed. Those of jansson's parser do not
 * count: what jansson 2.14 does without memory for a long word is undefined (SECURITY.md). What the program executes is left
 * alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEPTH 14

/* glibc's own names for what is replaced here. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static int64_t without[2];
static int64_t *told = without; /* how many there were; 1 if one failed */
static int64_t target;
static int counts; /* from main on, and not while we look where a call comes from */

__attribute__((constructor)) static void begin(void)
{
	const char *at = getenv("NO_MEMORY_AT");
	const char *to = getenv("NO_MEMORY_COUNT");
	int fd = to != NULL ? open(to, O_RDWR | O_CLOEXEC) : -1;
	void *map = fd >= 0 ? mmap(NULL, sizeof without, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	void *warm[2];

	if (map != MAP_FAILED)
		told = map;
	if (fd >= 0)
		close(fd);
	target = at != NULL ? atol(at) : 0;
	unsetenv("LD_PRELOAD");
	unsetenv("NO_MEMORY_AT");
	unsetenv("NO_MEMORY_COUNT");
	backtrace(warm, 2); /* loads what it needs the first time */
	counts = 1;
}

static int parsing(void)
{
	void *frames[DEPTH];
	int n = backtrace(frames, DEPTH);
	Dl_info info;

	for (int i = 2; i < n; i++)
		if (dladdr(frames[i], &info) != 0 && info.dli_sname != NULL && strncmp(info.dli_sname, "json_load", 9) == 0)
			return 1;
	return 0;
}

static int now(void)
{
	int passes;

	if (!counts)
		return 0;
	counts = 0;
	passes = parsing();
	counts = 1;
	if (passes || ++told[0] != target)
		return 0;
	told[1] = 1;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size)
{
	return now() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return now() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	return now() ? NULL : __libc_realloc(old, size);
}
