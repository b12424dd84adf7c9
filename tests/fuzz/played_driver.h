/* A driver that only keeps books: what was allocated, mapped, registered, by which GPU, and who may reach it. Every address that it is
 * given must lie where the books say that it may; else the process aborts. Its answers can be made to fail. */
#ifndef P2S_TESTS_FUZZ_PLAYED_DRIVER_H
#define P2S_TESTS_FUZZ_PLAYED_DRIVER_H

#include "fuzz.h"
#include "helper/channel.h"

#define PLAYED_GPUS 2

/* Address of GPU i. */
const char *played_address(int gpu);
void played_fill(struct p2s_cuda *cu);
/* Calls that follow are made for this GPU. */
void played_current(int gpu);
/* The n-th call from now on fails with this result; n 0: none does. */
void played_fail(uint32_t n, p2s_curesult result);
/* What kernels find: a byte of it decides each. */
void played_luck(uint32_t luck);
/* Allocations, mappings, handles and registrations that are not given back. */
size_t played_open(void);
/* Access between contexts as at the start. */
void played_forget_access(void);

#endif
