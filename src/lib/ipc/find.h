/* Where the helper is. Never PATH. */
#ifndef P2S_IPC_FIND_H
#define P2S_IPC_FIND_H

#include <stddef.h>
#include <stdint.h>

/* option NULL: beside the library's real path, then (static archive) beside the program, then the compiled-in path.
 * With an option only that path counts. Returns 1 and the absolute path of an executable regular file, or 0 with the places
 * that were tried in `tried`. */
int32_t p2s_find_helper(const char *option, char *path, size_t cap, char *tried, size_t tried_cap);

#endif
