#include <signal.h>
#include <stdlib.h>

#include "sim/context.h"
#include "sim/lock.h"

static struct sim_job *next_job(struct sim_stream *s)
{
	struct sim_job *job;

	pthread_mutex_lock(&s->guard);
	while (!s->first && !s->ending)
		pthread_cond_wait(&s->wake, &s->guard);
	job = s->first;
	if (job) {
		s->first = job->next;
		if (!s->first)
			s->last = &s->first;
	}
	pthread_mutex_unlock(&s->guard);
	return job;
}

static void *engine(void *arg)
{
	struct sim_stream *s = arg;
	struct sim_job *job;

	while ((job = next_job(s)) != NULL) {
		uint64_t ns = job->run(s, job);

		free(job);
		__atomic_add_fetch(&s->clock_ns, ns, __ATOMIC_RELAXED);
		__atomic_add_fetch(&s->done, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_destroy(&s->guard);
	pthread_cond_destroy(&s->wake);
	free(s);
	return NULL;
}

struct sim_stream *sim_stream_new(struct sim_context *ctx)
{
	struct sim_stream *s = calloc(1, sizeof(*s));
	sigset_t all, before;
	pthread_attr_t attr;
	int rc;

	if (!s)
		return NULL;
	s->context = ctx;
	s->last = &s->first;
	pthread_mutex_init(&s->guard, NULL);
	pthread_cond_init(&s->wake, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* Signals belong to the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&s->thread, &attr, engine, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc) {
		free(s);
		return NULL;
	}
	return s;
}

struct sim_stream *sim_stream_of(struct sim_context *ctx, CUstream stream)
{
	static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

	if (stream)
		return stream;
	pthread_mutex_lock(&guard);
	if (!ctx->null_stream)
		ctx->null_stream = sim_stream_new(ctx);
	pthread_mutex_unlock(&guard);
	return ctx->null_stream;
}

void sim_stream_submit(struct sim_stream *s, struct sim_job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&s->guard);
	*s->last = job;
	s->last = &job->next;
	__atomic_add_fetch(&s->submitted, 1, __ATOMIC_RELAXED);
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->guard);
}

int sim_stream_idle(struct sim_stream *s)
{
	return __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) == __atomic_load_n(&s->submitted, __ATOMIC_RELAXED);
}

void sim_stream_end(struct sim_stream *s)
{
	pthread_mutex_lock(&s->guard);
	s->ending = 1;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->guard);
}
