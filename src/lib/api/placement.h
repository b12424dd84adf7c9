/* The NUMA nodes of GPUs as a person tells them, where the machine does not show them. */
#ifndef P2S_API_PLACEMENT_H
#define P2S_API_PLACEMENT_H

#include "api/internal.h"

/* Reads the caller's placement_file, lines "ADDRESS NODE", into node[] (of each GPU of m; -1 unknown). A pipe is waited for until the
 * deadline of the call. E_CONFIG: what is wrong with it; E_NOMEM. */
int32_t p2s_placement_read(struct p2s_session *s, const struct p2s_model *m, int32_t *node);

#endif
