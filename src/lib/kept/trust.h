/* Files and folders of the kept record are believed only if they belong to root or the caller, nobody else may write
 * them, and no link leads there. Checked through descriptors, never by name. */
#ifndef P2S_KEPT_TRUST_H
#define P2S_KEPT_TRUST_H

#include <stddef.h>
#include <stdint.h>

/* Opens a folder that may be trusted; -1 with *why set ("absent", "a link or no folder", ...). */
int p2s_trust_dir(const char *path, const char **why);
/* Reads a whole regular file of at most max bytes below dir (or by path, with dir AT_FDCWD). Returns malloc'd text with NUL
 * behind it, or NULL with *why set. check_owner 0: an operator's file, whose owner is not judged. */
char *p2s_trust_read(int dir, const char *name, size_t max, int32_t check_owner, size_t *len, const char **why);
/* 1 if a file may grow to that size. Above RLIMIT_FSIZE a write would not only fail: its signal ends the caller's process. */
int32_t p2s_trust_may_grow(size_t bytes);

#endif
