#define _GNU_SOURCE
#include "kept/marker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kept/trust.h"

#define TEMPORARY "tmp-" /* before the name */
#define LENGTH 256 /* fixed, so that a later step overwrites the earlier one in place */

static const char *const names[P2S_MARKER_KINDS] = {
	[P2S_MARKER_RUN] = "marker", [P2S_MARKER_SOAK] = "soak-marker", [P2S_MARKER_SIMULATED] = "simulated-marker"};

int32_t p2s_marker_is_name(const char *name)
{
	if (strncmp(name, TEMPORARY, sizeof TEMPORARY - 1) == 0)
		name += sizeof TEMPORARY - 1;
	for (int k = 0; k < P2S_MARKER_KINDS; k++)
		if (strcmp(name, names[k]) == 0)
			return 1;
	return 0;
}

/* Is the run that wrote this file still there? It holds a lock on it. */
static int32_t alive(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int32_t held;

	if (fd < 0)
		return 0;
	held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
	close(fd);
	return held;
}

static enum p2s_marker_state judge(const char *text, uint64_t key, const char *boot_id, int32_t *count, char *what, size_t cap)
{
	char boot[48];
	char step[128];
	unsigned long long kept_key;
	int n;

	if (sscanf(text, "p2psafe-marker 1 boot=%47s key=%llx count=%d step=%127[^\n]", boot, &kept_key, &n, step) != 4) {
		snprintf(what, cap, "marker: not readable");
		return P2S_MARKER_BROKEN;
	}
	if (kept_key != key)
		return P2S_MARKER_NONE; /* the host is another one now: other driver, kernel or cards */
	for (size_t end = strlen(step); end > 0 && step[end - 1] == ' '; end--)
		step[end - 1] = '\0';
	snprintf(what, cap, "%s", step);
	/* "-": the boot's name could not be read, then or now. Nobody can say that it is the same one. */
	if (strcmp(boot, boot_id) != 0 || strcmp(boot, "-") == 0)
		return P2S_MARKER_EARLIER;
	*count = n > 0 ? n : 1;
	return *count >= 2 ? P2S_MARKER_TWO : P2S_MARKER_ONE;
}

static enum p2s_marker_state read_one(int dir, const char *name, uint64_t key, const char *boot_id, int32_t *count, char *what,
                                      size_t cap)
{
	enum p2s_marker_state state;
	const char *why;
	size_t len;
	char *text = p2s_trust_read(dir, name, LENGTH, 1, &len, &why);

	*count = 0;
	snprintf(what, cap, "%s", "");
	if (text == NULL && strcmp(why, "absent") == 0)
		return P2S_MARKER_NONE;
	if (text == NULL) {
		snprintf(what, cap, "marker: %s", why);
		return P2S_MARKER_BROKEN;
	}
	state = judge(text, key, boot_id, count, what, cap);
	free(text);
	return state;
}

/* Of two markers the one that says more: what forbids by itself, and two left by one run each are two. */
static enum p2s_marker_state both(enum p2s_marker_state a, enum p2s_marker_state b)
{
	if (a == P2S_MARKER_ONE && b == P2S_MARKER_ONE)
		return P2S_MARKER_TWO;
	return a > b ? a : b;
}

static const char *known(const char *boot_id)
{
	return boot_id[0] != '\0' ? boot_id : "-";
}

/* The markers of other kinds that concern a run of this one. */
static enum p2s_marker_state look_at_others(struct p2s_marker *m, enum p2s_marker_state state, char *what, size_t cap)
{
	for (int k = P2S_MARKER_RUN; k <= P2S_MARKER_SOAK; k++) {
		enum p2s_marker_state there;
		char step[160];
		int32_t count;

		if (k == (int)m->kind || alive(m->dir, names[k]))
			continue;
		there = read_one(m->dir, names[k], m->key, m->boot_id, &count, step, sizeof step);
		if (there == P2S_MARKER_NONE)
			continue;
		m->stale |= 1 << k;
		m->count += count;
		if (there >= state)
			snprintf(what, cap, "%s", step);
		state = both(state, there);
	}
	return state;
}

enum p2s_marker_state p2s_marker_look_as(struct p2s_marker *m, enum p2s_marker_kind kind, int dir, uint64_t key,
                                         const char *boot_id, char *what, size_t cap)
{
	enum p2s_marker_state state;

	memset(m, 0, sizeof *m);
	m->dir = dir;
	m->kind = kind;
	m->key = key;
	m->fd = -1;
	snprintf(m->boot_id, sizeof m->boot_id, "%s", known(boot_id));
	snprintf(what, cap, "%s", "");
	if (dir < 0)
		return P2S_MARKER_NONE;
	if (kind == P2S_MARKER_SOAK && alive(dir, names[kind])) {
		snprintf(what, cap, "%s is held", names[kind]);
		m->dir = -1; /* the marker there is not ours to change */
		return P2S_MARKER_BUSY;
	}
	state = read_one(dir, names[kind], key, m->boot_id, &m->count, what, cap);
	return kind == P2S_MARKER_SIMULATED ? state : look_at_others(m, state, what, cap);
}

enum p2s_marker_state p2s_marker_look(struct p2s_marker *m, int dir, uint64_t key, const char *boot_id, char *what, size_t cap)
{
	return p2s_marker_look_as(m, P2S_MARKER_RUN, dir, key, boot_id, what, cap);
}

static int32_t same_folder(int a, int b)
{
	struct stat sa, sb;

	return a >= 0 && b >= 0 && fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

enum p2s_marker_state p2s_marker_peek(enum p2s_marker_state before, int seen, int dir, uint64_t key, const char *boot_id,
									  char *what, size_t cap)
{
	struct p2s_marker m = {.dir = dir, .kind = P2S_MARKER_KINDS, .key = key};
	enum p2s_marker_state there;
	char step[160] = "";

	if (dir < 0 || same_folder(seen, dir))
		return before;
	snprintf(m.boot_id, sizeof m.boot_id, "%s", known(boot_id));
	there = look_at_others(&m, P2S_MARKER_NONE, step, sizeof step);
	if (there != P2S_MARKER_NONE && there >= before)
		snprintf(what, cap, "%s", step);
	return both(before, there);
}

/* Is the file under our name the one that we have open? */
static int32_t in_place(const struct p2s_marker *m)
{
	struct stat ours, there;

	return fstat(m->fd, &ours) == 0 && fstatat(m->dir, names[m->kind], &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

/* A new file under our name, on disk. Of a marker that is there and not ours the count is in our text. */
static int32_t put(struct p2s_marker *m, const char *text)
{
	char temporary[32];
	int fd;

	snprintf(temporary, sizeof temporary, TEMPORARY "%s", names[m->kind]);
	unlinkat(m->dir, temporary, 0);
	fd = openat(m->dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return 0;
	/* Whoever tests next must be able to read it, whatever the mask; without the lock it only looks older than it is. */
	(void)!fchmod(fd, 0644);
	(void)flock(fd, LOCK_EX | LOCK_NB);
	if (pwrite(fd, text, LENGTH, 0) != LENGTH || fsync(fd) != 0 ||
	    renameat(m->dir, temporary, m->dir, names[m->kind]) != 0 || fsync(m->dir) != 0) {
		unlinkat(m->dir, temporary, 0);
		close(fd);
		return 0;
	}
	if (m->fd >= 0)
		close(m->fd);
	m->fd = fd;
	return 1;
}

int32_t p2s_marker_write(struct p2s_marker *m, const char *src, const char *dst, const char *leg)
{
	char text[LENGTH + 1];
	int n;

	if (m->dir < 0 || !p2s_trust_may_grow(LENGTH))
		return 0;
	n = snprintf(text, sizeof text, "p2psafe-marker 1 boot=%s key=%" PRIx64 " count=%d step=%s>%s %s", m->boot_id, m->key,
	             (int)m->count + (m->written ? 0 : 1), src, dst, leg);
	if (n < 0 || n >= LENGTH)
		return 0;
	memset(text + n, ' ', LENGTH - (size_t)n);
	text[LENGTH - 1] = '\n';
	if (m->written && in_place(m))
		return pwrite(m->fd, text, LENGTH, 0) == LENGTH;
	if (!put(m, text))
		return 0;
	if (!m->written)
		m->count++;
	m->written = 1;
	for (int k = 0; k < P2S_MARKER_KINDS; k++)
		if (m->stale & 1 << k)
			unlinkat(m->dir, names[k], 0);
	m->stale = 0;
	return 1;
}

void p2s_marker_end(struct p2s_marker *m, int32_t keep)
{
	if (m->written && !keep && in_place(m)) {
		unlinkat(m->dir, names[m->kind], 0);
		fsync(m->dir);
	}
	if (m->fd >= 0) {
		flock(m->fd, LOCK_UN); /* also for a process that was forked meanwhile and has it open */
		close(m->fd);
	}
	m->fd = -1;
	m->written = 0;
}
