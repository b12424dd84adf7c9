/* Makes small simulated hosts in a temporary folder. */
#ifndef P2S_TESTS_CONDUCTOR_HOSTS_H
#define P2S_TESTS_CONDUCTOR_HOSTS_H

#include "conductor_player.h"

struct made_host {
	char dir[64];
};

/* n GPUs 0000:10:00.0, 0000:20:00.0, ...; link "pcie", "nvlink" or all of the member "links"; faults: JSON objects with commas
 * between, "" none; more: further members of cuda.json, each followed by a comma, "" none; host: further members of host.json,
 * each after a comma. */
void host_make(struct made_host *h, uint32_t n, const char *link, const char *faults, const char *more, const char *host);
/* A link below sys/bus/pci/devices and the folder it leads to, with attributes "name=value;name=value". */
void host_add_device(const struct made_host *h, const char *address, const char *path, const char *attributes);
void host_write(const struct made_host *h, const char *path, const char *text);
void host_remove(struct made_host *h);
/* A player that tests the first n GPUs of the host. */
void host_play(struct play *p, const struct made_host *h, uint32_t n);

#endif
