/* What the parts of libcuda-shadow.so.1 share. See shadow_window.c. */
#ifndef P2S_SIM_SHADOW_H
#define P2S_SIM_SHADOW_H

#include <stdint.h>
#include <string.h>

#include "helper/cuda_abi.h"

#define SHADOW_EXPORT __attribute__((visibility("default")))
#define SHADOW_UNKNOWN 999 /* CUDA_ERROR_UNKNOWN: a test of damage must not pass by accident */

#define SHADOW_NO_COMPILER 221 /* CUDA_ERROR_JIT_COMPILER_NOT_FOUND */
#define SHADOW_NOT_READY 600

enum shadow_mode {
	SHADOW_MIRROR,
	SHADOW_DROP,
	SHADOW_STALE,
	SHADOW_ZEROS,
	SHADOW_BIT,
	SHADOW_SWAP,
	SHADOW_LATE,
	SHADOW_MISDIRECT,
	SHADOW_REORDER,
	SHADOW_TORN
};

enum shadow_mapping { SHADOW_ANY, SHADOW_PEER, SHADOW_IPC, SHADOW_CUMEM };

struct shadow_conf {
	char src[32];
	char dst[32];
	char driver[512]; /* "": libcuda.so.1 of the system */
	int mode;
	int mapping;
	int no_kernels;
	uint64_t above; /* only transfers of more bytes */
};

/* The real driver's function, NULL: it has none, or there is no driver. */
void *p2s_shadow_next(const char *name);
#define P2S_SHADOW_NEXT(fn, name) p2s_shadow_set(&(fn), sizeof(fn), p2s_shadow_next(name))

static inline int p2s_shadow_set(void *fn, size_t bytes, void *at)
{
	memcpy(fn, &at, bytes);
	return at != NULL;
}

/* NULL: shadow.conf is missing or says nothing that is known. */
const struct shadow_conf *p2s_shadow_conf(void);

/* A window of src on memory of dst, and src's private copy of it. */
struct shadow {
	p2s_cuptr start;
	uint64_t size;
	p2s_cuptr copy;
	int filled; /* stale: the copy holds what the window showed once */
};

/* shadow_forward.c: bytes [off, off + len) of the copy go to the real window, damaged as the mode says. The stream's work is
 * waited for. Returns a CUresult. */
int p2s_shadow_forward(const struct shadow *s, uint64_t off, uint64_t len, p2s_custream stream);
/* The window's bytes into the copy, in stream order; wait: until they are there. */
int p2s_shadow_refresh(const struct shadow *s, uint64_t off, uint64_t len, p2s_custream stream, int wait);
/* Messages: the flag of each slot goes first, then its payload. args are those of p2s_mp; called before the launch. */
int p2s_shadow_messages(const struct shadow *s, uint64_t off, const uint64_t *args, p2s_custream stream);
/* Words in two halves, the end mark last. */
int p2s_shadow_tear(const struct shadow *s, uint64_t off, uint64_t words, p2s_custream stream);
/* 1: what a kernel of this stream stored is still on its way, so it has not ended. */
int p2s_shadow_busy(p2s_custream stream);

#endif
