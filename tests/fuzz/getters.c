#include "getters.h"

#include <jansson.h>

#include "fuzz.h"

#define MANY 64

static void strings_end(const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		FUZZ_ASSERT(list[i] != NULL && strlen(list[i]) < 4096);
}

#define STRINGS(...) strings_end((const char *const[]){__VA_ARGS__}, sizeof(const char *const[]){__VA_ARGS__} / sizeof(char *))
#define OUT_OF_RANGE(get, r, count, out) \
	FUZZ_ASSERT(get(r, -1, out) == P2PSAFE_E_RANGE && get(r, count, out) == P2PSAFE_E_RANGE && get(r, INT32_MAX, out) == P2PSAFE_E_RANGE)

static void pairs(const p2psafe_report *r)
{
	int32_t count = p2psafe_report_pair_count(r);
	int32_t gpus = p2psafe_report_gpu_count(r);
	struct p2psafe_pair p = {.size = sizeof p};
	struct p2psafe_leg l = {.size = sizeof l};
	struct p2psafe_size s = {.size = sizeof s};

	OUT_OF_RANGE(p2psafe_report_pair, r, count, &p);
	for (int32_t i = 0; i < count && i < MANY; i++) {
		FUZZ_ASSERT(p2psafe_report_pair(r, i, &p) == P2PSAFE_OK);
		FUZZ_ASSERT(p.src >= 0 && p.src < gpus && p.dst >= 0 && p.dst < gpus && p.src != p.dst);
		FUZZ_ASSERT(p.verdict >= P2PSAFE_VERDICT_OK && p.verdict <= P2PSAFE_VERDICT_UNTESTED && p.score >= -1 && p.score <= 1000);
		FUZZ_ASSERT(p.efficiency >= -1);
		for (int32_t k = 0; k < p.leg_count; k++) {
			FUZZ_ASSERT(p2psafe_report_leg(r, i, k, &l) == P2PSAFE_OK);
			FUZZ_ASSERT(l.verdict >= P2PSAFE_VERDICT_OK && l.verdict <= P2PSAFE_VERDICT_UNTESTED && l.initiator >= 0 &&
			            l.initiator < gpus);
			STRINGS(l.note, p2psafe_leg_name(l.leg), p2psafe_mapping_name(l.mapping), p2psafe_verdict_name(l.verdict));
		}
		FUZZ_ASSERT(p2psafe_report_leg(r, i, p.leg_count, &l) == P2PSAFE_E_RANGE);
		for (int32_t k = 0; k < p.size_count; k++)
			FUZZ_ASSERT(p2psafe_report_size(r, i, k, &s) == P2PSAFE_OK);
		FUZZ_ASSERT(p2psafe_report_size(r, i, p.size_count, &s) == P2PSAFE_E_RANGE);
	}
}

static void gpus(const p2psafe_report *r)
{
	int32_t count = p2psafe_report_gpu_count(r);
	struct p2psafe_gpu g = {.size = sizeof g};
	struct p2psafe_staged s = {.size = sizeof s};
	int32_t staged = p2psafe_report_staged_count(r);

	OUT_OF_RANGE(p2psafe_report_gpu, r, count, &g);
	for (int32_t i = 0; i < count; i++) {
		FUZZ_ASSERT(p2psafe_report_gpu(r, i, &g) == P2PSAFE_OK);
		STRINGS(g.address, g.uuid, g.name, g.domain_type, g.driver);
	}
	OUT_OF_RANGE(p2psafe_report_staged, r, staged, &s);
	for (int32_t i = 0; i < staged && i < MANY; i++)
		FUZZ_ASSERT(p2psafe_report_staged(r, i, &s) == P2PSAFE_OK && s.a >= 0 && s.a < s.b && s.b < count);
}

static void findings(const p2psafe_report *r)
{
	int32_t count = p2psafe_report_finding_count(r);
	struct p2psafe_finding f = {.size = sizeof f};
	struct p2psafe_about about = {.size = sizeof about};

	OUT_OF_RANGE(p2psafe_report_finding, r, count, &f);
	for (int32_t i = 0; i < count; i++) {
		FUZZ_ASSERT(p2psafe_report_finding(r, i, &f) == P2PSAFE_OK);
		STRINGS(f.code, f.subject);
		for (int32_t k = 0; k < f.evidence_count; k++)
			STRINGS(p2psafe_report_evidence_source(r, i, k), p2psafe_report_evidence_text(r, i, k));
		FUZZ_ASSERT(p2psafe_report_evidence_text(r, i, f.evidence_count) == NULL);
	}
	FUZZ_ASSERT(p2psafe_report_about(r, &about) == P2PSAFE_OK);
	STRINGS(about.kernel, about.driver_version, about.driver_flavour, about.virtualization, about.container, about.iommu_source,
	        about.iommu_text, about.kept_path, about.kept_reason);
}

static void decision(const p2psafe_report *r)
{
	struct p2psafe_consumer_info c = {.size = sizeof c};
	struct p2psafe_setting s = {.size = sizeof s};
	int32_t count = p2psafe_report_setting_count(r);

	for (int32_t i = -1; i < 8; i++) {
		if (p2psafe_report_consumer(r, i, &c) != P2PSAFE_OK) {
			FUZZ_ASSERT(p2psafe_report_allows(r, i) == 0);
			continue;
		}
		FUZZ_ASSERT((c.allowed == 1) == p2psafe_report_allows(r, i));
		for (int32_t k = 0; k < c.failed_leg_count; k++)
			STRINGS(p2psafe_report_failed_leg(r, i, k));
		FUZZ_ASSERT(p2psafe_report_failed_leg(r, i, c.failed_leg_count) == NULL);
	}
	OUT_OF_RANGE(p2psafe_report_setting, r, count, &s);
	for (int32_t i = 0; i < count; i++) {
		FUZZ_ASSERT(p2psafe_report_setting(r, i, &s) == P2PSAFE_OK && !s.gives_permission);
		STRINGS(s.name, s.value, s.why);
	}
	FUZZ_ASSERT(p2psafe_report_exit_code(r) >= 0 && p2psafe_report_exit_code(r) <= 3 && p2psafe_report_exit_code(r) != 2);
}

/* A group that is called safe for a consumer is one by the pairs' own words. */
static void groups(const p2psafe_report *r)
{
	int32_t list[64], part[64];
	int32_t count = p2psafe_report_gpu_count(r);
	struct p2psafe_group g = {.size = sizeof g};

	if (count > 64)
		return;
	for (int32_t i = 0; i < p2psafe_report_island_count(r) && i < 8; i++) {
		int32_t n = p2psafe_report_island(r, i, list, 64);

		FUZZ_ASSERT(n >= 1 && n <= count);
		if (n >= 2)
			FUZZ_ASSERT(p2psafe_report_group(r, list, n, &g) == P2PSAFE_OK && g.verdict == P2PSAFE_VERDICT_OK);
	}
	FUZZ_ASSERT(p2psafe_report_partition(r, part, 64) >= 0 || count == 0);
	for (int32_t c = 0; c < 6; c++)
		if (p2psafe_report_best_group(r, c, 2, list, &g) == P2PSAFE_OK)
			FUZZ_ASSERT(c == 0 ? g.verdict == P2PSAFE_VERDICT_OK : p2psafe_report_group_allows(r, list, 2, c));
	(void)p2psafe_report_order(r, 2, list, 64);
}

static void texts(const p2psafe_report *r)
{
	char *text = NULL;
	json_t *top;

	for (int32_t f = 0; f <= P2PSAFE_FORMAT_SYSTEMD_UNIT + 1; f++) {
		if (p2psafe_report_env(r, f, &text, NULL) == P2PSAFE_OK)
			FUZZ_ASSERT(text != NULL && strlen(text) < (1 << 20));
		p2psafe_string_free(text);
		text = NULL;
	}
	FUZZ_ASSERT(p2psafe_report_json(r, &text, NULL) == P2PSAFE_OK);
	top = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	FUZZ_ASSERT(json_is_object(top));
	json_decref(top);
	p2psafe_string_free(text);
}

void getters_all(const p2psafe_report *r)
{
	gpus(r);
	pairs(r);
	findings(r);
	decision(r);
	groups(r);
	texts(r);
}
