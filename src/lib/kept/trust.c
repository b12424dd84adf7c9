#define _GNU_SOURCE
#include "kept/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/owner.h"

static const char *judge(int fd, const struct stat *st)
{
	if (!p2s_owner_is_trusted(fd, st->st_uid))
		return "belongs to somebody else";
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return "others may write it";
	return NULL;
}

int p2s_trust_dir(const char *path, const char **why)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	*why = NULL;
	if (fd < 0) {
		*why = errno == ENOENT ? "absent" : errno == EACCES || errno == EPERM ? "not readable" : "a link or no folder";
		return -1;
	}
	*why = fstat(fd, &st) != 0 ? "cannot be examined" : judge(fd, &st);
	if (*why == NULL)
		return fd;
	close(fd);
	return -1;
}

char *p2s_trust_read(int dir, const char *name, size_t max, int32_t check_owner, size_t *len, const char **why)
{
	struct stat st;
	char *text = NULL;
	size_t n = 0;
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	*why = NULL;
	if (fd < 0) {
		*why = errno == ENOENT ? "absent" : errno == ELOOP ? "a link" : "not readable";
		return NULL;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		*why = "no regular file";
	else if (check_owner)
		*why = judge(fd, &st);
	if (*why == NULL && (st.st_size < 0 || (uint64_t)st.st_size > max))
		*why = "too long";
	/* What grows meanwhile is cut, and then not whole. */
	if (*why == NULL) {
		max = (size_t)st.st_size;
		text = malloc(max + 1);
		if (text == NULL)
			*why = "out of memory";
	}
	while (text != NULL && n < max) {
		ssize_t r = read(fd, text + n, max - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			*why = "an error while reading";
			free(text);
			text = NULL;
		}
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	close(fd);
	if (text != NULL) {
		text[n] = '\0';
		*len = n;
	}
	return text;
}

int32_t p2s_trust_may_grow(size_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}
