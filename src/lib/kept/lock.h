/* One test at a time. The lock file says until when its holder may take; nobody waits longer than that plus a second, and
 * nobody tests beside a holder, stopped or not. */
#ifndef P2S_KEPT_LOCK_H
#define P2S_KEPT_LOCK_H

#include <stdint.h>

struct p2s_lock {
	int fd; /* -1: not held */
};

enum p2s_lock_result {
	P2S_LOCK_HELD,    /* by us */
	P2S_LOCK_GAVE_UP, /* another holder did not come back in time */
	P2S_LOCK_FAILED   /* no lock file can be made here */
};

/* boot_id: of this boot. until_ns: our own patience; deadline_ns: what others may expect of us, both CLOCK_BOOTTIME. */
enum p2s_lock_result p2s_lock_take(struct p2s_lock *lock, int dir, const char *boot_id, uint64_t until_ns,
								   uint64_t deadline_ns);
/* Empties the file and lets go, also for copies of the descriptor that a fork made. */
void p2s_lock_release(struct p2s_lock *lock);

#endif
