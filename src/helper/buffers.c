#include "helper/buffers.h"

#include <string.h>

void p2s_buffers_init(struct p2s_buffers *t)
{
	memset(t, 0, sizeof *t);
	pthread_mutex_init(&t->lock, NULL);
}

static struct p2s_buffer *find(struct p2s_buffers *t, uint32_t id)
{
	for (size_t i = 0; i < P2S_BUFFERS_MAX; i++)
		if (t->all[i].kind != P2S_BUFFER_FREE && t->all[i].id == id)
			return &t->all[i];
	return NULL;
}

struct p2s_buffer *p2s_buffers_new(struct p2s_buffers *t, uint32_t id, int32_t channel)
{
	struct p2s_buffer *b = NULL;

	if (id == 0)
		return NULL;
	pthread_mutex_lock(&t->lock);
	if (find(t, id) == NULL) {
		for (size_t i = 0; i < P2S_BUFFERS_MAX && b == NULL; i++)
			if (t->all[i].kind == P2S_BUFFER_FREE)
				b = &t->all[i];
		if (b != NULL) {
			memset(b, 0, sizeof *b);
			b->id = id;
			b->kind = P2S_BUFFER_MAKING;
			b->channel = channel;
			b->users = 1;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return b;
}

void p2s_buffers_finish(struct p2s_buffers *t, struct p2s_buffer *b, int32_t kind)
{
	pthread_mutex_lock(&t->lock);
	b->kind = kind;
	b->users = 0;
	pthread_mutex_unlock(&t->lock);
}

struct p2s_buffer *p2s_buffers_pin(struct p2s_buffers *t, uint32_t id)
{
	struct p2s_buffer *b;

	pthread_mutex_lock(&t->lock);
	b = id != 0 ? find(t, id) : NULL;
	if (b != NULL && b->kind == P2S_BUFFER_MAKING)
		b = NULL;
	if (b != NULL)
		b->users++;
	pthread_mutex_unlock(&t->lock);
	return b;
}

void p2s_buffers_unpin(struct p2s_buffers *t, struct p2s_buffer *b)
{
	if (b == NULL)
		return;
	pthread_mutex_lock(&t->lock);
	b->users--;
	pthread_mutex_unlock(&t->lock);
}

struct p2s_buffer *p2s_buffers_claim(struct p2s_buffers *t, uint32_t id, int32_t channel, int32_t *kind)
{
	struct p2s_buffer *b;

	pthread_mutex_lock(&t->lock);
	b = id != 0 ? find(t, id) : NULL;
	if (b != NULL && (b->kind == P2S_BUFFER_MAKING || b->users != 0 || b->channel != channel))
		b = NULL;
	if (b != NULL) {
		*kind = b->kind;
		b->kind = P2S_BUFFER_MAKING;
		b->users = 1;
	}
	pthread_mutex_unlock(&t->lock);
	return b;
}

uint32_t p2s_buffers_any(struct p2s_buffers *t, int32_t channel)
{
	uint32_t id = 0;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < P2S_BUFFERS_MAX && id == 0; i++)
		if (t->all[i].kind > P2S_BUFFER_MAKING && t->all[i].channel == channel && t->all[i].users == 0)
			id = t->all[i].id;
	pthread_mutex_unlock(&t->lock);
	return id;
}
