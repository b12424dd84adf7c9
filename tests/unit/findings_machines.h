/* The machines of the tests of findings, and what may be changed about them. */
#ifndef P2S_TESTS_FINDINGS_MACHINES_H
#define P2S_TESTS_FINDINGS_MACHINES_H

#include "unit.h"

#include "evidence/log.h"

static struct p2s_host_facts *host(struct p2s_model *m)
{
	return &m->facts.host;
}

/* Two GPUs on root ports of their own, bare metal, identity, nothing tested. */
static void base(struct p2s_model *m, int32_t n)
{
	unit_model(m, n, 0);
	for (size_t i = 0; i < m->pair_count; i++) {
		m->pairs[i].path = P2PSAFE_PATH_PHB;
		m->pairs[i].can_access = 1;
	}
	for (int32_t g = 0; g < n; g++) {
		struct p2s_gpu_facts *f = &m->gpus[g].facts;

		snprintf(m->gpus[g].name, sizeof m->gpus[g].name, "NVIDIA RTX 6000 Ada Generation");
		m->gpus[g].bar1_bytes = UINT64_C(64) << 30;
		m->gpus[g].bar_bytes[2] = 0;
		m->gpus[g].bar_start[1] = UINT64_C(0x100000000000) * (uint64_t)(g + 1);
		m->gpus[g].bar_bytes[1] = UINT64_C(64) << 30;
		m->gpus[g].memory_bytes = UINT64_C(48) << 30;
		m->gpus[g].numa_node = 0;
		f->bar1_index = 1;
		f->hop_count = 2;
		snprintf(f->hops[0].address, sizeof f->hops[0].address, "0000:%02x:03.1", 0x40 + (unsigned)g);
		f->hops[0].kind = P2S_HOP_ROOT_PORT;
		f->hops[0].acs_ctl = 0;
		snprintf(f->hops[1].address, sizeof f->hops[1].address, "%s", m->gpus[g].address);
		f->hops[1].kind = P2S_HOP_ENDPOINT;
		f->hops[1].acs_ctl = P2S_ACS_NONE;
		for (int h = 0; h < 2; h++) {
			f->hops[h].speed_max_mts = 16000;
			f->hops[h].width_max = f->hops[h].width_now = 16;
		}
	}
	host(m)->hypervisor = P2S_NO;
	host(m)->wsl = P2S_NO;
	host(m)->cmd_read = P2S_YES;
	host(m)->kernel_major = 6;
	host(m)->kernel_minor = 14;
	host(m)->log_state = P2S_LOG_READABLE;
	m->iommu_state = P2PSAFE_IOMMU_IDENTITY;
}

static void result(struct p2s_model *m, int32_t src, int32_t dst, int32_t verdict)
{
	for (size_t i = 0; i < m->pair_count; i++) {
		struct p2s_pair *p = &m->pairs[i];
		struct p2s_leg *l;

		if ((src >= 0 && p->src != src) || (dst >= 0 && p->dst != dst))
			continue;
		p->verdict = verdict;
		l = p2s_model_leg(p, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM);
		assert_non_null(l);
		l->verdict = verdict;
		l->damage = verdict == P2PSAFE_VERDICT_CORRUPT ? P2PSAFE_DAMAGE_DROPPED : 0;
		l->cuda_error = verdict == P2PSAFE_VERDICT_UNSUPPORTED ? 217 : 0;
	}
}

#define CORRUPT(m) result(m, -1, -1, P2PSAFE_VERDICT_CORRUPT)
#define OK(m) result(m, -1, -1, P2PSAFE_VERDICT_OK)
#define REFUSED(m) refuse(m)

static void refuse(struct p2s_model *m)
{
	result(m, -1, -1, P2PSAFE_VERDICT_UNSUPPORTED);
	for (size_t i = 0; i < m->pair_count; i++)
		m->pairs[i].can_access = 0;
}

static void translate(struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		snprintf(m->gpus[i].domain_type, sizeof m->gpus[i].domain_type, "DMA-FQ");
	m->iommu_state = P2PSAFE_IOMMU_TRANSLATED;
}

static void domain(struct p2s_model *m, const char *type)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		snprintf(m->gpus[i].domain_type, sizeof m->gpus[i].domain_type, "%s", type);
	m->iommu_state = P2PSAFE_IOMMU_UNKNOWN;
}

static void no_iommu(struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].facts.has_iommu_link = P2S_NO;
}

static void offer(struct p2s_model *m)
{
	for (size_t i = 0; i < m->pair_count; i++)
		m->pairs[i].can_access = 1;
}

/* As a probe sees a machine whose GPUs have no nvidia driver: pairs, and nobody in the group. */
static void unbind(struct p2s_model *m, const char *driver)
{
	for (size_t i = 0; i < m->gpu_count; i++) {
		m->gpus[i].in_group = m->gpus[i].ours = 0;
		snprintf(m->gpus[i].driver, sizeof m->gpus[i].driver, "%s", driver);
	}
}

/* BAR0 has 64 bits, as of an H100: BAR1 is number 2. */
static void wide(struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].facts.bar1_index = 2;
}

static void unread_window(struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].facts.bar1_index = P2S_UNREAD;
}

static struct p2s_log_event *logged(struct p2s_model *m, int32_t kind, int32_t gpu, const char *text)
{
	struct p2s_log_event e = {.kind = kind, .gpu = gpu, .owner = -1, .owner_bar = -1, .src = -1, .dst = -1};

	snprintf(e.text, sizeof e.text, "%s", text);
	assert_int_equal(p2s_facts_add_log(&m->facts, &e), 1);
	return &m->facts.log[m->facts.log_count - 1];
}

/* Of GPU 1, with the prefix that the kernel prints. */
static void no_room(struct p2s_model *m, const char *text)
{
	char line[160];

	snprintf(line, sizeof line, "pci 0000:02:00.0: %s", text);
	logged(m, P2S_LOG_BAR_NO_SPACE, 1, line);
}

static struct p2s_log_event *xid(struct p2s_model *m, int32_t number)
{
	struct p2s_log_event *e = logged(m, P2S_LOG_XID, 0, "NVRM: Xid (PCI:0000:01:00): something");

	e->xid = number;
	return e;
}

/* Xid 154: the driver says what GPU 0 needs. */
static struct p2s_log_event *asked_for(struct p2s_model *m, int32_t recovery)
{
	struct p2s_log_event *e = xid(m, 154);

	e->recovery = recovery;
	return e;
}

static void by_nvlink(struct p2s_model *m)
{
	for (size_t i = 0; i < m->pair_count; i++)
		m->pairs[i].path = P2PSAFE_PATH_NVL;
}

static void guest(struct p2s_model *m, int32_t clique)
{
	host(m)->hypervisor = P2S_YES;
	snprintf(host(m)->dmi_vendor, sizeof host(m)->dmi_vendor, "QEMU");
	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].facts.clique = clique;
}

static void geforce(struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		snprintf(m->gpus[i].name, sizeof m->gpus[i].name, "NVIDIA GeForce RTX 4090");
}

/* Both GPUs below one switch: root port and upstream port shared, downstream ports with this ACS control word. */
static void one_switch(struct p2s_model *m, int32_t acs)
{
	static const char *const shared[] = {"0000:00:01.0", "0000:03:00.0"};

	for (unsigned g = 0; g < m->gpu_count; g++) {
		struct p2s_gpu_facts *f = &m->gpus[g].facts;

		f->hop_count = 4;
		for (int h = 0; h < 2; h++) {
			snprintf(f->hops[h].address, sizeof f->hops[h].address, "%s", shared[h]);
			f->hops[h].acs_ctl = 0x1d; /* above the common point: of no account */
		}
		snprintf(f->hops[2].address, sizeof f->hops[2].address, "0000:04:%02x.0", g);
		f->hops[2].acs_ctl = acs;
		snprintf(f->hops[3].address, sizeof f->hops[3].address, "%s", m->gpus[g].address);
	}
}

static void root_ports(struct p2s_model *m, int32_t acs)
{
	host(m)->amd_cpu = P2S_YES;
	host(m)->snp = P2S_NO;
	for (size_t g = 0; g < m->gpu_count; g++)
		m->gpus[g].facts.hops[0].acs_ctl = acs;
}

static void handle_refused(struct p2s_model *m, int32_t peer_works)
{
	for (size_t i = 0; i < m->pair_count; i++) {
		struct p2s_leg *l = p2s_model_leg(&m->pairs[i], P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_IPC);

		assert_non_null(l);
		l->verdict = P2PSAFE_VERDICT_UNSUPPORTED;
		l->cuda_error = 101;
		l = p2s_model_leg(&m->pairs[i], P2PSAFE_LEG_CE_WRITE, P2PSAFE_MAPPING_PEER);
		assert_non_null(l);
		l->verdict = peer_works ? P2PSAFE_VERDICT_OK : P2PSAFE_VERDICT_UNSUPPORTED;
		m->pairs[i].verdict = P2PSAFE_VERDICT_UNSUPPORTED;
	}
}

static void measure(struct p2s_model *m, uint64_t peer, uint64_t staged, uint64_t limit)
{
	for (size_t i = 0; i < m->pair_count; i++) {
		m->pairs[i].bandwidth.ce_write = peer;
		m->pairs[i].limit_bytes_per_s = limit;
	}
	for (size_t i = 0; i < m->staged_count; i++)
		m->staged[i].bandwidth.ce_write = staged;
}

/* A row of the size table. */
static void sweep(struct p2s_model *m, uint64_t bytes, uint64_t peer)
{
	for (size_t i = 0; i < m->pair_count; i++) {
		m->pairs[i].sizes = calloc(1, sizeof *m->pairs[i].sizes);
		assert_non_null(m->pairs[i].sizes);
		m->pairs[i].size_count = 1;
		m->pairs[i].sizes[0].bytes = bytes;
		m->pairs[i].sizes[0].p2p_bytes_per_s = peer;
	}
}

static void nvlink(struct p2s_model *m, uint64_t limit)
{
	for (size_t i = 0; i < m->pair_count; i++) {
		m->pairs[i].path = m->pairs[i].nccl_path = P2PSAFE_PATH_NVL;
		m->pairs[i].limit_bytes_per_s = limit;
	}
}

/* GPUs 0 and 1 below one switch, 2 and 3 below another; all measured. */
static void two_switches(struct p2s_model *m)
{
	p2s_model_free(m);
	base(m, 4);
	OK(m);
	measure(m, 25000000000, 12000000000, 0);
	for (unsigned g = 0; g < 4; g++) {
		struct p2s_gpu_facts *f = &m->gpus[g].facts;

		f->hop_count = 4;
		f->hops[3] = f->hops[1];
		f->hops[1] = f->hops[2] = f->hops[0];
		f->hops[1].kind = P2S_HOP_SWITCH_UP;
		f->hops[2].kind = P2S_HOP_SWITCH_DOWN;
		snprintf(f->hops[0].address, sizeof f->hops[0].address, "0000:%02x:01.1", g < 2 ? 0x40 : 0x60);
		snprintf(f->hops[1].address, sizeof f->hops[1].address, "0000:%02x:00.0", g < 2 ? 0x41 : 0x61);
		snprintf(f->hops[2].address, sizeof f->hops[2].address, "0000:%02x:%02x.0", g < 2 ? 0x42 : 0x62, g);
	}
}

/* GPUs 0, 1 and 2 on one socket, 3 on another, reached at a quarter. */
static void sockets(struct p2s_model *m)
{
	p2s_model_free(m);
	base(m, 4);
	OK(m);
	measure(m, 25000000000, 2000000000, 0);
	m->gpus[3].numa_node = 1;
	for (size_t i = 0; i < m->pair_count; i++) {
		if (m->pairs[i].src != 3 && m->pairs[i].dst != 3)
			continue;
		m->pairs[i].path = P2PSAFE_PATH_SYS;
		m->pairs[i].bandwidth.ce_write = 6000000000;
	}
}

#endif
