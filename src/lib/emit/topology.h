/* A topology file for NCCL: where its GPUs are said to hang. Pure text. */
#ifndef P2S_EMIT_TOPOLOGY_H
#define P2S_EMIT_TOPOLOGY_H

#include <stdint.h>

#include "core/model.h"

#define P2S_TOPOLOGY_NODES 64
#define P2S_TOPOLOGY_MARK "p2psafe-" /* how the name of our own files begins */

/* Attributes as NCCL reads them from the system itself; "" leaves one out. Only letters, digits and " ./,_-" */
struct p2s_topology_gpu {
	char address[P2S_BDF_TEXT];
	char class_code[16], vendor[16], device[16], subsystem_vendor[16], subsystem_device[16], speed[32], width[16];
	int32_t node;   /* index into nodes[] */
	int32_t island; /* GPUs of one island hang below one invented switch; -1 directly below their node */
};

struct p2s_topology_node {
	int32_t id;           /* of the NUMA node; -1 unknown */
	char affinity[1024];  /* groups of 32 CPUs in hexadecimal, highest first */
};

struct p2s_topology {
	const char *name; /* behind the mark */
	char arch[16], vendor[16], family[8], model[8];
	uint32_t free_domain; /* a PCI domain in which this machine has no device: those of invented switches */
	struct p2s_topology_gpu gpus[P2S_MAX_GPUS];
	int32_t gpu_count;
	struct p2s_topology_node nodes[P2S_TOPOLOGY_NODES];
	int32_t node_count;
};

/* malloc'd, NULL when out of memory. The same input gives the same bytes: NCCL's ranks compare what they loaded. */
char *p2s_emit_topology(const struct p2s_topology *t);

#endif
