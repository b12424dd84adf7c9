/* What the test itself shows of memory of other processes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/names.h"
#include "rules/about.h"

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
