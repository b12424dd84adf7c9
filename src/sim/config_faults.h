/* The fault plan of cuda.json. */
#ifndef P2S_SIM_CONFIG_FAULTS_H
#define P2S_SIM_CONFIG_FAULTS_H

#include "sim/config.h"
#include "sim/keys.h"

/* A GPU named by address, "*", or nothing (both SIM_ANY). */
int sim_fault_gpu(const struct sim_config *c, const json_t *v, int *out, const char *key, const char *where,
	struct sim_error *e);
/* Reads faults (NULL: none) into c. */
int sim_faults_read(struct sim_config *c, const json_t *faults, struct sim_error *e);

#endif
