/* No reboot loops: before the first step that could take the machine down a marker is put on disk. If the machine comes
 * back with the marker still there, that step is not repeated. */
#ifndef P2S_KEPT_MARKER_H
#define P2S_KEPT_MARKER_H

#include <stddef.h>
#include <stdint.h>

/* A file each: runs of one kind take turns, those of two kinds do not, and none may take the other's marker away. */
enum p2s_marker_kind {
	P2S_MARKER_RUN,       /* under the lock */
	P2S_MARKER_SOAK,      /* a thorough test, for hours, without the lock */
	P2S_MARKER_SIMULATED, /* cannot take this machine down; its marker is nobody else's business */
	P2S_MARKER_KINDS
};

struct p2s_marker {
	int dir; /* -1: no place; the run goes on without one */
	enum p2s_marker_kind kind;
	uint64_t key;
	char boot_id[48];
	int32_t count;   /* runs of this boot that left a marker, ours included */
	int32_t written; /* by us */
	int32_t stale;   /* bits of other kinds whose marker was left by a run that is gone: ours counts for it */
	int fd;          /* locked while we live */
};

enum p2s_marker_state {
	P2S_MARKER_NONE,    /* no marker, or one of another host */
	P2S_MARKER_ONE,     /* of this boot, its run is gone: one more run is allowed */
	P2S_MARKER_TWO,     /* of this boot, the second: veto */
	P2S_MARKER_EARLIER, /* of an earlier boot, or nobody knows of which: veto */
	P2S_MARKER_BROKEN,  /* there, but not readable: veto */
	P2S_MARKER_BUSY     /* a soak runs already: no second one */
};

/* Looks for markers that concern a run of that kind. what (cap bytes): the step that the worst one names. dir -1: NONE. Of kind
 * RUN the caller holds the lock. */
enum p2s_marker_state p2s_marker_look_as(struct p2s_marker *m, enum p2s_marker_kind kind, int dir, uint64_t key,
                                         const char *boot_id, char *what, size_t cap);
/* The same for a run under the lock. */
enum p2s_marker_state p2s_marker_look(struct p2s_marker *m, int dir, uint64_t key, const char *boot_id, char *what, size_t cap);
/* What the markers in a folder say that belongs to somebody else, such as root's, on top of what was found before; one in each
 * are two. Nothing of it can be taken over. Those of runs that go on now say nothing. seen: the folder that was looked at
 * before, so that the same one does not count twice; -1 none. what is left alone unless this folder says more. */
enum p2s_marker_state p2s_marker_peek(enum p2s_marker_state before, int seen, int dir, uint64_t key, const char *boot_id,
									  char *what, size_t cap);
/* Puts the marker on disk (the first time, or if somebody took it away) or renames its step. Returns 1, 0 if it could not be
 * written. */
int32_t p2s_marker_write(struct p2s_marker *m, const char *src, const char *dst, const char *leg);
/* The run is over. keep: it ended badly, the marker stays. */
void p2s_marker_end(struct p2s_marker *m, int32_t keep);
/* 1 if this is the name of a marker, finished or not. */
int32_t p2s_marker_is_name(const char *name);

#endif
