/* Which GPUs are ours, and which of them are judged together. */
#ifndef P2S_INVENTORY_GROUP_H
#define P2S_INVENTORY_GROUP_H

#include "core/fault.h"
#include "core/fsroot.h"
#include "core/model.h"
#include "inventory/host_json.h"

enum p2s_group {
	P2S_GROUP_TESTABLE, /* two or more */
	P2S_GROUP_NONE,     /* no GPU bound to nvidia that this process may use */
	P2S_GROUP_SINGLE,   /* one, and no other is bound to nvidia, or one by the caller's list */
	P2S_GROUP_INVISIBLE /* one, but the driver holds more that this process cannot open */
};

/* 1 if this process may open /dev/nvidia<minor> for reading and writing. Asks for access, never opens. */
int32_t p2s_group_may_use(const struct p2s_fsroot *root, const struct p2s_seam *seam, int32_t minor);

/* Sets ours, in_group and state of every GPU from driver, minors (where known) and device nodes. cuda_asked: ordinals are what
 * the driver told, and who has one is ours. Who has neither is ours unless every node that can be opened belongs to another. */
enum p2s_group p2s_group_judge(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m,
							   int32_t cuda_asked);

/* 1 if some, but not all, device nodes can be opened and nobody has told yet which GPUs they belong to. */
int32_t p2s_group_unsure(const struct p2s_fsroot *root, const struct p2s_seam *seam, const struct p2s_model *m);

/* Narrows in_group to the caller's list: addresses, UUIDs (or prefixes of at least "GPU-" and four characters), ordinals
 * (index among our GPUs in address order). NULL: no change. *pending (may be NULL) is set when a UUID cannot be resolved yet
 * because no driver was asked; with pending NULL that is an error. Returns 0, or E_CONFIG for an empty list, an unknown name,
 * a GPU named twice or one that is not ours. */
int32_t p2s_group_narrow(struct p2s_model *m, const char *list, int32_t *pending, struct p2s_fault *fault);

/* Device nodes of GPUs that this process may open. */
int32_t p2s_group_nodes(const struct p2s_fsroot *root, const struct p2s_seam *seam);

size_t p2s_group_size(const struct p2s_model *m);

#endif
