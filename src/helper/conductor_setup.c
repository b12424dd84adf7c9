/* Everything before the first byte between two GPUs: contexts, memory, local work, mapping calls. */
#include "helper/conductor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/word.h"
#include "helper/legs.h"
#include "helper/schedule.h"

#define BUFFERS 3 /* per GPU: cumem, plain, and one in the peer worker */
#define QUICK_BYTES P2S_MIB
#define BUFFER_MAX (256 * P2S_MIB)
#define BUFFER_HOST (8 * P2S_MIB) /* without kernels the host makes and compares every byte */
#define TOTAL_MAX (1024 * P2S_MIB)
#define CONTROL_BYTES (64 * P2S_KIB) /* of the check that must fail */
#define COMPUTE_MODE_DEFAULT 0
#define SYSTEM_NOT_READY 802 /* CUDA_ERROR_SYSTEM_NOT_READY: a daemon that the driver needs is not there */
#define FIRST_LAUNCH_NS (3 * P2S_SEC) /* empty kernels; contexts themselves may take much longer */

struct each {
	struct p2s_run *run;
	uint32_t a;
	uint32_t b;
	int kind;
	void (*gpu_task)(struct p2s_run *run, uint32_t gpu, int kind);
	void (*pair_task)(struct p2s_run *run, uint32_t a, uint32_t b);
};

static void *each_thread(void *arg)
{
	struct each *e = arg;

	if (e->gpu_task != NULL) {
		e->gpu_task(e->run, e->a, e->kind);
		return NULL;
	}
	p2s_klog_round(e->run, e->a, e->b, 1);
	e->pair_task(e->run, e->a, e->b);
	p2s_klog_round(e->run, e->a, e->b, 0);
	return NULL;
}

/* Runs all entries at once; one that gets no thread runs here. */
static void run_all(struct each *list, size_t count)
{
	pthread_t *thread = calloc(count, sizeof *thread);
	char *started = calloc(count, 1);

	for (size_t i = 0; i < count; i++) {
		if (thread != NULL && started != NULL && count > 1 && pthread_create(&thread[i], NULL, each_thread, &list[i]) == 0)
			started[i] = 1;
		else
			each_thread(&list[i]);
	}
	for (size_t i = 0; thread != NULL && started != NULL && i < count; i++)
		if (started[i])
			pthread_join(thread[i], NULL);
	free(thread);
	free(started);
}

void p2s_run_each(struct p2s_run *run, int kinds, void (*task)(struct p2s_run *run, uint32_t gpu, int kind))
{
	struct each list[P2S_MAX_GPUS * P2S_CHAN_KINDS];
	size_t count = 0;

	memset(list, 0, sizeof list);
	for (uint32_t i = 0; i < run->tested_count; i++) {
		for (int k = 0; k < kinds; k++) {
			if (atomic_load(&run->gpu[run->tested[i]].out))
				continue;
			list[count].run = run;
			list[count].a = run->tested[i];
			list[count].kind = k;
			list[count++].gpu_task = task;
		}
	}
	run_all(list, count);
}

/* What both GPUs of a pair have needed so far, by their own clocks. */
static uint64_t busy(const struct p2s_run *run, uint32_t a, uint32_t b)
{
	uint64_t ns = 0;

	for (int k = 0; k < P2S_CHAN_KINDS; k++)
		ns += run->gpu[a].chan[k].busy_ns + run->gpu[b].chan[k].busy_ns;
	return ns;
}

uint64_t p2s_run_rounds(struct p2s_run *run, void (*task)(struct p2s_run *run, uint32_t a, uint32_t b))
{
	uint32_t live[P2S_MAX_GPUS];
	uint64_t all_ns = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < run->tested_count; i++)
		if (!atomic_load(&run->gpu[run->tested[i]].out))
			live[n++] = run->tested[i];
	for (uint32_t round = 0; round < p2s_schedule_rounds(n); round++) {
		struct each list[P2S_MAX_GPUS / 2];
		uint64_t before[P2S_MAX_GPUS / 2];
		uint64_t longest = 0;
		size_t count = 0;

		memset(list, 0, sizeof list);
		for (uint32_t i = 0; i < (n + 1) / 2; i++) {
			uint32_t x, y;

			if (!p2s_schedule_pair(n, round, i, &x, &y))
				continue;
			list[count].run = run;
			list[count].a = live[x];
			list[count].b = live[y];
			before[count] = busy(run, live[x], live[y]);
			list[count++].pair_task = task;
		}
		run_all(list, count);
		for (size_t i = 0; i < count; i++) {
			uint64_t ns = busy(run, list[i].a, list[i].b) - before[i];

			longest = ns > longest ? ns : longest;
		}
		all_ns += longest;
	}
	return all_ns;
}

/* ---- contexts ---- */

struct init_seen {
	int32_t cuda_version;
	int ok;     /* some channel is ready: the driver works */
	int driver; /* why nothing works, P2S_DRIVER_* */
	int not_ready; /* the driver waits for a daemon of its own */
	char text[160];
};

/* What an INIT that failed says about the driver; P2S_DRIVER_OK: only about this GPU. */
static int driver_status(const struct p2s_op_answer *answer)
{
	if (answer->rc == P2S_RC_UNSUPPORTED) /* no library, a missing symbol by its name, or an API below the floor */
		return strcmp(answer->where, "dlopen") == 0 ? P2S_DRIVER_NO_LIBRARY : P2S_DRIVER_TOO_OLD;
	if (strcmp(answer->where, "cuInit") == 0)
		return answer->cuda_error == 100 /* NO_DEVICE */ ? P2S_DRIVER_NO_DEVICE : P2S_DRIVER_FAILED;
	return strcmp(answer->where, "cuDriverGetVersion") == 0 ? P2S_DRIVER_FAILED : P2S_DRIVER_OK;
}

static void gpu_failed(struct p2s_run *run, uint32_t g, const char *error)
{
	char address[P2S_BDF_TEXT];

	snprintf(address, sizeof address, "%s", run->gpu[g].address);
	if (p2s_run_drop_gpu(run, g, P2PSAFE_GPU_STATE_FAILED, error))
		p2s_link_fact(run, "GPU_INIT_FAILED", P2PSAFE_SEVERITY_ERROR, (int32_t)g, -1, address, error);
}

/* Of the daemons that the driver needs it is the fabric manager, but in confidential mode. */
static void tell_not_ready(struct p2s_run *run, const char *error)
{
	struct p2s_lib_fact fact = {.code = "FABRIC_MANAGER_DOWN", .severity = P2PSAFE_SEVERITY_ERROR,
	                            .confidence = P2PSAFE_CONFIDENCE_MEDIUM, .src = -1, .dst = -1, .source = "libcuda.so.1"};

	snprintf(fact.text, sizeof fact.text, "%.100s: the system is not ready; where NVSwitches join the GPUs, the fabric manager "
	         "does not run or has not finished", error);
	p2s_link_send(run, p2s_id_lib_fact, &fact, -1);
}

static void take_init(struct p2s_run *run, uint32_t g, int kind, struct init_seen *seen)
{
	struct p2s_device *d = &run->gpu[g];
	struct p2s_op_answer answer;
	char *error = d->init_error[kind];
	size_t cap = sizeof d->init_error[kind];
	int rc = p2s_chan_wait_device(run, &d->chan[kind], &d->info[kind], &answer);
	int status;

	if (rc == P2S_RC_OK) {
		d->inited[kind] = 1;
		seen->ok = 1;
		seen->cuda_version = d->info[kind].cuda_version;
		return;
	}
	if (rc != P2S_RC_ERROR && rc != P2S_RC_UNSUPPORTED) {
		snprintf(error, cap, "%s", rc == P2S_RC_GONE || rc == P2S_RC_UNSENT ? answer.where : "context was not ready in time");
		if (rc == P2S_RC_LATE || p2s_now_ns() >= run->stop_ns)
			atomic_store(&run->deadline, 1);
		return;
	}
	snprintf(error, cap, rc == P2S_RC_ERROR ? "%s: error %d" : "%s is not there", answer.where, (int)answer.cuda_error);
	if (rc == P2S_RC_ERROR && answer.cuda_error == SYSTEM_NOT_READY && !seen->not_ready)
		tell_not_ready(run, error);
	seen->not_ready |= rc == P2S_RC_ERROR && answer.cuda_error == SYSTEM_NOT_READY;
	status = driver_status(&answer);
	if (status == P2S_DRIVER_OK || seen->driver != P2S_DRIVER_OK)
		return;
	seen->driver = status;
	seen->cuda_version = (int32_t)answer.value;
	if (status == P2S_DRIVER_NO_LIBRARY)
		snprintf(seen->text, sizeof seen->text, "the driver library cannot be loaded");
	else if (status == P2S_DRIVER_TOO_OLD && answer.value != 0)
		snprintf(seen->text, sizeof seen->text, "driver API %d.%d is older than 12.0", (int)answer.value / 1000,
		         (int)answer.value % 1000 / 10);
	else
		snprintf(seen->text, sizeof seen->text, "%s", error);
}

/* A GPU that must not be tested by default. Where one process may use it, either of our two did. */
static void look_for_risk(struct p2s_run *run, uint32_t g)
{
	const struct p2s_device *d = &run->gpu[g];
	const struct p2s_op_device *info = &d->info[d->inited[P2S_CHAN_GPU] ? P2S_CHAN_GPU : P2S_CHAN_PEER];
	char text[160];

	if (info->compute_mode == COMPUTE_MODE_DEFAULT || atomic_load(&d->out))
		return;
	snprintf(text, sizeof text, "compute mode %d: exclusive use by one process", info->compute_mode);
	p2s_link_fact(run, "PROBE_RISK_HIGH", P2PSAFE_SEVERITY_WARNING, (int32_t)g, -1, "cuDeviceGetAttribute", text);
	p2s_run_drop_gpu(run, g, P2PSAFE_GPU_STATE_RISKY, text);
}

static void look_for_kernels(struct p2s_run *run, uint32_t g)
{
	const struct p2s_op_device *info = &run->gpu[g].info[P2S_CHAN_GPU];
	char text[320];

	if (info->module || atomic_load(&run->gpu[g].out))
		return;
	snprintf(text, sizeof text, "test kernels did not load: error %d %s", info->cuda_error, info->jit_log);
	p2s_link_fact(run, "KERNELS_NOT_LOADED", P2PSAFE_SEVERITY_WARNING, (int32_t)g, -1, "cuModuleLoadDataEx", text);
}

static void send_driver(struct p2s_run *run, int32_t version, int32_t status, const char *text)
{
	struct p2s_lib_driver out = {.cuda_version = version, .status = status};

	snprintf(out.text, sizeof out.text, "%s", text);
	p2s_link_send(run, p2s_id_lib_driver, &out, -1);
}

/* How long the slowest worker needed to load its kernels: long when the driver had to compile them. */
static void tell_kernels(struct p2s_run *run)
{
	uint64_t longest = 0;

	for (uint32_t g = 0; g < run->n; g++)
		for (int k = 0; k < P2S_CHAN_KINDS; k++)
			if (run->gpu[g].inited[k] && run->gpu[g].info[k].module_ns > longest)
				longest = run->gpu[g].info[k].module_ns;
	p2s_link_timing_ns(run, "kernels", longest);
}

int p2s_setup_init(struct p2s_run *run)
{
	struct init_seen seen = {.driver = P2S_DRIVER_OK};
	uint64_t now = p2s_now_ns();
	uint64_t left = run->stop_ns > now ? run->stop_ns - now : 0;
	int posted[P2S_MAX_GPUS] = {0};

	/* One that must not be tested gets no context either. */
	for (uint32_t i = 0; i < run->tested_count; i++)
		posted[i] = !atomic_load(&run->gpu[run->tested[i]].out);
	for (int kind = 0; kind < P2S_CHAN_KINDS; kind++) {
		for (uint32_t i = 0; i < run->tested_count; i++) {
			struct p2s_device *d = &run->gpu[run->tested[i]];
			/* Contexts of many GPUs that nobody keeps initialised take seconds each. */
			struct p2s_op_request req = {.op = P2S_OP_INIT, .timeout_ns = FIRST_LAUNCH_NS};

			if (!posted[i])
				continue;
			snprintf(req.text, sizeof req.text, "%s", d->address);
			p2s_chan_post(run, &d->chan[kind], &req, d->chan[kind].page_fd);
			d->chan[kind].wait_until_ns = now + left / 4 * 3;
		}
	}
	for (int kind = 0; kind < P2S_CHAN_KINDS; kind++)
		for (uint32_t i = 0; i < run->tested_count; i++)
			if (posted[i])
				take_init(run, run->tested[i], kind, &seen);
	if (!seen.ok && seen.driver != P2S_DRIVER_OK) {
		send_driver(run, seen.cuda_version, seen.driver, seen.text);
		return 0;
	}
	send_driver(run, seen.cuda_version, P2S_DRIVER_OK, "");
	tell_kernels(run);
	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint32_t g = run->tested[i];

		if (!posted[i])
			continue;
		if (!run->gpu[g].inited[P2S_CHAN_GPU] && atomic_load(&run->deadline)) {
			p2s_run_drop_gpu(run, g, 0, "the deadline came before its context"); /* which says nothing about the GPU */
			continue;
		}
		look_for_risk(run, g);
		if (!run->gpu[g].inited[P2S_CHAN_GPU]) {
			gpu_failed(run, g, run->gpu[g].init_error[P2S_CHAN_GPU]);
			continue;
		}
		look_for_kernels(run, g);
		if (!atomic_load(&run->gpu[g].out)) {
			run->gpu[g].state = P2PSAFE_GPU_STATE_READY;
			p2s_link_gpu(run, g);
		}
	}
	return 1;
}

/* ---- memory and local work ---- */

/* Bytes of each buffer of the GPU; 0: too little memory is free to test. */
static uint64_t buffer_bytes(const struct p2s_run *run, uint32_t g)
{
	uint64_t total = run->gpu[g].info[P2S_CHAN_GPU].free_bytes / 20;
	uint64_t each;

	if (total > TOTAL_MAX)
		total = TOTAL_MAX;
	each = total / BUFFERS;
	/* Speeds need more than a few bytes, whatever else is tested. */
	if (run->ask.level == P2PSAFE_LEVEL_QUICK && (run->ask.flags & P2PSAFE_FLAG_MEASURE) == 0 && each > QUICK_BYTES)
		each = QUICK_BYTES;
	if (each > BUFFER_MAX)
		each = BUFFER_MAX;
	if (each > BUFFER_HOST && (!run->gpu[g].info[P2S_CHAN_GPU].module || !run->gpu[g].info[P2S_CHAN_PEER].module))
		each = BUFFER_HOST;
	/* Whole 2 MiB pages, so that rounding up to the driver's granularity never exceeds the total. */
	return each >= 2 * P2S_MIB ? each - each % (2 * P2S_MIB) : each >= P2S_MIB ? P2S_MIB : 0;
}

/* Fill, check, and a look through a third path: bytes copied to the host and compared here. Proves that fill, check and the
 * copy engine of this GPU tell the truth about its own memory. Returns 1, or 0 with a text. */
static int prove_local(struct p2s_run *run, struct p2s_chan *chan, uint32_t buf, uint64_t bytes, char *why, size_t cap)
{
	uint64_t seed = p2s_seed(p2s_run_key(run, chan->gpu, chan->gpu, 0, 0), chan->gpu, chan->gpu, 0, 0);
	uint64_t done = 0;
	uint64_t part = bytes < P2S_MIB ? bytes : P2S_MIB;
	struct p2s_op_answer answer;

	while (done < bytes) {
		struct p2s_op_request fill = {.op = P2S_OP_FILL, .buf = buf, .off = done, .len = part, .seed = seed};
		struct p2s_op_request check = {.op = P2S_OP_CHECK,
		                               .buf = buf,
		                               .off = done,
		                               .len = part,
		                               .in_off = done,
		                               .in_len = part,
		                               .seed = seed,
		                               .seed2 = seed};
		struct p2s_op_request wrong = check;
		struct p2s_op_request peek = {.op = P2S_OP_PEEK, .buf = buf, .off = done + part / 2 / 8 * 8, .len = 256};
		uint64_t start = p2s_now_ns();

		if (p2s_chan_call(run, chan, &fill, &answer) != P2S_RC_OK || p2s_chan_call(run, chan, &check, &answer) != P2S_RC_OK) {
			snprintf(why, cap, "local fill or check failed: %s error %d", answer.where, (int)answer.cuda_error);
			return 0;
		}
		if (answer.bad_words != 0) {
			snprintf(why, cap, "local memory does not hold what was stored: %llu words differ",
			         (unsigned long long)answer.bad_words);
			return 0;
		}
		/* A checker that finds nothing when everything is wrong, or whose answer gets lost on its way, would clear all. */
		wrong.seed = wrong.seed2 = seed ^ 1;
		wrong.len = wrong.in_len = CONTROL_BYTES;
		if (p2s_chan_call(run, chan, &wrong, &answer) != P2S_RC_OK || answer.bad_words != CONTROL_BYTES / 8 ||
		    answer.first_bad != done) {
			snprintf(why, cap, "local check does not see wrong bytes");
			return 0;
		}
		if (p2s_chan_call(run, chan, &peek, &answer) != P2S_RC_OK || answer.samples_len != peek.len) {
			snprintf(why, cap, "local copy to host failed: %s error %d", answer.where, (int)answer.cuda_error);
			return 0;
		}
		for (uint32_t i = 0; i < answer.samples_len; i++) {
			if (answer.samples[i] != p2s_word_byte(seed, peek.off + i)) {
				snprintf(why, cap, "copy to host gives other bytes than the GPU sees");
				return 0;
			}
		}
		done += part;
		/* The rest at once on a real GPU (2 ms at most); a simulated one only as much as its host can do in some ms. */
		if (done < bytes && p2s_now_ns() - start > 2 * P2S_MS)
			break;
		part = bytes - done;
		if (run->ask.host_dir[0] != '\0' || !run->gpu[chan->gpu].info[P2S_CHAN_GPU].module)
			break;
	}
	return 1;
}

static int allocate(struct p2s_run *run, uint32_t g, struct p2s_chan *chan, uint32_t number, uint32_t mode, uint64_t bytes,
                    int32_t *error)
{
	struct p2s_op_request req = {
		.op = P2S_OP_ALLOC, .buf = P2S_BUF(g, number), .len = bytes, .mode = mode, .timeout_ns = 5 * P2S_SEC};
	struct p2s_op_answer answer;

	if (p2s_chan_call(run, chan, &req, &answer) == P2S_RC_OK) {
		run->gpu[g].bytes[number] = answer.value < bytes ? answer.value : bytes;
		run->gpu[g].handle_bytes[number] = answer.value;
		return 1;
	}
	*error = answer.cuda_error;
	return 0;
}

static void export_buffer(struct p2s_run *run, uint32_t g, int m, uint32_t number)
{
	struct p2s_device *d = &run->gpu[g];
	struct p2s_op_request req = {.op = P2S_OP_EXPORT, .buf = P2S_BUF(g, number), .mode = (uint32_t)p2s_mapping_word[m]};
	struct p2s_op_answer answer;
	int fd = -1;

	p2s_chan_post(run, &d->chan[P2S_CHAN_GPU], &req, -1);
	if (p2s_chan_wait(run, &d->chan[P2S_CHAN_GPU], &answer, &fd) != P2S_RC_OK) {
		d->mapping_error[m] = answer.cuda_error;
		return;
	}
	if (m == P2S_M_CUMEM) {
		d->export_fd = fd;
		d->mapping_ready[m] = fd >= 0;
		return;
	}
	if (fd >= 0)
		close(fd);
	d->ipc_len = answer.handle_len <= sizeof d->ipc_handle ? answer.handle_len : 0;
	memcpy(d->ipc_handle, answer.handle, d->ipc_len);
	d->mapping_ready[m] = d->ipc_len > 0;
}

/* Pairs of a GPU whose own memory cannot be trusted are an error, not merely untested. What the deadline cut off says nothing about
 * memory. */
static void local_failed(struct p2s_run *run, uint32_t g, const struct p2s_chan *chan, const char *why)
{
	if (atomic_load(&chan->end) == P2S_END_LATE) {
		p2s_run_drop_gpu(run, g, 0, chan->why);
		return;
	}
	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint32_t o = run->tested[i];

		if (o == g)
			continue;
		p2s_legs_untested(run, g, o, P2S_M_CUMEM, P2PSAFE_LEG_SM_STORE, P2PSAFE_VERDICT_ERROR, 0, why);
		p2s_legs_untested(run, o, g, P2S_M_CUMEM, P2PSAFE_LEG_SM_STORE, P2PSAFE_VERDICT_ERROR, 0, why);
	}
	gpu_failed(run, g, why);
}

static void local_gpu(struct p2s_run *run, uint32_t g, uint64_t bytes)
{
	struct p2s_device *d = &run->gpu[g];
	struct p2s_chan *chan = &d->chan[P2S_CHAN_GPU];
	uint32_t missing = d->info[P2S_CHAN_GPU].missing;
	char why[96];

	if (d->info[P2S_CHAN_GPU].cumem_fd == 0 || (missing & P2S_FEATURE_CUMEM) != 0)
		d->mapping_error[P2S_M_CUMEM] = 801; /* NOT_SUPPORTED */
	else if (d->info[P2S_CHAN_GPU].cumem_fd < 0)
		d->mapping_error[P2S_M_CUMEM] = 999; /* UNKNOWN */
	else if (allocate(run, g, chan, P2S_B_CUMEM, P2S_ALLOC_CUMEM, bytes, &d->mapping_error[P2S_M_CUMEM]))
		export_buffer(run, g, P2S_M_CUMEM, P2S_B_CUMEM);
	if (allocate(run, g, chan, P2S_B_PLAIN, P2S_ALLOC_PLAIN, bytes, &d->mapping_error[P2S_M_IPC])) {
		if ((missing & P2S_FEATURE_IPC) != 0)
			d->mapping_error[P2S_M_IPC] = 801;
		else
			export_buffer(run, g, P2S_M_IPC, P2S_B_PLAIN);
	}
	for (uint32_t number = P2S_B_CUMEM; number <= P2S_B_PLAIN; number++) {
		if (d->bytes[number] > 0 && !prove_local(run, chan, P2S_BUF(g, number), d->bytes[number], why, sizeof why)) {
			local_failed(run, g, chan, why);
			return;
		}
	}
}

static void local_peer(struct p2s_run *run, uint32_t g, uint64_t bytes)
{
	struct p2s_device *d = &run->gpu[g];
	struct p2s_chan *chan = &d->chan[P2S_CHAN_PEER];
	char why[96];

	if (!d->inited[P2S_CHAN_PEER] || (d->info[P2S_CHAN_PEER].missing & P2S_FEATURE_PEER) != 0) {
		d->mapping_error[P2S_M_PEER] = d->inited[P2S_CHAN_PEER] ? 801 : 0;
		return;
	}
	if (!allocate(run, g, chan, P2S_B_PEER, P2S_ALLOC_PLAIN, bytes, &d->mapping_error[P2S_M_PEER]))
		return;
	if (prove_local(run, chan, P2S_BUF(g, P2S_B_PEER), d->bytes[P2S_B_PEER], why, sizeof why))
		d->mapping_ready[P2S_M_PEER] = 1;
	else
		local_failed(run, g, chan, why);
}

static void too_full(struct p2s_run *run, uint32_t g)
{
	char text[96];

	snprintf(text, sizeof text, "too little memory is free to test: %llu MiB",
	         (unsigned long long)(run->gpu[g].info[P2S_CHAN_GPU].free_bytes / P2S_MIB));
	if (p2s_run_drop_gpu(run, g, P2PSAFE_GPU_STATE_BUSY, text))
		p2s_link_fact(run, "GPU_BUSY", P2PSAFE_SEVERITY_WARNING, (int32_t)g, -1, "driver", text);
}

static void local_task(struct p2s_run *run, uint32_t g, int kind)
{
	uint64_t bytes = buffer_bytes(run, g);

	if (bytes == 0) {
		if (kind == P2S_CHAN_GPU)
			too_full(run, g);
		return;
	}
	if (kind == P2S_CHAN_GPU)
		local_gpu(run, g, bytes);
	else
		local_peer(run, g, bytes);
	if (kind == P2S_CHAN_GPU)
		p2s_link_progress(run);
}

void p2s_setup_local(struct p2s_run *run)
{
	p2s_link_phase(run, "local", run->tested_count);
	p2s_run_each(run, P2S_CHAN_KINDS, local_task);
}

/* ---- mapping calls: no byte moves ---- */

/* CUresults by which a driver says that it does not offer a mapping here: whoever asks gets the same answer and does without.
 * Any other error (no memory, a broken context, unknown) may be gone the next time, when a framework asks: then the mapping is
 * untested. */
static int says_no(int32_t cuda_error)
{
	static const int32_t codes[] = {1 /* INVALID_VALUE */,    101 /* INVALID_DEVICE */,          201 /* INVALID_CONTEXT */,
	                                205 /* MAP_FAILED */,     217 /* PEER_ACCESS_UNSUPPORTED */, 304 /* OPERATING_SYSTEM */,
	                                400 /* INVALID_HANDLE */, 711 /* TOO_MANY_PEERS */,          800 /* NOT_PERMITTED */,
	                                801 /* NOT_SUPPORTED */};

	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
		if (codes[i] == cuda_error)
			return 1;
	return 0;
}

static int32_t map_state(int32_t cuda_error)
{
	return cuda_error == 0 ? P2S_MAP_UNTRIED : says_no(cuda_error) ? P2S_MAP_REFUSED : P2S_MAP_FAILED;
}

static void set_map(struct p2s_way *way, int m, const struct p2s_op_answer *answer)
{
	way->map_error[m] = answer->cuda_error;
	if (answer->rc == P2S_RC_OK)
		way->map[m] = P2S_MAP_READY;
	else if (answer->rc == P2S_RC_UNSUPPORTED)
		way->map[m] = P2S_MAP_REFUSED;
	else
		way->map[m] = answer->rc == P2S_RC_ERROR && says_no(answer->cuda_error) ? P2S_MAP_REFUSED : P2S_MAP_FAILED;
}

static void map_import(struct p2s_run *run, uint32_t a, uint32_t b, int m)
{
	struct p2s_device *owner = &run->gpu[b];
	struct p2s_chan *chan = &run->gpu[a].chan[P2S_CHAN_GPU];
	struct p2s_way *way = p2s_run_way(run, a, b);
	uint32_t own = m == P2S_M_CUMEM ? P2S_B_CUMEM : P2S_B_PLAIN;
	struct p2s_op_request req = {.op = P2S_OP_IMPORT, .mode = (uint32_t)p2s_mapping_word[m], .len = owner->handle_bytes[own]};
	struct p2s_op_answer answer;

	if (!owner->mapping_ready[m]) {
		way->map[m] = map_state(owner->mapping_error[m]);
		way->map_error[m] = owner->mapping_error[m];
		return;
	}
	req.buf = P2S_BUF(b, m == P2S_M_CUMEM ? P2S_B_IN_CUMEM : P2S_B_IN_IPC);
	if (m == P2S_M_IPC) {
		req.handle_len = owner->ipc_len;
		memcpy(req.handle, owner->ipc_handle, owner->ipc_len);
	}
	p2s_chan_post(run, chan, &req, m == P2S_M_CUMEM ? owner->export_fd : -1);
	p2s_chan_wait(run, chan, &answer, NULL);
	set_map(way, m, &answer);
}

static void map_peer(struct p2s_run *run, uint32_t a, uint32_t b)
{
	struct p2s_way *way = p2s_run_way(run, a, b);
	struct p2s_op_request req = {.op = P2S_OP_PEER_ENABLE};
	struct p2s_op_answer answer;

	if (!run->gpu[a].mapping_ready[P2S_M_PEER] || !run->gpu[b].mapping_ready[P2S_M_PEER]) {
		way->map_error[P2S_M_PEER] = run->gpu[b].mapping_error[P2S_M_PEER];
		way->map[P2S_M_PEER] = map_state(way->map_error[P2S_M_PEER]);
		return;
	}
	snprintf(req.text, sizeof req.text, "%s", run->gpu[b].address);
	p2s_chan_call(run, &run->gpu[a].chan[P2S_CHAN_PEER], &req, &answer);
	set_map(way, P2S_M_PEER, &answer);
}

static void ask_access(struct p2s_run *run, uint32_t a, uint32_t b)
{
	struct p2s_way *way = p2s_run_way(run, a, b);
	struct p2s_op_request req = {.op = P2S_OP_CAN_ACCESS};
	struct p2s_op_answer answer;

	snprintf(req.text, sizeof req.text, "%s", run->gpu[b].address);
	if (p2s_chan_call(run, &run->gpu[a].chan[P2S_CHAN_GPU], &req, &answer) != P2S_RC_OK)
		return;
	pthread_mutex_lock(&run->table_lock);
	way->can_access = (answer.value & 1) != 0;
	way->native_atomics = (answer.value & 8) == 0 ? -1 : (answer.value & 4) != 0;
	pthread_mutex_unlock(&run->table_lock);
	p2s_link_pair(run, a, b);
}

static void map_task(struct p2s_run *run, uint32_t a, int kind)
{
	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint32_t b = run->tested[i];

		if (a == b || atomic_load(&run->gpu[b].out) || !p2s_run_may_start(run))
			continue;
		if (kind == P2S_CHAN_PEER) {
			map_peer(run, a, b);
			continue;
		}
		ask_access(run, a, b);
		map_import(run, a, b, P2S_M_CUMEM);
		map_import(run, a, b, P2S_M_IPC);
		p2s_link_progress(run);
	}
}

static const int32_t all_legs[] = {P2PSAFE_LEG_SM_STORE,  P2PSAFE_LEG_SM_LOAD, P2PSAFE_LEG_CE_WRITE, P2PSAFE_LEG_CE_READ,
                                   P2PSAFE_LEG_SIZES,     P2PSAFE_LEG_STALE,   P2PSAFE_LEG_MP_PUSH,  P2PSAFE_LEG_MP_PULL,
                                   P2PSAFE_LEG_TEARING_8, P2PSAFE_LEG_CE_FLAG, P2PSAFE_LEG_ATOMICS};

static void report_refusals(struct p2s_run *run, uint32_t a, uint32_t b)
{
	struct p2s_way *way = p2s_run_way(run, a, b);

	for (int m = 0; m < P2S_M_COUNT; m++) {
		const char *note = "the driver refused the mapping";

		if (way->can_access == 0 && (way->map[m] == P2S_MAP_READY || way->map_error[m] != 0)) {
			/* A mapping that opens although the driver says that there is no peer path is nobody's to use; one that fails
			 * there, by whatever error, is none. */
			way->map[m] = P2S_MAP_REFUSED;
			note = "cuDeviceCanAccessPeer says no";
		}
		if (way->map[m] != P2S_MAP_REFUSED)
			continue;
		for (size_t i = 0; i < sizeof all_legs / sizeof all_legs[0]; i++)
			p2s_legs_untested(run, a, b, m, all_legs[i], P2PSAFE_VERDICT_UNSUPPORTED, way->map_error[m], note);
	}
}

void p2s_setup_mappings(struct p2s_run *run)
{
	p2s_link_phase(run, "mapping", run->tested_count * (run->tested_count - 1));
	p2s_run_each(run, P2S_CHAN_KINDS, map_task);
	for (uint32_t i = 0; i < run->tested_count; i++)
		for (uint32_t j = 0; j < run->tested_count; j++)
			if (i != j && !atomic_load(&run->gpu[run->tested[i]].out) && !atomic_load(&run->gpu[run->tested[j]].out))
				report_refusals(run, run->tested[i], run->tested[j]);
}
