/* What the helper read about the machine: plain data, checked for range, judged by nobody here. */
#include <stdio.h>
#include <string.h>

#include "evidence/log.h"
#include "ipc/fill.h"

#define COPY(to, from) snprintf(to, sizeof(to), "%s", from)

static int32_t gpu_or_none(const struct p2s_model *m, int32_t i)
{
	return i >= -1 && i < (int32_t)m->gpu_count;
}

int32_t p2s_fill_hop(struct p2s_model *m, const struct p2s_lib_hop *in)
{
	struct p2s_gpu_facts *f;
	struct p2s_hop *h;

	if (in->gpu >= m->gpu_count || in->count > P2S_HOPS || in->position >= in->count || in->kind < P2S_HOP_UNKNOWN ||
	    in->kind > P2S_HOP_ENDPOINT)
		return -1;
	f = &m->gpus[in->gpu].facts;
	f->hop_count = in->count;
	h = &f->hops[in->position];
	snprintf(h->address, sizeof h->address, "%.*s", (int)sizeof h->address - 1, in->address);
	h->kind = in->kind;
	h->vendor = in->vendor;
	h->device = in->device;
	h->acs_cap = in->acs_cap;
	h->acs_ctl = in->acs_ctl;
	h->speed_now_mts = in->speed_now_mts;
	h->speed_max_mts = in->speed_max_mts;
	h->width_now = in->width_now;
	h->width_max = in->width_max;
	h->max_payload = in->max_payload;
	h->window_ok = in->window_ok;
	h->speed_loaded_mts = in->speed_loaded_mts;
	h->width_loaded = in->width_loaded;
	return 1;
}

static int32_t *number_of(struct p2s_gpu_facts *f, int32_t which)
{
	switch (which) {
	case P2S_GPU_FACT_REBAR:
		return &f->rebar;
	case P2S_GPU_FACT_CLIQUE:
		return &f->clique;
	case P2S_GPU_FACT_BAR1_ASSIGNED:
		return &f->bar1_assigned;
	case P2S_GPU_FACT_DISPLAY_ACTIVE:
		return &f->display_active;
	case P2S_GPU_FACT_MIG:
		return &f->mig;
	case P2S_GPU_FACT_CONFIDENTIAL:
		return &f->confidential;
	case P2S_GPU_FACT_VGPU:
		return &f->vgpu;
	case P2S_GPU_FACT_MPS:
		return &f->mps;
	case P2S_GPU_FACT_PERSISTENCE:
		return &f->persistence;
	case P2S_GPU_FACT_COMPUTE_MODE:
		return &f->compute_mode;
	case P2S_GPU_FACT_PENDING_RESET:
		return &f->pending_reset;
	case P2S_GPU_FACT_OTHER_PROCESS:
		return &f->other_process;
	case P2S_GPU_FACT_BUSY_PROCESS:
		return &f->busy_process;
	case P2S_GPU_FACT_FABRIC_STATE:
		return &f->fabric_state;
	case P2S_GPU_FACT_FABRIC_STATUS:
		return &f->fabric_status;
	case P2S_GPU_FACT_NVLINKS_ACTIVE:
		return &f->nvlinks_active;
	case P2S_GPU_FACT_NVLINKS_TOTAL:
		return &f->nvlinks_total;
	case P2S_GPU_FACT_HOST_NODE:
		return &f->host_node;
	default:
		return NULL;
	}
}

static uint64_t *counter_of(struct p2s_gpu_facts *f, int32_t which)
{
	switch (which) {
	case P2S_GPU_FACT_REBAR_MAX_BYTES:
		return &f->rebar_max_bytes;
	case P2S_GPU_FACT_AER_CORRECTABLE_BEFORE:
	case P2S_GPU_FACT_AER_CORRECTABLE_AFTER:
		return &f->aer_correctable[which - P2S_GPU_FACT_AER_CORRECTABLE_BEFORE];
	case P2S_GPU_FACT_AER_NONFATAL_BEFORE:
	case P2S_GPU_FACT_AER_NONFATAL_AFTER:
		return &f->aer_nonfatal[which - P2S_GPU_FACT_AER_NONFATAL_BEFORE];
	case P2S_GPU_FACT_AER_FATAL_BEFORE:
	case P2S_GPU_FACT_AER_FATAL_AFTER:
		return &f->aer_fatal[which - P2S_GPU_FACT_AER_FATAL_BEFORE];
	case P2S_GPU_FACT_PCIE_REPLAYS_BEFORE:
	case P2S_GPU_FACT_PCIE_REPLAYS_AFTER:
		return &f->pcie_replays[which - P2S_GPU_FACT_PCIE_REPLAYS_BEFORE];
	case P2S_GPU_FACT_NVLINK_ERRORS_BEFORE:
	case P2S_GPU_FACT_NVLINK_ERRORS_AFTER:
		return &f->nvlink_errors[which - P2S_GPU_FACT_NVLINK_ERRORS_BEFORE];
	case P2S_GPU_FACT_TO_HOST:
		return &f->to_host;
	case P2S_GPU_FACT_FROM_HOST:
		return &f->from_host;
	case P2S_GPU_FACT_HOST_BOTH_WAYS:
		return &f->host_both_ways;
	case P2S_GPU_FACT_ALL_TO_ONE:
		return &f->all_to_one;
	case P2S_GPU_FACT_ONE_TO_ALL:
		return &f->one_to_all;
	default:
		return NULL;
	}
}

int32_t p2s_fill_gpu_fact(struct p2s_model *m, const struct p2s_lib_gpu_fact *in)
{
	int64_t value = (int64_t)in->value; /* small negative numbers travel as two's complement */
	uint64_t *counter;
	int32_t *number;

	if (in->gpu >= m->gpu_count)
		return -1;
	number = number_of(&m->gpus[in->gpu].facts, in->which);
	counter = counter_of(&m->gpus[in->gpu].facts, in->which);
	if (number == NULL && counter == NULL)
		return -1;
	if (number != NULL && (value < INT32_MIN || value > INT32_MAX))
		return -1;
	if (number != NULL)
		*number = (int32_t)value;
	else
		*counter = in->value;
	return 1;
}

/* A bridge that is not on the way to this GPU says nothing here. */
int32_t p2s_fill_port_errors(struct p2s_model *m, const struct p2s_lib_port_errors *in)
{
	struct p2s_gpu_facts *f;

	if (in->gpu >= m->gpu_count)
		return -1;
	f = &m->gpus[in->gpu].facts;
	for (size_t i = 0; i + 1 < f->hop_count; i++) {
		if (strcmp(f->hops[i].address, in->address) != 0)
			continue;
		f->hops[i].errors[0] = in->correctable;
		f->hops[i].errors[1] = in->nonfatal;
		f->hops[i].errors[2] = in->fatal;
	}
	return 1;
}

/* Whose memory an address hits is told by the helper and known here: both must say the same. */
static int32_t owner_fits(const struct p2s_model *m, const struct p2s_log_event *e)
{
	const struct p2s_gpu *g;

	if (e->owner < 0 || e->owner_bar < 0 || !e->has_address)
		return 0;
	g = &m->gpus[e->owner];
	return e->owner_offset < g->bar_bytes[e->owner_bar] && g->bar_start[e->owner_bar] + e->owner_offset == e->fault_address;
}

int32_t p2s_fill_log_event(struct p2s_model *m, const struct p2s_lib_log_event *in)
{
	struct p2s_log_event e = {0};

	if (!gpu_or_none(m, in->gpu) || !gpu_or_none(m, in->owner) || !gpu_or_none(m, in->src) || !gpu_or_none(m, in->dst) ||
	    in->kind <= P2S_LOG_KIND_NONE || in->kind >= P2S_LOG_KINDS || in->owner_bar < -1 || in->owner_bar >= P2S_BARS || in->recovery < P2S_RECOVERY_UNREAD ||
	    in->recovery > P2S_RECOVERY_DRAIN_RESET)
		return -1;
	e.kind = in->kind;
	e.xid = in->xid;
	e.in_test = in->in_test != 0;
	e.gpu = in->gpu;
	e.owner = in->owner;
	e.owner_bar = in->owner_bar;
	e.src = in->src;
	e.dst = in->dst;
	e.own_pid = in->own_pid != 0;
	e.recovery = in->recovery;
	e.has_address = in->has_address != 0;
	e.fault_address = in->fault_address;
	e.owner_offset = in->owner_offset;
	if (!owner_fits(m, &e)) {
		e.owner = e.owner_bar = -1;
		e.owner_offset = 0;
	}
	e.flags = in->flags;
	e.usec = in->usec;
	e.seq = in->seq;
	e.repeats = in->repeats;
	snprintf(e.device, sizeof e.device, "%.*s", (int)sizeof e.device - 1, in->device);
	COPY(e.text, in->text);
	/* The same line again, with a higher count. */
	for (size_t i = 0; i < m->facts.log_count; i++) {
		struct p2s_log_event *old = &m->facts.log[i];

		/* Two GPUs may say the same at once, and a log without times says everything at once. */
		if (old->usec == e.usec && old->kind == e.kind && old->gpu == e.gpu && old->owner == e.owner && old->src == e.src &&
		    old->dst == e.dst && old->in_test == e.in_test && old->fault_address == e.fault_address &&
		    strcmp(old->device, e.device) == 0 && strcmp(old->text, e.text) == 0) {
			*old = e;
			return 1;
		}
	}
	/* A full list is no lack of memory: what came first is enough to judge by. */
	return p2s_facts_add_log(&m->facts, &e) || m->facts.log_count > 0;
}

int32_t p2s_fill_log_state(struct p2s_model *m, const struct p2s_lib_log_state *in)
{
	static const char *const words[] = {"", "readable", "denied", "absent"};

	if (in->state < P2S_LOG_UNREAD || in->state > P2S_LOG_ABSENT)
		return -1;
	m->facts.host.log_state = in->state;
	m->facts.host.log_lost = in->lost;
	m->facts.host.log_first = in->first;
	m->facts.host.log_position = in->position;
	/* What the helper met when it opened the log counts more than what access rights promised. */
	if (in->state != P2S_LOG_UNREAD)
		COPY(m->log_state, words[in->state]);
	return 1;
}
