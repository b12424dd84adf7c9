#define _GNU_SOURCE
#include "helper/nvml_facts.h"

#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/fsroot.h"
#include "ipc/proto.h"

#define NVML_OK 0
#define NVML_NOT_SUPPORTED 3
#define NVML_INSUFFICIENT_SIZE 7
#define LINKS 18 /* NVML_NVLINK_MAX_LINKS */
#define VIRTUALIZATION_VGPU 2 /* nvmlGpuVirtualizationMode_t: this is a guest's part of a GPU */
#define FIELD_RESET 226       /* NVML_FI_DEV_RESET_STATUS; drivers before 570 have it and not the next */
#define FIELD_RECOVERY 230    /* NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: 0 none */
#define FABRIC_COMPLETED 3    /* nvmlGpuFabricState_t: the set-up is over, well or not */
#define PROCESSES 256
#define RECORD 24      /* bytes of nvmlProcessInfo_t as documented; it begins with the pid */
#define RECORD_MOST 32 /* see record_bytes() */
#define UNWRITTEN 0xa5 /* the last byte of no record: they end with the high byte of a number of bytes, or of an instance */
#define SIMULATED_UID 1000 /* of an ordinary user of a simulated host */
#define SECOND UINT64_C(1000000000)

typedef void *nvml_device;

struct nvml_fabric { /* nvmlGpuFabricInfo_t */
	unsigned char cluster[16];
	int status; /* nvmlReturn_t; means something only when completed (NVML reference, nvmlGpuFabricInfo_t) */
	unsigned clique;
	unsigned char state; /* 0 not supported, 1 not started, 2 in progress, 3 completed */
};

struct nvml_confidential { /* nvmlConfComputeSystemState_t */
	unsigned environment;
	unsigned feature; /* 1 on */
	unsigned developer_tools;
};

struct nvml_field { /* nvmlFieldValue_t */
	unsigned field, scope;
	long long timestamp, latency;
	int type, result;
	union {
		unsigned long long ull;
		unsigned ui;
	} value;
};

/* N(member, exported name, parameters): every function returns nvmlReturn_t and may be missing */
#define FUNCTIONS(N) \
	N(mig, "nvmlDeviceGetMigMode", (nvml_device, unsigned *, unsigned *)) \
	N(virtualization, "nvmlDeviceGetVirtualizationMode", (nvml_device, int *)) \
	N(confidential, "nvmlSystemGetConfComputeState", (struct nvml_confidential *)) \
	N(persistence, "nvmlDeviceGetPersistenceMode", (nvml_device, int *)) \
	N(compute_mode, "nvmlDeviceGetComputeMode", (nvml_device, int *)) \
	N(display, "nvmlDeviceGetDisplayActive", (nvml_device, int *)) \
	N(fabric, "nvmlDeviceGetGpuFabricInfo", (nvml_device, struct nvml_fabric *)) \
	N(processes, "nvmlDeviceGetComputeRunningProcesses_v3", (nvml_device, unsigned *, void *)) \
	N(mps, "nvmlDeviceGetMPSComputeRunningProcesses_v3", (nvml_device, unsigned *, void *)) \
	N(process_name, "nvmlSystemGetProcessName", (unsigned, char *, unsigned)) \
	N(link_state, "nvmlDeviceGetNvLinkState", (nvml_device, unsigned, int *)) \
	N(fields, "nvmlDeviceGetFieldValues", (nvml_device, int, struct nvml_field *))

struct table {
#define N(member, text, parameters) int(*member) parameters;
	FUNCTIONS(N)
#undef N
	const struct p2s_nvml_ask *ask;
	struct p2s_fsroot root;
	unsigned uid; /* of the caller */
};

static void tell(const struct table *t, uint32_t g, int32_t which, int64_t value)
{
	struct p2s_lib_gpu_fact out = {.gpu = g, .which = which, .value = (uint64_t)value};

	(void)p2s_codec_send(t->ask->sock, &p2s_lib_table, p2s_id_lib_gpu_fact, &out, -1, p2s_now_ns() + SECOND);
}

/* ---- whose processes these are ---- */

enum owner { OWNER_US, OWNER_CALLER, OWNER_NOBODY, OWNER_OTHER };

/* /proc may hide what is not the reader's. Whoever may not even be sent a signal is there, and is another user's. */
static enum owner owner_of_hidden(const struct table *t, unsigned pid)
{
	return !t->root.simulated && kill((pid_t)pid, 0) != 0 && errno == EPERM ? OWNER_OTHER : OWNER_NOBODY;
}

/* A process that this namespace does not show may be anybody's, and is no proof that it is another user's. NVML may call it 0,
 * which getpgid() would take for us. */
static enum owner owner_of(const struct table *t, unsigned pid)
{
	char path[64];
	char text[8192];
	const char *at;
	unsigned real, effective;

	if (pid == 0 || pid > INT_MAX)
		return OWNER_NOBODY;
	if (!t->root.simulated && getpgid((pid_t)pid) == getpgrp())
		return OWNER_US;
	snprintf(path, sizeof path, "/proc/%u/status", pid);
	if (p2s_fsroot_read(&t->root, path, text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return owner_of_hidden(t, pid);
	at = strstr(text, "\nUid:");
	if (at == NULL || sscanf(at + strlen("\nUid:"), "%u %u", &real, &effective) != 2)
		return OWNER_NOBODY;
	return real == t->uid ? OWNER_CALLER : OWNER_OTHER;
}

static int is_mps(const struct table *t, unsigned pid)
{
	char name[256] = "";

	return t->process_name != NULL && t->process_name(pid, name, sizeof name) == NVML_OK &&
	       memmem(name, sizeof name, "nvidia-cuda-mps", strlen("nvidia-cuda-mps")) != NULL;
}

/* How large the records are that a driver wrote into memory full of UNWRITTEN. What is called version 3 gained a member in the first
 * drivers of release 535 and lost it again later (XuehaiPan/nvitop#79, NVIDIA/go-nvml#75); another driver wrote those of version 1
 * (XuehaiPan/nvitop#226). Read at the wrong step, the users of a GPU would be invented and overlooked. */
static size_t record_bytes(const unsigned char *list, size_t bytes, unsigned count)
{
	static const size_t sizes[] = {16, RECORD, RECORD_MOST};

	while (bytes > 0 && list[bytes - 1] == UNWRITTEN)
		bytes--;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		if (bytes <= count * sizes[i])
			return sizes[i];
	return RECORD;
}

static void ask_processes(const struct table *t, uint32_t g)
{
	static _Alignas(8) unsigned char list[PROCESSES * RECORD_MOST];
	nvml_device device = t->ask->device[g];
	unsigned count = PROCESSES;
	size_t record;
	int32_t mps = P2S_UNREAD;
	int other = 0;
	int busy = 0;
	int rc;

	if (t->mps != NULL && t->mps(device, &count, list) == NVML_OK)
		mps = count > 0;
	count = PROCESSES;
	memset(list, UNWRITTEN, sizeof list);
	rc = t->processes != NULL ? t->processes(device, &count, list) : NVML_NOT_SUPPORTED;
	if (rc != NVML_OK && rc != NVML_INSUFFICIENT_SIZE) {
		if (mps != P2S_UNREAD)
			tell(t, g, P2S_GPU_FACT_MPS, mps);
		return;
	}
	record = record_bytes(list, sizeof list, count);
	for (unsigned i = 0; i < count && i < PROCESSES && rc == NVML_OK; i++) {
		enum owner owner;
		unsigned pid;

		memcpy(&pid, list + i * record, sizeof pid);
		owner = owner_of(t, pid);
		other |= owner == OWNER_OTHER;
		busy |= owner == OWNER_CALLER || owner == OWNER_NOBODY;
		if (mps != P2S_YES)
			mps = is_mps(t, pid);
	}
	/* So many that they do not fit: somebody's certainly. */
	busy |= rc == NVML_INSUFFICIENT_SIZE;
	tell(t, g, P2S_GPU_FACT_MPS, mps == P2S_YES);
	tell(t, g, P2S_GPU_FACT_OTHER_PROCESS, other);
	tell(t, g, P2S_GPU_FACT_BUSY_PROCESS, busy);
}

/* ---- the rest ---- */

static int field(const struct table *t, uint32_t g, unsigned id, unsigned *value)
{
	struct nvml_field f;

	memset(&f, 0, sizeof f);
	f.field = id;
	if (t->fields == NULL || t->fields(t->ask->device[g], 1, &f) != NVML_OK || f.result != NVML_OK)
		return 0;
	*value = f.value.ui;
	return 1;
}

static void ask_gpu(const struct table *t, uint32_t g)
{
	nvml_device device = t->ask->device[g];
	unsigned now = 0;
	unsigned pending = 0;
	int word = 0;
	int rc;

	rc = t->mig != NULL ? t->mig(device, &now, &pending) : -1;
	if (rc == NVML_OK || rc == NVML_NOT_SUPPORTED)
		tell(t, g, P2S_GPU_FACT_MIG, rc == NVML_OK && now != 0);
	if (t->virtualization != NULL && t->virtualization(device, &word) == NVML_OK)
		tell(t, g, P2S_GPU_FACT_VGPU, word == VIRTUALIZATION_VGPU);
	if (field(t, g, FIELD_RECOVERY, &now) || field(t, g, FIELD_RESET, &now))
		tell(t, g, P2S_GPU_FACT_PENDING_RESET, now != 0);
	if (t->compute_mode != NULL && t->compute_mode(device, &word) == NVML_OK)
		tell(t, g, P2S_GPU_FACT_COMPUTE_MODE, word);
	if (t->persistence != NULL && t->persistence(device, &word) == NVML_OK)
		tell(t, g, P2S_GPU_FACT_PERSISTENCE, word != 0);
	if (t->display != NULL && t->display(device, &word) == NVML_OK)
		tell(t, g, P2S_GPU_FACT_DISPLAY_ACTIVE, word != 0);
	ask_processes(t, g);
}

static void ask_links(const struct table *t, uint32_t g)
{
	struct nvml_fabric fabric;
	int active = 0;
	int total = 0;
	int asked = 0;

	for (unsigned link = 0; link < LINKS && t->link_state != NULL; link++) {
		int state = 0;
		int rc = t->link_state(t->ask->device[g], link, &state);

		asked |= rc == NVML_OK || rc == NVML_NOT_SUPPORTED;
		total += rc == NVML_OK;
		active += rc == NVML_OK && state != 0;
	}
	if (asked) {
		tell(t, g, P2S_GPU_FACT_NVLINKS_ACTIVE, active);
		tell(t, g, P2S_GPU_FACT_NVLINKS_TOTAL, total);
	}
	memset(&fabric, 0, sizeof fabric);
	if (t->fabric == NULL || t->fabric(t->ask->device[g], &fabric) != NVML_OK)
		return;
	tell(t, g, P2S_GPU_FACT_FABRIC_STATE, fabric.state);
	if (fabric.state == FABRIC_COMPLETED)
		tell(t, g, P2S_GPU_FACT_FABRIC_STATUS, fabric.status);
}

static unsigned caller(const char *host_dir)
{
	char path[1100];
	json_t *host;
	unsigned uid;

	if (host_dir[0] == '\0')
		return geteuid();
	snprintf(path, sizeof path, "%s/host.json", host_dir);
	host = json_load_file(path, 0, NULL);
	uid = json_is_false(json_object_get(host, "privileged")) ? SIMULATED_UID : 0;
	json_decref(host);
	return uid;
}

void p2s_nvml_facts(const struct p2s_nvml_ask *ask)
{
	struct nvml_confidential state;
	struct table t;
	int known;

	memset(&t, 0, sizeof t);
	memset(&state, 0, sizeof state);
#define N(member, text, parameters) *(void **)&t.member = dlsym(ask->library, text);
	FUNCTIONS(N)
#undef N
	t.ask = ask;
	if (!p2s_fsroot_open(&t.root, ask->host_dir[0] != '\0' ? ask->host_dir : NULL))
		return;
	t.uid = caller(ask->host_dir);
	known = t.confidential != NULL && t.confidential(&state) == NVML_OK;
	/* What forbids a test goes first for all GPUs: NVML may stop answering at any call. */
	for (uint32_t g = 0; g < ask->n; g++) {
		if (ask->device[g] == NULL)
			continue;
		if (known)
			tell(&t, g, P2S_GPU_FACT_CONFIDENTIAL, state.feature != 0);
		ask_gpu(&t, g);
	}
	for (uint32_t g = 0; g < ask->n; g++)
		if (ask->device[g] != NULL)
			ask_links(&t, g);
	p2s_fsroot_close(&t.root);
}
