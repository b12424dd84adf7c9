#define _GNU_SOURCE
#include "helper/klog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/fsroot.h"
#include "helper/aer_counters.h"
#include "helper/conductor.h"
#include "helper/klog_source.h"
#include "helper/legs.h"

#define SCAN_NS (250 * P2S_MS)  /* for what was logged since boot, in a test: while workers start, which takes longer */
#define PROBE_NS (20 * P2S_MS)  /* likewise in a probe, which has 50 ms for everything */
#define RECHECK_NS P2S_SEC      /* likewise where the log's newest lines are what is asked for */
#define SCAN_BYTES (16 * P2S_MIB) /* as much as kernels are built to keep, and more */
#define SCAN_LEAST (P2S_MIB / 4) /* read whatever the time: a slow machine's log is no emptier; a few ms on a fast one */
#define DRAIN_RECORDS 4096      /* of one drain: a storm must not hold up a step */
#define LATE_NS (200 * P2S_MS)  /* after the last step: the kernel's fault handlers are threads */
#define EVENTS 1024             /* told to the library */
#define ALIKE 16                /* of one kind about the same GPUs; further ones are counted with the last */
#define NO_GPU UINT32_MAX

struct sent {
	struct p2s_log_event event;
	int changed; /* since it was told */
};

struct p2s_klog {
	pthread_mutex_t lock;
	pthread_t thread;
	int started;
	int test; /* the scan is over: what comes now was logged during the run */
	struct p2s_klog_source source;
	struct p2s_log_joiner joiner;
	struct p2s_log_gpu gpu[P2S_MAX_GPUS];
	struct p2s_aer_place aer[P2S_MAX_GPUS];
	struct sent *sent;
	size_t sent_count;
	int32_t last[P2S_LOG_KINDS]; /* index in sent of the last event of a kind; -1 it was of no interest, -2 none came */
	int32_t grave[P2S_MAX_GPUS]; /* Xid since boot; 0 none */
	int32_t action[P2S_MAX_GPUS]; /* of the last Xid 154 since boot */
	uint32_t src, dst;           /* the only pair with traffic; NO_GPU: see partner */
	uint32_t partner[P2S_MAX_GPUS];
	int contact;                 /* first contact has begun: peers exchange data */
	uint64_t last_step_ns;
};

static void send_event(struct p2s_run *run, const struct p2s_log_event *e)
{
	struct p2s_lib_log_event m = {.kind = e->kind,
	                              .xid = e->xid,
	                              .in_test = e->in_test,
	                              .gpu = e->gpu,
	                              .owner = e->owner,
	                              .owner_bar = e->owner_bar,
	                              .src = e->src,
	                              .dst = e->dst,
	                              .own_pid = e->own_pid,
	                              .recovery = e->recovery,
	                              .has_address = e->has_address,
	                              .fault_address = e->fault_address,
	                              .owner_offset = e->owner_offset,
	                              .flags = e->flags,
	                              .usec = e->usec,
	                              .seq = e->seq,
	                              .repeats = e->repeats};

	snprintf(m.device, sizeof m.device, "%s", e->device);
	snprintf(m.text, sizeof m.text, "%s", e->text);
	p2s_link_send(run, p2s_id_lib_log_event, &m, -1);
}

static void send_state(struct p2s_run *run, const struct p2s_klog *log)
{
	struct p2s_lib_log_state m = {.state = log->source.state,
	                              .lost = log->source.lost + (log->source.gap != 0),
	                              .first = log->source.first,
	                              .position = log->source.position};

	p2s_link_send(run, p2s_id_lib_log_state, &m, -1);
}

/* ---- GPUs: BARs and counters ---- */

/* The device's link to its IOMMU runs through the unit: ".../platform/arm-smmu-v3.0.auto/iommu/smmu3.0x5000000". */
static void read_unit(const struct p2s_fsroot *root, const char *address, struct p2s_log_gpu *gpu)
{
	char path[128];
	char link[512];
	char *end;
	char *start;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu", address);
	if (p2s_fsroot_link(root, path, link, sizeof link) != P2S_READ_OK || (end = strstr(link, "/iommu/")) == NULL)
		return;
	*end = '\0';
	start = strrchr(link, '/');
	snprintf(gpu->smmu, sizeof gpu->smmu, "%.31s", start != NULL ? start + 1 : link);
}

/* "start end flags" per line, as sysfs "resource". */
static void read_bars(const struct p2s_fsroot *root, const char *address, struct p2s_log_gpu *gpu)
{
	char path[128];
	char text[4096];
	char *save = NULL;
	int bar = 0;

	p2s_bdf_parse(address, &gpu->bdf);
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource", address);
	if (p2s_fsroot_read(root, path, text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return;
	for (char *line = strtok_r(text, "\n", &save); line != NULL && bar < P2S_BARS; line = strtok_r(NULL, "\n", &save), bar++) {
		unsigned long long start, end;

		if (sscanf(line, "%llx %llx", &start, &end) != 2 || start == 0 || end <= start)
			continue;
		gpu->bar_start[bar] = start;
		gpu->bar_bytes[bar] = end - start + 1;
	}
}

static void send_fact(struct p2s_run *run, uint32_t gpu, int32_t which, uint64_t value)
{
	struct p2s_lib_gpu_fact m = {.gpu = gpu, .which = which, .value = value};

	if (value != UINT64_MAX)
		p2s_link_send(run, p2s_id_lib_gpu_fact, &m, -1);
}

/* after: 0 before the test, 1 behind it. Of bridges only what they saw meanwhile is told. */
static void send_counters(struct p2s_run *run, struct p2s_klog *log, const struct p2s_fsroot *root, int after)
{
	static const int32_t which[P2S_AER_KINDS] = {P2S_GPU_FACT_AER_CORRECTABLE_BEFORE, P2S_GPU_FACT_AER_NONFATAL_BEFORE,
	                                             P2S_GPU_FACT_AER_FATAL_BEFORE};

	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint32_t gpu = run->tested[i];
		struct p2s_aer_place *p = &log->aer[gpu];

		if (!after)
			p2s_aer_look(root, run->gpu[gpu].address, p);
		for (size_t h = 0; h < p->count; h++) {
			struct p2s_lib_port_errors m = {.gpu = gpu};
			uint64_t now[P2S_AER_KINDS];
			uint64_t more[P2S_AER_KINDS];

			memcpy(now, p->value[h], sizeof now);
			if (after)
				p2s_aer_read(root, p->address[h], now);
			for (size_t k = 0; k < P2S_AER_KINDS; k++) {
				more[k] = now[k] != UINT64_MAX && p->value[h][k] != UINT64_MAX && now[k] > p->value[h][k]
				                  ? now[k] - p->value[h][k]
				                  : 0;
				if (h + 1 == p->count)
					send_fact(run, gpu, which[k] + after, now[k]);
			}
			if (h + 1 == p->count || more[0] + more[1] + more[2] == 0)
				continue;
			snprintf(m.address, sizeof m.address, "%s", p->address[h]);
			m.correctable = more[0];
			m.nonfatal = more[1];
			m.fatal = more[2];
			p2s_link_send(run, p2s_id_lib_port_errors, &m, -1);
		}
	}
}

static void look_at_gpus(struct p2s_run *run, struct p2s_klog *log, int after)
{
	struct p2s_fsroot root;

	if (!p2s_fsroot_open(&root, run->ask.host_dir[0] != '\0' ? run->ask.host_dir : NULL))
		return;
	for (uint32_t g = 0; g < run->n && !after; g++) {
		read_bars(&root, run->gpu[g].address, &log->gpu[g]);
		read_unit(&root, run->gpu[g].address, &log->gpu[g]);
	}
	if (run->ask.mode == P2S_MODE_TEST)
		send_counters(run, log, &root, after);
	p2s_fsroot_close(&root);
}

/* ---- what an event is about ---- */

/* Lines about other devices say nothing here, unless their device is not named. */
static int of_interest(const struct p2s_log_event *e)
{
	switch (p2s_log_class(e->kind)) {
	case P2S_LOG_CLASS_FAULT:
		return e->gpu >= 0 || e->owner >= 0 || e->device[0] == '\0';
	case P2S_LOG_CLASS_EVENT:
		return e->gpu >= 0 || e->device[0] == '\0';
	case P2S_LOG_CLASS_GROUP:
		return e->gpu >= 0;
	default:
		return 1;
	}
}

/* The directed pair that the event came from. An IOMMU names the accessor, a BAR its owner: these count before the time. */
static void find_pair(const struct p2s_klog *log, struct p2s_log_event *e)
{
	uint32_t gpu = e->gpu >= 0 ? (uint32_t)e->gpu : NO_GPU;
	int fault = p2s_log_class(e->kind) == P2S_LOG_CLASS_FAULT;

	if (!e->in_test || !log->contact)
		return;
	/* Another device may fault at our memory, too; of errors on the way it is the ports that speak. */
	if (gpu == NO_GPU && e->device[0] != '\0' && p2s_log_class(e->kind) != P2S_LOG_CLASS_AER)
		return;
	if (fault && e->gpu >= 0 && e->owner >= 0 && e->owner != e->gpu) {
		e->src = e->gpu;
		e->dst = e->owner;
	} else if (log->src != NO_GPU && (gpu == NO_GPU || gpu == log->src || (!fault && gpu == log->dst))) {
		e->src = (int32_t)log->src;
		e->dst = (int32_t)log->dst;
	} else if (log->src == NO_GPU && gpu != NO_GPU && log->partner[gpu] != NO_GPU) {
		e->src = e->gpu;
		e->dst = (int32_t)log->partner[gpu];
	} else if (log->src == NO_GPU && gpu == NO_GPU && e->owner >= 0 && log->partner[e->owner] != NO_GPU) {
		e->src = (int32_t)log->partner[e->owner];
		e->dst = e->owner;
	}
}

/* The driver reports the channels of a killed process: that is our doing, not the machine's. In a container the kernel's pid
 * is not ours, the name is. */
static int is_own(struct p2s_run *run, const struct p2s_log_found *f)
{
	int own = 0;

	if (f->event.kind != P2S_LOG_XID || f->pid == 0)
		return 0;
	pthread_mutex_lock(&run->proc_lock);
	for (size_t i = 0; i < run->proc_count; i++)
		own |= run->proc[i].killed && (run->proc[i].pid == f->pid || strcmp(f->process, "p2psafe-helper") == 0);
	pthread_mutex_unlock(&run->proc_lock);
	return own;
}

static int same_about(const struct p2s_log_event *a, const struct p2s_log_event *b)
{
	return a->kind == b->kind && a->xid == b->xid && a->in_test == b->in_test && a->gpu == b->gpu && a->owner == b->owner &&
	       a->owner_bar == b->owner_bar && a->src == b->src && a->dst == b->dst && a->own_pid == b->own_pid &&
	       a->recovery == b->recovery && strcmp(a->device, b->device) == 0;
}

/* What was logged before a test must not fill the list that the test needs, nor must what ends no proof. A probe and a recheck
 * have nothing else to tell. */
static size_t room(const struct p2s_run *run, const struct p2s_log_event *e)
{
	if (run->ask.mode != P2S_MODE_TEST)
		return EVENTS;
	if (!e->in_test)
		return EVENTS / 2;
	return p2s_log_class(e->kind) == P2S_LOG_CLASS_FAULT || e->kind == P2S_LOG_AER_FATAL || e->kind == P2S_LOG_SXID ||
	                       p2s_log_is_grave(e) || p2s_log_ends_nvlink(e)
	               ? EVENTS
	               : EVENTS / 4 * 3;
}

/* Tells the event, or counts it with one that was told. */
static void tell(struct p2s_run *run, struct p2s_klog *log, const struct p2s_log_event *e)
{
	const int full = log->sent_count >= room(run, e);
	int32_t alike = -1;
	int count = 0;

	for (size_t i = 0; i < log->sent_count; i++) {
		const struct p2s_log_event *old = &log->sent[i].event;

		if (!same_about(old, e))
			continue;
		count++;
		alike = (int32_t)i;
		if (old->fault_address == e->fault_address && strcmp(old->text, e->text) == 0) {
			count = ALIKE;
			break;
		}
	}
	if (alike >= 0 && (count >= ALIKE || full)) {
		log->sent[alike].event.repeats++;
		log->sent[alike].event.seq = e->seq; /* how young the youngest of them is */
		log->sent[alike].changed = 1;
		log->last[e->kind] = alike;
		return;
	}
	if (full) {
		log->source.lost++;
		return;
	}
	log->sent[log->sent_count].event = *e;
	log->sent[log->sent_count].changed = 0;
	log->last[e->kind] = (int32_t)log->sent_count++;
	send_event(run, e);
}

/* What the rate limit swallowed belongs to the last event of its kind. */
static void add_suppressed(struct p2s_run *run, struct p2s_klog *log, const struct p2s_log_found *f)
{
	int32_t last = log->last[f->family];

	if (last == -2) /* the lines themselves are gone from the log */
		tell(run, log, &f->event);
	if (last < 0)
		return;
	log->sent[last].event.repeats += f->event.repeats;
	log->sent[last].changed = 1;
}

static void send_changed(struct p2s_run *run, struct p2s_klog *log)
{
	for (size_t i = 0; i < log->sent_count; i++) {
		if (log->sent[i].changed)
			send_event(run, &log->sent[i].event);
		log->sent[i].changed = 0;
	}
}

/* ---- what forbids going on ---- */

static void grave_in_test(struct p2s_run *run, const struct p2s_log_event *e)
{
	char text[160];

	if (e->xid == 154)
		snprintf(text, sizeof text, "Xid 154 during the test: the GPU needs %s", p2s_log_recovery_text(e->recovery));
	else
		snprintf(text, sizeof text, "Xid %d during the test", (int)e->xid);
	p2s_link_fact(run, "GRAVE_XID", P2PSAFE_SEVERITY_DANGER, e->gpu, -1, "kernel log", text);
	if (!p2s_run_keeps_going(run))
		atomic_store(&run->stopped, 1);
	if (e->gpu >= 0 && run->gpu[e->gpu].test)
		p2s_run_drop_gpu(run, (uint32_t)e->gpu, P2PSAFE_GPU_STATE_RISKY, text);
}

/* No IOMMU is on the way of NVLink. */
static int by_wire(struct p2s_run *run, const struct p2s_log_event *e)
{
	int32_t path = p2s_run_path(run, (uint32_t)e->src, (uint32_t)e->dst);

	return path == P2PSAFE_PATH_NVL || path == P2PSAFE_PATH_C2C;
}

/* An IOMMU stopped a transfer: for this pair as bad as wrong bytes. A pair on NVLink it is not by the time alone; those on PCIe
 * get no more than the first store after it, as after every fault, and the library says whose it may be. */
static void fault_in_test(struct p2s_run *run, const struct p2s_log_event *e)
{
	/* A line that names neither a GPU nor memory of one may be about any device. */
	if ((e->gpu < 0 || !run->gpu[e->gpu].test) && (e->src < 0 || e->owner < 0))
		return;
	if (e->src >= 0 && (e->owner >= 0 || !by_wire(run, e))) {
		atomic_store(&p2s_run_way(run, (uint32_t)e->src, (uint32_t)e->dst)->fault, 1);
		atomic_store(&p2s_run_way(run, (uint32_t)e->src, (uint32_t)e->dst)->bad, 1);
	}
	atomic_store(&run->faulted, 1);
	atomic_store(&run->corrupt, 1);
}

static void note_since_boot(struct p2s_klog *log, const struct p2s_log_event *e)
{
	if (e->gpu < 0 || e->kind != P2S_LOG_XID)
		return;
	if (e->xid == 154)
		log->action[e->gpu] = p2s_log_is_grave(e) ? (e->recovery != P2S_RECOVERY_UNREAD ? e->recovery : -1) : 0;
	else if (p2s_log_is_grave(e))
		log->grave[e->gpu] = e->xid;
}

static void take(struct p2s_run *run, struct p2s_klog *log, struct p2s_log_found *f)
{
	struct p2s_log_event *e = &f->event;

	if (e->kind == P2S_LOG_SUPPRESSED) {
		e->in_test = log->test;
		add_suppressed(run, log, f);
		return;
	}
	e->in_test = log->test;
	p2s_log_attribute(e, log->gpu, run->n);
	if (!of_interest(e)) {
		log->last[e->kind] = -1;
		return;
	}
	find_pair(log, e);
	/* only of what ends with a process */
	e->own_pid = (e->xid == 43 || e->xid == 45 || e->xid == 109) && is_own(run, f);
	tell(run, log, e);
	if (!log->test)
		note_since_boot(log, e);
	else if (p2s_log_is_grave(e))
		grave_in_test(run, e);
	else if (p2s_log_class(e->kind) == P2S_LOG_CLASS_FAULT && log->contact)
		fault_in_test(run, e);
}

/* Reads until there is nothing, or a bound is met. Returns 1 when everything was read. */
static int read_log(struct p2s_run *run, struct p2s_klog *log, size_t records, uint64_t until_ns)
{
	struct p2s_log_record record;
	struct p2s_log_found found[2];

	for (size_t i = 0; i < records; i++) {
		size_t n;

		if (until_ns != 0 && (i & 15) == 0 && log->source.bytes > SCAN_LEAST &&
		    (p2s_now_ns() >= until_ns || (log->source.bytes > SCAN_BYTES && run->ask.mode != P2S_MODE_RECHECK)))
			return 0;
		if (!p2s_klog_source_next(&log->source, &record))
			return 1;
		n = p2s_log_feed(&log->joiner, &record, found);
		for (size_t k = 0; k < n; k++)
			take(run, log, &found[k]);
	}
	return 0;
}

static void flush(struct p2s_run *run, struct p2s_klog *log)
{
	struct p2s_log_found found;

	if (p2s_log_flush(&log->joiner, &found))
		take(run, log, &found);
	send_changed(run, log);
}

/* ---- the interface ---- */

static void *scan(void *arg)
{
	struct p2s_run *run = arg;
	struct p2s_klog *log = run->klog;
	int32_t mode = run->ask.mode;
	uint64_t until = p2s_now_ns() + (mode == P2S_MODE_RECHECK ? RECHECK_NS : mode == P2S_MODE_TEST ? SCAN_NS : PROBE_NS);

	pthread_mutex_lock(&log->lock);
	look_at_gpus(run, log, 0);
	p2s_klog_source_open(&log->source, run->ask.host_dir, run->kmsg_fd);
	if (!read_log(run, log, SIZE_MAX, until))
		p2s_klog_source_skip(&log->source);
	flush(run, log);
	log->test = 1;
	send_state(run, log);
	pthread_mutex_unlock(&log->lock);
	return NULL;
}

void p2s_klog_start(struct p2s_run *run)
{
	struct p2s_klog *log = calloc(1, sizeof *log);

	if (log == NULL)
		return;
	log->sent = calloc(EVENTS, sizeof *log->sent);
	if (log->sent == NULL || pthread_mutex_init(&log->lock, NULL) != 0) {
		free(log->sent);
		free(log);
		return;
	}
	log->src = log->dst = NO_GPU;
	log->source.fd = log->source.live_fd = -1;
	for (size_t i = 0; i < P2S_MAX_GPUS; i++)
		log->partner[i] = NO_GPU;
	for (size_t i = 0; i < P2S_LOG_KINDS; i++)
		log->last[i] = -2;
	run->klog = log;
	log->started = pthread_create(&log->thread, NULL, scan, run) == 0;
	if (!log->started)
		scan(run);
}

void p2s_klog_join(struct p2s_run *run)
{
	if (run->klog == NULL || !run->klog->started)
		return;
	pthread_join(run->klog->thread, NULL);
	run->klog->started = 0;
}

void p2s_klog_refuse(struct p2s_run *run)
{
	struct p2s_klog *log = run->klog;
	char text[160];

	for (uint32_t i = 0; log != NULL && i < run->tested_count; i++) {
		uint32_t g = run->tested[i];

		if (log->action[g] != 0)
			snprintf(text, sizeof text, "Xid 154 since boot: the driver says that this GPU needs %s",
			         p2s_log_recovery_text(log->action[g]));
		else if (log->grave[g] != 0)
			snprintf(text, sizeof text, "Xid %d was logged since boot", (int)log->grave[g]);
		else
			continue;
		p2s_link_fact(run, "PROBE_RISK_HIGH", P2PSAFE_SEVERITY_WARNING, (int32_t)g, -1, "kernel log", text);
		if (!p2s_run_keeps_going(run))
			p2s_run_drop_gpu(run, g, P2PSAFE_GPU_STATE_RISKY, text);
	}
}

static void drain_locked(struct p2s_run *run, struct p2s_klog *log)
{
	log->last_step_ns = p2s_now_ns();
	read_log(run, log, DRAIN_RECORDS, 0);
}

void p2s_klog_drain(struct p2s_run *run)
{
	struct p2s_klog *log = run->klog;

	if (log == NULL || log->started)
		return;
	pthread_mutex_lock(&log->lock);
	drain_locked(run, log);
	pthread_mutex_unlock(&log->lock);
}

void p2s_klog_contact(struct p2s_run *run, uint32_t a, uint32_t b)
{
	struct p2s_klog *log = run->klog;

	if (log == NULL)
		return;
	pthread_mutex_lock(&log->lock);
	drain_locked(run, log);
	log->contact = 1;
	log->src = a != b ? a : NO_GPU;
	log->dst = a != b ? b : NO_GPU;
	pthread_mutex_unlock(&log->lock);
}

void p2s_klog_round(struct p2s_run *run, uint32_t a, uint32_t b, int begin)
{
	struct p2s_klog *log = run->klog;

	if (log == NULL || a >= P2S_MAX_GPUS || b >= P2S_MAX_GPUS)
		return;
	pthread_mutex_lock(&log->lock);
	drain_locked(run, log);
	log->partner[a] = begin ? b : NO_GPU;
	log->partner[b] = begin ? a : NO_GPU;
	pthread_mutex_unlock(&log->lock);
}

/* A healthy run need not wait for lines that would explain what is wrong. */
static int something_is_wrong(struct p2s_run *run)
{
	int wrong = atomic_load(&run->stopped) || atomic_load(&run->corrupt);

	for (size_t i = 0; i < (size_t)run->n * run->n; i++)
		wrong |= atomic_load(&run->way[i].bad);
	return wrong;
}

void p2s_klog_finish(struct p2s_run *run)
{
	struct p2s_klog *log = run->klog;
	uint64_t until;

	if (log == NULL)
		return;
	p2s_klog_join(run);
	until = log->last_step_ns + LATE_NS < run->last_ns ? log->last_step_ns + LATE_NS : run->last_ns;
	if (log->contact && log->source.state == P2S_LOG_READABLE && something_is_wrong(run)) {
		for (uint64_t now = p2s_now_ns(); now < until; now = p2s_now_ns()) {
			struct timespec ts = {.tv_nsec = (long)(until - now)};

			nanosleep(&ts, NULL);
		}
	}
	pthread_mutex_lock(&log->lock);
	/* No step is held up any more: a storm is read on, and what is left of it is counted as missed. */
	until = p2s_now_ns() + SCAN_NS < run->last_ns ? p2s_now_ns() + SCAN_NS : run->last_ns;
	if (!read_log(run, log, DRAIN_RECORDS, 0) && !read_log(run, log, SIZE_MAX, until))
		p2s_klog_source_skip(&log->source);
	flush(run, log);
	look_at_gpus(run, log, 1);
	send_state(run, log);
	p2s_klog_source_close(&log->source);
	pthread_mutex_unlock(&log->lock);
}
