#include <string.h>

#include "choose/choose.h"

/* Below this every NCCL goes anyway: the lowest default since levels have names. */
static const int32_t levels[] = {P2PSAFE_PATH_PXB, P2PSAFE_PATH_PIX, P2PSAFE_PATH_NVL};

#define BROADCOM 0x1000u /* also LSI's; the older PLX, 10b5, is left as it is */
#define UNREAD 0xffffu

int32_t p2s_choose_all_in_group(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		if (m->gpus[i].ours != m->gpus[i].in_group)
			return 0;
	return 1;
}

/* Do we see the paths that NCCL will see? Not where a hypervisor shapes the tree, nor where nobody told which links there are:
 * what we take for a far pair may be near to NCCL. */
static int32_t same_view(const struct p2s_model *m)
{
	if (m->nothing_tested || m->pair_count == 0 || strcmp(m->virtualization, "none") != 0)
		return 0;
	if (!p2s_choose_all_in_group(m))
		return 0;
	for (size_t i = 0; i < m->gpu_count; i++)
		if (m->gpus[i].in_group && m->gpus[i].facts.nvlinks_active == P2S_UNREAD)
			return 0;
	for (size_t i = 0; i < m->pair_count; i++)
		if (m->pairs[i].nccl_path == P2PSAFE_PATH_UNKNOWN || m->pairs[i].path == P2PSAFE_PATH_UNKNOWN)
			return 0;
	return 1;
}

/* NCCL folds Broadcom's switches behind one another into one, and joins those whose driver says that they are connected (topo.cc:
 * ncclTopoFlattenBcmSwitches, "pcilink"): to it, pairs below them are nearer than the tree says. */
static int32_t nearer_to_nccl(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++) {
		const struct p2s_gpu_facts *f = &m->gpus[i].facts;

		for (size_t k = 0; m->gpus[i].in_group && k + 1 < f->hop_count; k++)
			if (f->hops[k].vendor == BROADCOM || f->hops[k].vendor >= UNREAD || f->hops[k].vendor == 0)
				return 1;
	}
	return 0;
}

int32_t p2s_choose_level(const struct p2s_model *m)
{
	if (!same_view(m))
		return P2PSAFE_PATH_UNKNOWN;
	for (size_t k = 0; k < sizeof levels / sizeof levels[0]; k++) {
		int32_t near = 0;
		int32_t good = 1;

		if (levels[k] > P2PSAFE_PATH_C2C && nearer_to_nccl(m))
			continue;
		for (size_t i = 0; i < m->pair_count; i++) {
			if (m->pairs[i].nccl_path > levels[k])
				continue;
			near = 1;
			good &= m->pairs[i].permits[P2PSAFE_CONSUMER_NCCL_P2P] == P2PSAFE_VERDICT_OK;
		}
		if (near && good)
			return levels[k];
	}
	return P2PSAFE_PATH_UNKNOWN;
}

int32_t p2s_choose_bad_is_far(const struct p2s_model *m)
{
	if (!same_view(m) || nearer_to_nccl(m))
		return 0;
	for (size_t i = 0; i < m->pair_count; i++)
		if (m->pairs[i].permits[P2PSAFE_CONSUMER_NCCL_P2P] != P2PSAFE_VERDICT_OK && m->pairs[i].nccl_path <= P2PSAFE_PATH_PXB)
			return 0;
	return 1;
}
