/* What the test itself shows: speeds, and memory of other processes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/names.h"
#include "rules/about.h"

static uint64_t largest(const struct p2s_bandwidth *b)
{
	const uint64_t all[] = {b->ce_write, b->ce_read, b->sm_store, b->sm_load};
	uint64_t most = 0;

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		most = all[i] > most ? all[i] : most;
	return most;
}

static const struct p2s_staged *staged_of(const struct p2s_model *m, const struct p2s_pair *p)
{
	for (size_t i = 0; i < m->staged_count; i++)
		if ((m->staged[i].a == p->src && m->staged[i].b == p->dst) || (m->staged[i].a == p->dst && m->staged[i].b == p->src))
			return &m->staged[i];
	return NULL;
}

static void megabytes(uint64_t bytes_per_s, char *out, size_t cap)
{
	snprintf(out, cap, "%" PRIu64, bytes_per_s / 1000000);
}

/* A tenth above the limit: the limit is the link's own maximum without any overhead. */
int32_t p2s_find_above_link(const struct p2s_about *a, struct p2s_claim *c)
{
	uint64_t limit = a->pair->limit_bytes_per_s;
	uint64_t seen = largest(&a->pair->bandwidth);

	if (limit == 0 || seen / 11 * 10 <= limit || a->pair->path == P2PSAFE_PATH_NVL || a->pair->path == P2PSAFE_PATH_C2C)
		return 0;
	megabytes(seen, c->value[0], sizeof c->value[0]);
	megabytes(limit, c->value[1], sizeof c->value[1]);
	return 1;
}

static int32_t speeds(const struct p2s_about *a, uint64_t *peer, uint64_t *staged, struct p2s_claim *c)
{
	const struct p2s_staged *s = staged_of(a->m, a->pair);

	*peer = a->pair->bandwidth.ce_write != 0 ? a->pair->bandwidth.ce_write : largest(&a->pair->bandwidth);
	*staged = s != NULL ? s->bandwidth.ce_write : 0;
	megabytes(*peer, c->value[0], sizeof c->value[0]);
	megabytes(*staged, c->value[1], sizeof c->value[1]);
	return *peer != 0 && *staged != 0;
}

int32_t p2s_find_slower(const struct p2s_about *a, struct p2s_claim *c)
{
	uint64_t peer;
	uint64_t staged;

	return a->pair->verdict == P2PSAFE_VERDICT_DEGRADED && speeds(a, &peer, &staged, c);
}

/* Within a tenth of each other. */
int32_t p2s_find_path_unproven(const struct p2s_about *a, struct p2s_claim *c)
{
	uint64_t peer;
	uint64_t staged;

	if ((a->pair->verdict != P2PSAFE_VERDICT_DEGRADED && a->pair->verdict != P2PSAFE_VERDICT_OK) ||
		!speeds(a, &peer, &staged, c))
		return 0;
	return (peer > staged ? peer - staged : staged - peer) <= staged / 10;
}

/* A mapping of another process's memory that was refused, though this process reached the peer itself. */
static const struct p2s_leg *refused_handle(const struct p2s_pair *p)
{
	const struct p2s_leg *refused = NULL;
	int32_t reached = 0;

	for (size_t i = 0; i < p->leg_count; i++) {
		const struct p2s_leg *l = &p->legs[i];

		if (l->mapping == P2PSAFE_MAPPING_PEER)
			reached |= l->verdict == P2PSAFE_VERDICT_OK;
		else if ((l->mapping == P2PSAFE_MAPPING_IPC || l->mapping == P2PSAFE_MAPPING_CUMEM) && l->cuda_error != 0 &&
				 l->verdict == P2PSAFE_VERDICT_UNSUPPORTED && refused == NULL)
			refused = l;
	}
	return reached ? refused : NULL;
}

int32_t p2s_find_ipc_open(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_leg *l = refused_handle(a->pair);

	if (l == NULL)
		return 0;
	P2S_SAY(c->value[0], "%s", p2s_word_name(P2S_GROUP_MAPPING, l->mapping));
	P2S_SAY(c->value[1], "%d", (int)l->cuda_error);
	return 1;
}

static int32_t in_container(const struct p2s_model *m)
{
	return m->container[0] != '\0' && strcmp(m->container, "none") != 0;
}

int32_t p2s_find_ipc_container(const struct p2s_about *a, struct p2s_claim *c)
{
	if (!in_container(a->m) || refused_handle(a->pair) == NULL)
		return 0;
	P2S_SAY(c->value[0], "%s", a->m->container);
	return 1;
}

/* NCCL takes 9637888 bytes of /dev/shm for one connection of one channel (the size it names when there is no room); a ring over
 * n GPUs has n connections each way, and two channels are the least it uses. */
#define SHM_PER_CONNECTION UINT64_C(9637888)

int32_t p2s_find_shm_small(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_model *m = a->m;
	struct p2s_tally t = p2s_about_tally(m, -1);
	uint64_t group = 0;
	uint64_t need;

	for (size_t i = 0; i < m->gpu_count; i++)
		group += m->gpus[i].in_group != 0;
	need = group * 2 * 2 * SHM_PER_CONNECTION;
	if (group < 2 || t.ok == t.pairs || m->facts.host.shm_bytes == 0 || m->facts.host.shm_bytes >= need)
		return 0;
	P2S_SAY(c->value[0], "%llu", p2s_about_mib(m->facts.host.shm_bytes));
	P2S_SAY(c->value[1], "%llu", (unsigned long long)group);
	P2S_SAY(c->value[2], "%llu", p2s_about_mib(need));
	return 1;
}
