#ifndef P2S_API_TOPOLOGY_H
#define P2S_API_TOPOLOGY_H

#include "api/internal.h"

/* Writes a topology file for NCCL where the caller asked for one and it says something: the NUMA placement that a guest cannot see
 * (placement_file), or, with PROMOTE, islands of pairs that are proven and measured faster than staging. The settings of the report,
 * which nobody has yet, then name it. Never where the user has a topology of his own. Returns 0 or a P2PSAFE_E_*. */
int32_t p2s_topology(struct p2s_session *s, p2psafe_report *report);

#endif
