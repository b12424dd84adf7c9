#define _GNU_SOURCE
#include "kept/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kept/trust.h"

#define SYSTEM_PLACE "/var/cache/p2psafe"

static void add(struct p2s_places *p, const char *a, const char *b)
{
	struct p2s_place *place;

	if (p->count == P2S_PLACES || a[0] != '/' || strlen(a) + strlen(b) >= sizeof p->place[0].dir)
		return;
	place = &p->place[p->count++];
	place->fd = -1;
	place->why[0] = '\0';
	snprintf(place->dir, sizeof place->dir, "%s%s", a, b);
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
	char *slash;

	snprintf(part, sizeof part, "%s", path);
	while ((slash = strrchr(part, '/')) != NULL) {
		slash[slash == part] = '\0';
		if (faccessat(AT_FDCWD, part, F_OK, AT_EACCESS) == 0)
			return faccessat(AT_FDCWD, part, W_OK | X_OK, AT_EACCESS) == 0;
		if (slash == part)
			break;
	}
	return 0;
}

static int32_t is_absent(const struct p2s_place *place)
{
	return place->fd < 0 && strcmp(place->why, "absent") == 0;
}

static void open_place(struct p2s_place *place)
{
	const char *why;

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
			add(p, cwd, r->cache_dir);
		}
	} else if (r->cache_dir != NULL) {
		add(p, r->cache_dir, "");
	} else if (r->simulated) {
		snprintf(p->why, sizeof p->why, "a simulated host is kept only in an explicit folder");
		return;
	} else {
		add(p, SYSTEM_PLACE, "");
		if (r->xdg_cache != NULL && r->xdg_cache[0] == '/')
			add(p, r->xdg_cache, "/p2psafe");
		else if (r->home != NULL)
			add(p, r->home, "/.cache/p2psafe");
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
