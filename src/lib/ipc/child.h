/* Child processes: start one without touching the caller's process, and get rid of it. */
#ifndef P2S_IPC_CHILD_H
#define P2S_IPC_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#define P2S_CHILD_SOCKET 3 /* the descriptor the helper finds its socket on */

/* Starts path with a socket on descriptor 3, /dev/null on 0..2, nothing else open, its own process group, default
 * signals, empty mask and a small environment. Returns 0 and pid, pidfd (-1 where the kernel has none) and our end of the
 * socket, or an errno value. */
int p2s_child_start(const char *path, pid_t *pid, int *pidfd, int *sock);

/* The kill and wait calls of a run. In simulated hosts kills may not be delivered for a while (host.json,
 * ignore_sigkill_ms). */
struct p2s_reaper {
	uint64_t deaf_until_ns; /* CLOCK_BOOTTIME; 0: kills are delivered at once */
};

/* 1 while kills are not delivered: a child that the conductor gave up on counts as alive, whatever became of it. */
int32_t p2s_child_deaf(const struct p2s_reaper *r);
/* Sends SIGKILL to the group of pid. */
void p2s_child_kill_group(const struct p2s_reaper *r, pid_t pid);
/* Sends SIGKILL to one process, by pidfd where there is one. Without a pidfd a bare pid that is not our child is left alone:
 * the number may belong to somebody else by now. */
void p2s_child_kill(const struct p2s_reaper *r, int pidfd);
/* 1 if the process behind the pidfd has ended, waiting until deadline_ns. */
int32_t p2s_child_gone(int pidfd, uint64_t deadline_ns);
/* Reaps our own child if it has ended, waiting until deadline_ns; works when the caller ignores SIGCHLD or reaps it itself.
 * Returns 1 if it is gone. */
int32_t p2s_child_reap(pid_t pid, int pidfd, uint64_t deadline_ns);
/* Reaps what is left of the group of a conductor that was just reaped, waiting until deadline_ns: where the caller is the first
 * process of a container, or asked for orphans, its killed workers come to us, also those that it had not told of. Elsewhere there
 * is nothing to do. While one of them is left, and for long after, the number is nobody else's. */
void p2s_child_bury_orphans(pid_t group, uint64_t deadline_ns);

#endif
