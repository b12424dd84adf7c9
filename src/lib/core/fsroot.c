#define _GNU_SOURCE
#include "core/fsroot.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TURNS 1000 /* beside a thread that does nothing but rename, one open in fourteen fails (measured on 2 cores) */

static enum p2s_read classify(int e)
{
	switch (e) {
	case ENOENT:
	case ENOTDIR:
		return P2S_READ_ABSENT;
	case EACCES:
	case EPERM:
		return P2S_READ_DENIED;
	default:
		return P2S_READ_ERROR;
	}
}

static int open_below(const struct p2s_fsroot *root, const char *path, int flags)
{
	/* openat2 refuses with EINVAL what openat ignores: O_PATH beside flags that mean nothing to it. */
	flags |= (flags & O_PATH) != 0 ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	while (*path == '/')
		path++;
	if (*path == '\0')
		path = ".";
	if (root->simulated) {
		/* Links inside a captured tree are resolved as if the tree were the root. Kernels before 5.6 lack
		 * openat2: there a link that leaves the tree is followed, which only a hostile host folder can use to
		 * show its own reader a file the reader may read anyway. */
		struct open_how how = {.flags = (unsigned)flags, .resolve = RESOLVE_IN_ROOT};
		int turns = 0;
		long fd;

		/* EAGAIN: somebody renamed or mounted anything, anywhere on the machine, while a ".." was followed (openat2(2);
		 * fs/namei.c, handle_dots). Containers that start do so all the time. */
		while ((fd = syscall(SYS_openat2, root->fd, path, &how, sizeof how)) < 0 && errno == EAGAIN && ++turns < TURNS)
			sched_yield();
		if (fd >= 0 || errno != ENOSYS)
			return (int)fd;
	}
	return openat(root->fd, path, flags);
}

int32_t p2s_fsroot_open(struct p2s_fsroot *root, const char *host_dir)
{
	int top;

	root->simulated = host_dir != NULL;
	root->fd = open(host_dir != NULL ? host_dir : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root->fd < 0 || host_dir == NULL)
		return root->fd >= 0;
	top = root->fd;
	root->fd = openat(top, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root->fd >= 0) {
		close(top);
		return 1;
	}
	if (faccessat(top, "sys", F_OK, 0) == 0) {
		root->fd = top;
		return 1;
	}
	close(top);
	errno = ENOENT;
	return 0;
}

void p2s_fsroot_close(struct p2s_fsroot *root)
{
	if (root->fd >= 0)
		close(root->fd);
	root->fd = -1;
}

enum p2s_read p2s_fsroot_read(const struct p2s_fsroot *root, const char *path, char *buf, size_t cap, size_t *len,
                              int *errno_out)
{
	struct stat st;
	size_t n = 0;
	int e = 0;
	int fd = open_below(root, path, O_RDONLY);

	if (len != NULL)
		*len = 0;
	buf[0] = '\0';
	if (fd < 0) {
		e = errno;
	} else if (fstat(fd, &st) != 0) {
		e = errno;
	} else if (!S_ISREG(st.st_mode)) {
		e = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	} else {
		while (n < cap - 1) {
			ssize_t r = read(fd, buf + n, cap - 1 - n);

			if (r < 0 && errno == EINTR)
				continue;
			if (r < 0)
				e = errno;
			if (r <= 0)
				break;
			n += (size_t)r;
		}
		if (e == 0 && n == cap - 1) {
			char more;

			if (read(fd, &more, 1) != 0)
				e = EFBIG;
		}
	}
	if (fd >= 0)
		close(fd);
	if (errno_out != NULL)
		*errno_out = e;
	if (e != 0) {
		buf[0] = '\0';
		return classify(e);
	}
	buf[n] = '\0';
	if (len != NULL)
		*len = n;
	return P2S_READ_OK;
}

enum p2s_read p2s_fsroot_head(const struct p2s_fsroot *root, const char *path, char *buf, size_t cap)
{
	struct stat st;
	size_t n = 0;
	int e = 0;
	int fd = open_below(root, path, O_RDONLY);

	buf[0] = '\0';
	if (fd < 0)
		return classify(errno);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		e = EINVAL;
	while (e == 0 && n < cap - 1) {
		ssize_t r = read(fd, buf + n, cap - 1 - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			e = errno;
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	close(fd);
	buf[e == 0 ? n : 0] = '\0';
	return e == 0 ? P2S_READ_OK : classify(e);
}

enum p2s_read p2s_fsroot_line(const struct p2s_fsroot *root, const char *path, char *buf, size_t cap)
{
	size_t len;
	size_t skip = 0;
	enum p2s_read r = p2s_fsroot_read(root, path, buf, cap, &len, NULL);

	if (r != P2S_READ_OK)
		return r;
	if (memchr(buf, '\0', len) != NULL) {
		buf[0] = '\0';
		return P2S_READ_ERROR; /* binary where a word was expected */
	}
	while (len > 0 && isspace((unsigned char)buf[len - 1]))
		buf[--len] = '\0';
	while (isspace((unsigned char)buf[skip]))
		skip++;
	memmove(buf, buf + skip, len - skip + 1);
	return P2S_READ_OK;
}

enum p2s_read p2s_fsroot_u64(const struct p2s_fsroot *root, const char *path, uint64_t *out)
{
	char text[64];
	char *end;
	unsigned long long v;
	enum p2s_read r = p2s_fsroot_line(root, path, text, sizeof text);

	*out = 0;
	if (r != P2S_READ_OK)
		return r;
	if (!isdigit((unsigned char)text[0]))
		return P2S_READ_ERROR;
	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno != 0 || *end != '\0')
		return P2S_READ_ERROR;
	*out = v;
	return P2S_READ_OK;
}

enum p2s_read p2s_fsroot_link(const struct p2s_fsroot *root, const char *path, char *buf, size_t cap)
{
	ssize_t n;
	int fd = open_below(root, path, O_PATH | O_NOFOLLOW);

	buf[0] = '\0';
	if (fd < 0)
		return classify(errno);
	n = readlinkat(fd, "", buf, cap);
	close(fd);
	if (n < 0)
		return errno == EINVAL || errno == ENOENT ? P2S_READ_ERROR : classify(errno);
	if ((size_t)n >= cap) {
		buf[0] = '\0';
		return P2S_READ_ERROR;
	}
	buf[n] = '\0';
	return P2S_READ_OK;
}

int32_t p2s_fsroot_exists(const struct p2s_fsroot *root, const char *path)
{
	int fd = open_below(root, path, O_PATH);

	if (fd < 0)
		return 0;
	close(fd);
	return 1;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

enum p2s_read p2s_fsroot_list(const struct p2s_fsroot *root, const char *path, char ***names, size_t *count)
{
	struct dirent *entry;
	size_t cap = 0;
	DIR *dir;
	int fd = open_below(root, path, O_RDONLY | O_DIRECTORY);

	*names = NULL;
	*count = 0;
	if (fd < 0)
		return classify(errno);
	dir = fdopendir(fd);
	if (dir == NULL) {
		close(fd);
		return P2S_READ_ERROR;
	}
	for (;;) {
		errno = 0;
		entry = readdir(dir);
		if (entry == NULL && errno != 0)
			goto failed; /* a list that broke off is not the whole list */
		if (entry == NULL)
			break;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (*count == cap) {
			size_t more = cap == 0 ? 32 : cap * 2;
			char **grown = more > 65536 ? NULL : realloc(*names, more * sizeof **names);

			if (grown == NULL)
				goto failed;
			*names = grown;
			cap = more;
		}
		(*names)[*count] = strdup(entry->d_name);
		if ((*names)[*count] == NULL)
			goto failed;
		(*count)++;
	}
	closedir(dir);
	if (*count > 0)
		qsort(*names, *count, sizeof **names, by_name);
	return P2S_READ_OK;
failed:
	closedir(dir);
	p2s_fsroot_names_free(*names, *count);
	*names = NULL;
	*count = 0;
	return P2S_READ_ERROR;
}

void p2s_fsroot_names_free(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}
