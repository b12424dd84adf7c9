#include "core/facts.h"

#include <stdlib.h>
#include <string.h>

#define LOG_MAX 4096 /* a storm of faults must not fill the memory of a server */

void p2s_facts_init(struct p2s_facts *f)
{
	struct p2s_host_facts *h = &f->host;

	memset(f, 0, sizeof *f);
	h->sysfs_readable = h->iommu_class_count = P2S_UNREAD;
	h->cmd_read = h->cmd_pt = h->cmd_off = h->cmd_intel_on = h->cmd_amd_on = h->cmd_noacs = P2S_UNREAD;
	h->cmd_acs_list_comma = h->cmd_acs_option = h->cmd_acs_override = h->cmd_mem_encrypt = P2S_UNREAD;
	h->remap_peer_mmio = h->force_p2p_keys = h->patched = P2S_UNREAD;
	h->hypervisor = h->confidential_guest = h->sme = h->snp = h->tdx = h->wsl = h->amd_cpu = P2S_UNREAD;
	h->kernel_major = h->kernel_minor = P2S_UNREAD;
	h->nodes_usable = P2S_UNREAD;
}

void p2s_facts_gpu_init(struct p2s_gpu_facts *g)
{
	memset(g, 0, sizeof *g);
	g->has_iommu_link = g->boot_vga = g->is_vf = g->asleep = g->rebar = g->clique = P2S_UNREAD;
	g->bar1_assigned = g->bar1_index = P2S_UNREAD;
	g->display_active = g->mig = g->confidential = g->vgpu = g->mps = g->persistence = g->compute_mode = P2S_UNREAD;
	g->pending_reset = g->other_process = g->busy_process = g->fabric_state = g->fabric_status = P2S_UNREAD;
	g->nvlinks_active = g->nvlinks_total = P2S_UNREAD;
	g->host_node = -1;
	for (int i = 0; i < 2; i++) {
		g->aer_correctable[i] = g->aer_nonfatal[i] = g->aer_fatal[i] = UINT64_MAX;
		g->pcie_replays[i] = g->nvlink_errors[i] = UINT64_MAX;
	}
}

int32_t p2s_facts_shared_bridge(const struct p2s_gpu_facts *a, const struct p2s_gpu_facts *b)
{
	if (a->hop_count == 0 || b->hop_count == 0)
		return P2S_UNREAD;
	/* The GPU itself is the last hop: one without a bridge above it shares none. */
	return a->hop_count > 1 && b->hop_count > 1 && strcmp(a->hops[0].address, b->hops[0].address) == 0;
}

void p2s_facts_free(struct p2s_facts *f)
{
	free(f->log);
	f->log = NULL;
	f->log_count = 0;
}

int32_t p2s_facts_add_log(struct p2s_facts *f, const struct p2s_log_event *event)
{
	struct p2s_log_event *more;

	if (f->log_count >= LOG_MAX)
		return 0;
	more = realloc(f->log, (f->log_count + 1) * sizeof *more);
	if (more == NULL)
		return 0;
	f->log = more;
	f->log[f->log_count++] = *event;
	return 1;
}
