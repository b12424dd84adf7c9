/* What can be carried between two GPUs, from the links on the way. */
#include <string.h>

#include "core/link.h"
#include "score/score.h"

static size_t hops_of(const struct p2s_gpu_facts *f)
{
	return f->hop_count <= P2S_HOPS ? f->hop_count : 0;
}

/* Hops that both ways run through. The last hop is the GPU itself. */
static size_t common(const struct p2s_gpu_facts *a, const struct p2s_gpu_facts *b)
{
	size_t n = 0;

	while (n + 1 < hops_of(a) && n + 1 < hops_of(b) && strcmp(a->hops[n].address, b->hops[n].address) == 0)
		n++;
	return n;
}

static void narrow(uint64_t *to, uint64_t one)
{
	if (*to > one)
		*to = one;
}

/* From hop `from` down to the GPU. A hop that does not tell makes the whole unknown. */
static void walk(const struct p2s_gpu_facts *f, size_t from, struct p2s_limit *out)
{
	for (size_t i = from; i < hops_of(f); i++) {
		const struct p2s_hop *h = &f->hops[i];

		narrow(&out->most, p2s_link_limit(h->speed_max_mts, h->width_max, 0));
		narrow(&out->under_load, p2s_link_limit(h->speed_loaded_mts, h->width_loaded,
												h->max_payload != 0 ? h->max_payload : P2S_LINK_PAYLOAD_MIN));
	}
}

void p2s_score_limit(const struct p2s_model *m, const struct p2s_pair *pair, struct p2s_limit *out)
{
	const struct p2s_gpu_facts *a = &m->gpus[pair->src].facts;
	const struct p2s_gpu_facts *b = &m->gpus[pair->dst].facts;
	size_t from;

	memset(out, 0, sizeof *out);
	if (pair->path == P2PSAFE_PATH_NVL || pair->path == P2PSAFE_PATH_C2C) {
		out->most = out->under_load = pair->limit_bytes_per_s;
		return;
	}
	if (hops_of(a) == 0 || hops_of(b) == 0)
		return;
	from = common(a, b);
	out->most = out->under_load = UINT64_MAX;
	walk(a, from, out);
	walk(b, from, out);
}

uint64_t p2s_score_host_limit(const struct p2s_gpu_facts *f)
{
	struct p2s_limit l = {.most = UINT64_MAX, .under_load = UINT64_MAX};

	if (hops_of(f) == 0)
		return 0;
	walk(f, 0, &l);
	return l.most;
}

uint64_t p2s_score_own_link(const struct p2s_gpu_facts *f)
{
	const struct p2s_hop *h;

	if (hops_of(f) == 0)
		return 0;
	h = &f->hops[f->hop_count - 1];
	return p2s_link_limit(h->speed_max_mts, h->width_max, 0);
}
