/* host.json of a simulated host: what a folder of text files cannot show. See docs/HOSTS.md. */
#ifndef P2S_INVENTORY_HOST_JSON_H
#define P2S_INVENTORY_HOST_JSON_H

#include <stdint.h>

#include "core/fault.h"

#define P2S_MINORS 256

struct p2s_seam {
	int32_t simulated; /* 0: this machine, nothing below counts */
	int32_t privileged;
	char log_state[16];           /* readable, denied, absent */
	uint64_t ignore_sigkill_ms;   /* kills are not delivered for this long after the start of the run */
	uint64_t shm_bytes;
	char cpuid_signature[13];       /* what the CPU instruction would show of the hypervisor; "" nothing */
	signed char access[P2S_MINORS]; /* 1 rw, 0 none, -1 by existence of root/dev/nvidia<minor> */
};

/* Reads host_dir/host.json. host_dir NULL: this machine. Returns 0, E_CONFIG (unknown key, wrong type), E_NOMEM. A folder
 * without host.json gets the defaults only if it is a captured tree (has sys/ at its top). */
int32_t p2s_host_json_read(const char *host_dir, struct p2s_seam *seam, struct p2s_fault *fault);

#endif
