/* The forwarder of the shadow window: real copies from the private copy to the real peer, in pieces, late, out of order.
 * Kernels that wait for each other are served by a thread of their own while they run. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "sim/shadow.h"

#define PAGE 4096u
#define LATE_NS 30000000
#define FLAG_LEAD_NS 300000 /* how far a flag runs ahead of its payload */
#define TORN_NS 3000000     /* how long words stay torn */
#define WAIT_NS INT64_C(3000000000)
#define NON_BLOCKING 1

static void nap(int64_t ns)
{
	struct timespec t = {ns / 1000000000, ns % 1000000000};

	nanosleep(&t, NULL);
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int settle(p2s_custream stream)
{
	int (*query)(p2s_custream);
	int64_t end = now() + WAIT_NS;
	int rc;

	if (!P2S_SHADOW_NEXT(query, "cuStreamQuery"))
		return SHADOW_UNKNOWN;
	while ((rc = query(stream)) == SHADOW_NOT_READY && now() < end)
		nap(20000);
	return rc;
}

static int copy(p2s_cuptr to, p2s_cuptr from, uint64_t bytes, p2s_custream stream)
{
	int (*next)(p2s_cuptr, p2s_cuptr, size_t, p2s_custream);

	return P2S_SHADOW_NEXT(next, "cuMemcpyAsync") ? next(to, from, bytes, stream) : SHADOW_UNKNOWN;
}

static int to_host(void *to, p2s_cuptr from, uint64_t bytes, p2s_custream stream)
{
	int (*next)(void *, p2s_cuptr, size_t, p2s_custream);
	int rc = P2S_SHADOW_NEXT(next, "cuMemcpyDtoHAsync_v2") ? next(to, from, bytes, stream) : SHADOW_UNKNOWN;

	return rc != 0 ? rc : settle(stream);
}

static int from_host(p2s_cuptr to, const void *from, uint64_t bytes, p2s_custream stream)
{
	int (*next)(p2s_cuptr, const void *, size_t, p2s_custream);
	int rc = P2S_SHADOW_NEXT(next, "cuMemcpyHtoDAsync_v2") ? next(to, from, bytes, stream) : SHADOW_UNKNOWN;

	return rc != 0 ? rc : settle(stream);
}

/* One bit of one word in the middle. */
static int flip(const struct shadow *s, uint64_t off, uint64_t len, p2s_custream stream)
{
	uint64_t word, at = (off + len / 2) & ~UINT64_C(7);
	int rc;

	if (at < off || at + 8 > off + len)
		return 0;
	rc = to_host(&word, s->copy + at, 8, stream);
	word ^= UINT64_C(1) << 37;
	return rc != 0 ? rc : from_host(s->copy + at, &word, 8, stream);
}

static int pieces(const struct shadow *s, uint64_t off, uint64_t len, p2s_custream stream)
{
	int rc = 0;

	/* Backwards: the last pages arrive first. */
	for (uint64_t left = len; left > 0 && rc == 0;) {
		uint64_t n = left > 16 * (uint64_t)1048576 ? 16 * (uint64_t)1048576 : left;

		left -= n;
		rc = copy(s->start + off + left, s->copy + off + left, n, stream);
	}
	return rc;
}

/* The second page and the fifth change places. */
static int swap(const struct shadow *s, uint64_t off, uint64_t len, p2s_custream stream)
{
	int rc = pieces(s, off, len, stream);

	if (rc != 0 || len < 6 * PAGE)
		return rc;
	rc = copy(s->start + off + PAGE, s->copy + off + 4 * PAGE, PAGE, stream);
	return rc != 0 ? rc : copy(s->start + off + 4 * PAGE, s->copy + off + PAGE, PAGE, stream);
}

static int zeros(const struct shadow *s, uint64_t off, uint64_t len, p2s_custream stream)
{
	void *none = calloc(1, len);
	int rc = none == NULL ? SHADOW_UNKNOWN : from_host(s->copy + off, none, len, stream);

	free(none);
	return rc != 0 ? rc : pieces(s, off, len, stream);
}

/* Work for a thread: it uses the context of who asked, and a stream of its own that was made before any kernel waits. */
struct late {
	struct shadow s;
	p2s_cuctx ctx;
	p2s_custream stream;
	p2s_custream of; /* the kernel's; NULL: nobody waits for this */
	uint64_t off, len;
	uint64_t rounds, words, slot, flag;
	unsigned char *before; /* what the copy held before the kernel */
	void (*run)(struct late *);
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static p2s_custream busy[64]; /* a stream as often as kernels of it have stores on their way */

/* Puts `now` where `was` is. */
static int mark(p2s_custream was, p2s_custream now_is)
{
	int done = 0;

	pthread_mutex_lock(&guard);
	for (size_t i = 0; i < sizeof busy / sizeof busy[0] && !done; i++) {
		if (busy[i] != was)
			continue;
		busy[i] = now_is;
		done = 1;
	}
	pthread_mutex_unlock(&guard);
	return done;
}

int p2s_shadow_busy(p2s_custream stream)
{
	int found = 0;

	pthread_mutex_lock(&guard);
	for (size_t i = 0; i < sizeof busy / sizeof busy[0]; i++)
		found |= stream != NULL && busy[i] == stream;
	pthread_mutex_unlock(&guard);
	return found;
}

static void *late_thread(void *arg)
{
	struct late *l = arg;
	int (*set)(p2s_cuctx);

	if (P2S_SHADOW_NEXT(set, "cuCtxSetCurrent") && set(l->ctx) == 0)
		l->run(l);
	if (l->of != NULL)
		mark(l->of, NULL);
	free(l->before);
	free(l);
	return NULL;
}

static struct late *new_late(const struct shadow *s, uint64_t off, uint64_t len, void (*run)(struct late *))
{
	int (*create)(p2s_custream *, unsigned);
	int (*current)(p2s_cuctx *);
	struct late *l = calloc(1, sizeof *l);

	if (l == NULL)
		return NULL;
	l->s = *s;
	l->off = off;
	l->len = len;
	l->run = run;
	if (!P2S_SHADOW_NEXT(create, "cuStreamCreate") || !P2S_SHADOW_NEXT(current, "cuCtxGetCurrent") || current(&l->ctx) != 0 ||
	    create(&l->stream, NON_BLOCKING) != 0) {
		free(l);
		return NULL;
	}
	return l;
}

static int start(struct late *l)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = l->of != NULL && !mark(NULL, l->of);
	if (rc == 0)
		rc = pthread_create(&thread, &attr, late_thread, l);
	pthread_attr_destroy(&attr);
	if (rc != 0) {
		free(l->before);
		free(l);
	}
	return rc != 0 ? SHADOW_UNKNOWN : 0;
}

static void run_late(struct late *l)
{
	nap(LATE_NS);
	pieces(&l->s, l->off, l->len, l->stream);
}

int p2s_shadow_forward(const struct shadow *s, uint64_t off, uint64_t len, p2s_custream stream)
{
	struct late *l;
	int rc = settle(stream);

	if (rc != 0)
		return rc;
	switch (p2s_shadow_conf()->mode) {
	case SHADOW_ZEROS:
		return zeros(s, off, len, stream);
	case SHADOW_BIT:
		rc = flip(s, off, len, stream);
		return rc != 0 ? rc : pieces(s, off, len, stream);
	case SHADOW_SWAP:
		return swap(s, off, len, stream);
	case SHADOW_LATE:
		l = new_late(s, off, len, run_late);
		return l == NULL ? SHADOW_UNKNOWN : start(l);
	default:
		return SHADOW_UNKNOWN;
	}
}

int p2s_shadow_refresh(const struct shadow *s, uint64_t off, uint64_t len, p2s_custream stream, int wait)
{
	int rc = copy(s->copy + off, s->start + off, len, stream);

	return rc != 0 || !wait ? rc : settle(stream);
}

/* Waits until the word at `at` of the copy is another than before. */
static int changed(struct late *l, uint64_t at, int64_t end)
{
	uint64_t word, old;

	memcpy(&old, l->before + at, 8);
	for (;;) {
		if (to_host(&word, l->s.copy + l->off + at, 8, l->stream) != 0)
			return 0;
		if (word != old)
			return 1;
		if (now() > end)
			return 0;
		nap(20000);
	}
}

static void send(struct late *l, uint64_t at, uint64_t bytes)
{
	copy(l->s.start + l->off + at, l->s.copy + l->off + at, bytes, l->stream);
}

static void run_messages(struct late *l)
{
	for (uint64_t k = 0; k < l->rounds; k++) {
		if (!changed(l, k * l->slot + l->flag, now() + WAIT_NS))
			return;
		send(l, k * l->slot + l->flag, 8);
		settle(l->stream);
		nap(FLAG_LEAD_NS);
		send(l, k * l->slot, l->words * 8);
		settle(l->stream);
	}
}

static void run_tear(struct late *l)
{
	if (!changed(l, l->words * 8, now() + WAIT_NS))
		return;
	for (int half = 0; half < 2; half++) {
		for (uint64_t i = 0; i < l->words; i++)
			send(l, i * 8 + (half ? 4 : 0), 4);
		settle(l->stream);
		nap(TORN_NS);
	}
	send(l, l->words * 8, 8);
	settle(l->stream);
}

/* The copy is made to hold what the window holds, so that the thread sees what the kernel changes. */
static int remember(struct late *l)
{
	int rc;

	if (l == NULL)
		return SHADOW_UNKNOWN;
	l->before = malloc(l->len);
	rc = l->before == NULL ? SHADOW_UNKNOWN : p2s_shadow_refresh(&l->s, l->off, l->len, l->stream, 1);
	if (rc == 0)
		rc = to_host(l->before, l->s.copy + l->off, l->len, l->stream);
	if (rc != 0) {
		free(l->before);
		free(l);
		return rc;
	}
	return start(l);
}

int p2s_shadow_messages(const struct shadow *s, uint64_t off, const uint64_t *args, p2s_custream stream)
{
	const uint64_t rounds = args[6], words = args[7], slot = args[8], flag = args[9];
	struct late *l;

	if (rounds == 0 || off + (rounds - 1) * slot + flag + 8 > s->size)
		return SHADOW_UNKNOWN;
	l = new_late(s, off, (rounds - 1) * slot + flag + 8, run_messages);
	if (l != NULL) {
		l->of = stream;
		l->rounds = rounds;
		l->words = words;
		l->slot = slot;
		l->flag = flag;
	}
	return remember(l);
}

int p2s_shadow_tear(const struct shadow *s, uint64_t off, uint64_t words, p2s_custream stream)
{
	struct late *l;

	if (off + (words + 1) * 8 > s->size)
		return SHADOW_UNKNOWN;
	l = new_late(s, off, (words + 1) * 8, run_tear);
	if (l != NULL) {
		l->of = stream;
		l->words = words;
	}
	return remember(l);
}
