#define _GNU_SOURCE
#include "ipc/find.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef P2S_HELPER_PATH
#error "the build gives the installed path of the helper"
#endif

#define RELATIVE "libexec/p2psafe/p2psafe-helper"

static int32_t try(const char *candidate, char *path, size_t cap, char *tried, size_t tried_cap)
{
	char real[PATH_MAX];
	struct stat st;
	size_t used = strlen(tried);

	if (realpath(candidate, real) != NULL && stat(real, &st) == 0 && S_ISREG(st.st_mode) && access(real, X_OK) == 0 &&
	    strlen(real) < cap) {
		memcpy(path, real, strlen(real) + 1);
		return 1;
	}
	snprintf(tried + used, tried_cap - used, "%s%s", used > 0 ? ", " : "", candidate);
	return 0;
}

/* <dir of file>/<up>/libexec/p2psafe/p2psafe-helper */
static int32_t try_beside(const char *file, const char *up, char *path, size_t cap, char *tried, size_t tried_cap)
{
	char candidate[PATH_MAX + 64];
	const char *slash = strrchr(file, '/');

	if (slash == NULL)
		return 0;
	snprintf(candidate, sizeof candidate, "%.*s/%s/" RELATIVE, (int)(slash - file), file, up);
	return try(candidate, path, cap, tried, tried_cap);
}

int32_t p2s_find_helper(const char *option, char *path, size_t cap, char *tried, size_t tried_cap)
{
	static const char anchor = 0; /* an address inside whatever this code was linked into */
	char self[PATH_MAX];
	char program[PATH_MAX];
	ssize_t n;
	Dl_info info;

	tried[0] = '\0';
	if (option != NULL)
		return try(option, path, cap, tried, tried_cap);
	n = readlink("/proc/self/exe", program, sizeof program - 1);
	program[n > 0 ? n : 0] = '\0';
	if (dladdr(&anchor, &info) == 0 || info.dli_fname == NULL || realpath(info.dli_fname, self) == NULL)
		self[0] = '\0';
	/* Linked statically, dladdr gives the program's name as it was typed, which may not resolve. */
	if (self[0] == '\0')
		memcpy(self, program, sizeof self);
	if (try_beside(self, "..", path, cap, tried, tried_cap))
		return 1;
	/* <prefix>/lib/<multiarch>/libp2psafe.so.1 */
	if (try_beside(self, "../..", path, cap, tried, tried_cap))
		return 1;
	return try(P2S_HELPER_PATH, path, cap, tried, tried_cap);
}
