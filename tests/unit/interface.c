/* The public functions with nothing, nonsense, and sizes of other versions. */
#include "unit.h"

static void null_is_never_a_permission(void **state)
{
	char *text = (char *)state;
	p2psafe_report *report = (p2psafe_report *)state;
	struct p2psafe_error err = {.size = sizeof err};

	for (int32_t c = -1; c < 8; c++)
		assert_int_equal(p2psafe_report_allows(NULL, c), 0);
	assert_int_equal(p2psafe_report_exit_code(NULL), 4);
	assert_int_equal(p2psafe_report_transport(NULL), P2PSAFE_TRANSPORT_NONE);
	assert_int_equal(p2psafe_report_is_simulated(NULL), 0);
	assert_int_equal(p2psafe_report_is_kept(NULL), 0);
	assert_int_equal(p2psafe_report_consumer(NULL, 1, NULL), P2PSAFE_E_INVALID);
	assert_null(p2psafe_report_failed_leg(NULL, 1, 0));
	assert_int_equal(p2psafe_report_setting_count(NULL), 0);
	assert_int_equal(p2psafe_report_setting(NULL, 0, NULL), P2PSAFE_E_RANGE);
	assert_int_equal(p2psafe_report_gpu_count(NULL), 0);
	assert_int_equal(p2psafe_report_gpu(NULL, 0, NULL), P2PSAFE_E_RANGE);
	assert_int_equal(p2psafe_report_pair_count(NULL), 0);
	assert_int_equal(p2psafe_report_pair(NULL, 0, NULL), P2PSAFE_E_RANGE);
	assert_int_equal(p2psafe_report_leg(NULL, 0, 0, NULL), P2PSAFE_E_RANGE);
	assert_int_equal(p2psafe_report_finding_count(NULL), 0);
	assert_int_equal(p2psafe_report_finding(NULL, 0, NULL), P2PSAFE_E_RANGE);
	assert_null(p2psafe_report_evidence_source(NULL, 0, 0));
	assert_null(p2psafe_report_evidence_text(NULL, 0, 0));
	assert_int_equal(p2psafe_report_json(NULL, &text, &err), P2PSAFE_E_INVALID);
	assert_null(text);
	assert_int_equal(err.code, P2PSAFE_E_INVALID);
	assert_int_equal(p2psafe_report_json(NULL, NULL, NULL), P2PSAFE_E_INVALID);
	assert_int_equal(p2psafe_probe(NULL, NULL, &report, &err), P2PSAFE_E_INVALID);
	assert_null(report);
	assert_int_equal(p2psafe_test(NULL, NULL, NULL, NULL), P2PSAFE_E_INVALID);
	assert_int_equal(p2psafe_decide(NULL, NULL, NULL, &err), P2PSAFE_E_INVALID);
	assert_int_equal(p2psafe_cache_path(NULL, NULL, &text, &err), P2PSAFE_E_INVALID);
	assert_int_equal(p2psafe_cache_clear(NULL, NULL, &err), P2PSAFE_E_INVALID);
	assert_int_equal(p2psafe_cache_show(NULL, NULL, NULL, &err), P2PSAFE_E_INVALID);
	assert_int_equal(p2psafe_context_new(NULL, NULL, NULL, NULL), P2PSAFE_E_INVALID);
	p2psafe_report_free(NULL);
	p2psafe_context_free(NULL);
	p2psafe_string_free(NULL);
	p2psafe_options_init(NULL, sizeof(struct p2psafe_options));
}

static void names_are_total(void **state)
{
	(void)state;
	assert_string_equal(p2psafe_verdict_name(1), "OK");
	assert_string_equal(p2psafe_verdict_name(0), "unknown");
	assert_string_equal(p2psafe_verdict_name(-7), "unknown");
	assert_string_equal(p2psafe_damage_name(0), "none");
	assert_string_equal(p2psafe_damage_name(99), "unknown");
	assert_string_equal(p2psafe_format_name(5), "nccl-conf");
	assert_string_equal(p2psafe_status_name(0), "OK");
	assert_string_equal(p2psafe_status_name(P2PSAFE_E_SYSTEM), "E_SYSTEM");
	assert_string_equal(p2psafe_status_name(-10), "E_UNKNOWN");
	assert_string_equal(p2psafe_status_name(1), "E_UNKNOWN");
	assert_int_equal(p2psafe_consumer_from_name("peer_copies"), P2PSAFE_CONSUMER_PEER_COPIES);
	assert_int_equal(p2psafe_consumer_from_name(NULL), 0);
	assert_int_equal(p2psafe_level_from_name("Quick"), 0);
	assert_int_equal(p2psafe_has("decide"), 1);
	assert_int_equal(p2psafe_has("magic"), 0);
	assert_int_equal(p2psafe_has(NULL), 0);
}

static void wrong_options(void **state)
{
	p2psafe_context *ctx = NULL;
	p2psafe_report *report;
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options o;
	struct {
		struct p2psafe_options o;
		uint64_t more;
	} newer;

	(void)state;
	assert_int_equal(p2psafe_context_new(&ctx, NULL, NULL, &err), 0);
#define EXPECT(want)                                                    \
	do {                                                                \
		report = (p2psafe_report *)state;                               \
		assert_int_equal(p2psafe_probe(ctx, &o, &report, &err), want); \
		assert_null(report);                                            \
		assert_int_equal(err.code, want);                               \
		assert_int_not_equal(strlen(err.text), 0);                      \
		p2psafe_options_init(&o, sizeof o);                             \
	} while (0)
	memset(&o, 0, sizeof o);
	EXPECT(P2PSAFE_E_SIZE);
	o.flags = UINT64_C(1) << 40;
	EXPECT(P2PSAFE_E_NEWER);
	o.reserved_0 = 1;
	EXPECT(P2PSAFE_E_NEWER);
	o.level = 9;
	EXPECT(P2PSAFE_E_INVALID);
	o.deadline_ms = UINT64_MAX;
	EXPECT(P2PSAFE_E_INVALID);
	o.deadline_ms = 86400001;
	EXPECT(P2PSAFE_E_INVALID);
	o.soak_ms = 86400001;
	EXPECT(P2PSAFE_E_INVALID);
	o.deadline_ms = 86400000; /* a day: as much as the program takes */
	o.soak_ms = 86400000;
	o.host_dir = "/nonexistent";
	EXPECT(P2PSAFE_E_CONFIG);
	o.gpus = "";
	EXPECT(P2PSAFE_E_CONFIG);
	o.host_dir = "/nonexistent";
	EXPECT(P2PSAFE_E_CONFIG);
	memset(&newer, 0, sizeof newer);
	p2psafe_options_init(&newer.o, sizeof newer);
	newer.o.host_dir = "/nonexistent";
	assert_int_equal(p2psafe_probe(ctx, &newer.o, &report, &err), P2PSAFE_E_CONFIG);
	newer.more = 1;
	assert_int_equal(p2psafe_probe(ctx, &newer.o, &report, &err), P2PSAFE_E_NEWER);
	p2psafe_context_free(ctx);
}

static void no_report_is_the_full_veto(void **state)
{
	char *text = NULL;

	(void)state;
	assert_int_equal(p2psafe_report_env(NULL, P2PSAFE_FORMAT_SHELL, &text, NULL), 0);
	assert_non_null(strstr(text, "NCCL_P2P_DISABLE='1'"));
	assert_non_null(strstr(text, "unset GGML_CUDA_P2P"));
	p2psafe_string_free(text);
	assert_int_equal(p2psafe_report_env(NULL, 0, &text, NULL), P2PSAFE_E_INVALID);
	assert_null(text);
	assert_int_equal(p2psafe_report_env(NULL, P2PSAFE_FORMAT_SHELL, NULL, NULL), P2PSAFE_E_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(null_is_never_a_permission), cmocka_unit_test(names_are_total),
	                                   cmocka_unit_test(wrong_options), cmocka_unit_test(no_report_is_the_full_veto)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
