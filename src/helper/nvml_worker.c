/* The NVML worker: names, minors and NVLink as the vendor's management library tells them. Optional in every part: the library
 * may be missing, lack functions, or hang for ever behind a wedged GPU; then this process is left alone and killed. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/model.h"
#include "helper/nvml_counters.h"
#include "helper/nvml_facts.h"
#include "helper/roles.h"
#include "ipc/proto.h"

#define NVML_P2P_NVLINK 2
#define NVML_P2P_OK 0
#define NVML_ENABLED 1
#define FIELD_NVLINK_GET_SPEED 164 /* NVML_FI_DEV_NVLINK_GET_SPEED: MB/s of the link in scope; Hopper and later */
#define FIELD_NVLINK_SPEED_COMMON                                                                                              \
	90 /* NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: likewise, of every link; older drivers and GPUs                                \
	    */
#define SECOND UINT64_C(1000000000)

/* N(member, exported name, parameters): every function returns nvmlReturn_t */
#define NVML_FUNCTIONS(N)                                                                                                      \
	N(init, "nvmlInit_v2", (void))                                                                                             \
	N(handle, "nvmlDeviceGetHandleByPciBusId_v2", (const char *, nvml_device *))                                               \
	N(uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned))                                                              \
	N(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                                                              \
	N(vbios, "nvmlDeviceGetVbiosVersion", (nvml_device, char *, unsigned))                                                    \
	N(minor, "nvmlDeviceGetMinorNumber", (nvml_device, unsigned *))                                                            \
	N(p2p, "nvmlDeviceGetP2PStatus", (nvml_device, nvml_device, int, int *))                                                   \
	N(link_state, "nvmlDeviceGetNvLinkState", (nvml_device, unsigned, int *))                                                  \
	N(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", (nvml_device, unsigned, struct nvml_pci *))                          \
	N(fields, "nvmlDeviceGetFieldValues", (nvml_device, int, struct nvml_field *))

struct nvml {
#define N(member, text, parameters) int(*member) parameters;
	NVML_FUNCTIONS(N)
#undef N
	int sock;
	uint32_t n;
	char address[P2S_MAX_GPUS][P2S_BDF_TEXT];
	nvml_device device[P2S_MAX_GPUS]; /* NULL: NVML does not know it */
	int active[P2S_MAX_GPUS][NVML_LINKS];
	int remote[P2S_MAX_GPUS][NVML_LINKS]; /* index of the GPU at the other end; -1 something else (a switch) */
	uint64_t link_speed[P2S_MAX_GPUS];    /* bytes/s of one link; 0 unknown */
	struct p2s_nvml_counters counters;
	void *library;
	char host_dir[1024]; /* "" this machine */
};

static uint64_t soon(void)
{
	return p2s_now_ns() + SECOND;
}

static int greet(struct nvml *v)
{
	union p2s_lib_any any;
	struct p2psafe_bdf bdf;
	uint16_t id;

	if (p2s_codec_recv(v->sock, &p2s_lib_table, &id, &any, sizeof any, NULL, soon()) != P2S_IO_OK || id != p2s_id_lib_run ||
	    any.run.gpu_count > P2S_MAX_GPUS)
		return 0;
	v->n = any.run.gpu_count;
	snprintf(v->host_dir, sizeof v->host_dir, "%s", any.run.host_dir);
	for (uint32_t i = 0; i < v->n; i++) {
		if (p2s_codec_recv(v->sock, &p2s_lib_table, &id, &any, sizeof any, NULL, soon()) != P2S_IO_OK ||
		    id != p2s_id_lib_gpu_in || any.gpu_in.index != i || !p2s_bdf_parse(any.gpu_in.address, &bdf))
			return 0;
		/* GPUs that are only listed are none of our business: no call may touch them. */
		if (any.gpu_in.test)
			p2s_bdf_format(&bdf, v->address[i]);
	}
	return 1;
}

static int load(struct nvml *v, const char *library)
{
	void *lib = v->library = dlopen(library != NULL ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (lib == NULL)
		return 0;
#define N(member, text, parameters) *(void **)&v->member = dlsym(lib, text);
	NVML_FUNCTIONS(N)
#undef N
	p2s_nvml_counters_load(&v->counters, lib);
	return v->init != NULL && v->handle != NULL && v->init() == NVML_OK;
}

static void ask_gpu(struct nvml *v, uint32_t g)
{
	struct p2s_lib_gpu_out out = {.index = g, .ordinal = -1, .driver_order = -1, .minor = -1};
	unsigned minor;

	if (v->address[g][0] == '\0' || v->handle(v->address[g], &v->device[g]) != NVML_OK) {
		v->device[g] = NULL;
		return;
	}
	if (v->uuid == NULL || v->uuid(v->device[g], out.uuid, sizeof out.uuid) != NVML_OK)
		out.uuid[0] = '\0';
	if (v->name == NULL || v->name(v->device[g], out.name, sizeof out.name) != NVML_OK)
		out.name[0] = '\0';
	if (v->vbios == NULL || v->vbios(v->device[g], out.vbios, sizeof out.vbios) != NVML_OK)
		out.vbios[0] = '\0';
	if (v->minor != NULL && v->minor(v->device[g], &minor) == NVML_OK && minor < 4096)
		out.minor = (int32_t)minor;
	(void)p2s_codec_send(v->sock, &p2s_lib_table, p2s_id_lib_gpu_out, &out, -1, soon());
}

static int find(const struct nvml *v, const struct nvml_pci *pci)
{
	struct p2psafe_bdf want = {.domain = pci->domain, .bus = (uint8_t)pci->bus, .device = (uint8_t)pci->device};

	for (uint32_t i = 0; i < v->n; i++) {
		struct p2psafe_bdf have;

		if (v->address[i][0] != '\0' && p2s_bdf_parse(v->address[i], &have) && p2s_bdf_compare(&have, &want) == 0)
			return (int)i;
	}
	return -1;
}

/* Bytes/s of one link as a field tells it; 0 when it does not. */
static uint64_t speed_field(const struct nvml *v, uint32_t g, unsigned field, unsigned link)
{
	struct nvml_field f;
	uint64_t mbytes = 0;

	memset(&f, 0, sizeof f);
	f.field = field;
	f.scope = link;
	if (v->fields == NULL || v->fields(v->device[g], 1, &f) != NVML_OK || f.result != NVML_OK)
		return 0;
	if (f.value_type == 1)
		mbytes = f.value.ui;
	else if (f.value_type == 2 || f.value_type == 3)
		mbytes = f.value.ull;
	else if (f.value_type == 5)
		mbytes = f.value.si > 0 ? (uint64_t)f.value.si : 0;
	return mbytes < 10000000 ? mbytes * 1000000 : 0;
}

static void ask_links(struct nvml *v, uint32_t g)
{
	for (unsigned link = 0; link < NVML_LINKS; link++) {
		struct nvml_pci pci;
		int state = 0;

		v->remote[g][link] = -1;
		memset(&pci, 0, sizeof pci);
		if (v->device[g] == NULL || v->link_state == NULL || v->link_state(v->device[g], link, &state) != NVML_OK ||
		    state != NVML_ENABLED)
			continue;
		v->active[g][link] = 1;
		if (v->link_remote != NULL && v->link_remote(v->device[g], link, &pci) == NVML_OK)
			v->remote[g][link] = find(v, &pci);
		if (v->link_speed[g] == 0)
			v->link_speed[g] = speed_field(v, g, FIELD_NVLINK_GET_SPEED, link);
		if (v->link_speed[g] == 0)
			v->link_speed[g] = speed_field(v, g, FIELD_NVLINK_SPEED_COMMON, 0);
	}
}

static void ask_pair(struct nvml *v, uint32_t a, uint32_t b)
{
	struct p2s_lib_pair_out out = {.src = a, .dst = b, .can_access = -1, .native_atomics = -1, .nvlinks = 0};
	int status = -1;
	int direct = 0;
	int behind = 0; /* links whose other end is no GPU */
	int to_gpus = 0;

	if (v->device[a] == NULL || v->device[b] == NULL)
		return;
	for (unsigned link = 0; link < NVML_LINKS; link++) {
		direct += v->active[a][link] && v->remote[a][link] == (int)b;
		behind += v->active[a][link] && v->remote[a][link] < 0;
		to_gpus += v->active[a][link] && v->remote[a][link] >= 0;
	}
	if (v->p2p == NULL || v->p2p(v->device[a], v->device[b], NVML_P2P_NVLINK, &status) != NVML_OK)
		status = -1;
	/* Behind an NVSwitch the other end of every link is no GPU: there the P2P status says that the pair is connected, over all
	 * links. Without a switch the status alone proves nothing. */
	out.nvlinks = direct > 0 ? direct : to_gpus == 0 && status == NVML_P2P_OK ? behind : 0;
	if (out.nvlinks > 0) {
		out.path = out.nccl_path = P2PSAFE_PATH_NVL;
		out.limit_bytes_per_s = v->link_speed[a] * (uint64_t)out.nvlinks;
	}
	(void)p2s_codec_send(v->sock, &p2s_lib_table, p2s_id_lib_pair_out, &out, -1, soon());
}

static void send_counters(const struct nvml *v, int after)
{
	for (uint32_t g = 0; g < v->n; g++)
		if (v->device[g] != NULL)
			p2s_nvml_counters_send(&v->counters, v->sock, g, v->device[g], v->active[g], after);
}

/* After the answers: the conductor asks once more, behind the test, or hangs up. */
static void wait_for_the_end(const struct nvml *v)
{
	struct p2s_lib_done done = {.status = P2S_DONE_COMPLETE};
	union p2s_lib_any any;
	enum p2s_io io;
	uint16_t id;

	do
		io = p2s_codec_recv(v->sock, &p2s_lib_table, &id, &any, sizeof any, NULL, p2s_now_ns() + 3600 * SECOND);
	while (io == P2S_IO_TIMEOUT);
	if (io != P2S_IO_OK || id != p2s_id_lib_done)
		return;
	send_counters(v, 1);
	(void)p2s_codec_send(v->sock, &p2s_lib_table, p2s_id_lib_done, &done, -1, soon());
}

static void ask_facts(const struct nvml *v)
{
	struct p2s_nvml_ask ask = {.library = v->library, .sock = v->sock, .host_dir = v->host_dir, .n = v->n};

	memcpy(ask.device, v->device, sizeof ask.device);
	p2s_nvml_facts(&ask);
}

int p2s_nvml_worker_main(int sock, const char *library)
{
	static struct nvml v;
	struct p2s_lib_done done = {.status = P2S_DONE_COMPLETE};

	v.sock = sock;
	if (!greet(&v))
		return 2;
	if (!load(&v, library)) {
		done.status = P2S_DONE_NO_DRIVER;
	} else {
		for (uint32_t g = 0; g < v.n; g++)
			ask_gpu(&v, g);
		ask_facts(&v);
		for (uint32_t g = 0; g < v.n; g++)
			ask_links(&v, g);
		for (uint32_t a = 0; a < v.n; a++)
			for (uint32_t b = 0; b < v.n; b++)
				if (a != b)
					ask_pair(&v, a, b);
		send_counters(&v, 0);
	}
	(void)p2s_codec_send(sock, &p2s_lib_table, p2s_id_lib_done, &done, -1, soon());
	if (done.status == P2S_DONE_COMPLETE)
		wait_for_the_end(&v);
	return 0;
}
