#define _GNU_SOURCE
#include "helper/conductor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/owner.h"

#define FIRST_FD 4 /* first socket of a worker */
#define KMSG_FD 101 /* the simulator's kernel log */
#define SIM_FD 100 /* the simulator's shared memory */
#define QUIT_NS (500 * P2S_MS)
#define HOST_NS (3 * P2S_SEC)
#define LOADED_NS (50 * P2S_MS) /* for a look at busy links, which are busy about as long; */
#define LOADED_PLAYED_NS (5 * P2S_SEC) /* simulated ones are for ever, and the machine that plays them may be busy itself */
#define AGAIN_NS (300 * P2S_MS) /* for NVML behind the test, while the workers end */
/* NVML may hang. While contexts are made it costs nothing to let it take its time; first contact waits for it until so long after its
 * start, and after slow contexts this much longer. */
#define NVML_NS (1500 * P2S_MS)
#define NVML_MORE_NS (200 * P2S_MS)
#define NVML_MOST_NS (20 * P2S_SEC)
#define NO_MPS "/proc/p2psafe/none" /* a folder that nobody can make */
#define SLICE_NS (20 * P2S_MS) /* how soon a shortened deadline is noticed */

#define ENVIRONMENT_MAX 8

struct environment {
	char text[ENVIRONMENT_MAX][1200];
	size_t count;
	const char *list[ENVIRONMENT_MAX + 1];
	int cut; /* something found no room: whoever starts without it would test something else */
};

static void add_text(struct environment *e, const char *text)
{
	if (e->count == ENVIRONMENT_MAX) {
		e->cut = 1;
		return;
	}
	e->list[e->count++] = text;
	e->list[e->count] = NULL;
}

static void add_env(struct environment *e, const char *name, const char *value)
{
	char *text = e->text[e->count < ENVIRONMENT_MAX ? e->count : 0];

	if (e->count == ENVIRONMENT_MAX || snprintf(text, sizeof e->text[0], "%s=%s", name, value) >= (int)sizeof e->text[0])
		e->cut = 1;
	else
		add_text(e, text);
}

/* Our own variable as it stands, however long it is. */
static void keep_env(struct environment *e, const char *name)
{
	size_t n = strlen(name);

	for (char **at = secure_getenv(name) != NULL ? environ : NULL; at != NULL && *at != NULL; at++) {
		if (strncmp(*at, name, n) == 0 && (*at)[n] == '=' && (*at)[n + 1] != '\0') {
			add_text(e, *at);
			return;
		}
	}
}

/* 1 if path is a real folder of ours that nobody else may write: compiled kernels in it can be trusted. */
static int is_private(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int ours = fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 022) == 0 && p2s_owner_is_us(fd, st.st_uid);

	if (fd >= 0)
		close(fd);
	return ours;
}

/* Where the driver keeps compiled kernels: only in a folder that nobody else can write, else nowhere. */
static int jit_folder(char *out, size_t cap)
{
	const char *home = secure_getenv("HOME");
	char base[512];

	if (geteuid() == 0)
		snprintf(base, sizeof base, "/var/cache/p2psafe");
	else if (home != NULL && home[0] == '/' && strlen(home) < 400)
		snprintf(base, sizeof base, "%s/.cache/p2psafe", home);
	else
		return 0;
	(void)mkdir(base, 0755);
	if (!is_private(base) || snprintf(out, cap, "%s/kernels", base) >= (int)cap)
		return 0;
	(void)mkdir(out, 0700);
	return is_private(out);
}

/* Built, not inherited: a mask, an injected library or a debugger switch of the caller must not change the test. The
 * library path is kept, for the workers must load the driver that the caller loads, and find what the program found.
 * pci_order 0: the driver numbers GPUs as it does for programs that ask for no order; workers find theirs by address.
 * Returns 0 if something found no room. */
static int build_env(const struct p2s_run *run, int pci_order, struct environment *e)
{
	char folder[600];
	char number[16];

	memset(e, 0, sizeof *e);
	if (pci_order)
		add_env(e, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
	add_env(e, "CUDA_MODULE_LOADING", "EAGER");
	/* Where a control daemon of MPS listens, a driver that is asked nothing else has it start a server, which stays, or end the server of
	 * another user, and waits for that (nvidia-cuda-mps-control(1), "If the connection attempt fails, the program continues to run as it
	 * normally would without MPS"). */
	add_env(e, "CUDA_MPS_PIPE_DIRECTORY", NO_MPS);
	keep_env(e, "LD_LIBRARY_PATH");
	if (run->ask.host_dir[0] != '\0') {
		add_env(e, "P2PSAFE_SIM_HOST", run->ask.host_dir);
		snprintf(number, sizeof number, "%d", SIM_FD);
		add_env(e, "P2PSAFE_SIM_FD", number);
		snprintf(number, sizeof number, "%d", KMSG_FD);
		if (run->kmsg_fd >= 0)
			add_env(e, "P2PSAFE_SIM_KMSG_FD", number);
	} else if (jit_folder(folder, sizeof folder)) {
		add_env(e, "CUDA_CACHE_PATH", folder);
	} else {
		add_env(e, "CUDA_CACHE_DISABLE", "1");
	}
	return !e->cut;
}

static void tell_started(struct p2s_run *run, const struct p2s_proc *proc)
{
	struct p2s_lib_worker w = {.pid = (uint32_t)proc->pid};

	snprintf(w.role, sizeof w.role, "%s", proc->role);
	p2s_link_send(run, p2s_id_lib_worker, &w, proc->pidfd);
}

/* Starts one worker whose sockets are socks[0..count-1]; they are closed here in any case. */
static struct p2s_proc *start(struct p2s_run *run, const char *role, const char *const *args, const struct environment *env,
                              int *socks, size_t count)
{
	int fds[P2S_PROC_FDS];
	int as[P2S_PROC_FDS];
	struct p2s_spawn what = {.args = args, .env = env->list, .fds = fds, .as = as};
	struct p2s_proc *proc = NULL;
	int ok = 1;

	for (size_t i = 0; i < count; i++) {
		fds[i] = socks[i];
		as[i] = FIRST_FD + (int)i;
		ok &= socks[i] >= 0;
	}
	what.fd_count = count;
	if (run->sim_fd >= 0 && what.fd_count < P2S_PROC_FDS) {
		fds[what.fd_count] = run->sim_fd;
		as[what.fd_count++] = SIM_FD;
	}
	if (run->kmsg_fd >= 0 && what.fd_count < P2S_PROC_FDS) {
		fds[what.fd_count] = run->kmsg_fd;
		as[what.fd_count++] = KMSG_FD;
	}
	pthread_mutex_lock(&run->proc_lock);
	if (ok) {
		proc = &run->proc[run->proc_count];
		memset(proc, 0, sizeof *proc);
		proc->pidfd = -1;
		snprintf(proc->role, sizeof proc->role, "%s", role);
		if (p2s_spawn_start(proc, &what))
			run->proc_count++;
		else
			proc = NULL;
	}
	pthread_mutex_unlock(&run->proc_lock);
	for (size_t i = 0; i < count; i++)
		if (socks[i] >= 0)
			close(socks[i]);
	if (proc != NULL)
		tell_started(run, proc);
	return proc;
}

static void cuda_path(const struct p2s_run *run, char *out, size_t cap)
{
	out[0] = '\0';
	if (run->ask.cuda_library[0] != '\0')
		snprintf(out, cap, "%s", run->ask.cuda_library);
	else if (run->ask.host_dir[0] != '\0')
		snprintf(out, cap, "%s/sim/libcuda.so.1", run->dir);
}

/* The limit that a start most often meets, by the error that it ends in (setrlimit(2)); short, for a leg's note. */
static const char *limit_of(int e)
{
	switch (e) {
	case EFBIG:
		return " (ulimit -f)";
	case EMFILE:
		return " (ulimit -n)";
	case EAGAIN:
		return " (ulimit -u)";
	default:
		return "";
	}
}

static int start_group(struct p2s_run *run, const char *role, const struct environment *env, int kind, const uint32_t *gpus,
                       uint32_t count)
{
	char path[1100];
	char channels[256] = "";
	int socks[P2S_MAX_GPUS];
	const char *args[8] = {"worker"};
	size_t n = 1;
	size_t at = 0;
	int failed = 0; /* errno */
	struct p2s_proc *proc = NULL;

	for (uint32_t i = 0; i < count; i++) {
		socks[i] = -1;
		if (!p2s_chan_open(&run->gpu[gpus[i]].chan[kind], gpus[i], &socks[i]) && failed == 0)
			failed = errno;
		at += (size_t)snprintf(channels + at, sizeof channels - at, "%s%d", i == 0 ? "" : ",", FIRST_FD + (int)i);
	}
	cuda_path(run, path, sizeof path);
	if (path[0] != '\0') {
		args[n++] = "--cuda";
		args[n++] = path;
	}
	args[n++] = "--eager";
	args[n++] = run->eager ? "1" : "0";
	args[n++] = "--channels";
	args[n++] = channels;
	args[n] = NULL;
	proc = start(run, role, args, env, socks, count);
	if (proc == NULL && failed == 0)
		failed = errno;
	for (uint32_t i = 0; i < count; i++) {
		struct p2s_chan *chan = &run->gpu[gpus[i]].chan[kind];

		chan->proc = proc;
		if (proc == NULL) {
			snprintf(chan->why, sizeof chan->why, "worker did not start: errno %d%s", failed, limit_of(failed));
			atomic_store(&chan->dead, 1);
		}
	}
	return proc != NULL;
}

void p2s_workers_prepare(struct p2s_run *run)
{
	if (run->ask.host_dir[0] == '\0')
		return;
	run->sim_fd = memfd_create("p2psafe-sim", MFD_CLOEXEC);
	/* All workers share one description of the log, so that what they append never overlaps. */
	run->kmsg_fd = memfd_create("p2psafe-kmsg", MFD_CLOEXEC);
	if (run->kmsg_fd >= 0 && fcntl(run->kmsg_fd, F_SETFL, O_APPEND) != 0) {
		close(run->kmsg_fd);
		run->kmsg_fd = -1;
	}
}

int p2s_workers_start(struct p2s_run *run)
{
	struct environment env;
	char role[32];

	if (run->ask.host_dir[0] != '\0' && run->sim_fd < 0)
		return 0;
	if (!build_env(run, 1, &env))
		return 0;
	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint32_t g = run->tested[i];

		snprintf(role, sizeof role, "gpu %s", run->gpu[g].address);
		start_group(run, role, &env, P2S_CHAN_GPU, &g, 1);
	}
	/* the one process that has all of them tells the driver's own order */
	if (!build_env(run, 0, &env))
		return 0;
	start_group(run, "peer", &env, P2S_CHAN_PEER, run->tested, run->tested_count);
	return 1;
}

/* ---- host and nvml ---- */

static void merge_gpu(struct p2s_run *run, const struct p2s_lib_gpu_out *in)
{
	struct p2s_device *d;

	if (in->index >= run->n)
		return;
	d = &run->gpu[in->index];
	pthread_mutex_lock(&run->table_lock);
	if (in->minor >= 0)
		d->minor = in->minor;
	if (in->uuid[0] != '\0')
		snprintf(d->uuid, sizeof d->uuid, "%s", in->uuid);
	if (in->name[0] != '\0')
		snprintf(d->name, sizeof d->name, "%s", in->name);
	if (in->vbios[0] != '\0')
		snprintf(d->vbios, sizeof d->vbios, "%s", in->vbios);
	pthread_mutex_unlock(&run->table_lock);
	p2s_link_gpu(run, in->index);
}

static void merge_pair(struct p2s_run *run, const struct p2s_lib_pair_out *in)
{
	struct p2s_way *way;

	if (in->src >= run->n || in->dst >= run->n || in->src == in->dst)
		return;
	way = p2s_run_way(run, in->src, in->dst);
	pthread_mutex_lock(&run->table_lock);
	if (in->path == P2PSAFE_PATH_NVL) { /* what NVML says goes before the PCIe tree, whoever is first */
		way->path = way->nccl_path = P2PSAFE_PATH_NVL;
		way->limit = in->limit_bytes_per_s;
	} else if (way->path != P2PSAFE_PATH_NVL && in->nccl_path != 0) {
		way->path = in->path;
		way->nccl_path = in->nccl_path;
		way->limit = in->limit_bytes_per_s;
	}
	if (in->nvlinks >= 0)
		way->nvlinks = in->nvlinks;
	pthread_mutex_unlock(&run->table_lock);
	p2s_link_pair(run, in->src, in->dst);
}

static void merge_fact(struct p2s_run *run, const struct p2s_lib_gpu_fact *in)
{
	if (in->gpu >= run->n || in->which <= 0)
		return;
	if (in->which < P2S_RUN_FACTS && in->value <= INT32_MAX) {
		pthread_mutex_lock(&run->table_lock);
		run->gpu[in->gpu].fact[in->which] = (int32_t)in->value;
		pthread_mutex_unlock(&run->table_lock);
	}
	p2s_link_send(run, p2s_id_lib_gpu_fact, in, -1);
}

static void *collect(void *arg)
{
	struct p2s_side *side = arg;
	struct p2s_run *run = side->run;

	for (;;) {
		union p2s_lib_any any;
		uint16_t id;
		uint64_t now = p2s_now_ns();
		uint64_t until = atomic_load(&side->deadline_ns);
		uint64_t slice = now + SLICE_NS < until ? now + SLICE_NS : until;
		enum p2s_io io = p2s_codec_recv(side->sock, &p2s_lib_table, &id, &any, sizeof any, NULL, slice);

		if (io == P2S_IO_TIMEOUT && slice < until)
			continue;
		side->answered = io == P2S_IO_OK && id == p2s_id_lib_done;
		if (side->answered)
			side->status = any.done.status;
		if (io != P2S_IO_OK || id == p2s_id_lib_done)
			break; /* every answer is optional: silence, end and nonsense are the same */
		if (id == p2s_id_lib_gpu_out)
			merge_gpu(run, &any.gpu_out);
		else if (id == p2s_id_lib_pair_out)
			merge_pair(run, &any.pair_out);
		else if (id == p2s_id_lib_gpu_fact)
			merge_fact(run, &any.gpu_fact);
		else if (id == p2s_id_lib_fact || id == p2s_id_lib_hop || id == p2s_id_lib_log_event ||
		         id == p2s_id_lib_log_state)
			p2s_link_send(run, id, &any, -1); /* plain facts go through as they are */
	}
	return NULL;
}

static void start_side(struct p2s_run *run, int which, const char *role, const char *library, uint64_t deadline_ns)
{
	struct p2s_side *side = &run->side[which];
	const char *args[4] = {role, NULL, NULL, NULL};
	struct environment env;
	int pair[2];

	side->run = run;
	side->sock = -1;
	side->start_ns = p2s_now_ns();
	atomic_store(&side->deadline_ns, deadline_ns);
	if (library != NULL) {
		args[1] = "--library";
		args[2] = library;
	}
	if (!build_env(run, 1, &env) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return;
	side->sock = pair[0];
	side->proc = start(run, role, args, &env, &pair[1], 1);
	if (side->proc == NULL)
		return;
	(void)p2s_codec_send(side->sock, &p2s_lib_table, p2s_id_lib_run, &run->ask, -1, 0);
	for (uint32_t i = 0; i < run->n; i++) {
		struct p2s_lib_gpu_in in = {.index = i, .test = run->gpu[i].test};

		snprintf(in.address, sizeof in.address, "%s", run->gpu[i].address);
		(void)p2s_codec_send(side->sock, &p2s_lib_table, p2s_id_lib_gpu_in, &in, -1, p2s_now_ns() + 100 * P2S_MS);
	}
	side->started = pthread_create(&side->thread, NULL, collect, side) == 0;
}

int p2s_workers_start_sides(struct p2s_run *run)
{
	uint64_t now = p2s_now_ns();
	char path[600];
	const char *library = NULL;

	start_side(run, 0, "host", NULL, now + HOST_NS < run->stop_ns ? now + HOST_NS : run->stop_ns);
	if ((run->ask.mode != P2S_MODE_TEST && run->ask.mode != P2S_MODE_RECHECK) || !run->has_cuda)
		return run->side[0].started;
	if (run->ask.host_dir[0] != '\0') {
		snprintf(path, sizeof path, "%s/sim/libnvidia-ml.so.1", run->dir);
		library = path;
	}
	start_side(run, 1, "nvml", library, now + NVML_MOST_NS < run->stop_ns ? now + NVML_MOST_NS : run->stop_ns);
	return 1;
}

/* Asks a worker that said all it knew once more. 0: it is not there, or did not come back before. */
static int ask_again(struct p2s_run *run, int which, uint64_t most_ns)
{
	struct p2s_side *side = &run->side[which];
	struct p2s_lib_done again = {.status = P2S_DONE_COMPLETE};
	uint64_t now = p2s_now_ns();

	if (side->started)
		pthread_join(side->thread, NULL);
	side->started = 0;
	if (side->sock < 0 || !side->answered ||
	    p2s_codec_send(side->sock, &p2s_lib_table, p2s_id_lib_done, &again, -1, 0) != P2S_IO_OK)
		return 0;
	atomic_store(&side->deadline_ns, now + most_ns < run->last_ns ? now + most_ns : run->last_ns);
	side->started = pthread_create(&side->thread, NULL, collect, side) == 0;
	return side->started;
}

void p2s_workers_ask_host(struct p2s_run *run)
{
	if (ask_again(run, 0, run->ask.host_dir[0] != '\0' ? LOADED_PLAYED_NS : LOADED_NS))
		pthread_join(run->side[0].thread, NULL);
	run->side[0].started = 0;
}

/* NVML once more, behind the test: its error counters. One that did not come back before, or that may hang behind a wedged GPU, is
 * not asked. */
static void ask_nvml_again(struct p2s_run *run)
{
	if (run->ask.mode == P2S_MODE_TEST && !atomic_load(&run->stopped))
		(void)ask_again(run, 1, AGAIN_NS);
}

void p2s_workers_await_side(struct p2s_run *run, int which)
{
	struct p2s_side *side = &run->side[which];
	uint64_t more = p2s_now_ns() + NVML_MORE_NS;
	uint64_t until = side->start_ns + NVML_NS > more ? side->start_ns + NVML_NS : more;

	if (which == 1 && side->started && until < atomic_load(&side->deadline_ns))
		atomic_store(&side->deadline_ns, until);
	if (side->started)
		pthread_join(side->thread, NULL); /* ends by its own deadline */
	side->started = 0;
}

void p2s_workers_join_side(struct p2s_run *run, int which)
{
	struct p2s_side *side = &run->side[which];

	p2s_workers_await_side(run, which);
	if (side->sock >= 0 && side->proc != NULL)
		close(side->sock); /* end of file ends the worker */
	side->sock = -1;
}

/* ---- the end ---- */

void p2s_workers_kill(struct p2s_run *run, struct p2s_proc *proc)
{
	pthread_mutex_lock(&run->proc_lock);
	if (proc != NULL)
		p2s_spawn_kill(proc, &run->seam);
	pthread_mutex_unlock(&run->proc_lock);
}

static void quit_channels(struct p2s_run *run)
{
	for (uint32_t g = 0; g < run->n; g++) {
		for (int k = 0; k < P2S_CHAN_KINDS; k++) {
			struct p2s_chan *chan = &run->gpu[g].chan[k];
			struct p2s_op_request req = {.op = P2S_OP_QUIT};

			if (chan->sock < 0)
				continue;
			p2s_chan_post(run, chan, &req, -1);
			pthread_mutex_unlock(&chan->lock); /* nobody waits for this answer: the exit is the answer */
			if (atomic_load(&chan->dead))
				shutdown(chan->sock, SHUT_RDWR); /* end of file says the same to a worker that takes no requests */
		}
	}
}

void p2s_workers_end(struct p2s_run *run)
{
	uint64_t now = p2s_now_ns();
	uint64_t grace = now + QUIT_NS < run->last_ns ? now + QUIT_NS : run->last_ns;
	uint64_t until;

	ask_nvml_again(run);
	quit_channels(run);
	p2s_workers_join_side(run, 0);
	p2s_workers_join_side(run, 1);
	for (size_t i = 0; i < run->proc_count; i++) {
		struct p2s_proc *p = &run->proc[i];

		if (!p->killed && !p2s_spawn_wait(p, &run->seam, grace))
			p2s_spawn_kill(p, &run->seam);
	}
	/* A large process takes a while to fall; what is still there near the deadline is named as left behind. */
	until = p2s_now_ns() + 3 * P2S_SEC;
	if (until > run->last_ns + 200 * P2S_MS)
		until = run->last_ns + 200 * P2S_MS;
	for (size_t i = 0; i < run->proc_count; i++) {
		struct p2s_proc *p = &run->proc[i];
		struct p2s_lib_worker_gone gone = {.pid = (uint32_t)p->pid};

		if (!p2s_spawn_wait(p, &run->seam, until)) {
			p->left = 1;
			snprintf(p->how, sizeof p->how, "did not end after SIGKILL");
		}
		gone.left = p->left;
		snprintf(gone.how, sizeof gone.how, "%s", p->how);
		p2s_link_send(run, p2s_id_lib_worker_gone, &gone, -1);
	}
	for (uint32_t g = 0; g < run->n; g++)
		for (int k = 0; k < P2S_CHAN_KINDS; k++)
			p2s_chan_close(&run->gpu[g].chan[k]);
}
