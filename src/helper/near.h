/* Threads and memory of a worker next to its GPU. Every function may fail quietly: a container can hide the topology or forbid
 * the call, and then only speed is lost. */
#ifndef P2S_HELPER_NEAR_H
#define P2S_HELPER_NEAR_H

#include <stdint.h>

/* NUMA node of the PCI device as sysfs has it; -1: none, not readable, or one node only known as -1. */
int32_t p2s_near_node(const char *address);
/* Keeps the calling thread on the CPUs of the node that it may use. Returns 1 if it is bound. */
int p2s_near_bind(int32_t node);
/* Prefers the node for pages of [at, at + bytes) that do not exist yet. Returns 1 if the kernel took the wish. */
int p2s_near_place(int32_t node, void *at, uint64_t bytes);

#endif
