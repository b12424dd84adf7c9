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

static void add_tried(char *tried, size_t cap, const char *candidate, const char *why)
{
	size_t used = strlen(tried);

	snprintf(tried + used, cap - used, "%s%s%s", used > 0 ? ", " : "", candidate, why);
}

/* May every user put another file there? What lies in a sticky folder is safe from others. */
static int32_t anybodys_folder(const char *file)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(file, '/');
	struct stat st;

	if (slash == NULL || slash == file)
		return 0;
	snprintf(folder, sizeof folder, "%.*s", (int)(slash - file), file);
	return stat(folder, &st) != 0 || (st.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH;
}

/* named: by the caller, who answers for it. What is found without being named is executed only if not every user could have put it
 * there. */
static int32_t try(const char *candidate, int32_t named, char *path, size_t cap, char *tried, size_t tried_cap)
{
	char real[PATH_MAX];
	struct stat st;

	if (realpath(candidate, real) == NULL || stat(real, &st) != 0 || !S_ISREG(st.st_mode) || access(real, X_OK) != 0 ||
	    strlen(real) >= cap) {
		add_tried(tried, tried_cap, candidate, "");
		return 0;
	}
	if (!named && (st.st_mode & S_IWOTH || anybodys_folder(real))) {
		add_tried(tried, tried_cap, real, " (every user may write it)");
		return 0;
	}
	memcpy(path, real, strlen(real) + 1);
	return 1;
}

/* <dir of file>/<up>/libexec/p2psafe/p2psafe-helper */
static int32_t try_beside(const char *file, const char *up, char *path, size_t cap, char *tried, size_t tried_cap)
{
	char candidate[PATH_MAX + 64];
	const char *slash = strrchr(file, '/');

	if (slash == NULL)
		return 0;
	snprintf(candidate, sizeof candidate, "%.*s/%s/" RELATIVE, (int)(slash - file), file, up);
	return try(candidate, 0, path, cap, tried, tried_cap);
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
		return try(option, 1, path, cap, tried, tried_cap);
	n = readlink("/proc/self/exe", program, sizeof program - 1);
	program[n > 0 ? n : 0] = '\0';
	if (dladdr(&anchor, &info) == 0 || info.dli_fname == NULL || realpath(info.dli_fname, self) == NULL)
		self[0] = '\0';
	/* Linked statically, dladdr gives the program's name as it was typed, which may not resolve. */
	if (self[0] == '\0')
		memcpy(self, program, sizeof self);
	/* The second way: <prefix>/lib/<multiarch>/libp2psafe.so.1 */
	if (anybodys_folder(self))
		add_tried(tried, tried_cap, self, " (every user may write it)");
	else if (try_beside(self, "..", path, cap, tried, tried_cap) || try_beside(self, "../..", path, cap, tried, tried_cap))
		return 1;
	return try(P2S_HELPER_PATH, 0, path, cap, tried, tried_cap);
}
