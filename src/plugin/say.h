/* One line for people. */
#ifndef P2S_PLUGIN_SAY_H
#define P2S_PLUGIN_SAY_H

#include "nccl_env.h"
#include "veto.h"

/* Through NCCL's logger; without one (interface v1) warnings go to stderr, unless P2PSAFE_LOG is none or error. */
void p2s_plugin_say(const struct p2s_veto *v, nccl_logger log);

#endif
