/* The buffers of one worker process. The table is shared by all channels: that a channel may name another channel's
 * buffer is the `peer` mapping. A buffer in use is pinned, so RELEASE on one channel cannot pull memory from under
 * another. */
#ifndef P2S_HELPER_BUFFERS_H
#define P2S_HELPER_BUFFERS_H

#include <pthread.h>

#include "helper/cuda_abi.h"

#define P2S_BUFFERS_MAX 2048

enum p2s_buffer_kind {
	P2S_BUFFER_FREE = 0,
	P2S_BUFFER_MAKING, /* id taken, memory not there yet, or being released */
	P2S_BUFFER_PLAIN,
	P2S_BUFFER_CUMEM,
	P2S_BUFFER_IMPORT_IPC,
	P2S_BUFFER_IMPORT_CUMEM,
	P2S_BUFFER_HOST
};

struct p2s_buffer {
	uint32_t id;
	int32_t kind;    /* enum p2s_buffer_kind */
	int32_t channel; /* index of the channel that made it */
	int32_t users;   /* pins */
	p2s_cuptr ptr;
	uint64_t bytes;
	p2s_cumem handle; /* CUMEM kinds */
	void *host;       /* HOST */
};

struct p2s_buffers {
	pthread_mutex_t lock;
	struct p2s_buffer all[P2S_BUFFERS_MAX];
};

void p2s_buffers_init(struct p2s_buffers *t);
/* Takes an unused id for a new buffer, pinned and in state MAKING; NULL: id 0, in use, or the table is full. */
struct p2s_buffer *p2s_buffers_new(struct p2s_buffers *t, uint32_t id, int32_t channel);
/* Publishes a buffer made by p2s_buffers_new (kind as set by the caller), or gives its id back (P2S_BUFFER_FREE). Unpins it. */
void p2s_buffers_finish(struct p2s_buffers *t, struct p2s_buffer *b, int32_t kind);
/* Pins a published buffer; NULL if there is none. */
struct p2s_buffer *p2s_buffers_pin(struct p2s_buffers *t, uint32_t id);
void p2s_buffers_unpin(struct p2s_buffers *t, struct p2s_buffer *b);
/* Takes a buffer out for its release: it must belong to the channel and be unpinned. *kind gets what it was. NULL if not so.
 * Ends with p2s_buffers_finish(FREE). */
struct p2s_buffer *p2s_buffers_claim(struct p2s_buffers *t, uint32_t id, int32_t channel, int32_t *kind);
/* Any buffer of the channel, 0 if it has none left. */
uint32_t p2s_buffers_any(struct p2s_buffers *t, int32_t channel);

#endif
