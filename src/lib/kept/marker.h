/* No reboot loops: before the first step that could take the machine down a marker is put on disk. If the machine comes
 * back with the marker still there, that step is not repeated. */
#ifndef P2S_KEPT_MARKER_H
#define P2S_KEPT_MARKER_H

#include <stddef.h>
#include <stdint.h>

struct p2s_marker {
	int dir; /* -1: no place; the run goes on without one */
	uint64_t key;
	char boot_id[48];
	int32_t count;   /* runs of this boot that left a marker, ours included */
	int32_t written; /* by us */
	int fd;
};

enum p2s_marker_state {
	P2S_MARKER_NONE,    /* no marker, or one of another host */
	P2S_MARKER_ONE,     /* of this boot, its run is gone: one more run is allowed */
	P2S_MARKER_TWO,     /* of this boot, the second: veto */
	P2S_MARKER_EARLIER, /* of an earlier boot: veto */
	P2S_MARKER_BROKEN   /* there, but not readable: veto */
};

/* Looks for a marker. what (cap bytes): the step it names. dir -1: NONE. The caller holds the lock. */
enum p2s_marker_state p2s_marker_look(struct p2s_marker *m, int dir, uint64_t key, const char *boot_id, char *what, size_t cap);
/* Puts the marker on disk (the first time) or renames its step. Returns 1, 0 if it could not be written. */
int32_t p2s_marker_write(struct p2s_marker *m, const char *src, const char *dst, const char *leg);
/* The run is over. keep: it ended badly, the marker stays. */
void p2s_marker_end(struct p2s_marker *m, int32_t keep);

#endif
