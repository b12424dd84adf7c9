/* The parts of cuda.json that say how fast shared links are. */
#ifndef P2S_SIM_CONFIG_SPEED_H
#define P2S_SIM_CONFIG_SPEED_H

#include "sim/config.h"
#include "sim/keys.h"

/* links.uplinks, once GPUs and links are read; and what is not said about ports. Returns 1, or 0 with the error told. */
int sim_speed_read(struct sim_config *c, const json_t *uplinks, struct sim_error *e);

#endif
