#define _GNU_SOURCE
#include "ipc/run.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "ipc/child.h"
#include "ipc/fill.h"
#include "ipc/find.h"
#include "ipc/proto.h"

#define MS UINT64_C(1000000)
#define LAST_WORDS_MS 250 /* after the deadline: what the conductor had in flight still counts */
#define WAITING_MS 100    /* after that: what it had said by then may still wait in the socket */
#define END_MS 900        /* after the deadline: everything is killed, reaped or named */
#define KILL_MS 400       /* of these, kept for dying */
#define EXIT_MS 1000      /* after `done`: the conductor ends by itself */
#define WORKERS 160

struct worker {
	uint32_t pid;
	int pidfd;
	int gone;
	int left; /* the conductor could not end it */
	char role[32];
};

struct run {
	struct p2s_model *m;
	const struct p2s_run_args *args;
	struct p2s_run_result *result;
	struct p2s_reaper reaper;
	pid_t pid;
	int pidfd;
	int sock;
	int oom;
	int finished;
	int nonsense; /* messages that made no sense */
	size_t worker_count;
	struct worker workers[WORKERS];
};

static int32_t helper_missing(struct p2s_model *m, const char *source, const char *text)
{
	m->nothing_tested = 1;
	return p2s_model_find(m, "HELPER_MISSING", P2PSAFE_SEVERITY_ERROR, P2PSAFE_CONFIDENCE_HIGH, -1, -1, source, text);
}

static struct worker *worker_of(struct run *r, uint32_t pid)
{
	for (size_t i = 0; i < r->worker_count; i++)
		if (r->workers[i].pid == pid && !r->workers[i].gone)
			return &r->workers[i];
	return NULL;
}

static void on_worker(struct run *r, const struct p2s_lib_worker *in, int pidfd)
{
	struct worker *w;

	if (r->worker_count == WORKERS || in->pid <= 1) {
		if (pidfd >= 0)
			close(pidfd);
		return;
	}
	w = &r->workers[r->worker_count++];
	w->pid = in->pid;
	w->pidfd = pidfd;
	w->gone = 0;
	snprintf(w->role, sizeof w->role, "%s", in->role);
}

static int32_t left_behind(struct run *r, uint32_t pid, const char *role, const char *how)
{
	char text[160];

	r->result->left_behind++;
	snprintf(text, sizeof text, "pid %u (%s): %s", pid, role, how);
	return p2s_model_find(r->m, "CHILD_LEFT_BEHIND", P2PSAFE_SEVERITY_ERROR, P2PSAFE_CONFIDENCE_HIGH, -1, -1, "child process",
	                      text);
}

static int32_t on_worker_gone(struct run *r, const struct p2s_lib_worker_gone *in)
{
	struct worker *w = worker_of(r, in->pid);

	if (w == NULL)
		return 1;
	if (in->left) {
		w->left = 1;
		return 1; /* judged at the end, with our own eyes */
	}
	w->gone = 1;
	if (w->pidfd >= 0)
		close(w->pidfd);
	w->pidfd = -1;
	return 1;
}

static void on_progress(const struct run *r, const struct p2s_lib_progress *in)
{
	if (in->of > 0)
		p2s_log(r->args->log, P2PSAFE_LOG_PROGRESS, "%s %u of %u", in->phase, in->done, in->of);
	else
		p2s_log(r->args->log, P2PSAFE_LOG_PROGRESS, "%s", in->phase);
}

static void on_risk(struct run *r, const struct p2s_lib_risk *in)
{
	struct p2s_lib_risk_answer answer = {0};

	if (p2s_now_ns() >= r->args->deadline_ns)
		return; /* read late; the conductor begins nothing any more */
	if (in->src < r->m->gpu_count && in->dst < r->m->gpu_count)
		answer.go = r->args->risk == NULL ? P2S_RISK_GO : r->args->risk(r->args->user, (int32_t)in->src, (int32_t)in->dst, in->leg);
	if (answer.go == P2S_RISK_GO)
		r->result->risk_asked = 1;
	p2s_codec_send(r->sock, &p2s_lib_table, p2s_id_lib_risk_answer, &answer, -1, r->args->deadline_ns);
}

static int32_t on_done(struct run *r, const struct p2s_lib_done *in)
{
	r->finished = 1;
	r->result->done_status = in->status;
	r->result->complete = in->status == P2S_DONE_COMPLETE;
	if (in->status == P2S_DONE_DEADLINE)
		r->m->deadline_hit = 1;
	if (in->status == P2S_DONE_NO_DRIVER)
		r->m->nothing_tested = 1;
	if (in->status == P2S_DONE_FAILED)
		return p2s_model_find(r->m, "RUN_FAILED", P2PSAFE_SEVERITY_ERROR, P2PSAFE_CONFIDENCE_HIGH, -1, -1, "conductor", in->text);
	if (in->status == P2S_DONE_STOPPED)
		return p2s_model_find(r->m, "RUN_STOPPED", P2PSAFE_SEVERITY_WARNING, P2PSAFE_CONFIDENCE_HIGH, -1, -1, "conductor",
		                      in->text[0] != '\0' ? in->text : "stopped for safety; what is missing is untested");
	return 1;
}

static void handle(struct run *r, uint16_t id, const union p2s_lib_any *any, int fd)
{
	int32_t ok = 1;

	if (id != p2s_id_lib_worker && fd >= 0)
		close(fd);
	switch (id) {
	case p2s_id_lib_worker:
		on_worker(r, &any->worker, fd);
		break;
	case p2s_id_lib_worker_gone:
		ok = on_worker_gone(r, &any->worker_gone);
		break;
	case p2s_id_lib_gpu_out:
		ok = p2s_fill_gpu(r->m, &any->gpu_out);
		if (any->gpu_out.ordinal >= 0)
			r->result->cuda_asked = 1;
		break;
	case p2s_id_lib_pair_out:
		ok = p2s_fill_pair(r->m, &any->pair_out);
		break;
	case p2s_id_lib_risk:
		on_risk(r, &any->risk);
		break;
	case p2s_id_lib_leg:
		ok = p2s_fill_leg(r->m, &any->leg);
		break;
	case p2s_id_lib_staged:
		ok = p2s_fill_staged(r->m, &any->staged);
		break;
	case p2s_id_lib_fact:
		ok = p2s_fill_fact(r->m, &any->fact);
		break;
	case p2s_id_lib_driver:
		ok = p2s_fill_driver(r->m, &any->driver);
		break;
	case p2s_id_lib_progress:
		on_progress(r, &any->progress);
		break;
	case p2s_id_lib_timing:
		ok = r->m->timing_count < 64 ? p2s_model_add_timing(r->m, any->timing.name, any->timing.ns / MS) : -1;
		break;
	case p2s_id_lib_measure:
		ok = p2s_fill_measure(r->m, &any->measure);
		break;
	case p2s_id_lib_hop:
		ok = p2s_fill_hop(r->m, &any->hop);
		break;
	case p2s_id_lib_gpu_fact:
		ok = p2s_fill_gpu_fact(r->m, &any->gpu_fact);
		break;
	case p2s_id_lib_port_errors:
		ok = p2s_fill_port_errors(r->m, &any->port_errors);
		break;
	case p2s_id_lib_log_event:
		ok = p2s_fill_log_event(r->m, &any->log_event);
		break;
	case p2s_id_lib_log_state:
		ok = p2s_fill_log_state(r->m, &any->log_state);
		break;
	case p2s_id_lib_done:
		ok = on_done(r, &any->done);
		break;
	default:
		ok = -1;
		break;
	}
	if (ok == 0)
		r->oom = 1;
	if (ok < 0)
		r->nonsense++;
}

/* Says what to do. Returns 1 if the conductor could be told. */
static int32_t give_orders(struct run *r)
{
	const struct p2s_request *q = r->args->request;
	struct p2s_lib_run order = {0};

	order.protocol = P2S_PROTOCOL;
	snprintf(order.version, sizeof order.version, "%s", P2S_VERSION_TEXT);
	order.mode = r->args->mode;
	order.level = q->level;
	order.flags = q->flags & (P2PSAFE_FLAG_KEEP_GOING | P2PSAFE_FLAG_MEASURE | P2PSAFE_FLAG_RECHECK);
	order.deadline_ns = r->args->deadline_ns;
	order.soak_ns = q->soak_ms * MS;
	if (getrandom(&order.nonce, sizeof order.nonce, GRND_NONBLOCK) != (ssize_t)sizeof order.nonce)
		order.nonce = p2s_now_ns() ^ (uint64_t)r->pid << 40;
	order.gpu_count = (uint32_t)r->m->gpu_count;
	snprintf(order.host_dir, sizeof order.host_dir, "%s", q->host_dir != NULL ? q->host_dir : "");
	snprintf(order.cuda_library, sizeof order.cuda_library, "%s", q->cuda_library != NULL ? q->cuda_library : "");
	if (p2s_codec_send(r->sock, &p2s_lib_table, p2s_id_lib_run, &order, -1, r->args->deadline_ns) != P2S_IO_OK)
		return 0;
	for (size_t i = 0; i < r->m->gpu_count; i++) {
		struct p2s_lib_gpu_in in = {.index = (uint32_t)i, .test = r->m->gpus[i].in_group};

		snprintf(in.address, sizeof in.address, "%s", r->m->gpus[i].address);
		if (p2s_codec_send(r->sock, &p2s_lib_table, p2s_id_lib_gpu_in, &in, -1, r->args->deadline_ns) != P2S_IO_OK)
			return 0;
	}
	return 1;
}

/* The first message must be a hello of our own version. */
static int32_t shake_hands(struct run *r, const char *path)
{
	union p2s_lib_any any;
	char text[200];
	uint16_t id;
	enum p2s_io io = p2s_codec_recv(r->sock, &p2s_lib_table, &id, &any, sizeof any, NULL, r->args->deadline_ns);

	if (io == P2S_IO_OK && id == p2s_id_lib_hello && any.hello.protocol == P2S_PROTOCOL &&
	    strcmp(any.hello.version, P2S_VERSION_TEXT) == 0)
		return 1;
	if (io == P2S_IO_OK && id == p2s_id_lib_hello)
		snprintf(text, sizeof text, "speaks version %s, protocol %u; expected version %s, protocol %u", any.hello.version,
		         any.hello.protocol, P2S_VERSION_TEXT, (unsigned)P2S_PROTOCOL);
	else if (io == P2S_IO_TIMEOUT)
		snprintf(text, sizeof text, "said nothing before the deadline");
	else if (io == P2S_IO_EOF)
		snprintf(text, sizeof text, "ended before its first message");
	else
		snprintf(text, sizeof text, "its first message was not a hello of this protocol");
	if (!helper_missing(r->m, path, text))
		r->oom = 1;
	return 0;
}

static void listen_until_done(struct run *r)
{
	uint64_t until = r->args->deadline_ns + LAST_WORDS_MS * MS;
	int late = 0;
	int bad = 0;

	while (!r->finished && bad < 16) {
		union p2s_lib_any any;
		uint16_t id;
		int fd;
		enum p2s_io io = p2s_codec_recv(r->sock, &p2s_lib_table, &id, &any, sizeof any, &fd, until);

		if (io == P2S_IO_OK) {
			handle(r, id, &any, fd);
		} else if (io == P2S_IO_BAD) {
			bad++;
			r->nonsense++;
		} else {
			if (io == P2S_IO_TIMEOUT)
				r->m->deadline_hit = 1;
			break;
		}
		if (p2s_now_ns() < until)
			continue;
		/* Whoever slept over the deadline, in a debugger or a paused machine, finds all that was said meanwhile, and damage may
		 * be among it. A flood of messages must not carry us further. */
		if (late) {
			r->m->deadline_hit |= !r->finished;
			break;
		}
		late = 1;
		until = p2s_now_ns() + WAITING_MS * MS;
	}
}

/* Ends what still runs; names what cannot be ended. */
static void clean_up(struct run *r)
{
	uint64_t end = r->args->deadline_ns + END_MS * MS;
	uint64_t soft = p2s_now_ns() + EXIT_MS * MS;
	int32_t reaped;

	if (r->sock >= 0)
		close(r->sock);
	if (soft > end - KILL_MS * MS)
		soft = end - KILL_MS * MS;
	if (r->finished && !p2s_child_gone(r->pidfd, soft))
		r->finished = 0;
	/* Before the conductor is reaped its number cannot belong to anybody else. */
	if (!r->finished)
		p2s_child_kill_group(&r->reaper, r->pid);
	for (size_t i = 0; i < r->worker_count; i++)
		if (!r->workers[i].gone && !p2s_child_gone(r->workers[i].pidfd, 0))
			p2s_child_kill(&r->reaper, r->workers[i].pidfd);
	/* Killed processes are gone in milliseconds; those that are not by now are stuck in the kernel. */
	soft = p2s_now_ns() + END_MS * MS;
	if (soft > end)
		soft = end;
	reaped = p2s_child_reap(r->pid, r->pidfd, soft);
	if (!reaped && !left_behind(r, (uint32_t)r->pid, "conductor", "did not end after SIGKILL"))
		r->oom = 1;
	for (size_t i = 0; i < r->worker_count; i++) {
		struct worker *w = &r->workers[i];

		if (w->gone)
			continue;
		/* Without a pidfd nothing can be said about a grandchild whose parent is gone. */
		if (w->pidfd >= 0 && ((w->left && p2s_child_deaf(&r->reaper)) || !p2s_child_gone(w->pidfd, soft)) &&
		    !left_behind(r, w->pid, w->role, "did not end after SIGKILL"))
			r->oom = 1;
		if (w->pidfd >= 0)
			close(w->pidfd);
	}
	if (reaped)
		p2s_child_bury_orphans(r->pid, soft);
	if (r->pidfd >= 0)
		close(r->pidfd);
}

static int32_t say_how_it_ended(struct run *r)
{
	char text[160];

	if (r->nonsense > 0) {
		snprintf(text, sizeof text, "%d messages made no sense and were dropped", r->nonsense);
		if (!p2s_model_find(r->m, "HELPER_NONSENSE", P2PSAFE_SEVERITY_WARNING, P2PSAFE_CONFIDENCE_HIGH, -1, -1, "conductor", text))
			return 0;
	}
	if (r->result->done_status >= 0)
		return 1;
	snprintf(text, sizeof text, "%s; what is missing is untested, and so is what had passed",
	         r->m->deadline_hit ? "the deadline came first" : "the stream ended early");
	return p2s_model_find(r->m, r->m->deadline_hit ? "DEADLINE_HIT" : "HELPER_DIED", P2PSAFE_SEVERITY_WARNING,
	                      P2PSAFE_CONFIDENCE_HIGH, -1, -1, "conductor", text);
}

int32_t p2s_run(struct p2s_model *m, const struct p2s_run_args *args, struct p2s_run_result *result)
{
	struct run r = {.m = m, .args = args, .result = result, .pid = -1, .pidfd = -1, .sock = -1};
	char path[PATH_MAX];
	char tried[400];
	int e;

	memset(result, 0, sizeof *result);
	result->done_status = -1;
	if (!p2s_find_helper(args->request->helper_path, path, sizeof path, tried, sizeof tried))
		return helper_missing(m, "p2psafe-helper", tried);
	if (args->seam->simulated && args->seam->ignore_sigkill_ms > 0)
		r.reaper.deaf_until_ns = p2s_now_ns() + args->seam->ignore_sigkill_ms * MS;
	e = p2s_child_start(path, &r.pid, &r.pidfd, &r.sock);
	if (e != 0) {
		snprintf(tried, sizeof tried, "could not be started: errno %d", e);
		return helper_missing(m, path, tried);
	}
	p2s_log(args->log, P2PSAFE_LOG_DEBUG, "helper %s runs as pid %d", path, (int)r.pid);
	if (shake_hands(&r, path)) {
		result->started = 1;
		/* A conductor that hangs up at once is heard to the end all the same: it may have said why. */
		give_orders(&r);
		listen_until_done(&r);
	}
	clean_up(&r);
	if (result->started && !say_how_it_ended(&r))
		r.oom = 1;
	return !r.oom;
}
