/* What only the kernel log tells, and what outweighs it. */
#include "unit.h"

#include "evidence/log.h"
#include "rules/from_log.h"

static void logged(struct p2s_model *m, int32_t kind, const char *text)
{
	struct p2s_log_event e = {.kind = kind, .gpu = -1, .owner = -1, .owner_bar = -1, .src = -1, .dst = -1};

	snprintf(e.text, sizeof e.text, "%s", text);
	assert_int_equal(p2s_facts_add_log(&m->facts, &e), 1);
}

static void snp(void **state)
{
	static const struct {
		const char *source; /* of what was read before */
		int32_t before, hypervisor, on, refused, after;
	} rows[] = {
		{"", P2S_UNREAD, P2S_NO, 1, 0, P2S_YES},
		{"/proc/cpuinfo: flags without sev_snp", P2S_NO, P2S_NO, 1, 0, P2S_YES},
		{"/sys/module/kvm_amd/parameters/sev_snp", P2S_NO, P2S_NO, 1, 0, P2S_NO},
		{"/sys/module/kvm_amd/parameters/sev_snp", P2S_YES, P2S_NO, 0, 1, P2S_YES},
		{"", P2S_UNREAD, P2S_NO, 1, 1, P2S_NO}, /* asked for, and given up */
		{"", P2S_UNREAD, P2S_NO, 0, 0, P2S_UNREAD},
		{"/proc/cpuinfo: a guest", P2S_NO, P2S_YES, 1, 0, P2S_NO}, /* a guest hosts none, whatever it logs */
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_model m;

		unit_model(&m, 2, 0);
		m.facts.host.snp = m.snp_host = rows[i].before;
		m.facts.host.hypervisor = rows[i].hypervisor;
		snprintf(m.facts.host.snp_source, sizeof m.facts.host.snp_source, "%s", rows[i].source);
		if (rows[i].on)
			logged(&m, P2S_LOG_SNP_ON, "AMD-Vi: IOMMU SNP support enabled.");
		if (rows[i].refused)
			logged(&m, P2S_LOG_SNP_REFUSED, "SNP: IOMMU disabled or configured in passthrough mode, SNP cannot be supported.");
		for (int twice = 0; twice < 2; twice++) {
			assert_int_equal(p2s_rules_take_log(&m), 1);
			if (m.snp_host != rows[i].after || m.facts.host.snp != rows[i].after)
				fail_msg("row %zu: %d", i, (int)m.snp_host);
		}
		p2s_model_free(&m);
	}
}

static void encryption(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, 0);
	m.facts.host.sme = P2S_NO;
	logged(&m, P2S_LOG_SME_ON, "Memory Encryption Features active: AMD SME");
	logged(&m, P2S_LOG_TDX_GUEST, "tdx: Guest detected");
	assert_int_equal(p2s_rules_take_log(&m), 1);
	assert_int_equal(m.facts.host.sme, P2S_YES);
	assert_int_equal(m.facts.host.confidential_guest, P2S_YES);
	assert_int_equal(m.facts.host.tdx, P2S_YES);
	p2s_model_free(&m);
}

/* Groups whose type no file tells. */
static void hide(struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++) {
		m->gpus[i].domain_type[0] = '\0';
		m->gpus[i].facts.has_iommu_link = P2S_YES;
	}
	m->iommu_state = P2PSAFE_IOMMU_UNKNOWN;
}

static void the_default_is_a_hint(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, 0);
	hide(&m);
	logged(&m, P2S_LOG_MODE_TRANSLATED, "iommu: Default domain type: Translated");
	for (int twice = 0; twice < 2; twice++)
		assert_int_equal(p2s_rules_take_log(&m), 1);
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_TRANSLATED);
	assert_int_equal(m.iommu_confidence, P2PSAFE_CONFIDENCE_LOW);
	assert_int_equal(m.iommu_evidence_count, 1);
	assert_string_equal(m.iommu_evidence[0].source, "kernel log");
	/* two words that contradict each other are none */
	m.iommu_state = P2PSAFE_IOMMU_UNKNOWN;
	logged(&m, P2S_LOG_MODE_PASSTHROUGH, "iommu: Default domain type: Passthrough");
	assert_int_equal(p2s_rules_take_log(&m), 1);
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_UNKNOWN);
	p2s_model_free(&m);
}

static void what_is_read_counts_more(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, 0);
	hide(&m);
	snprintf(m.gpus[1].domain_type, sizeof m.gpus[1].domain_type, "identity");
	logged(&m, P2S_LOG_MODE_TRANSLATED, "iommu: Default domain type: Translated");
	assert_int_equal(p2s_rules_take_log(&m), 1);
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_UNKNOWN);
	p2s_model_free(&m);

	/* no group at all: there is no active IOMMU, and such a line proves nothing */
	unit_model(&m, 2, 0);
	hide(&m);
	m.gpus[0].facts.has_iommu_link = m.gpus[1].facts.has_iommu_link = P2S_NO;
	m.iommu_state = P2PSAFE_IOMMU_NONE;
	logged(&m, P2S_LOG_MODE_TRANSLATED, "iommu: Default domain type: Translated");
	assert_int_equal(p2s_rules_take_log(&m), 1);
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_NONE);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(snp), cmocka_unit_test(encryption), cmocka_unit_test(the_default_is_a_hint),
	                                   cmocka_unit_test(what_is_read_counts_more)};

	return cmocka_run_group_tests_name("from_log", tests, NULL, NULL);
}
