/* Tests of the simulated driver: each case runs in a process of its own, with a host of its own. */
#ifndef P2S_TEST_SIM_RIG_H
#define P2S_TEST_SIM_RIG_H

#include <stdint.h>

#include "helper/control.h"
#include "helper/kernels.h"
#include "sim/api.h"

/* The driver, loaded from the build. */
struct rig {
#define RIG_FN(name) __typeof__(&name) name;
#include "sim_rig.def"
#undef RIG_FN
	void *library;
};

extern struct rig cu;
extern const char *rig_mask; /* CUDA_VISIBLE_DEVICES of the children; NULL unset */
extern int rig_quiet;        /* children say nothing: they are meant to fail */

/* One GPU in use by this process. */
struct rig_gpu {
	CUcontext ctx;
	CUstream stream;
	CUfunction fill, check, load, mp, tear, atomic;
	struct p2s_control *ctl; /* registered */
	CUdeviceptr res;         /* for results */
};

/* Ends the (child) process with a line that says where, unless the condition holds. */
#define CHECK(cond)                                             \
	do {                                                    \
		if (!(cond))                                    \
			rig_failed(__FILE__, __LINE__, #cond);  \
	} while (0)
#define CU(call)                                                             \
	do {                                                                 \
		CUresult rig_rc = (call);                                    \
		if (rig_rc)                                                  \
			rig_failed_call(__FILE__, __LINE__, #call, rig_rc);  \
	} while (0)

void rig_failed(const char *file, int line, const char *text) __attribute__((noreturn));
void rig_failed_call(const char *file, int line, const char *text, int rc) __attribute__((noreturn));

/* Runs fn(arg) in a child with a host whose cuda.json is: gpus many, `more` (JSON members, starting with a comma, or "").
 * Returns 0, the exit status, or 1000 + signal. */
int rig_run(int gpus, const char *more, void (*fn)(void *), void *arg);
/* Starts it; several share one machine when fd is the same memfd. Returns the pid. */
int rig_start(int gpus, const char *more, int fd, void (*fn)(void *), void *arg);
int rig_wait(int pid);
int rig_memory(void);

/* Loads the driver, cuInit. */
void rig_load(void);
/* Context, stream, module, functions. */
void rig_open(struct rig_gpu *g, int dev);
/* Launches with the arguments in a[]. */
void rig_launch(struct rig_gpu *g, CUfunction f, const uint64_t *a, unsigned n);
/* Waits for the stream: its last result, or CU_NOT_READY after ms. */
CUresult rig_sync(struct rig_gpu *g, int ms);
void rig_fill(struct rig_gpu *g, CUdeviceptr p, uint64_t begin, uint64_t end, uint64_t seed);
/* p2s_check over [0, bytes) with seed inside [in_begin, in_end) and seed_out outside. */
struct p2s_check_result rig_check(struct rig_gpu *g, CUdeviceptr p, uint64_t bytes, uint64_t in_begin, uint64_t in_end,
                                  uint64_t seed, uint64_t seed_out);
/* Bad words of [0, bytes) against seed. */
uint64_t rig_bad(struct rig_gpu *g, CUdeviceptr p, uint64_t bytes, uint64_t seed);
/* A buffer of b that a can reach as `peer`, both in this process. */
CUdeviceptr rig_peer(struct rig_gpu *a, struct rig_gpu *b, uint64_t bytes);

struct rig_mp {
	CUdeviceptr w_dst, r_src;
	uint64_t w_seed, r_seed, rounds, words, slot, flag, idiom, pace, max_ns;
};

/* Starts p2s_mp with go already given. */
void rig_mp(struct rig_gpu *g, const struct rig_mp *m);
/* The results of the last waiting kernel. */
void rig_roles(struct rig_gpu *g, struct p2s_role_result out[2]);

#endif
