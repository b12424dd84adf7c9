#define _GNU_SOURCE
#include "kept/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kept/trust.h"

#define SYSTEM_PLACE "/var/cache/p2psafe"

/* Cuts the last name off an absolute path. Returns 0 when only the root is left. */
static int32_t go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash == NULL || path[1] == '\0')
		return 0;
	slash[slash == path] = '\0';
	return 1;
}

/* Can other machines see what is written there? So they can unless the file system is known to be of one machine: numbers as in
 * linux/magic.h and in the sources of those that are not part of the kernel. A FUSE may be anything. */
static int32_t may_be_shared(const char *dir)
{
	static const unsigned long of_one_machine[] = {
		0xEF53 /* ext2 to ext4 */, 0x58465342 /* xfs */,     0x9123683E /* btrfs */,     0xF2F52010 /* f2fs */,
		0x01021994 /* tmpfs */,    0x858458F6 /* ramfs */,   0x794C7630 /* overlayfs */, 0x61756673 /* aufs */,
		0x2FC12FC1 /* zfs */,      0xCA451A4E /* bcachefs */, 0x3153464A /* jfs */,       0x52654973 /* reiserfs */};
	char path[512];
	struct statfs fs;

	snprintf(path, sizeof path, "%s", dir);
	while (statfs(path, &fs) != 0)
		if (!go_up(path))
			return 0;
	for (size_t i = 0; i < sizeof of_one_machine / sizeof of_one_machine[0]; i++)
		if (of_one_machine[i] == ((unsigned long)fs.f_type & 0xFFFFFFFF))
			return 0;
	return 1;
}

/* The folder of this machine below a folder of several: "/on-<name>". */
static void machine_folder(char *out, size_t cap)
{
	struct utsname u;

	snprintf(out, cap, "/on-%.64s", uname(&u) == 0 ? u.nodename : "");
	for (char *c = out + 1; *c != '\0'; c++)
		if (*c == '/' || (unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7F)
			*c = '_';
}

/* anywhere: it may lie on a file server, as homes do. */
static void add(struct p2s_places *p, const char *a, const char *b, int32_t anywhere)
{
	struct p2s_place *place = &p->place[p->count];
	char below[80] = "";

	if (p->count == P2S_PLACES || a[0] != '/' || strlen(a) + strlen(b) >= sizeof place->dir)
		return;
	place->fd = -1;
	snprintf(place->dir, sizeof place->dir, "%s%s", a, b);
	if (anywhere && may_be_shared(place->dir)) {
		machine_folder(below, sizeof below);
		place->above = (int)strlen(place->dir);
		if ((size_t)place->above + strlen(below) >= sizeof place->dir)
			return;
		strcat(place->dir, below);
	}
	p->count++;
}

/* A folder with that mode, whatever our mask. */
static void make_folder(const char *path, mode_t mode)
{
	int fd;

	if (mkdir(path, mode) != 0)
		return;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!fchmod(fd, mode);
	close(fd);
}

/* Creates the missing tail of a path: the user's folders for the user alone, root's readable for all. */
static void make_path(const char *path)
{
	mode_t mode = geteuid() == 0 ? 0755 : 0700;
	char part[512];

	snprintf(part, sizeof part, "%s", path);
	for (char *slash = part + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		make_folder(part, mode);
		*slash = '/';
	}
	make_folder(part, mode);
}

/* Could a missing folder be made? True if the nearest folder above it may be written. */
static int32_t could_make(const char *path)
{
	char part[512];

	snprintf(part, sizeof part, "%s", path);
	while (go_up(part))
		if (faccessat(AT_FDCWD, part, F_OK, AT_EACCESS) == 0)
			return faccessat(AT_FDCWD, part, W_OK | X_OK, AT_EACCESS) == 0;
	return 0;
}

static int32_t is_absent(const struct p2s_place *place)
{
	return place->fd < 0 && strcmp(place->why, "absent") == 0;
}

static void open_place(struct p2s_place *place)
{
	char above[sizeof place->dir];
	const char *why = NULL;

	place->fd = -1;
	if (place->above > 0) {
		snprintf(above, sizeof above, "%.*s", place->above, place->dir);
		place->fd = p2s_trust_dir(above, &why);
		if (place->fd >= 0)
			close(place->fd);
	}
	if (place->above == 0 || place->fd >= 0)
		place->fd = p2s_trust_dir(place->dir, &why);
	snprintf(place->why, sizeof place->why, "%s", why != NULL ? why : "");
}

void p2s_places_open(struct p2s_places *p, const struct p2s_request *r, int32_t make)
{
	char cwd[400];

	memset(p, 0, sizeof *p);
	p->write = -1;
	if (r->cache_dir != NULL && r->cache_dir[0] != '/') {
		if (getcwd(cwd, sizeof cwd - 1) != NULL) {
			strcat(cwd, "/");
			add(p, cwd, r->cache_dir, 1);
		}
	} else if (r->cache_dir != NULL) {
		add(p, r->cache_dir, "", 1);
	} else if (r->simulated) {
		snprintf(p->why, sizeof p->why, "a simulated host is kept only in an explicit folder");
		return;
	} else {
		add(p, SYSTEM_PLACE, "", 0); /* of one machine, as all of /var/cache */
		if (r->xdg_cache != NULL && r->xdg_cache[0] == '/')
			add(p, r->xdg_cache, "/p2psafe", 1);
		else if (r->home != NULL)
			add(p, r->home, "/.cache/p2psafe", 1);
	}
	for (int i = 0; i < p->count; i++) {
		struct p2s_place *place = &p->place[i];
		int32_t system = r->cache_dir == NULL && i == 0;

		open_place(place);
		if (p->write >= 0 || (system && geteuid() != 0))
			continue;
		if (is_absent(place) && could_make(place->dir)) {
			if (make) {
				make_path(place->dir);
				open_place(place);
			}
			if (!make || place->fd >= 0)
				p->write = i;
		} else if (place->fd >= 0 && faccessat(place->fd, ".", W_OK | X_OK, AT_EACCESS) == 0) {
			p->write = i;
		} else {
			snprintf(p->why, sizeof p->why, "%.100s: %s", place->dir,
			         place->fd >= 0     ? "not writable"
			         : is_absent(place) ? "not there and cannot be made"
			                            : place->why);
		}
	}
	if (p->write < 0 && p->why[0] == '\0')
		snprintf(p->why, sizeof p->why, "no folder to keep a record in");
}

void p2s_places_close(struct p2s_places *p)
{
	for (int i = 0; i < p->count; i++)
		if (p->place[i].fd >= 0)
			close(p->place[i].fd);
	p->count = 0;
	p->write = -1;
}
