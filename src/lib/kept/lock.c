#define _GNU_SOURCE
#include "kept/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/owner.h"
#include "ipc/codec.h"
#include "kept/trust.h"

#define NAME "lock"
#define HEAD "p2psafe-lock"
#define MS UINT64_C(1000000)
#define GRACE_MS 1000 /* after the holder's deadline */
#define SEEN_MS 50    /* what the file says counts only when it has said so for this long: a new holder writes at once */

static int open_lock(int dir)
{
	struct stat st;
	int fd = openat(dir, NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
	    p2s_owner_is_trusted(fd, st.st_uid))
		return fd;
	close(fd);
	return -1;
}

/* Empty, or what one of us wrote. The name may be a second one of a file that somebody needs: that is locked, never written. */
static int32_t may_write(int fd)
{
	char text[sizeof HEAD - 1];
	ssize_t n = pread(fd, text, sizeof text, 0);

	return n == 0 || (n == (ssize_t)sizeof text && memcmp(text, HEAD, sizeof text) == 0);
}

static void say(int fd, const char *boot_id, uint64_t deadline_ns)
{
	char text[160];
	int n = snprintf(text, sizeof text, HEAD " 1 %ld %" PRIu64 " %.63s\n", (long)getpid(), deadline_ns,
	                 boot_id[0] != '\0' ? boot_id : "-");

	/* A failed write leaves the file shorter: waiters then fall back on their own patience. */
	if (!may_write(fd) || ftruncate(fd, 0) != 0 || !p2s_trust_may_grow((size_t)n) || pwrite(fd, text, (size_t)n, 0) != n)
		return;
}

/* The holder's deadline, 0 when the file does not say (yet) or speaks of another boot. */
static uint64_t heard(int fd, const char *boot_id)
{
	char text[160];
	char boot[64];
	unsigned long long deadline;
	long pid;
	ssize_t n = pread(fd, text, sizeof text - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	if (sscanf(text, HEAD " 1 %ld %llu %63s", &pid, &deadline, boot) != 3)
		return 0;
	return strcmp(boot, boot_id[0] != '\0' ? boot_id : "-") == 0 ? deadline : 0;
}

enum p2s_lock_result p2s_lock_take(struct p2s_lock *lock, int dir, const char *boot_id, uint64_t until_ns, uint64_t deadline_ns)
{
	uint64_t said = 0;
	uint64_t since = 0;
	long pause_ns = 1000000;
	int fd = open_lock(dir);

	lock->fd = -1;
	if (fd < 0)
		return P2S_LOCK_FAILED;
	for (;;) {
		struct timespec ts = {.tv_nsec = pause_ns};
		uint64_t now;
		uint64_t theirs;

		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			struct stat ours, there;

			/* Somebody may have removed the file while we waited: then this lock guards nothing. */
			if (fstat(fd, &ours) == 0 && fstatat(dir, NAME, &there, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_ino == there.st_ino) {
				say(fd, boot_id, deadline_ns);
				lock->fd = fd;
				return P2S_LOCK_HELD;
			}
			close(fd);
			fd = open_lock(dir);
			if (fd < 0)
				return P2S_LOCK_FAILED;
			continue;
		}
		if (errno != EWOULDBLOCK && errno != EINTR) {
			close(fd);
			return P2S_LOCK_FAILED;
		}
		now = p2s_now_ns();
		theirs = heard(fd, boot_id);
		if (theirs != said) {
			said = theirs;
			since = now;
		}
		if (now >= until_ns || (said != 0 && now >= said && now - said >= GRACE_MS * MS && now >= since + SEEN_MS * MS)) {
			close(fd);
			return P2S_LOCK_GAVE_UP;
		}
		nanosleep(&ts, NULL);
		if (pause_ns < 16000000)
			pause_ns *= 2;
	}
}

void p2s_lock_release(struct p2s_lock *lock)
{
	int ignored;

	if (lock->fd < 0)
		return;
	/* If this fails the old deadline stays readable: a waiter believes it only after the next holder had time to write. */
	ignored = may_write(lock->fd) ? ftruncate(lock->fd, 0) : 0;
	(void)ignored;
	flock(lock->fd, LOCK_UN);
	close(lock->fd);
	lock->fd = -1;
}
