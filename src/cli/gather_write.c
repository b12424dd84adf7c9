/* Writes the new folder. */
#include "gather.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void failed(struct gather *g, const char *path)
{
	if (g->failed != 0)
		return;
	g->failed = errno != 0 ? errno : EIO;
	snprintf(g->failed_path, sizeof(g->failed_path), "%.255s", path);
}

/* Makes the folders above the last part of path. */
static void make_parents(struct gather *g, const char *path)
{
	char part[512];
	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return; /* the file itself fails then */
	for (char *slash = strchr(part, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (part[0] != '\0' && mkdirat(g->to, part, 0777) != 0 && errno != EEXIST)
			failed(g, part);
		*slash = '/';
	}
}

void gather_folder(struct gather *g, const char *path)
{
	make_parents(g, path);
	if (mkdirat(g->to, path, 0777) != 0 && errno != EEXIST)
		failed(g, path);
}

void gather_write(struct gather *g, const char *path, const void *data, size_t len)
{
	const char *at = data;
	make_parents(g, path);
	int fd = openat(g->to, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0) {
		failed(g, path);
		return;
	}
	while (len > 0) {
		ssize_t n = write(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			failed(g, path);
			break;
		}
		at += n;
		len -= (size_t)n;
	}
	if (close(fd) != 0)
		failed(g, path);
}

void gather_link(struct gather *g, const char *path, const char *text)
{
	make_parents(g, path);
	if (symlinkat(text, g->to, path) != 0 && errno != EEXIST)
		failed(g, path);
}
