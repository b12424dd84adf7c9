/* The host worker's own state and its parts. It reads files and configuration space, and nothing else; it may block for
 * ever and be killed, so every part sends what it learnt before the next part begins. */
#ifndef P2S_HELPER_HOST_H
#define P2S_HELPER_HOST_H

#include "core/fsroot.h"
#include "core/model.h"
#include "helper/host_config.h"
#include "helper/host_path.h"
#include "ipc/proto.h"

struct p2s_host_gpu {
	char address[P2S_BDF_TEXT];
	struct p2s_place place;
	int32_t bound; /* to the nvidia driver: only then its configuration space may be read */
	int bar;       /* sysfs index of the frame-buffer window */
	struct p2s_config config;
	uint32_t vendor;
	uint32_t device;
	int32_t minor; /* -1 unknown */
	char name[96];
};

struct p2s_host_state {
	int sock;
	struct p2s_lib_run ask;
	struct p2s_fsroot root;
	int unprivileged; /* a simulated host whose caller is an ordinary user */
	uint32_t n;
	struct p2s_host_gpu gpu[P2S_MAX_GPUS];
};

/* host_tree.c: the chains, by the kernel's links, else by bus numbers; attributes of every hop. sysfs only. */
void p2s_host_tree(struct p2s_host_state *h);
/* How fast and wide the links of all hops are now, while they are busy: as root has it. */
void p2s_host_loaded(struct p2s_host_state *h, const struct p2s_fsroot *root);
/* 1 if reading the device's configuration space would wake it, or nobody can tell that it is awake. */
int32_t p2s_host_sleeps(const struct p2s_fsroot *root, const char *address);
/* Name of the driver that a device is bound to; "" none or not readable. */
void p2s_host_driver(const struct p2s_fsroot *root, const char *address, char *out, size_t cap);
/* host_pci.c: names and configuration space through libpci. 0: libpci gave up, and why. */
int p2s_host_pci(struct p2s_host_state *h, char *why, size_t cap);

#endif
