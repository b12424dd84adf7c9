/* Plays the library towards a conductor: starts the helper, asks for a run, answers risks, keeps everything it says. */
#ifndef P2S_TESTS_CONDUCTOR_PLAYER_H
#define P2S_TESTS_CONDUCTOR_PLAYER_H

#include <sys/types.h>

#include "core/model.h"
#include "ipc/proto.h"

struct play_worker {
	pid_t pid;
	int pidfd;
	char role[32];
	int gone; /* a worker_gone came */
	int left;
	char how[64];
};

struct play {
	/* what to ask for; play_init() sets the defaults */
	const char *host_dir;
	const char *cuda_library;
	int32_t mode;
	int32_t level;
	uint64_t flags;
	uint64_t deadline_ms;
	uint64_t soak_ms;
	uint32_t n;
	char address[P2S_MAX_GPUS][P2S_BDF_TEXT];
	int test[P2S_MAX_GPUS];
	int risk_go;
	uint32_t protocol;
	const char *version;
	/* called for each message; returning 0 makes the player hang up */
	int (*on_message)(struct play *p, uint16_t id, const union p2s_lib_any *any);
	void *user;

	/* what came */
	pid_t pid;
	int sock;
	int hello;
	struct p2s_lib_leg *legs;
	size_t leg_count;
	struct p2s_lib_staged staged[512];
	size_t staged_count;
	struct p2s_lib_fact facts[512];
	size_t fact_count;
	struct p2s_lib_log_event *events; /* the last of those that mean the same line */
	size_t event_count;
	struct p2s_lib_log_state log_state;
	int log_states;
	struct p2s_lib_measure *measures;
	size_t measure_count;
	struct p2s_lib_hop hops[P2S_MAX_GPUS]; /* the last that came of each GPU's last hop: the GPU itself */
	uint64_t gpu_facts[P2S_MAX_GPUS][64]; /* by P2S_GPU_FACT_*; UINT64_MAX: did not come */
	struct p2s_lib_gpu_out gpus[P2S_MAX_GPUS];
	struct p2s_lib_pair_out pairs[P2S_MAX_GPUS][P2S_MAX_GPUS];
	struct p2s_lib_driver driver;
	int drivers;
	struct p2s_lib_timing timings[64];
	size_t timing_count;
	struct play_worker workers[P2S_MAX_GPUS + 4];
	size_t worker_count;
	unsigned risks;
	struct p2s_lib_done done;
	int dones;
	int after_done; /* messages behind done */
	double seconds;
	int status; /* of the conductor, as waitpid gives it */
};

void play_init(struct play *p, const char *host_dir);
/* Starts the helper named by P2S_TEST_HELPER and talks until it ends. Returns 0 when it could not be started. */
int play_run(struct play *p);
void play_free(struct play *p);
/* Last result of a leg; verdict 0 if none came. */
int32_t play_verdict(const struct play *p, uint32_t src, uint32_t dst, int32_t leg, int32_t mapping);
const struct p2s_lib_leg *play_leg(const struct play *p, uint32_t src, uint32_t dst, int32_t leg, int32_t mapping);
/* The last value of a measured number, 0 if none came. */
uint64_t play_measure(const struct play *p, uint32_t src, uint32_t dst, int32_t kind, uint64_t bytes);
/* Of a timing by its name; 0 if it did not come. */
uint64_t play_timing(const struct play *p, const char *name);
int play_has_fact(const struct play *p, const char *code);
/* Processes of the run that still exist. */
int play_left(const struct play *p);
/* Everything as text to stderr, for people. */
void play_dump(const struct play *p);

#endif
