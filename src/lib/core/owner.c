#define _GNU_SOURCE
#include "core/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAMELESS 65534 /* DEFAULT_OVERFLOWUID of the kernel */
#define EVERY_USER UINT32_MAX /* length of the map of the first namespace, which hides nobody */

int32_t p2s_owner_is_one(uid_t uid, uid_t overflow, const char *map)
{
	unsigned long inside, outside, count;

	if (uid != overflow)
		return 1;
	return map != NULL && sscanf(map, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
	       count == EVERY_USER;
}

/* The start of a small file of the kernel's; NULL if it cannot be read. */
static const char *read_start(const char *path, char *text, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return NULL;
	do
		n = read(fd, text, cap - 1);
	while (n < 0 && errno == EINTR);
	close(fd);
	if (n <= 0)
		return NULL;
	text[n] = '\0';
	return text;
}

/* The kernel compares users by their true numbers before it lets anyone read without a trace (open(2), O_NOATIME): the owner may, and
 * whoever may act for an owner that has a name here. */
static int32_t kernel_knows_us(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NOATIME) != 0)
		return 0;
	fcntl(fd, F_SETFL, flags);
	return 1;
}

static int32_t is_one(int fd, uid_t uid)
{
	char number[16];
	char map[128];
	uid_t overflow = NAMELESS;

	if (read_start("/proc/sys/kernel/overflowuid", number, sizeof number) != NULL)
		overflow = (uid_t)strtoul(number, NULL, 10);
	if (uid != overflow)
		return 1;
	return p2s_owner_is_one(uid, overflow, read_start("/proc/self/uid_map", map, sizeof map)) || kernel_knows_us(fd);
}

int32_t p2s_owner_is_us(int fd, uid_t uid)
{
	return uid == geteuid() && is_one(fd, uid);
}

int32_t p2s_owner_is_trusted(int fd, uid_t uid)
{
	return (uid == 0 || uid == geteuid()) && is_one(fd, uid);
}
