/* What lies between two GPUs, from the chains of bridges above them. Pure. */
#ifndef P2S_HELPER_HOST_PATH_H
#define P2S_HELPER_HOST_PATH_H

#include "core/facts.h"

struct p2s_place { /* of a GPU in the PCI tree */
	char root[P2S_BDF_TEXT];       /* "pci0000:40" */
	struct p2s_hop hop[P2S_HOPS];  /* topmost bridge first, the GPU last */
	size_t hops;                   /* 0: not known */
	int32_t node;                  /* NUMA node; -1 unknown */
};

struct p2s_path {
	int32_t path; /* P2PSAFE_PATH_* */
	int32_t nccl_path;
	uint64_t limit_bytes_per_s; /* 0 unknown */
};

void p2s_path_between(const struct p2s_place *a, const struct p2s_place *b, struct p2s_path *out);

#endif
