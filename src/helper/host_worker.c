/* The host worker: the PCI tree above each GPU, and what only the driver's own files tell. Three steps, from the harmless
 * to those that may block behind a sick device; what was learnt is sent before the next one starts. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "helper/host.h"
#include "helper/roles.h"

#define SECOND UINT64_C(1000000000)

static uint64_t soon(void)
{
	return p2s_now_ns() + SECOND;
}

static int greet(struct p2s_host_state *h)
{
	union p2s_lib_any any;
	struct p2psafe_bdf bdf;
	uint16_t id;

	if (p2s_codec_recv(h->sock, &p2s_lib_table, &id, &any, sizeof any, NULL, soon()) != P2S_IO_OK || id != p2s_id_lib_run ||
	    any.run.gpu_count > P2S_MAX_GPUS)
		return 0;
	h->ask = any.run;
	h->n = any.run.gpu_count;
	for (uint32_t i = 0; i < h->n; i++) {
		if (p2s_codec_recv(h->sock, &p2s_lib_table, &id, &any, sizeof any, NULL, soon()) != P2S_IO_OK ||
		    id != p2s_id_lib_gpu_in || any.gpu_in.index != i || !p2s_bdf_parse(any.gpu_in.address, &bdf))
			return 0;
		p2s_bdf_format(&bdf, h->gpu[i].address);
		h->gpu[i].minor = -1;
		h->gpu[i].config.rebar = h->gpu[i].config.clique = P2S_UNREAD;
	}
	return 1;
}

/* Who the caller of a simulated host is: see docs/HOSTS.md. */
static void read_privilege(struct p2s_host_state *h)
{
	char path[1100];
	json_t *host;

	if (h->ask.host_dir[0] == '\0')
		return;
	snprintf(path, sizeof path, "%s/host.json", h->ask.host_dir);
	host = json_load_file(path, 0, NULL);
	h->unprivileged = json_is_false(json_object_get(host, "privileged"));
	json_decref(host);
}

static void send_hops(const struct p2s_host_state *h, uint32_t g)
{
	const struct p2s_place *p = &h->gpu[g].place;

	for (size_t i = 0; i < p->hops; i++) {
		const struct p2s_hop *hop = &p->hop[i];
		struct p2s_lib_hop out = {.gpu = g,
		                          .position = (uint32_t)i,
		                          .count = (uint32_t)p->hops,
		                          .kind = hop->kind,
		                          .vendor = hop->vendor,
		                          .device = hop->device,
		                          .acs_cap = hop->acs_cap,
		                          .acs_ctl = hop->acs_ctl,
		                          .speed_now_mts = hop->speed_now_mts,
		                          .speed_max_mts = hop->speed_max_mts,
		                          .width_now = hop->width_now,
		                          .width_max = hop->width_max,
		                          .max_payload = hop->max_payload,
		                          .window_ok = hop->window_ok,
		                          .speed_loaded_mts = hop->speed_loaded_mts,
		                          .width_loaded = hop->width_loaded};

		snprintf(out.address, sizeof out.address, "%s", hop->address);
		(void)p2s_codec_send(h->sock, &p2s_lib_table, p2s_id_lib_hop, &out, -1, soon());
	}
}

static void send_pairs(const struct p2s_host_state *h)
{
	for (uint32_t a = 0; a < h->n; a++) {
		for (uint32_t b = 0; b < h->n; b++) {
			struct p2s_lib_pair_out out = {.src = a, .dst = b, .can_access = -1, .native_atomics = -1, .nvlinks = -1};
			struct p2s_path path;

			if (a == b)
				continue;
			p2s_path_between(&h->gpu[a].place, &h->gpu[b].place, &path);
			out.path = path.path;
			out.nccl_path = path.nccl_path;
			out.limit_bytes_per_s = path.limit_bytes_per_s;
			(void)p2s_codec_send(h->sock, &p2s_lib_table, p2s_id_lib_pair_out, &out, -1, soon());
		}
	}
}

static void send_fact(const struct p2s_host_state *h, uint32_t g, int32_t which, uint64_t value)
{
	struct p2s_lib_gpu_fact out = {.gpu = g, .which = which, .value = value};

	(void)p2s_codec_send(h->sock, &p2s_lib_table, p2s_id_lib_gpu_fact, &out, -1, soon());
}

static void send_config(const struct p2s_host_state *h, uint32_t g)
{
	const struct p2s_config *c = &h->gpu[g].config;

	if (c->rebar != P2S_UNREAD)
		send_fact(h, g, P2S_GPU_FACT_REBAR, (uint64_t)c->rebar);
	if (c->rebar_max_bytes != 0)
		send_fact(h, g, P2S_GPU_FACT_REBAR_MAX_BYTES, c->rebar_max_bytes);
	if (c->clique != P2S_UNREAD)
		send_fact(h, g, P2S_GPU_FACT_CLIQUE, (uint64_t)(int64_t)c->clique);
}

static void send_gpu(const struct p2s_host_state *h, uint32_t g)
{
	struct p2s_lib_gpu_out out = {.index = g, .ordinal = -1, .driver_order = -1, .minor = h->gpu[g].minor};

	snprintf(out.name, sizeof out.name, "%s", h->gpu[g].name);
	(void)p2s_codec_send(h->sock, &p2s_lib_table, p2s_id_lib_gpu_out, &out, -1, soon());
}

/* Making this file asks the resource manager, which may wake the GPU or wait behind a wedged one: never in a probe. */
static void ask_driver(struct p2s_host_state *h, uint32_t g)
{
	struct p2s_host_gpu *gpu = &h->gpu[g];
	char path[128];
	char text[4096];
	char *at;

	snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", gpu->address);
	/* The driver makes this folder for the GPUs that it has, and for no others. */
	if (p2s_fsroot_read(&h->root, path, text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return;
	at = strstr(text, "Device Minor:");
	if (at != NULL && (sscanf(at + strlen("Device Minor:"), "%d", &gpu->minor) != 1 || gpu->minor > 4095))
		gpu->minor = -1;
}

static void look(struct p2s_host_state *h, struct p2s_lib_done *done)
{
	if (h->ask.mode != P2S_MODE_MINORS) {
		p2s_host_tree(h);
		for (uint32_t g = 0; g < h->n; g++)
			send_hops(h, g);
		send_pairs(h);
		if (!p2s_host_pci(h, done->text, sizeof done->text))
			done->status = P2S_DONE_FAILED;
		for (uint32_t g = 0; g < h->n; g++) {
			send_hops(h, g);
			send_config(h, g);
			send_gpu(h, g);
		}
		send_pairs(h); /* the payload narrows the limit */
	}
	for (uint32_t g = 0; g < h->n && h->ask.mode != P2S_MODE_PROBE; g++) {
		ask_driver(h, g);
		send_gpu(h, g);
	}
}

/* The conductor asks once more while transfers run, or hangs up. A simulated host says in a tree of its own, `loaded`, what a
 * busy link is; without that nobody knows. */
static void look_again(struct p2s_host_state *h)
{
	struct p2s_lib_done done = {.status = P2S_DONE_COMPLETE};
	struct p2s_fsroot loaded;
	union p2s_lib_any any;
	char path[1100];
	enum p2s_io io;
	uint16_t id;

	do
		io = p2s_codec_recv(h->sock, &p2s_lib_table, &id, &any, sizeof any, NULL, p2s_now_ns() + 3600 * SECOND);
	while (io == P2S_IO_TIMEOUT);
	if (io != P2S_IO_OK || id != p2s_id_lib_done)
		return;
	snprintf(path, sizeof path, "%s/loaded", h->ask.host_dir);
	if (h->ask.host_dir[0] == '\0') {
		p2s_host_loaded(h, &h->root);
	} else if (p2s_fsroot_open(&loaded, path)) {
		p2s_host_loaded(h, &loaded);
		p2s_fsroot_close(&loaded);
	}
	for (uint32_t g = 0; g < h->n; g++)
		send_hops(h, g);
	(void)p2s_codec_send(h->sock, &p2s_lib_table, p2s_id_lib_done, &done, -1, soon());
}

int p2s_host_worker_main(int sock)
{
	static struct p2s_host_state h;
	struct p2s_lib_done done = {.status = P2S_DONE_COMPLETE};

	h.sock = sock;
	if (!greet(&h))
		return 2;
	if (!p2s_fsroot_open(&h.root, h.ask.host_dir[0] != '\0' ? h.ask.host_dir : NULL)) {
		done.status = P2S_DONE_FAILED;
		snprintf(done.text, sizeof done.text, "no system files");
	} else {
		read_privilege(&h);
		look(&h, &done);
	}
	(void)p2s_codec_send(sock, &p2s_lib_table, p2s_id_lib_done, &done, -1, soon());
	if (h.ask.mode == P2S_MODE_TEST && (h.ask.flags & P2PSAFE_FLAG_MEASURE) != 0)
		look_again(&h);
	return 0;
}
