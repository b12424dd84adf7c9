/* Puts what the helper says into the model. Nothing it says is trusted: indices, words and order are checked, and a claim that
 * makes no sense is dropped (its leg stays UNTESTED). */
#ifndef P2S_IPC_FILL_H
#define P2S_IPC_FILL_H

#include <stdint.h>

#include "core/model.h"
#include "ipc/proto.h"

/* Returns 1, 0 when out of memory, -1 when the message was nonsense. */
int32_t p2s_fill_gpu(struct p2s_model *m, const struct p2s_lib_gpu_out *in);
int32_t p2s_fill_pair(struct p2s_model *m, const struct p2s_lib_pair_out *in);
int32_t p2s_fill_leg(struct p2s_model *m, const struct p2s_lib_leg *in);
int32_t p2s_fill_staged(struct p2s_model *m, const struct p2s_lib_staged *in);
int32_t p2s_fill_fact(struct p2s_model *m, const struct p2s_lib_fact *in);
int32_t p2s_fill_measure(struct p2s_model *m, const struct p2s_lib_measure *in);
/* The driver could not be used: the finding that says why. */
int32_t p2s_fill_driver(struct p2s_model *m, const struct p2s_lib_driver *in);
/* fill_facts.c: what was read about the machine. */
int32_t p2s_fill_hop(struct p2s_model *m, const struct p2s_lib_hop *in);
int32_t p2s_fill_gpu_fact(struct p2s_model *m, const struct p2s_lib_gpu_fact *in);
int32_t p2s_fill_port_errors(struct p2s_model *m, const struct p2s_lib_port_errors *in);
int32_t p2s_fill_log_event(struct p2s_model *m, const struct p2s_lib_log_event *in);
int32_t p2s_fill_log_state(struct p2s_model *m, const struct p2s_lib_log_state *in);

#endif
