/* Whose a file is. Within a user namespace the kernel shows one and the same user for every owner that has no name there, and the
 * caller may be, or seem to be, that user itself: then only the kernel can tell. */
#ifndef P2S_CORE_OWNER_H
#define P2S_CORE_OWNER_H

#include <stdint.h>
#include <sys/types.h>

/* 1 if uid, as the kernel shows it, is one user and no more. overflow: its number for owners without a name; map: /proc/self/uid_map,
 * NULL unreadable. */
int32_t p2s_owner_is_one(uid_t uid, uid_t overflow, const char *map);

/* 1 if what is open as fd (not as O_PATH) and belongs to uid is the caller's own. */
int32_t p2s_owner_is_us(int fd, uid_t uid);

/* 1 if it is the caller's own or root's. */
int32_t p2s_owner_is_trusted(int fd, uid_t uid);

#endif
