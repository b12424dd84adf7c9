/* The host worker: the PCI tree between each pair of GPUs, and what only the driver's own files tell. libpci is used here and
 * nowhere else: its default error handler ends the process, so it gets one that answers instead. */
#define _GNU_SOURCE
#include <pci/pci.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fsroot.h"
#include "core/model.h"
#include "helper/roles.h"
#include "ipc/proto.h"

#define DEPTH 24 /* bridges above a GPU */
#define NODE_UNKNOWN (-1)
#define SECOND UINT64_C(1000000000)

struct place {                      /* of a GPU in the PCI tree */
	char step[DEPTH][P2S_BDF_TEXT]; /* step[0]: root bus ("pci0000:00"), then bridges, last the GPU itself */
	size_t steps;                   /* 0: not known */
	int node;
	int minor;
	char name[96];
};

struct host {
	int sock;
	struct p2s_lib_run ask;
	uint32_t n;
	char address[P2S_MAX_GPUS][P2S_BDF_TEXT];
	struct place place[P2S_MAX_GPUS];
	struct p2s_fsroot root;
};

static jmp_buf libpci_failed;
static char libpci_error[160];

static void on_error(char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void on_warning(char *format, ...) __attribute__((format(printf, 1, 2)));

static void on_error(char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(libpci_error, sizeof libpci_error, format, args);
	va_end(args);
	longjmp(libpci_failed, 1);
}

static void on_warning(char *format, ...)
{
	(void)format; /* what is missing shows as unknown; this program prints nothing */
}

static uint64_t soon(void)
{
	return p2s_now_ns() + SECOND;
}

static int greet(struct host *h)
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
		p2s_bdf_format(&bdf, h->address[i]);
	}
	return 1;
}

/* The kernel's own answer: the link of the device runs through every bridge above it. */
static void place_by_link(struct host *h, uint32_t g)
{
	struct place *p = &h->place[g];
	char path[128];
	char text[1024];
	char *save = NULL;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s", h->address[g]);
	if (p2s_fsroot_link(&h->root, path, text, sizeof text) != P2S_READ_OK)
		return;
	for (char *part = strtok_r(text, "/", &save); part != NULL; part = strtok_r(NULL, "/", &save)) {
		struct p2psafe_bdf bdf;

		if (strncmp(part, "pci", 3) == 0 && p->steps == 0)
			snprintf(p->step[p->steps++], P2S_BDF_TEXT, "%.19s", part);
		else if (p->steps > 0 && p->steps < DEPTH && p2s_bdf_parse(part, &bdf))
			p2s_bdf_format(&bdf, p->step[p->steps++]);
	}
	if (p->steps < 2 || strcmp(p->step[p->steps - 1], h->address[g]) != 0)
		p->steps = 0;
}

static void dev_address(const struct pci_dev *d, char out[P2S_BDF_TEXT])
{
	struct p2psafe_bdf bdf = {.domain = (uint32_t)d->domain, .bus = d->bus, .device = d->dev, .function = d->func};

	p2s_bdf_format(&bdf, out);
}

/* The bridge whose secondary bus is d's bus, NULL for a device on a root bus. */
static struct pci_dev *bridge_above(struct pci_access *acc, const struct pci_dev *d)
{
	for (struct pci_dev *b = acc->devices; b != NULL; b = b->next) {
		if (b->domain != d->domain || b == d || (pci_read_byte(b, PCI_HEADER_TYPE) & 0x7f) != PCI_HEADER_TYPE_BRIDGE)
			continue;
		if (pci_read_byte(b, PCI_SECONDARY_BUS) == d->bus && b->bus != d->bus)
			return b;
	}
	return NULL;
}

/* Where the links are missing: by the bus numbers in the bridges' configuration. */
static void place_by_bus(struct pci_access *acc, struct pci_dev *d, struct place *p)
{
	char up[DEPTH][P2S_BDF_TEXT];
	size_t n = 0;
	struct pci_dev *top = d;

	for (struct pci_dev *at = d; at != NULL && n < DEPTH - 1; at = bridge_above(acc, at)) {
		dev_address(at, up[n++]);
		top = at;
	}
	snprintf(p->step[0], P2S_BDF_TEXT, "pci%04x:%02x", (unsigned)top->domain, (unsigned)top->bus);
	for (size_t i = 0; i < n; i++)
		memcpy(p->step[i + 1], up[n - 1 - i], P2S_BDF_TEXT);
	p->steps = n + 1;
}

/* Everything that goes through libpci. Returns 0 when it gave up; what was learnt before stays. */
static int ask_libpci(struct host *h)
{
	static char path[1100];
	static struct pci_access *acc; /* static: it outlives the jump */
	static int failures;

	if (setjmp(libpci_failed) != 0) {
		if (failures++ == 0)
			pci_cleanup(acc);
		return 0;
	}
	acc = pci_alloc();
	acc->error = on_error;
	acc->warning = on_warning;
	acc->debug = on_warning;
	acc->method = PCI_ACCESS_SYS_BUS_PCI;
	if (h->ask.host_dir[0] != '\0') {
		snprintf(path, sizeof path, "%s/root/sys/bus/pci", h->ask.host_dir);
		pci_set_param(acc, (char *)(uintptr_t) "sysfs.path", path);
	}
	pci_init(acc);
	pci_scan_bus(acc);
	for (struct pci_dev *d = acc->devices; d != NULL; d = d->next) {
		char address[P2S_BDF_TEXT];

		dev_address(d, address);
		for (uint32_t g = 0; g < h->n; g++) {
			struct place *p = &h->place[g];

			if (strcmp(address, h->address[g]) != 0)
				continue;
			pci_fill_info(d, PCI_FILL_IDENT | PCI_FILL_BASES);
			if (p->steps == 0)
				place_by_bus(acc, d, p);
			if (pci_lookup_name(acc, p->name, sizeof p->name, PCI_LOOKUP_DEVICE | PCI_LOOKUP_NO_NUMBERS, d->vendor_id,
			                    d->device_id) == NULL)
				p->name[0] = '\0';
		}
	}
	pci_cleanup(acc);
	return 1;
}

static void ask_files(struct host *h, uint32_t g)
{
	struct place *p = &h->place[g];
	char path[128];
	char text[4096];
	char *at;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", h->address[g]);
	p->node = NODE_UNKNOWN;
	if (p2s_fsroot_line(&h->root, path, text, sizeof text) == P2S_READ_OK && text[0] >= '0' && text[0] <= '9')
		p->node = atoi(text);
	p->minor = -1;
	snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", h->address[g]);
	if (p2s_fsroot_read(&h->root, path, text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return;
	at = strstr(text, "Device Minor:");
	if (at != NULL && sscanf(at + strlen("Device Minor:"), "%d", &p->minor) != 1)
		p->minor = -1;
}

/* Bytes per second of a device's link at its maximum; 0 not readable. The current speed drops when idle. */
static uint64_t link_limit(const struct host *h, const char *address)
{
	char path[128];
	char text[64];
	double gt;
	unsigned width;
	double efficiency;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/max_link_speed", address);
	if (p2s_fsroot_line(&h->root, path, text, sizeof text) != P2S_READ_OK || sscanf(text, "%lf", &gt) != 1 || !(gt > 0) ||
	    gt > 1000)
		return 0;
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/max_link_width", address);
	if (p2s_fsroot_line(&h->root, path, text, sizeof text) != P2S_READ_OK || sscanf(text, "%u", &width) != 1 || width == 0 ||
	    width > 64)
		return 0;
	efficiency = gt < 6 ? 8.0 / 10 : gt < 60 ? 128.0 / 130 : 236.0 / 256; /* 8b/10b, 128b/130b, FLIT */
	return (uint64_t)(gt * 1e9 * width * efficiency / 8);
}

/* The narrowest hop from the common point down to the GPU. */
static void narrow(const struct host *h, const struct place *p, size_t from, uint64_t *limit)
{
	for (size_t i = from; i < p->steps; i++) {
		uint64_t one = link_limit(h, p->step[i]);

		if (one != 0 && (*limit == 0 || one < *limit))
			*limit = one;
	}
}

static void classify(const struct host *h, uint32_t a, uint32_t b, struct p2s_lib_pair_out *out)
{
	const struct place *x = &h->place[a];
	const struct place *y = &h->place[b];
	size_t common = 0;

	if (x->steps == 0 || y->steps == 0)
		return;
	while (common < x->steps && common < y->steps && strcmp(x->step[common], y->step[common]) == 0)
		common++;
	if (common == 0) { /* different root buses */
		int known = x->node != NODE_UNKNOWN && y->node != NODE_UNKNOWN;

		out->path = !known ? P2PSAFE_PATH_UNKNOWN : x->node == y->node ? P2PSAFE_PATH_NODE : P2PSAFE_PATH_SYS;
		/* NCCL has no NODE: one NUMA node is PHB to it, all else SYS. */
		out->nccl_path = out->path == P2PSAFE_PATH_NODE ? P2PSAFE_PATH_PHB : P2PSAFE_PATH_SYS;
	} else if (common == 1) {
		out->path = out->nccl_path = P2PSAFE_PATH_PHB;
	} else {
		/* Below a root port. One switch: each GPU hangs on a downstream port of the common bridge. */
		int one = x->steps - common <= 2 && y->steps - common <= 2;

		out->path = out->nccl_path = one ? P2PSAFE_PATH_PIX : P2PSAFE_PATH_PXB;
	}
	narrow(h, x, common == 0 ? 1 : common, &out->limit_bytes_per_s);
	narrow(h, y, common == 0 ? 1 : common, &out->limit_bytes_per_s);
}

static void answer(struct host *h)
{
	for (uint32_t g = 0; g < h->n; g++) {
		struct p2s_lib_gpu_out out = {.index = g, .ordinal = -1, .minor = h->place[g].minor};

		snprintf(out.name, sizeof out.name, "%s", h->place[g].name);
		(void)p2s_codec_send(h->sock, &p2s_lib_table, p2s_id_lib_gpu_out, &out, -1, soon());
	}
	for (uint32_t a = 0; a < h->n; a++) {
		for (uint32_t b = 0; b < h->n; b++) {
			struct p2s_lib_pair_out out = {.src = a, .dst = b, .can_access = -1, .native_atomics = -1, .nvlinks = -1};

			if (a == b)
				continue;
			classify(h, a, b, &out);
			(void)p2s_codec_send(h->sock, &p2s_lib_table, p2s_id_lib_pair_out, &out, -1, soon());
		}
	}
}

int p2s_host_worker_main(int sock)
{
	static struct host h;
	struct p2s_lib_done done = {.status = P2S_DONE_COMPLETE};

	h.sock = sock;
	if (!greet(&h))
		return 2;
	if (!p2s_fsroot_open(&h.root, h.ask.host_dir[0] != '\0' ? h.ask.host_dir : NULL)) {
		done.status = P2S_DONE_FAILED;
		snprintf(done.text, sizeof done.text, "no system files");
	} else {
		for (uint32_t g = 0; g < h.n; g++)
			place_by_link(&h, g);
		if (!ask_libpci(&h)) {
			done.status = P2S_DONE_FAILED;
			snprintf(done.text, sizeof done.text, "libpci: %.150s", libpci_error);
		}
		for (uint32_t g = 0; g < h.n; g++)
			ask_files(&h, g);
		answer(&h);
	}
	(void)p2s_codec_send(sock, &p2s_lib_table, p2s_id_lib_done, &done, -1, soon());
	return 0;
}
