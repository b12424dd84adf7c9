#define _GNU_SOURCE
#include "helper/conductor.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "helper/cpus.h"
#include "helper/legs.h"
#include "helper/roles.h"
#include "helper/schedule.h"

#define EXIT_PROTOCOL 3
#define GREETING_NS (5 * P2S_SEC)
#define LONGEST_NS (UINT64_C(7) * 24 * 3600 * P2S_SEC) /* a deadline further away is a mistake */

static void close_inherited(void)
{
	fcntl(P2S_LIB_FD, F_SETFD, FD_CLOEXEC);
#ifdef SYS_close_range
	if (syscall(SYS_close_range, P2S_LIB_FD + 1, ~0U, 0) == 0)
		return;
#endif
	for (int fd = P2S_LIB_FD + 1; fd < 4096; fd++)
		close(fd);
}

static int valid_run(const struct p2s_lib_run *ask)
{
	uint64_t now = p2s_now_ns();

	return ask->protocol == P2S_PROTOCOL && strcmp(ask->version, P2S_VERSION_TEXT) == 0 &&
	       ask->mode >= P2S_MODE_PROBE && ask->mode <= P2S_MODE_RECHECK && ask->level >= P2PSAFE_LEVEL_QUICK &&
	       ask->level <= P2PSAFE_LEVEL_THOROUGH && ask->gpu_count <= P2S_MAX_GPUS && ask->deadline_ns > now &&
	       ask->deadline_ns - now < LONGEST_NS;
}

/* The run as the library asks for it. Returns 0 when it speaks another language. */
static int greet(struct p2s_run *run)
{
	struct p2s_lib_hello hello = {.protocol = P2S_PROTOCOL};
	union p2s_lib_any any;
	uint64_t until = p2s_now_ns() + GREETING_NS;
	struct p2psafe_bdf bdf;
	uint16_t id;

	snprintf(hello.version, sizeof hello.version, "%s", P2S_VERSION_TEXT);
	if (p2s_codec_send(P2S_LIB_FD, &p2s_lib_table, p2s_id_lib_hello, &hello, -1, until) != P2S_IO_OK)
		return 0;
	if (p2s_codec_recv(P2S_LIB_FD, &p2s_lib_table, &id, &any, sizeof any, NULL, until) != P2S_IO_OK || id != p2s_id_lib_run ||
	    !valid_run(&any.run))
		return 0;
	run->ask = any.run;
	run->n = any.run.gpu_count;
	run->gpu = calloc((size_t)run->n + 1, sizeof *run->gpu);
	run->way = calloc((size_t)run->n * run->n + 1, sizeof *run->way);
	run->proc = calloc((size_t)run->n + 4, sizeof *run->proc);
	if (run->gpu == NULL || run->way == NULL || run->proc == NULL)
		return 0;
	for (uint32_t i = 0; i < run->n; i++) {
		struct p2s_device *d = &run->gpu[i];

		if (p2s_codec_recv(P2S_LIB_FD, &p2s_lib_table, &id, &any, sizeof any, NULL, until) != P2S_IO_OK ||
		    id != p2s_id_lib_gpu_in || any.gpu_in.index != i || !p2s_bdf_parse(any.gpu_in.address, &bdf) ||
		    (any.gpu_in.test != 0 && any.gpu_in.test != 1))
			return 0;
		p2s_bdf_format(&bdf, d->address);
		d->test = any.gpu_in.test;
		d->minor = -1;
		for (int k = 0; k < P2S_RUN_FACTS; k++)
			d->fact[k] = P2S_UNREAD;
		d->export_fd = -1;
		for (int k = 0; k < P2S_CHAN_KINDS; k++) {
			d->chan[k].sock = d->chan[k].page_fd = -1;
			d->chan[k].gpu = i;
		}
		if (d->test)
			run->tested[run->tested_count++] = i;
	}
	for (size_t i = 0; i < (size_t)run->n * run->n; i++)
		run->way[i].can_access = run->way[i].native_atomics = run->way[i].nvlinks = -1;
	return 1;
}

static int start_locks(struct p2s_run *run)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&run->send_lock, NULL);
	pthread_mutex_init(&run->table_lock, NULL);
	pthread_mutex_init(&run->risk_lock, NULL);
	pthread_mutex_init(&run->proc_lock, NULL);
	return pthread_condattr_init(&attr) == 0 && pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
	       pthread_cond_init(&run->risk_cond, &attr) == 0;
}

/* What a simulated host says about its children: see docs/HOSTS.md. */
static void read_seam(struct p2s_run *run)
{
	char path[1100];
	json_t *host;
	json_int_t ms;

	snprintf(path, sizeof path, "%s/host.json", run->ask.host_dir);
	host = json_load_file(path, 0, NULL);
	ms = json_integer_value(json_object_get(host, "ignore_sigkill_ms"));
	if (ms > 0 && ms < 3600000)
		run->seam.immune_until_ns = run->start_ns + (uint64_t)ms * P2S_MS;
	json_decref(host);
}

static void look_at_host(struct p2s_run *run)
{
	char path[1100];
	ssize_t n = readlink("/proc/self/exe", run->dir, sizeof run->dir - 1);
	char *slash;

	run->dir[n > 0 ? n : 0] = '\0';
	slash = strrchr(run->dir, '/');
	if (slash != NULL)
		*slash = '\0';
	run->simulated = run->ask.host_dir[0] != '\0' || run->ask.cuda_library[0] != '\0';
	/* Simulated engines need the CPUs. */
	run->eager = run->ask.host_dir[0] == '\0' && p2s_cpus_enough(p2s_cpus_allowed(), run->tested_count);
	run->has_cuda = 1;
	if (run->ask.host_dir[0] == '\0')
		return;
	read_seam(run);
	snprintf(path, sizeof path, "%s/cuda.json", run->ask.host_dir);
	run->has_cuda = run->ask.cuda_library[0] != '\0' || access(path, F_OK) == 0;
}

static void finish(struct p2s_run *run, int32_t status, const char *text)
{
	struct p2s_lib_done done = {.status = status};
	uint64_t since = p2s_now_ns();

	p2s_workers_end(run);
	p2s_klog_finish(run);
	p2s_link_timing(run, "end", since);
	p2s_link_timing(run, "total", run->start_ns);
	snprintf(done.text, sizeof done.text, "%s", text);
	atomic_store(&run->finishing, 1);
	p2s_link_send(run, p2s_id_lib_done, &done, -1);
}

/* Why nothing was run a>b. */
static const char *reason(struct p2s_run *run, uint32_t a, uint32_t b)
{
	const struct p2s_way *way = p2s_run_way(run, a, b);

	if (atomic_load(&run->gpu[a].out) || atomic_load(&run->gpu[b].out))
		return "a GPU of this pair took no further part";
	if (way->refused)
		return "what is known of it speaks against a test"; /* a finding says what that is */
	if (atomic_load(&run->stopped))
		return "stopped for safety";
	if (atomic_load(&run->deadline))
		return "deadline";
	if (atomic_load(&way->fault))
		return "an IOMMU fault of this pair was logged";
	if (atomic_load(&run->faulted) && atomic_load(&run->corrupt))
		return "stopped because an IOMMU fault was logged";
	if (atomic_load(&way->bad))
		return "this pair failed over another mapping";
	if (atomic_load(&p2s_run_way(run, b, a)->bad))
		return "the other direction of this pair failed";
	if (way->clean && atomic_load(&run->corrupt))
		return "first contact was clean; stopped because a pair is corrupt";
	if (atomic_load(&run->corrupt))
		return "first store was clean; stopped because a pair is corrupt";
	if (way->first_done && !way->clean)
		return "first contact of this pair was not completed";
	if (way->clean && !p2s_run_way(run, b, a)->clean)
		return "first contact of the other direction was not completed";
	return "not reached";
}

/* Why a mapping of the pair could not be used; NULL if it could. */
static const char *mapping_reason(struct p2s_run *run, uint32_t a, uint32_t b, int m)
{
	int kind = m == P2S_M_PEER ? P2S_CHAN_PEER : P2S_CHAN_GPU;

	for (int i = 0; i < 2; i++) {
		struct p2s_device *d = &run->gpu[i == 0 ? a : b];

		if (d->init_error[kind][0] != '\0')
			return d->init_error[kind];
		if (d->inited[kind] && !d->info[kind].module)
			return "test kernels are not loaded";
		if (atomic_load(&d->chan[kind].dead))
			return d->chan[kind].why;
	}
	if (p2s_run_way(run, a, b)->map[m] != P2S_MAP_FAILED)
		return NULL;
	return p2s_run_way(run, a, b)->map_error[m] != 0 ? "the mapping failed by an error that is no refusal"
	                                                 : "the mapping call did not come back";
}

/* Legs that nobody ran, with the reason that people ask for. */
static void explain_rest(struct p2s_run *run)
{
	for (uint32_t i = 0; i < run->tested_count; i++) {
		for (uint32_t j = 0; j < run->tested_count; j++) {
			uint32_t a = run->tested[i];
			uint32_t b = run->tested[j];

			for (int m = 0; i != j && m < P2S_M_COUNT; m++) {
				const char *why = mapping_reason(run, a, b, m);

				if (p2s_run_way(run, a, b)->verdict[P2PSAFE_LEG_SM_STORE][m] == 0)
					p2s_legs_untested(run, a, b, m, P2PSAFE_LEG_SM_STORE, P2PSAFE_VERDICT_UNTESTED,
					                  p2s_run_way(run, a, b)->map_error[m], why != NULL ? why : reason(run, a, b));
			}
		}
	}
}

/* One phase after the other; each looks for itself whether it may still start something. */
static void phases(struct p2s_run *run)
{
	static const struct {
		const char *name;
		void (*task)(struct p2s_run *run, uint32_t a, uint32_t b);
	} rounds[] = {{"bulk", p2s_bulk_pair}, {"ordering", p2s_order_pair}};
	uint64_t since = p2s_now_ns();
	uint64_t device_ns;

	p2s_setup_local(run);
	p2s_link_timing(run, "local", since);
	since = p2s_now_ns();
	p2s_staged_run(run);
	p2s_link_timing(run, "staged", since);
	since = p2s_now_ns();
	p2s_setup_mappings(run);
	p2s_link_timing(run, "mapping", since);
	since = p2s_now_ns();
	p2s_workers_await_side(run, 1); /* who has NVLink goes first, and who must not be tested does not go */
	p2s_risk_static(run);
	p2s_link_timing(run, "nvml", since);
	since = p2s_now_ns();
	p2s_first_contact_run(run);
	p2s_link_timing(run, "first_contact", since);
	for (size_t i = 0; i < 2; i++) {
		since = p2s_now_ns();
		p2s_link_phase(run, rounds[i].name, run->tested_count * (run->tested_count - 1) / 2);
		device_ns = p2s_run_rounds(run, rounds[i].task);
		p2s_link_timing(run, rounds[i].name, since);
		if (i == 0)
			p2s_link_timing_ns(run, "bulk_device", device_ns);
	}
	if (run->ask.level == P2PSAFE_LEVEL_THOROUGH) {
		since = p2s_now_ns();
		p2s_link_phase(run, "sweep", run->tested_count * (run->tested_count - 1) / 2);
		p2s_sweep_run(run);
		p2s_link_timing(run, "sweep", since);
	}
	since = p2s_now_ns();
	p2s_link_phase(run, "load", 1);
	p2s_load_run(run);
	p2s_link_progress(run);
	p2s_link_timing(run, "load", since);
	if (run->ask.level == P2PSAFE_LEVEL_THOROUGH) {
		since = p2s_now_ns();
		p2s_soak_run(run);
		p2s_link_timing(run, "soak", since);
	}
	explain_rest(run);
	since = p2s_now_ns();
	p2s_measure_run(run);
	if ((run->ask.flags & P2PSAFE_FLAG_MEASURE) != 0)
		p2s_link_timing(run, "measure", since);
	p2s_dead_tell(run);
}

static void test(struct p2s_run *run)
{
	struct p2s_lib_driver none = {.status = P2S_DRIVER_NO_LIBRARY, .text = "this host has no driver library"};
	uint64_t since = p2s_now_ns();

	if (!run->has_cuda) {
		p2s_link_send(run, p2s_id_lib_driver, &none, -1);
		finish(run, P2S_DONE_NO_DRIVER, none.text);
		return;
	}
	if (run->tested_count == 0) {
		finish(run, P2S_DONE_COMPLETE, "no GPU to test");
		return;
	}
	p2s_link_phase(run, "init", run->tested_count);
	if (!p2s_workers_start(run)) {
		finish(run, P2S_DONE_FAILED, "workers could not be started");
		return;
	}
	p2s_klog_join(run);
	p2s_klog_refuse(run);
	if (!p2s_setup_init(run)) {
		finish(run, P2S_DONE_NO_DRIVER, "the driver cannot be used");
		return;
	}
	p2s_link_timing(run, "init", since);
	phases(run);
	if (atomic_load(&run->stopped))
		finish(run, P2S_DONE_STOPPED, "stopped for safety");
	else if (atomic_load(&run->deadline))
		finish(run, P2S_DONE_DEADLINE, "");
	else
		finish(run, P2S_DONE_COMPLETE, "");
}

int p2s_conductor_main(void)
{
	static struct p2s_run run;

	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); /* short sleeps while polling should be short */
	close_inherited();
	if (getpgrp() != getpid())
		setpgid(0, 0);
	run.start_ns = p2s_now_ns();
	run.sim_fd = run.host_fd = run.kmsg_fd = -1;
	run.risk_answer = -1;
	run.progress_phase = "";
	run.side[0].sock = run.side[1].sock = -1;
	if (!start_locks(&run) || !greet(&run))
		return EXIT_PROTOCOL;
	run.stop_ns = run.ask.deadline_ns - P2S_SEC;
	run.last_ns = run.ask.deadline_ns - 400 * P2S_MS;
	look_at_host(&run);
	if (!p2s_link_watch(&run))
		return 1;
	if (run.ask.mode == P2S_MODE_TEST) {
		if (run.has_cuda)
			p2s_workers_prepare(&run);
		p2s_klog_start(&run);
		p2s_workers_start_sides(&run);
		test(&run);
	} else {
		if (run.ask.mode != P2S_MODE_MINORS)
			p2s_klog_start(&run);
		p2s_workers_start_sides(&run);
		p2s_workers_join_side(&run, 0);
		p2s_workers_join_side(&run, 1);
		finish(&run, P2S_DONE_COMPLETE, "");
	}
	/* The watcher may still wait for the library; leaving the process ends it, and with it everything that is left. */
	fflush(NULL);
	_exit(0);
}
