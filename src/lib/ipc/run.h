/* One run of the helper: start, talk, judge the clock, clean up. */
#ifndef P2S_IPC_RUN_H
#define P2S_IPC_RUN_H

#include <stdint.h>

#include "core/log.h"
#include "core/model.h"
#include "core/request.h"
#include "inventory/host_json.h"

/* Asked before the first step that could take the machine down. Returns 1 go, 0 do not. */
typedef int32_t (*p2s_risk_fn)(void *user, int32_t src, int32_t dst, int32_t leg);

struct p2s_run_args {
	const struct p2s_request *request;
	const struct p2s_seam *seam;
	const struct p2s_log *log;
	int32_t mode;         /* P2S_MODE_* */
	uint64_t deadline_ns; /* CLOCK_BOOTTIME */
	p2s_risk_fn risk;     /* NULL: always go */
	void *user;
};

struct p2s_run_result {
	int32_t started;     /* the helper ran and spoke our protocol */
	int32_t complete;    /* it said `done` with status COMPLETE */
	int32_t done_status; /* P2S_DONE_*; -1: the stream was cut short */
	int32_t left_behind; /* children that could not be ended */
	int32_t risk_asked;  /* something risky was allowed */
	int32_t cuda_asked;  /* the driver named at least one GPU */
};

/* Runs the helper over the GPUs of m with in_group set and fills m. Pairs must have been made. Every outcome is a result;
 * returns 1, or 0 when out of memory. Comes back by deadline_ns plus one second. */
int32_t p2s_run(struct p2s_model *m, const struct p2s_run_args *args, struct p2s_run_result *result);

#endif
