/* Worker processes: start, watch, end. All are started by the main thread (the parent-death signal follows the thread that
 * forked) and all die with the conductor. */
#ifndef P2S_HELPER_SPAWN_H
#define P2S_HELPER_SPAWN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define P2S_PROC_FDS 66 /* sockets of one worker, the simulator's memory and its kernel log */

struct p2s_proc {
	pid_t pid; /* 0: never started or already reaped */
	int pidfd; /* -1: the kernel has none */
	char role[32];
	char how[64]; /* once gone: "exit 0", "signal 11" */
	int gone;     /* reaped */
	int left;     /* did not end after SIGKILL */
	int killed;   /* SIGKILL was sent or withheld by the seam */
};

/* The seam over kill and wait: in a simulated host children can be unkillable for a while. Zero: the real thing. */
struct p2s_seam {
	uint64_t immune_until_ns; /* CLOCK_BOOTTIME; before it SIGKILL is not delivered and a wait says "still running" */
};

struct p2s_spawn {
	const char *const *args; /* after argv[0]; NULL-terminated */
	const char *const *env;  /* NULL-terminated */
	const int *fds;          /* sockets that the child inherits, under the numbers given in as[] */
	const int *as;
	size_t fd_count;
};

/* Starts /proc/self/exe. Returns 1, or 0 with errno set. */
int p2s_spawn_start(struct p2s_proc *proc, const struct p2s_spawn *what);
/* Looks whether it has ended, without waiting; fills how and gone. Returns 1 if gone. */
int p2s_spawn_poll(struct p2s_proc *proc, const struct p2s_seam *seam);
/* Waits until deadline_ns for it to end. Returns 1 if gone. */
int p2s_spawn_wait(struct p2s_proc *proc, const struct p2s_seam *seam, uint64_t deadline_ns);
void p2s_spawn_kill(struct p2s_proc *proc, const struct p2s_seam *seam);

#endif
