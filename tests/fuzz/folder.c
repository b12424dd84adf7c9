#define _GNU_SOURCE
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static char root[256];
static int root_fd = -1;

static void empty(int dir)
{
	DIR *d = fdopendir(dir);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		int below;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(d), e->d_name, 0) == 0)
			continue;
		below = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0)
			empty(below);
		unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	if (d != NULL)
		closedir(d);
}

static void remove_all(void)
{
	empty(root_fd);
	rmdir(root);
}

const char *folder_path(void)
{
	const char *tmp = getenv("TMPDIR");

	if (root_fd >= 0)
		return root;
	snprintf(root, sizeof root, "%.200s/p2psafe-fuzz-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
	FUZZ_ASSERT(mkdtemp(root) != NULL);
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FUZZ_ASSERT(root_fd >= 0 && atexit(remove_all) == 0);
	return root;
}

static void make_parents(const char *name)
{
	char part[512];

	snprintf(part, sizeof part, "%s", name);
	for (char *slash = part; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		FUZZ_ASSERT(mkdirat(root_fd, part, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
}

void folder_write(const char *name, const void *bytes, size_t size)
{
	int fd;

	folder_path();
	fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 && errno == ENOENT) {
		make_parents(name);
		fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	}
	FUZZ_ASSERT(fd >= 0);
	for (size_t n = 0; n < size;) {
		ssize_t r = write(fd, (const char *)bytes + n, size - n);

		FUZZ_ASSERT(r > 0);
		n += (size_t)r;
	}
	close(fd);
}

void folder_link(const char *name, const char *to)
{
	folder_path();
	make_parents(name);
	unlinkat(root_fd, name, 0);
	FUZZ_ASSERT(symlinkat(to, root_fd, name) == 0);
}

char *folder_read(const char *name, size_t *size)
{
	struct stat st;
	char *text = NULL;
	int fd;

	folder_path();
	fd = openat(root_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		text = calloc(1, (size_t)st.st_size + 1);
		FUZZ_ASSERT(text != NULL && read(fd, text, (size_t)st.st_size) == st.st_size);
		*size = (size_t)st.st_size;
	}
	if (fd >= 0)
		close(fd);
	return text;
}

void folder_remove(const char *name)
{
	folder_path();
	unlinkat(root_fd, name, 0);
}
