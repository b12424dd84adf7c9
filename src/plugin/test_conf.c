/* Lines host_dir=DIR and cuda_library=FILE, absolute; "#" begins a comment. Whoever may write this file can hide a broken
 * machine, so it must belong to root or the caller and be writable by nobody else. */
#define _GNU_SOURCE
#include "test_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *open_trusted(const char *path, int *fd)
{
	struct stat st;

	*fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (*fd < 0)
		return errno == ENOENT ? "there is no such file" : errno == ELOOP ? "it is a link" : "it cannot be read";
	if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode))
		return "it is no regular file";
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return "it belongs to somebody else";
	/* Within a user namespace owners without a name all look like this one; the kernel lets only the true owner do this. */
	if (st.st_uid == 65534 && fcntl(*fd, F_SETFL, O_NONBLOCK | O_NOATIME) != 0)
		return "it may belong to somebody else";
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return "others may write it";
	return NULL;
}

static const char *read_all(int fd, char *text, size_t cap)
{
	size_t n = 0;

	while (n < cap) {
		ssize_t got = read(fd, text + n, cap - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return "it cannot be read";
		if (got == 0)
			break;
		n += (size_t)got;
	}
	if (n == cap)
		return "it is too long";
	text[n] = '\0';
	return strlen(text) == n ? NULL : "it holds a zero byte";
}

static const char *parse_line(struct p2s_test_conf *conf, char *line)
{
	char *value = strchr(line, '=');
	const char **to;

	line[strcspn(line, "\r")] = '\0';
	if (line[0] == '\0' || line[0] == '#')
		return NULL;
	if (value == NULL)
		return "a line is neither a comment nor NAME=VALUE";
	*value++ = '\0';
	if (strcmp(line, "host_dir") == 0)
		to = &conf->host_dir;
	else if (strcmp(line, "cuda_library") == 0)
		to = &conf->cuda_library;
	else
		return "it has a name other than host_dir and cuda_library";
	if (*to != NULL)
		return "a name is there twice";
	if (value[0] != '/')
		return "a path is not absolute";
	*to = value;
	return NULL;
}

int32_t p2s_test_conf_read(struct p2s_test_conf *conf, const char *path, const char **why)
{
	int fd;

	memset(conf, 0, sizeof *conf);
	*why = open_trusted(path, &fd);
	if (*why == NULL)
		*why = read_all(fd, conf->text, sizeof conf->text);
	if (fd >= 0)
		close(fd);
	for (char *line = conf->text, *next; *why == NULL && line != NULL; line = next) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		*why = parse_line(conf, line);
	}
	if (*why == NULL && conf->host_dir == NULL && conf->cuda_library == NULL)
		*why = "it names neither host_dir nor cuda_library";
	return *why == NULL;
}
