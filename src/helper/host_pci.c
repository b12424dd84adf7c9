/* libpci is used here and nowhere else: its default error handler ends the process, so it gets one that answers instead. No bus
 * is scanned: which functions matter is known, and only those are opened. */
#define _GNU_SOURCE
#include <pci/pci.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "helper/host.h"

#define UNPRIVILEGED 64 /* bytes that the kernel gives to everybody */

static jmp_buf failed;
static char error_text[160];

static void on_error(char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void on_warning(char *format, ...) __attribute__((format(printf, 1, 2)));

static void on_error(char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error_text, sizeof error_text, format, args);
	va_end(args);
	longjmp(failed, 1);
}

static void on_warning(char *format, ...)
{
	(void)format; /* what is missing shows as unknown; this program prints nothing */
}

/* As much as may be read: everything, the first 256 bytes where there is no extended space, or 64 without privilege. */
static size_t read_config(const struct p2s_host_state *h, struct pci_access *acc, const char *address, unsigned char *bytes)
{
	static const int lengths[] = {P2S_CONFIG_BYTES, 256, UNPRIVILEGED};
	struct p2psafe_bdf bdf;
	struct pci_dev *d;
	size_t len = 0;

	if (!p2s_bdf_parse(address, &bdf))
		return 0;
	d = pci_get_dev(acc, (int)bdf.domain, bdf.bus, bdf.device, bdf.function);
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] && len == 0; i++)
		if ((!h->unprivileged || lengths[i] == UNPRIVILEGED) && pci_read_block(d, 0, bytes, lengths[i]))
			len = (size_t)lengths[i];
	pci_free_dev(d);
	return len;
}

static void take(struct p2s_hop *hop, const struct p2s_config *c)
{
	if (c->kind != P2S_HOP_UNKNOWN)
		hop->kind = c->kind;
	hop->acs_cap = c->acs_cap;
	hop->acs_ctl = c->acs_ctl;
	hop->max_payload = c->max_payload;
}

/* A bridge above several GPUs is read once. */
static const struct p2s_hop *seen(const struct p2s_host_state *h, uint32_t gpu, const char *address)
{
	for (uint32_t g = 0; g < gpu; g++)
		for (size_t i = 0; i + 1 < h->gpu[g].place.hops; i++)
			if (strcmp(h->gpu[g].place.hop[i].address, address) == 0)
				return &h->gpu[g].place.hop[i];
	return NULL;
}

/* Bridges belong to the system; those that vfio owns do not. A GPU only when the nvidia driver has it. Nothing that sleeps. */
static int may_read(const struct p2s_host_state *h, const struct p2s_host_gpu *g, const char *address, int is_gpu)
{
	char driver[32];

	if (is_gpu && !g->bound)
		return 0;
	p2s_host_driver(&h->root, address, driver, sizeof driver);
	return strncmp(driver, "vfio", 4) != 0 && !p2s_host_sleeps(&h->root, address);
}

static void read_place(struct p2s_host_state *h, struct pci_access *acc, uint32_t gpu)
{
	struct p2s_host_gpu *g = &h->gpu[gpu];
	unsigned char bytes[P2S_CONFIG_BYTES];

	for (size_t i = 0; i < g->place.hops; i++) {
		struct p2s_hop *hop = &g->place.hop[i];
		int is_gpu = i + 1 == g->place.hops;
		const struct p2s_hop *same = is_gpu ? NULL : seen(h, gpu, hop->address);
		struct p2s_config config;

		if (same != NULL) {
			hop->kind = same->kind;
			hop->acs_cap = same->acs_cap;
			hop->acs_ctl = same->acs_ctl;
			hop->max_payload = same->max_payload;
			continue;
		}
		if (!may_read(h, g, hop->address, is_gpu))
			continue;
		p2s_config_parse(bytes, read_config(h, acc, hop->address, bytes), g->bar, &config);
		take(hop, &config);
		if (is_gpu)
			g->config = config;
	}
}

int p2s_host_pci(struct p2s_host_state *h, char *why, size_t cap)
{
	static char path[1100];
	static struct pci_access *acc; /* static: it outlives the jump */

	acc = NULL;
	if (setjmp(failed) != 0) {
		snprintf(why, cap, "libpci: %s", error_text);
		return 0; /* its memory ends with this process */
	}
	acc = pci_alloc();
	acc->error = on_error;
	acc->warning = on_warning;
	acc->debug = on_warning;
	acc->method = PCI_ACCESS_SYS_BUS_PCI;
	if (h->ask.host_dir[0] != '\0') {
		/* A host folder, or a captured tree with sys/ at its top. */
		snprintf(path, sizeof path, "%s/root/sys", h->ask.host_dir);
		snprintf(path, sizeof path, "%s%s/sys/bus/pci", h->ask.host_dir, access(path, F_OK) == 0 ? "/root" : "");
		pci_set_param(acc, (char *)(uintptr_t) "sysfs.path", path);
	}
	pci_init(acc);
	for (uint32_t g = 0; g < h->n; g++) {
		struct p2s_host_gpu *gpu = &h->gpu[g];

		if (pci_lookup_name(acc, gpu->name, sizeof gpu->name, PCI_LOOKUP_DEVICE | PCI_LOOKUP_NO_NUMBERS, (int)gpu->vendor,
		                    (int)gpu->device) == NULL)
			gpu->name[0] = '\0';
	}
	for (uint32_t g = 0; g < h->n; g++)
		read_place(h, acc, g);
	pci_cleanup(acc);
	return 1;
}
