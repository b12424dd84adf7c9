/* CUDA_VISIBLE_DEVICES, entry by entry, as the driver reads it. Pure.
 *
 * The first entry decides what the list is made of: ordinals, GPU UUIDs or names of MIG instances. The list ends before the first
 * entry that is of another kind, negative, empty, or no number. A number is read like strtoul does: white space and a sign before
 * it, anything after it ("1gpu" is 1). A UUID may be cut short as long as it fits one GPU. What could be read in two ways (0x1,
 * numbers of more than nine digits, a UUID in capitals or after a blank) ends the list too: no ordinal is better than a wrong one. */
#ifndef P2S_CHOOSE_VISIBLE_H
#define P2S_CHOOSE_VISIBLE_H

#include <stddef.h>
#include <stdint.h>

enum p2s_visible_kind { P2S_VISIBLE_START, P2S_VISIBLE_ORDINAL, P2S_VISIBLE_UUID, P2S_VISIBLE_MIG };

struct p2s_visible { /* zero before the first entry */
	enum p2s_visible_kind kind;
	uint32_t ordinal;
	const char *text; /* of the entry, length bytes */
	size_t length;
};

/* Reads the entry at *at and moves *at behind it. Returns 1, or 0 at the end of what counts. */
int32_t p2s_visible_next(struct p2s_visible *v, const char **at);

#endif
