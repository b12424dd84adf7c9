#include "helper/host_path.h"

#include <string.h>

#include "core/link.h"
#include "p2psafe/p2psafe.h"

/* Numbers of hops that both have in common, counted from the root bus; only with the same root bus. */
static size_t common_hops(const struct p2s_place *a, const struct p2s_place *b)
{
	size_t n = 0;

	while (n < a->hops && n < b->hops && strcmp(a->hop[n].address, b->hop[n].address) == 0)
		n++;
	return n;
}

static void payload_of(const struct p2s_place *p, size_t from, uint32_t *payload)
{
	for (size_t i = from; i < p->hops; i++)
		if (p->hop[i].max_payload != 0 && (*payload == 0 || p->hop[i].max_payload < *payload))
			*payload = p->hop[i].max_payload;
}

/* The narrowest hop from the common point down to the GPU. */
static void narrow(const struct p2s_place *p, size_t from, uint32_t payload, uint64_t *limit)
{
	for (size_t i = from; i < p->hops; i++) {
		uint64_t one = p2s_link_limit(p->hop[i].speed_max_mts, p->hop[i].width_max, payload);

		if (one != 0 && (*limit == 0 || one < *limit))
			*limit = one;
	}
}

void p2s_path_between(const struct p2s_place *a, const struct p2s_place *b, struct p2s_path *out)
{
	uint32_t payload = 0;
	size_t common = 0;

	memset(out, 0, sizeof *out);
	if (a->hops == 0 || b->hops == 0)
		return;
	if (strcmp(a->root, b->root) != 0) {
		int known = a->node >= 0 && b->node >= 0;

		out->path = !known ? P2PSAFE_PATH_UNKNOWN : a->node == b->node ? P2PSAFE_PATH_NODE : P2PSAFE_PATH_SYS;
		/* NCCL has no NODE: one NUMA node is PHB to it, all else SYS. GPUs whose node nobody knows hang below one CPU there,
		 * the one numbered -1 (0 in older releases): PHB to each other (src/graph/xml.cc). */
		out->nccl_path = a->node == b->node ? P2PSAFE_PATH_PHB : P2PSAFE_PATH_SYS;
	} else {
		common = common_hops(a, b);
		if (common == 0) {
			out->path = out->nccl_path = P2PSAFE_PATH_PHB;
		} else {
			/* Below a root port. One switch: each GPU hangs on a port of the common bridge. */
			int one = a->hops - common <= 2 && b->hops - common <= 2;

			out->path = out->nccl_path = one ? P2PSAFE_PATH_PIX : P2PSAFE_PATH_PXB;
		}
	}
	payload_of(a, common, &payload);
	payload_of(b, common, &payload);
	narrow(a, common, payload, &out->limit_bytes_per_s);
	narrow(b, common, payload, &out->limit_bytes_per_s);
}
