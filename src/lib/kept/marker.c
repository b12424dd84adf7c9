#define _GNU_SOURCE
#include "kept/marker.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kept/trust.h"

#define NAME "marker"
#define TEMPORARY "tmp-marker"
#define LENGTH 256 /* fixed, so that a later step overwrites the earlier one in place */

enum p2s_marker_state p2s_marker_look(struct p2s_marker *m, int dir, uint64_t key, const char *boot_id, char *what, size_t cap)
{
	char boot[48];
	char step[128];
	unsigned long long kept_key;
	int count;
	const char *why;
	size_t len;
	char *text;
	enum p2s_marker_state state;

	memset(m, 0, sizeof *m);
	m->dir = dir;
	m->key = key;
	m->fd = -1;
	snprintf(m->boot_id, sizeof m->boot_id, "%s", boot_id[0] != '\0' ? boot_id : "-");
	snprintf(what, cap, "%s", "");
	if (dir < 0)
		return P2S_MARKER_NONE;
	text = p2s_trust_read(dir, NAME, LENGTH, 1, &len, &why);
	if (text == NULL) {
		if (strcmp(why, "absent") == 0)
			return P2S_MARKER_NONE;
		snprintf(what, cap, "marker: %s", why);
		return P2S_MARKER_BROKEN;
	}
	if (sscanf(text, "p2psafe-marker 1 boot=%47s key=%llx count=%d step=%127[^\n]", boot, &kept_key, &count, step) != 4) {
		snprintf(what, cap, "marker: not readable");
		state = P2S_MARKER_BROKEN;
	} else if (kept_key != key) {
		state = P2S_MARKER_NONE; /* the host is another one now: other driver, kernel or cards */
	} else {
		for (size_t n = strlen(step); n > 0 && step[n - 1] == ' '; n--)
			step[n - 1] = '\0';
		snprintf(what, cap, "%s", step);
		if (strcmp(boot, m->boot_id) != 0) {
			state = P2S_MARKER_EARLIER;
		} else {
			m->count = count > 0 ? count : 1;
			state = m->count >= 2 ? P2S_MARKER_TWO : P2S_MARKER_ONE;
		}
	}
	free(text);
	return state;
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
	if (m->written)
		return pwrite(m->fd, text, LENGTH, 0) == LENGTH;
	unlinkat(m->dir, TEMPORARY, 0);
	m->fd = openat(m->dir, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (m->fd < 0)
		return 0;
	if (pwrite(m->fd, text, LENGTH, 0) != LENGTH || fsync(m->fd) != 0 || renameat(m->dir, TEMPORARY, m->dir, NAME) != 0 ||
	    fsync(m->dir) != 0) {
		unlinkat(m->dir, TEMPORARY, 0);
		close(m->fd);
		m->fd = -1;
		return 0;
	}
	m->written = 1;
	m->count++;
	return 1;
}

void p2s_marker_end(struct p2s_marker *m, int32_t keep)
{
	if (m->written && !keep) {
		unlinkat(m->dir, NAME, 0);
		fsync(m->dir);
	}
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
	m->written = 0;
}
