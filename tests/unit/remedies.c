/* remedies.def on the machines that it was written for. */
#include "unit.h"

#include "evidence/log.h"
#include "rules/explain.h"
#include "rules/rules.h"

static void base(struct p2s_model *m, int32_t n, int32_t verdict)
{
	unit_model(m, n, verdict);
	for (size_t i = 0; i < m->pair_count; i++) {
		m->pairs[i].path = P2PSAFE_PATH_PHB;
		m->pairs[i].can_access = 1;
	}
	for (int32_t g = 0; g < n; g++) {
		struct p2s_gpu_facts *f = &m->gpus[g].facts;

		f->hop_count = 2;
		snprintf(f->hops[0].address, sizeof f->hops[0].address, "0000:%02x:03.1", 0x40 + (unsigned)g * 0x20);
		f->hops[0].acs_ctl = 0x1d;
		snprintf(f->hops[1].address, sizeof f->hops[1].address, "%s", m->gpus[g].address);
		f->hops[1].acs_ctl = P2S_ACS_NONE;
	}
	m->facts.host.hypervisor = P2S_NO;
	m->facts.host.kernel_major = 6;
	m->facts.host.kernel_minor = 14;
	m->facts.host.amd_cpu = P2S_YES;
	m->facts.host.snp = P2S_NO;
	m->facts.host.remap_peer_mmio = P2S_YES;
}

static void translated(struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		snprintf(m->gpus[i].domain_type, sizeof m->gpus[i].domain_type, "DMA-FQ");
	m->iommu_state = P2PSAFE_IOMMU_TRANSLATED;
}

static void explain(struct p2s_model *m)
{
	assert_int_equal(p2s_rules_judge(m, NULL), 1);
	assert_int_equal(p2s_rules_explain(m), 1);
	for (size_t i = 0; i < m->remedy_count; i++) {
		const struct p2s_remedy *r = &m->remedies[i];

		assert_true(r->what[0] != '\0' && r->why[0] != '\0');
		assert_null(strchr(r->what, '{'));
		assert_null(strchr(r->risk, '{'));
		assert_null(strchr(r->why, '{'));
		/* never advice, whatever the machine */
		assert_null(strstr(r->what, "noacs"));
		assert_null(strstr(r->what, "pcie_acs_override"));
		assert_null(strstr(r->what, "GGML_CUDA_P2P"));
		assert_null(strstr(r->what, "amd_iommu=on"));
	}
}

static const struct p2s_remedy *remedy(const struct p2s_model *m, const char *code)
{
	const struct p2s_remedy *found = NULL;

	for (size_t i = 0; i < m->remedy_count; i++) {
		if (strcmp(m->remedies[i].code, code) != 0)
			continue;
		assert_null(found); /* each id once */
		found = &m->remedies[i];
	}
	return found;
}

static void is(const struct p2s_model *m, const char *code, const char *effect)
{
	const struct p2s_remedy *r = remedy(m, code);

	if (r == NULL || strcmp(r->effect, effect) != 0)
		fail_msg("%s: expected %s, found %s", code, effect, r == NULL ? "nothing" : r->effect);
}

static size_t place(const struct p2s_model *m, const char *code)
{
	for (size_t i = 0; i < m->remedy_count; i++)
		if (strcmp(m->remedies[i].code, code) == 0)
			return i;
	fail_msg("no %s", code);
	return 0;
}

/* Four cards alone on their roots, translated because SNP needs it, kernel 6.14. */
static void founding_host(void **state)
{
	static const char *const inferences[] = {"I5", "I6", "P1"};
	struct p2s_model m;

	(void)state;
	base(&m, 4, P2PSAFE_VERDICT_CORRUPT);
	translated(&m);
	m.facts.host.snp = P2S_YES;
	m.facts.host.vfio_gpus = 4;
	explain(&m);
	is(&m, "T0", "applies");
	is(&m, "I1", "forbidden");
	is(&m, "I2", "forbidden");
	is(&m, "I3", "forbidden");
	is(&m, "I7", "already_on");
	assert_non_null(strstr(remedy(&m, "I7")->why, "no effect on this kernel"));
	is(&m, "A1", "no_effect");
	is(&m, "A2", "no_effect");
	is(&m, "A3", "no_effect");
	assert_non_null(strstr(remedy(&m, "A1")->why, "share a bridge"));
	is(&m, "S1", "applies");
	for (size_t i = 0; i < COUNT(inferences); i++) {
		is(&m, inferences[i], "applies");
		assert_non_null(strstr(remedy(&m, inferences[i])->why, "inference"));
	}
	assert_int_equal(place(&m, "T0"), 0);
	assert_true(place(&m, "S1") < place(&m, "I1"));
	assert_null(remedy(&m, "I4"));
	for (size_t i = 0; i < m.finding_count; i++)
		assert_string_not_equal(m.findings[i].code, "ACS_REDIRECT");
	p2s_model_free(&m);
}

/* A bridge whose address ends another's (a VMD domain) is named, too. */
static void every_bridge_is_named(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	translated(&m);
	snprintf(m.gpus[0].facts.hops[0].address, sizeof m.gpus[0].facts.hops[0].address, "10000:60:03.1");
	explain(&m);
	assert_non_null(strstr(remedy(&m, "A1")->what, "pci=disable_acs_redir=10000:60:03.1;0000:60:03.1\""));
	p2s_model_free(&m);
}

/* Translated and redirected, and nothing needs the translation: in the order of trying. */
static void ordinary_translated_host(void **state)
{
	static const char *const order[] = {"T0", "I1", "I2", "A3", "A1", "A2"};
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	translated(&m);
	explain(&m);
	for (size_t i = 0; i < COUNT(order); i++) {
		is(&m, order[i], "applies");
		assert_int_equal(place(&m, order[i]), i);
	}
	assert_non_null(strstr(remedy(&m, "I1")->what, "iommu=pt"));
	assert_non_null(strstr(remedy(&m, "I2")->what, "name on your board may differ"));
	assert_non_null(strstr(remedy(&m, "A1")->what, "pci=config_acs=x0x00xx@0000:40:03.1;x0x00xx@0000:60:03.1\""));
	assert_non_null(strstr(remedy(&m, "A1")->what, "pci=disable_acs_redir=0000:40:03.1;0000:60:03.1\""));
	assert_non_null(strstr(remedy(&m, "A2")->risk, "lost at reboot"));
	assert_null(remedy(&m, "I5"));
	assert_null(remedy(&m, "S1"));
	p2s_model_free(&m);
}

/* What the kernel that runs can do, and what it does wrongly. */
static void kernels_of_other_releases(void **state)
{
	static const struct {
		int32_t major, minor, warns, alone;
	} cases[] = {{5, 15, 0, 1}, {6, 3, 0, 1}, {6, 4, 0, 0}, {6, 10, 0, 0}, {6, 11, 1, 0}, {6, 14, 1, 0}, {6, 15, 0, 0}, {-1, -1, 1, 0}};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct p2s_model m;

		base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
		translated(&m);
		m.facts.host.kernel_major = cases[i].major;
		m.facts.host.kernel_minor = cases[i].minor;
		explain(&m);
		assert_int_equal(strstr(remedy(&m, "A1")->risk, "6.14.2") != NULL, cases[i].warns);
		assert_int_equal(strstr(remedy(&m, "I3")->what, "alone in its group") != NULL, cases[i].alone);
		p2s_model_free(&m);
	}
}

/* One GPU was tried in an identity domain and did not start: nobody is told to do that to all of them. */
static void identity_was_tried(void **state)
{
	static const int32_t sme[] = {P2S_YES, P2S_UNREAD, P2S_NO};

	(void)state;
	for (size_t i = 0; i < COUNT(sme); i++) {
		struct p2s_model m;

		base(&m, 3, P2PSAFE_VERDICT_UNTESTED);
		translated(&m);
		snprintf(m.gpus[2].domain_type, sizeof m.gpus[2].domain_type, "identity");
		m.iommu_state = P2PSAFE_IOMMU_MIXED;
		m.facts.host.sme = sme[i];
		assert_int_equal(p2s_model_find(&m, "IOMMU_TRANSLATED", P2PSAFE_SEVERITY_WARNING, P2PSAFE_CONFIDENCE_LOW, 0, -1, "here", "so"),
		                 1);
		assert_int_equal(p2s_model_find(&m, "GPU_INIT_FAILED", P2PSAFE_SEVERITY_ERROR, P2PSAFE_CONFIDENCE_MEDIUM, 2, -1, "log",
		                                "firmware boot failed while the group is identity: ..."),
		                 1);
		assert_int_equal(p2s_rules_remedy(&m), 1);
		is(&m, "I0", "applies");
		is(&m, "I3", "forbidden");
		assert_non_null(strstr(remedy(&m, "I3")->why, "0000:03:00.0"));
		is(&m, "I1", sme[i] == P2S_NO ? "forbidden" : "applies");
		if (sme[i] != P2S_NO)
			assert_non_null(strstr(remedy(&m, "I1")->what, "mem_encrypt=off"));
		p2s_model_free(&m);
	}
}

/* Without root the ACS words are not read: nothing is said about them. */
static void unread_acs(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	translated(&m);
	for (size_t i = 0; i < m.gpu_count; i++)
		m.gpus[i].facts.hops[0].acs_ctl = P2S_ACS_UNREAD;
	explain(&m);
	is(&m, "I1", "applies");
	is(&m, "A1", "no_effect");
	m.gpus[0].facts.hop_count = 0; /* nor is the path known: nothing can be said */
	explain(&m);
	assert_null(remedy(&m, "A1"));
	p2s_model_free(&m);
}

static void passthrough_is_asked_for_already(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	translated(&m);
	m.facts.host.cmd_pt = P2S_YES;
	m.facts.host.vfio_gpus = 1;
	m.facts.host.sme = P2S_YES;
	explain(&m);
	is(&m, "I1", "already_on");
	is(&m, "I2", "forbidden");
	is(&m, "I3", "applies");
	assert_non_null(strstr(remedy(&m, "I3")->risk, "0x177"));
	p2s_model_free(&m);
}

/* A guest is told what its host's owner can do, and nothing about firmware, patches or bridges. */
static void honest_guest(void **state)
{
	static const char *const never[] = {"vBIOS", "patched", "ACS", "Re-Size BAR"};
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_UNSUPPORTED);
	m.facts.host.hypervisor = P2S_YES;
	for (size_t i = 0; i < m.pair_count; i++)
		m.pairs[i].can_access = 0;
	for (size_t i = 0; i < m.gpu_count; i++) {
		m.gpus[i].facts.clique = -2;
		m.gpus[i].bar1_bytes = UINT64_C(256) << 20;
		m.gpus[i].memory_bytes = UINT64_C(24) << 30;
	}
	explain(&m);
	is(&m, "T0", "applies");
	is(&m, "V1", "applies");
	is(&m, "V2", "applies");
	assert_string_equal(remedy(&m, "V1")->risk, "");
	m.facts.host.confidential_guest = P2S_YES;
	explain(&m);
	assert_null(remedy(&m, "V2"));
	assert_non_null(strstr(remedy(&m, "V1")->risk, "nothing protects"));
	m.facts.host.confidential_guest = P2S_NO;
	snprintf(m.virtualization, sizeof m.virtualization, "vmware"); /* it has no such property */
	explain(&m);
	assert_null(remedy(&m, "V2"));
	assert_null(remedy(&m, "V0"));
	assert_null(remedy(&m, "B1"));
	for (size_t i = 0; i < m.remedy_count; i++) {
		for (size_t k = 0; k < COUNT(never); k++) {
			assert_null(strstr(m.remedies[i].what, never[k]));
			assert_null(strstr(m.remedies[i].why, never[k]));
		}
	}
	p2s_model_free(&m);
}

static void lying_guest(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	m.facts.host.hypervisor = P2S_YES;
	m.gpus[0].facts.clique = m.gpus[1].facts.clique = 1;
	explain(&m);
	is(&m, "V0", "applies");
	assert_null(remedy(&m, "V2"));
	assert_string_equal(remedy(&m, "V0")->needs, "host");
	p2s_model_free(&m);
}

/* One guest, two GPUs that were granted peers falsely and one that was granted none: the grant goes, it is not given again. */
static void a_false_grant_is_not_repeated(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 3, P2PSAFE_VERDICT_CORRUPT);
	m.facts.host.hypervisor = P2S_YES;
	m.gpus[0].facts.clique = m.gpus[1].facts.clique = 1;
	m.gpus[2].facts.clique = -2;
	for (size_t i = 0; i < m.pair_count; i++) {
		struct p2s_pair *p = &m.pairs[i];

		if (p->src != 2 && p->dst != 2)
			continue;
		p->can_access = 0;
		for (size_t k = 0; k < p->leg_count; k++)
			p->legs[k].verdict = P2PSAFE_VERDICT_UNSUPPORTED;
	}
	explain(&m);
	is(&m, "V0", "applies");
	is(&m, "V1", "applies");
	assert_null(remedy(&m, "V2"));
	p2s_model_free(&m);
}

static void small_windows(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 3, P2PSAFE_VERDICT_UNSUPPORTED);
	for (size_t i = 0; i < m.gpu_count; i++) {
		m.gpus[i].bar1_bytes = i == 2 ? UINT64_C(32) << 30 : UINT64_C(256) << 20;
		m.gpus[i].memory_bytes = UINT64_C(24) << 30;
	}
	explain(&m);
	is(&m, "B1", "applies");
	assert_non_null(strstr(remedy(&m, "B1")->what, "0000:01:00.0, 0000:02:00.0 still"));
	p2s_model_free(&m);
	/* a window that is large and still too small cannot be mended by firmware */
	base(&m, 2, P2PSAFE_VERDICT_UNSUPPORTED);
	for (size_t i = 0; i < m.gpu_count; i++) {
		m.gpus[i].bar1_bytes = UINT64_C(32) << 30;
		m.gpus[i].memory_bytes = UINT64_C(48) << 30;
	}
	explain(&m);
	assert_null(remedy(&m, "B1"));
	assert_int_equal(m.remedy_count, 1);
	p2s_model_free(&m);
}

static void healthy_host(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 4, P2PSAFE_VERDICT_OK);
	explain(&m);
	assert_int_equal(m.remedy_count, 0);
	p2s_model_free(&m);
}

static void failed_start(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2, 0);
	assert_int_equal(p2s_model_find(&m, "GPU_INIT_FAILED", P2PSAFE_SEVERITY_ERROR, P2PSAFE_CONFIDENCE_MEDIUM, 1, -1, "log",
	                                "firmware boot failed while the group is identity: ..."),
	                 1);
	assert_int_equal(p2s_rules_remedy(&m), 1);
	is(&m, "I0", "applies");
	assert_non_null(strstr(remedy(&m, "I0")->what, "0000:02:00.0"));
	assert_non_null(strstr(remedy(&m, "I0")->risk, "power cycle"));
	p2s_model_free(&m);
}

/* A GPU that others use is not reset: that would end what runs on it. */
static void a_busy_gpu_is_not_reset(void **state)
{
	static const struct {
		const char *text;
		int32_t reset;
	} rows[] = {{"cuDevicePrimaryCtxRetain: error 2", 0},   {"cuDevicePrimaryCtxRetain: error 46", 0},
	            {"cuDevicePrimaryCtxRetain: error 802", 0}, {"cuDevicePrimaryCtxRetain: error 999", 1},
	            {"cuDevicePrimaryCtxRetain: error 702", 1}, {"NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x62:0x40:2168)", 1}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_model m;

		base(&m, 2, 0);
		assert_int_equal(p2s_model_find(&m, "GPU_INIT_FAILED", P2PSAFE_SEVERITY_ERROR, P2PSAFE_CONFIDENCE_HIGH, 1, -1, "worker",
		                                rows[i].text),
		                 1);
		assert_int_equal(p2s_rules_remedy(&m), 1);
		assert_int_equal(remedy(&m, "G1") != NULL, rows[i].reset);
		p2s_model_free(&m);
	}
}

/* Every row can be reached: a remedy that no machine gets is text nobody checks. */
static void every_other_remedy(void **state)
{
	static const struct {
		const char *finding, *remedy;
		int32_t gpu;
	} simple[] = {{"GPU_WEDGED", "G1", 0}, {"GPU_LOST", "G1", 0}, {"GRAVE_XID", "G1", 0}, {"BAR1_NO_SPACE", "B1", 0},
	              {"BAR1_DISPLAY_RESERVED", "B2", 0}, {"VM_PASSTHROUGH", "V1", 0},   {"VM_TOPOLOGY_HIDDEN", "V4", -1},
	              {"CONTAINER_SHM_SMALL", "C1", -1},  {"PEER_INVISIBLE", "C2", -1},  {"CONTAINER_IPC_ISOLATED", "C3", 0},
	              {"MIG", "M1", 0},                   {"NVLINK_FABRIC_NOT_READY", "N1", 0}, {"FABRIC_MANAGER_DOWN", "N1", -1},
	              {"DRIVER_KNOWN_BAD", "D2", -1},
	              {"CMDLINE_ACS_LIST_COMMA", "A1", -1}, {"GEFORCE_FALSE_CAPABILITY", "D2", 0}};

	(void)state;
	for (size_t i = 0; i < COUNT(simple); i++) {
		struct p2s_model m;

		base(&m, 2, P2PSAFE_VERDICT_OK);
		assert_int_equal(p2s_rules_judge(&m, NULL), 1);
		assert_int_equal(p2s_rules_remedy(&m), 1);
		assert_null(remedy(&m, simple[i].remedy));
		assert_int_equal(p2s_model_find(&m, simple[i].finding, P2PSAFE_SEVERITY_WARNING, P2PSAFE_CONFIDENCE_HIGH, simple[i].gpu,
		                                -1, "here", "so"),
		                 1);
		assert_int_equal(p2s_rules_remedy(&m), 1);
		is(&m, simple[i].remedy, "applies");
		p2s_model_free(&m);
	}
}

/* An NVLink error that the driver calls nonfatal asks for no reset. */
static void nonfatal_link_error(void **state)
{
	static const char *const lines[] = {"NVRM: Xid (PCI:0000:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13",
	                                    "NVRM: Xid (PCI:0000:01:00): 145, RLW_RXPIPE Fatal XC0 i0 Link 13"};

	(void)state;
	for (size_t i = 0; i < COUNT(lines); i++) {
		struct p2s_log_event line = {.kind = P2S_LOG_XID, .xid = 145, .owner = -1, .src = -1, .dst = -1, .in_test = 1};
		struct p2s_model m;

		base(&m, 2, P2PSAFE_VERDICT_OK);
		snprintf(line.text, sizeof line.text, "%s", lines[i]);
		assert_int_equal(p2s_facts_add_log(&m.facts, &line), 1);
		explain(&m);
		assert_int_equal(m.finding_count, 1);
		assert_string_equal(m.findings[0].code, "NVLINK_FATAL_XID");
		if (i == 0)
			assert_null(remedy(&m, "G1"));
		else
			is(&m, "G1", "applies");
		p2s_model_free(&m);
	}
}

/* Interrupts of more than 255 logical CPUs need the IOMMU. Nobody counted them: as on any machine. */
static void many_cpus(void **state)
{
	static const struct {
		uint32_t cpus;
		const char *effect;
	} rows[] = {{0, "applies"}, {255, "applies"}, {256, "forbidden"}, {512, "forbidden"}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_model m;

		base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
		translated(&m);
		m.facts.host.cpu_count = rows[i].cpus;
		explain(&m);
		is(&m, "I1", "applies");
		is(&m, "I2", rows[i].effect);
		if (rows[i].cpus > 255)
			assert_non_null(strstr(remedy(&m, "I2")->why, "255"));
		p2s_model_free(&m);
	}
}

/* A launch driver offers what does not work; a later one says so. */
static void false_offers_of_geforce(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	for (size_t i = 0; i < m.gpu_count; i++)
		snprintf(m.gpus[i].name, sizeof m.gpus[i].name, "NVIDIA GeForce RTX 4090");
	snprintf(m.driver_version, sizeof m.driver_version, "535.129.03"); /* none that is known to be bad */
	explain(&m);
	is(&m, "D2", "applies");
	assert_non_null(strstr(remedy(&m, "D2")->what, "525.105"));
	assert_non_null(strstr(remedy(&m, "D2")->risk, "refused"));
	snprintf(m.driver_version, sizeof m.driver_version, "520.56.06");
	explain(&m);
	is(&m, "D2", "applies");
	translated(&m); /* then that explains it, and not the driver */
	while (m.finding_count > 0)
		free(m.findings[--m.finding_count].evidence);
	snprintf(m.driver_version, sizeof m.driver_version, "535.129.03");
	explain(&m);
	assert_null(remedy(&m, "D2"));
	p2s_model_free(&m);
}

static void remap_parameter(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	translated(&m);
	m.facts.host.remap_peer_mmio = P2S_NO;
	explain(&m);
	is(&m, "I7", "no_effect");
	m.facts.host.kernel_minor = 8;
	explain(&m);
	is(&m, "I7", "applies");
	m.facts.host.sme = P2S_YES; /* what is mapped leads nowhere */
	explain(&m);
	is(&m, "I7", "no_effect");
	m.facts.host.sme = P2S_NO;
	m.facts.host.patched = P2S_YES; /* maps nothing on any kernel */
	explain(&m);
	is(&m, "I7", "no_effect");
	m.facts.host.remap_peer_mmio = P2S_YES;
	explain(&m);
	is(&m, "I7", "already_on");
	assert_non_null(strstr(remedy(&m, "I7")->why, "no effect"));
	m.facts.host.patched = P2S_NO;
	m.facts.host.remap_peer_mmio = P2S_UNREAD;
	explain(&m);
	assert_null(remedy(&m, "I7"));
	p2s_model_free(&m);
}

/* A group's type can be written since 5.11, and not where the IOMMU runs with SNP support, even if KVM does not use it. */
static void type_that_cannot_be_written(void **state)
{
	struct p2s_log_event *line = calloc(1, sizeof *line);
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	translated(&m);
	m.facts.host.kernel_major = 5;
	m.facts.host.kernel_minor = 4;
	explain(&m);
	is(&m, "I3", "no_effect");
	is(&m, "I1", "applies");
	m.facts.host.kernel_minor = 11;
	explain(&m);
	is(&m, "I3", "applies");
	assert_non_null(line);
	line->kind = P2S_LOG_SNP_ON;
	line->gpu = line->owner = line->src = line->dst = -1;
	free(m.facts.log);
	m.facts.log = line;
	m.facts.log_count = 1;
	snprintf(m.facts.host.snp_source, sizeof m.facts.host.snp_source, "/sys/module/kvm_amd/parameters/sev_snp");
	explain(&m);
	is(&m, "I3", "forbidden");
	is(&m, "I1", "applies");
	p2s_model_free(&m);
}

/* Options are those of the IOMMU that is there: iommu= is none on Arm, and the CPU's name may be hidden. */
static void options_of_this_machine(void **state)
{
	struct p2s_model m;

	(void)state;
	base(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	translated(&m);
	m.facts.host.amd_cpu = P2S_UNREAD;
	m.facts.host.iommu_driver = P2S_IOMMU_DRIVER_AMD;
	explain(&m);
	assert_non_null(strstr(remedy(&m, "I2")->what, "amd_iommu=off"));
	assert_null(strstr(remedy(&m, "I1")->risk, "SNP"));
	m.facts.host.snp = P2S_UNREAD; /* unread is not off */
	explain(&m);
	assert_non_null(strstr(remedy(&m, "I1")->risk, "SEV-SNP"));
	assert_non_null(strstr(remedy(&m, "I2")->risk, "SEV-SNP"));
	assert_non_null(strstr(remedy(&m, "I3")->risk, "SEV-SNP"));
	m.facts.host.iommu_driver = P2S_IOMMU_DRIVER_SMMU;
	m.facts.host.amd_cpu = P2S_NO;
	m.facts.host.cmd_pt = P2S_YES;
	snprintf(m.facts.host.cmd_words, sizeof m.facts.host.cmd_words, "iommu=pt");
	m.facts.host.cpu_count = 384; /* of x86 alone the interrupts would need it */
	explain(&m);
	is(&m, "I1", "applies");
	assert_non_null(strstr(remedy(&m, "I1")->what, "iommu.passthrough=1"));
	assert_null(remedy(&m, "I2"));
	snprintf(m.facts.host.cmd_words, sizeof m.facts.host.cmd_words, "iommu.passthrough=1");
	explain(&m);
	is(&m, "I1", "already_on");
	m.facts.host.iommu_driver = P2S_IOMMU_DRIVER_VIRTIO; /* of any architecture */
	m.facts.host.cmd_pt = P2S_NO;
	explain(&m);
	assert_non_null(strstr(remedy(&m, "I1")->what, "iommu.passthrough=1"));
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(founding_host), cmocka_unit_test(every_bridge_is_named),
		cmocka_unit_test(ordinary_translated_host),
		cmocka_unit_test(kernels_of_other_releases), cmocka_unit_test(identity_was_tried), cmocka_unit_test(unread_acs),
		cmocka_unit_test(passthrough_is_asked_for_already),
		cmocka_unit_test(honest_guest),
		cmocka_unit_test(lying_guest),
		cmocka_unit_test(a_false_grant_is_not_repeated),
		cmocka_unit_test(small_windows),
		cmocka_unit_test(healthy_host),
		cmocka_unit_test(failed_start),
		cmocka_unit_test(a_busy_gpu_is_not_reset),
		cmocka_unit_test(every_other_remedy),
		cmocka_unit_test(nonfatal_link_error),
		cmocka_unit_test(many_cpus),
		cmocka_unit_test(false_offers_of_geforce),
		cmocka_unit_test(remap_parameter),
		cmocka_unit_test(type_that_cannot_be_written),
		cmocka_unit_test(options_of_this_machine),
	};

	return cmocka_run_group_tests_name("remedies", tests, NULL, NULL);
}
