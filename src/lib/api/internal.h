/* What the files of the interface share. */
#ifndef P2S_API_INTERNAL_H
#define P2S_API_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/fault.h"
#include "core/fsroot.h"
#include "core/log.h"
#include "core/model.h"
#include "core/request.h"
#include "inventory/host.h"
#include "inventory/host_json.h"
#include "p2psafe/p2psafe.h"

struct p2psafe_context {
	struct p2s_log log;
	atomic_int busy;
	int32_t jansson_checked; /* by the first call */
};

#define P2S_SUBJECT 64
#define P2S_FAILED_TEXT 96

/* A model and the strings that getters lend out. */
struct p2s_view {
	struct p2s_model m;
	char (*subjects)[P2S_SUBJECT];            /* one per finding */
	char (*failed[P2S_CONSUMERS])[P2S_FAILED_TEXT]; /* one per failed leg */
};

/* Loads the evidence of a kept answer into an empty model. Returns 1, or 0 when it cannot be had. */
typedef int32_t (*p2s_load_fn)(void *user, struct p2s_model *out);

struct p2psafe_report {
	struct p2s_view decision; /* all there is, or what a hit read */
	int32_t pass_untested;
	/* A hit reads only the decision; the rest is read when somebody asks for it. */
	p2s_load_fn load; /* NULL: the decision view is complete */
	void (*load_free)(void *user);
	void *load_user;
	pthread_mutex_t lock; /* guards the members below */
	int32_t load_done;
	struct p2s_view *evidence; /* NULL until loaded, or when loading failed */
};

/* One call: what was asked, where the files are, what was found so far. */
struct p2s_session {
	struct p2s_request request;
	const struct p2s_log *log;
	struct p2s_fsroot root;
	struct p2s_seam seam;
	struct p2s_host host;
	struct p2s_fault fault;
	uint64_t start_ns;
};

/* jansson.c: E_SYSTEM where functions of jansson are shadowed by others of the same names. */
int32_t p2s_jansson_check(struct p2s_fault *fault);

/* context.c: E_BUSY, E_INVALID, E_SYSTEM; then the call owns the context until leave. */
int32_t p2s_context_enter(p2psafe_context *ctx, struct p2s_fault *fault);
void p2s_context_leave(p2psafe_context *ctx);
/* Writes the fault to the caller's struct (NULL: nobody wants it) and returns its code. */
int32_t p2s_error_out(struct p2psafe_error *err, const struct p2s_fault *fault);

/* options.c */
int32_t p2s_request_make(struct p2s_request *r, const struct p2psafe_options *options, struct p2s_fault *fault);
void p2s_request_free(struct p2s_request *r);

/* session.c */
int32_t p2s_session_open(struct p2s_session *s, const struct p2psafe_options *options, const struct p2s_log *log);
void p2s_session_close(struct p2s_session *s);
/* Absolute CLOCK_BOOTTIME deadline of this call for so many GPUs. */
uint64_t p2s_session_deadline(const struct p2s_session *s, size_t gpus);

/* report.c */
p2psafe_report *p2s_report_new(int32_t pass_untested);
/* Makes the lent strings of a complete model. Returns 1, 0 when out of memory. */
int32_t p2s_view_index(struct p2s_view *v);
void p2s_view_free(struct p2s_view *v);
/* The view that holds the evidence: loads it if need be. Never NULL. */
const struct p2s_view *p2s_report_evidence(const p2psafe_report *report);
/* getters.c: pair i of the evidence, NULL when out of range. */
const struct p2s_pair *p2s_report_pair_at(const p2psafe_report *report, int32_t i);

#endif
