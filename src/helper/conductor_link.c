#define _GNU_SOURCE
#include "helper/conductor.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const int32_t p2s_mapping_word[P2S_M_COUNT] = {P2PSAFE_MAPPING_CUMEM, P2PSAFE_MAPPING_IPC, P2PSAFE_MAPPING_PEER};

void p2s_link_send(struct p2s_run *run, uint16_t id, const void *message, int fd)
{
	pthread_mutex_lock(&run->send_lock);
	/* A library that does not read for a second is gone or stopped; the watcher sees the end of file. */
	(void)p2s_codec_send(P2S_LIB_FD, &p2s_lib_table, id, message, fd, p2s_now_ns() + P2S_SEC);
	pthread_mutex_unlock(&run->send_lock);
}

static int mapping_index(int32_t word)
{
	for (int m = 0; m < P2S_M_COUNT; m++)
		if (p2s_mapping_word[m] == word)
			return m;
	return -1;
}

void p2s_link_leg(struct p2s_run *run, const struct p2s_lib_leg *result)
{
	struct p2s_way *way = p2s_run_way(run, result->src, result->dst);
	int m = mapping_index(result->mapping);
	struct p2s_lib_leg sum = *result;
	const struct p2s_lib_leg *leg = &sum;

	atomic_fetch_add(&run->legs_told, 1);
	if (m >= 0 && leg->leg > 0 && leg->leg < 16) {
		if (!p2s_tally_add(&way->tally[leg->leg][m], &sum, run->cycle > 0))
			return;
		way->verdict[leg->leg][m] = leg->verdict;
	}
	if (leg->leg == P2PSAFE_LEG_TEARING_128 && leg->verdict == P2PSAFE_VERDICT_CORRUPT) {
		p2s_link_send(run, p2s_id_lib_leg, leg, -1); /* told, never judged */
		return;
	}
	if (leg->verdict == P2PSAFE_VERDICT_CORRUPT || leg->verdict == P2PSAFE_VERDICT_HANG ||
	    leg->verdict == P2PSAFE_VERDICT_ERROR)
		atomic_store(&way->bad, 1);
	if (leg->verdict == P2PSAFE_VERDICT_CORRUPT)
		atomic_store(&run->corrupt, 1);
	p2s_link_send(run, p2s_id_lib_leg, leg, -1);
}

void p2s_link_fact(struct p2s_run *run, const char *code, int32_t severity, int32_t src, int32_t dst, const char *source,
                   const char *text)
{
	struct p2s_lib_fact fact = {.severity = severity, .confidence = P2PSAFE_CONFIDENCE_HIGH, .src = src, .dst = dst};

	snprintf(fact.code, sizeof fact.code, "%s", code);
	snprintf(fact.source, sizeof fact.source, "%s", source);
	snprintf(fact.text, sizeof fact.text, "%s", text);
	p2s_link_send(run, p2s_id_lib_fact, &fact, -1);
}

void p2s_link_gpu(struct p2s_run *run, uint32_t gpu)
{
	struct p2s_device *d = &run->gpu[gpu];
	struct p2s_lib_gpu_out out = {.index = gpu, .ordinal = -1, .driver_order = -1, .minor = -1};
	const struct p2s_op_device *info = &d->info[P2S_CHAN_GPU];

	pthread_mutex_lock(&run->table_lock);
	out.state = d->state;
	out.minor = d->minor;
	snprintf(out.uuid, sizeof out.uuid, "%s", d->uuid);
	snprintf(out.name, sizeof out.name, "%s", d->name);
	snprintf(out.vbios, sizeof out.vbios, "%s", d->vbios);
	snprintf(out.error, sizeof out.error, "%s", d->error);
	if (d->inited[P2S_CHAN_GPU]) {
		out.ordinal = info->ordinal;
		out.cc_major = info->cc_major;
		out.cc_minor = info->cc_minor;
		out.memory_bytes = info->memory_bytes;
		out.free_bytes = info->free_bytes;
		snprintf(out.uuid, sizeof out.uuid, "%s", info->uuid);
		snprintf(out.name, sizeof out.name, "%s", info->name);
	}
	if (d->inited[P2S_CHAN_PEER])
		out.driver_order = d->info[P2S_CHAN_PEER].ordinal;
	pthread_mutex_unlock(&run->table_lock);
	p2s_link_send(run, p2s_id_lib_gpu_out, &out, -1);
}

void p2s_link_pair(struct p2s_run *run, uint32_t a, uint32_t b)
{
	const struct p2s_way *way = p2s_run_way(run, a, b);
	struct p2s_lib_pair_out out = {.src = a, .dst = b};

	pthread_mutex_lock(&run->table_lock);
	out.path = way->path;
	out.nccl_path = way->nccl_path;
	out.can_access = way->can_access;
	out.native_atomics = way->native_atomics;
	out.nvlinks = way->nvlinks;
	out.limit_bytes_per_s = way->limit;
	pthread_mutex_unlock(&run->table_lock);
	p2s_link_send(run, p2s_id_lib_pair_out, &out, -1);
}

static void send_progress(struct p2s_run *run, uint32_t done)
{
	struct p2s_lib_progress p = {.done = done, .of = run->progress_of};

	snprintf(p.phase, sizeof p.phase, "%s", run->progress_phase);
	p2s_link_send(run, p2s_id_lib_progress, &p, -1);
}

void p2s_link_phase(struct p2s_run *run, const char *phase, uint32_t of)
{
	run->progress_phase = phase;
	run->progress_of = of;
	atomic_store(&run->progress_done, 0);
	send_progress(run, 0);
}

void p2s_link_progress(struct p2s_run *run)
{
	if (run->soak_ns != 0) {
		uint64_t seconds = (p2s_now_ns() - run->soak_ns) / P2S_SEC;

		send_progress(run, seconds < run->progress_of ? (uint32_t)seconds : run->progress_of);
		return;
	}
	send_progress(run, atomic_fetch_add(&run->progress_done, 1) + 1);
}

void p2s_link_timing_ns(struct p2s_run *run, const char *name, uint64_t ns)
{
	struct p2s_lib_timing t = {.ns = ns};

	snprintf(t.name, sizeof t.name, "%s", name);
	p2s_link_send(run, p2s_id_lib_timing, &t, -1);
}

void p2s_link_timing(struct p2s_run *run, const char *name, uint64_t since_ns)
{
	p2s_link_timing_ns(run, name, p2s_now_ns() - since_ns);
}

int p2s_link_risk(struct p2s_run *run, uint32_t a, uint32_t b, int32_t leg)
{
	struct p2s_lib_risk risk = {.src = a, .dst = b, .leg = leg};
	struct timespec until;
	int go;

	if (atomic_load(&run->stopped))
		return 0;
	pthread_mutex_lock(&run->risk_lock);
	run->risk_answer = -1;
	pthread_mutex_unlock(&run->risk_lock);
	p2s_link_send(run, p2s_id_lib_risk, &risk, -1);
	pthread_mutex_lock(&run->risk_lock);
	while (run->risk_answer < 0) {
		if (p2s_now_ns() >= run->stop_ns)
			break;
		/* The condition's clock is CLOCK_MONOTONIC; while the machine sleeps it stands still, and the loop looks at
		 * the boot clock again. */
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += 100000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&run->risk_cond, &run->risk_lock, &until);
	}
	go = run->risk_answer > 0 ? run->risk_answer : P2S_RISK_STOP;
	pthread_mutex_unlock(&run->risk_lock);
	return go;
}

/* The library hung up: nobody wants the answer. Everything is killed; what the kernel cannot kill ends by its own end of
 * file when this process is gone. */
static void hang_up(struct p2s_run *run)
{
	pthread_mutex_lock(&run->proc_lock);
	for (size_t i = 0; i < run->proc_count; i++)
		p2s_spawn_kill(&run->proc[i], &run->seam);
	pthread_mutex_unlock(&run->proc_lock);
	_exit(1);
}

static void *watch(void *arg)
{
	struct p2s_run *run = arg;

	for (;;) {
		union p2s_lib_any any;
		uint16_t id;
		enum p2s_io io = p2s_codec_recv(P2S_LIB_FD, &p2s_lib_table, &id, &any, sizeof any, NULL, p2s_now_ns() + 3600 * P2S_SEC);

		if (io == P2S_IO_TIMEOUT)
			continue;
		if (io != P2S_IO_OK || id != p2s_id_lib_risk_answer) {
			if (atomic_load(&run->finishing))
				return NULL;
			hang_up(run); /* end of file, or a library that speaks another language */
		}
		pthread_mutex_lock(&run->risk_lock);
		run->risk_answer = any.risk_answer.go == P2S_RISK_GO || any.risk_answer.go == P2S_RISK_SKIP ? any.risk_answer.go
		                                                                                          : P2S_RISK_STOP;
		pthread_cond_signal(&run->risk_cond);
		pthread_mutex_unlock(&run->risk_lock);
	}
}

int p2s_link_watch(struct p2s_run *run)
{
	pthread_t watcher;

	return pthread_create(&watcher, NULL, watch, run) == 0 && pthread_detach(watcher) == 0;
}
