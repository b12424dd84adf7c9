#ifndef P2S_API_NCCL_TOPOLOGY_H
#define P2S_API_NCCL_TOPOLOGY_H

#include "api/internal.h"

/* 1: NCCL will see the machine as it is; 0: somebody gives it a topology file, or that cannot be known. */
int32_t p2s_nccl_own_topology(const struct p2s_session *s);

#endif
