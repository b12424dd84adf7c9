/* A program as it was written for the first release: it uses every function, struct and list of words that
 * baseline/p2psafe/p2psafe.h had, and nothing newer (baseline.py looks). It is compiled against three headers - the first one,
 * today's, and one whose structs are longer than this library knows - and must find today's library as it expects; and with
 * today's header an older library, whose structs end sooner (gen_old.py).
 *
 * usage: consumer HEALTHY_HOST_DIR BROKEN_HOST_DIR CACHE_DIR (two GPUs without a fault; with findings) */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "p2psafe/p2psafe.h"

/* Structs and the eight bytes behind them: a library that knows a longer struct must leave these alone. */
#define GUARD UINT64_C(0xa5a5a5a5a5a5a5a5)
#define GUARDED(type, name)          \
	struct {                     \
		struct type s;       \
		uint64_t guard;      \
		size_t known;        \
	} name;                      \
	memset(&name, 0, sizeof name); \
	name.guard = GUARD;          \
	name.known = KNOWN(type);    \
	name.s.size = sizeof name.s

/* What this library does not know comes back as zero, whatever was there before. */
#if defined P2PSAFE_TEST_OLD
#include "old_ends.h"
#define KNOWN(type) OLD_END_##type
#define FUTURE_SET(name) memset((unsigned char *)&(name).s + (name).known, 0xa5, sizeof (name).s - (name).known)
#define FUTURE_ZERO(name) CHECK(1, all_zero((unsigned char *)&(name).s + (name).known, sizeof (name).s - (name).known))

static int all_zero(const unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bytes[i] != 0)
			return 0;
	return 1;
}
#elif defined P2PSAFE_TEST_FUTURE
#define KNOWN(type) sizeof(struct type)
#define FUTURE_SET(name) ((name).s.future_number = 7, (name).s.future_text = "seven")
#define FUTURE_ZERO(name) CHECK(1, (name).s.future_number == 0 && (name).s.future_text == NULL)
#else
#define KNOWN(type) sizeof(struct type)
#define FUTURE_SET(name) ((void)(name))
#define FUTURE_ZERO(name) ((void)(name))
#endif

static int lines_logged;

static void on_log(void *user, int32_t level, const char *line)
{
	CHECK(1, user == &lines_logged);
	CHECK(1, level >= P2PSAFE_LOG_ERROR && level <= P2PSAFE_LOG_PROGRESS && line != NULL);
	lines_logged++;
}

struct word {
	const char *(*name)(int32_t);
	int32_t number;
	const char *text;
};

/* The words of the first release keep their spelling. */
static void words(void)
{
	static const struct word all[] = {
		{p2psafe_status_name, P2PSAFE_E_CONFIG, "E_CONFIG"},
		{p2psafe_verdict_name, P2PSAFE_VERDICT_CORRUPT, "CORRUPT"},
		{p2psafe_transport_name, P2PSAFE_TRANSPORT_HOST_STAGED, "HOST_STAGED"},
		{p2psafe_consumer_name, P2PSAFE_CONSUMER_NCCL_P2P, "nccl_p2p"},
		{p2psafe_leg_name, P2PSAFE_LEG_CE_WRITE, "ce_write"},
		{p2psafe_mapping_name, P2PSAFE_MAPPING_CUMEM, "cumem"},
		{p2psafe_damage_name, P2PSAFE_DAMAGE_DROPPED, "dropped"},
		{p2psafe_path_name, P2PSAFE_PATH_NVL, "NVL"},
		{p2psafe_level_name, P2PSAFE_LEVEL_QUICK, "quick"},
		{p2psafe_gpu_state_name, P2PSAFE_GPU_STATE_NOT_OURS, "not_ours"},
		{p2psafe_iommu_name, P2PSAFE_IOMMU_TRANSLATED, "translated"},
		{p2psafe_severity_name, P2PSAFE_SEVERITY_DANGER, "danger"},
		{p2psafe_confidence_name, P2PSAFE_CONFIDENCE_HIGH, "high"},
		{p2psafe_setting_kind_name, P2PSAFE_SETTING_ENV, "env"},
		{p2psafe_format_name, P2PSAFE_FORMAT_NCCL_CONF, "nccl-conf"},
	};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		CHECK(0, strcmp(all[i].name(all[i].number), all[i].text));
		CHECK(1, all[i].name(INT32_MAX) != NULL);
	}
	CHECK(P2PSAFE_CONSUMER_MULTICAST, p2psafe_consumer_from_name("multicast"));
	CHECK(P2PSAFE_LEVEL_THOROUGH, p2psafe_level_from_name("thorough"));
	CHECK(P2PSAFE_FORMAT_JSON, p2psafe_format_from_name("json"));
	CHECK(0, p2psafe_consumer_from_name("no such consumer"));
	CHECK(1, p2psafe_version_string() != NULL && p2psafe_abi_level() >= 0 && p2psafe_record_schema() > 0);
	CHECK(1, p2psafe_protocol() > 0);
	CHECK(1, p2psafe_has("decide"));
	CHECK(0, p2psafe_has("no such feature"));
}

/* Zero never means safe, in whatever release. */
static void nothing(void)
{
	CHECK(0, p2psafe_report_allows(NULL, P2PSAFE_CONSUMER_NCCL_P2P));
	CHECK(4, p2psafe_report_exit_code(NULL));
	CHECK(P2PSAFE_TRANSPORT_NONE, p2psafe_report_transport(NULL));
	CHECK(0, p2psafe_report_is_simulated(NULL));
	CHECK(0, p2psafe_report_is_kept(NULL));
	CHECK(0, p2psafe_report_gpu_count(NULL) + p2psafe_report_pair_count(NULL) + p2psafe_report_setting_count(NULL) +
	             p2psafe_report_finding_count(NULL));
	p2psafe_report_free(NULL);
	p2psafe_context_free(NULL);
	p2psafe_string_free(NULL);
}

static void gpus_and_pairs(const p2psafe_report *report, int32_t verdict)
{
	for (int32_t i = 0; i < p2psafe_report_gpu_count(report); i++) {
		GUARDED(p2psafe_gpu, gpu);
		FUTURE_SET(gpu);
		CHECK(P2PSAFE_OK, p2psafe_report_gpu(report, i, &gpu.s));
		CHECK(1, gpu.guard == GUARD && gpu.s.size == sizeof gpu.s);
		CHECK(12, strlen(gpu.s.address));
		FUTURE_ZERO(gpu);
	}
	CHECK(1, p2psafe_report_pair_count(report) > 0);
	for (int32_t i = 0; i < p2psafe_report_pair_count(report); i++) {
		GUARDED(p2psafe_pair, pair);
		FUTURE_SET(pair);
		CHECK(P2PSAFE_OK, p2psafe_report_pair(report, i, &pair.s));
		CHECK(1, pair.guard == GUARD && pair.s.size == sizeof pair.s && pair.s.src != pair.s.dst);
		CHECK(verdict, pair.s.verdict);
		FUTURE_ZERO(pair);
		for (int32_t k = 0; k < pair.s.leg_count; k++) {
			GUARDED(p2psafe_leg, leg);
			FUTURE_SET(leg);
			CHECK(P2PSAFE_OK, p2psafe_report_leg(report, i, k, &leg.s));
			CHECK(1, leg.guard == GUARD && leg.s.size == sizeof leg.s && leg.s.leg > 0 && leg.s.verdict > 0);
			FUTURE_ZERO(leg);
		}
	}
}

static void decision(const p2psafe_report *report, int32_t allowed)
{
	GUARDED(p2psafe_consumer_info, info);
	FUTURE_SET(info);
	CHECK(P2PSAFE_OK, p2psafe_report_consumer(report, P2PSAFE_CONSUMER_NCCL_P2P, &info.s));
	CHECK(1, info.guard == GUARD && info.s.size == sizeof info.s);
	CHECK(allowed, info.s.allowed);
	CHECK(allowed, p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P));
	CHECK(!allowed, info.s.failed_leg_count > 0);
	CHECK(!allowed, p2psafe_report_failed_leg(report, P2PSAFE_CONSUMER_NCCL_P2P, 0) != NULL);
	CHECK(allowed ? 0 : 1, p2psafe_report_exit_code(report));
	CHECK(allowed ? P2PSAFE_TRANSPORT_NVLINK : P2PSAFE_TRANSPORT_NONE, p2psafe_report_transport(report));
	CHECK(1, p2psafe_report_is_simulated(report));
	FUTURE_ZERO(info);
	for (int32_t i = 0; i < p2psafe_report_setting_count(report); i++) {
		GUARDED(p2psafe_setting, setting);
		FUTURE_SET(setting);
		CHECK(P2PSAFE_OK, p2psafe_report_setting(report, i, &setting.s));
		CHECK(1, setting.guard == GUARD && setting.s.name != NULL && setting.s.value != NULL && setting.s.why != NULL);
		FUTURE_ZERO(setting);
	}
	CHECK(1, allowed || p2psafe_report_setting_count(report) > 0);
	for (int32_t i = 0; i < p2psafe_report_finding_count(report); i++) {
		GUARDED(p2psafe_finding, finding);
		FUTURE_SET(finding);
		CHECK(P2PSAFE_OK, p2psafe_report_finding(report, i, &finding.s));
		CHECK(1, finding.guard == GUARD && finding.s.code != NULL && finding.s.subject != NULL);
		FUTURE_ZERO(finding);
		for (int32_t k = 0; k < finding.s.evidence_count; k++)
			CHECK(1, p2psafe_report_evidence_source(report, i, k) != NULL && p2psafe_report_evidence_text(report, i, k) != NULL);
	}
	CHECK(1, allowed || p2psafe_report_finding_count(report) > 0);
}

static void texts(const p2psafe_report *report)
{
	char *text = NULL;

	CHECK(P2PSAFE_OK, p2psafe_report_json(report, &text, NULL));
	CHECK(1, text != NULL && text[0] == '{');
	p2psafe_string_free(text);
	for (int32_t format = P2PSAFE_FORMAT_SHELL; format <= P2PSAFE_FORMAT_JSON; format++) {
		text = NULL;
		CHECK(P2PSAFE_OK, p2psafe_report_env(report, format, &text, NULL));
		CHECK(1, text != NULL);
		p2psafe_string_free(text);
		text = NULL;
		CHECK(P2PSAFE_OK, p2psafe_report_env(NULL, format, &text, NULL));
		CHECK(1, text != NULL && strstr(text, "NCCL") != NULL);
		p2psafe_string_free(text);
	}
}

static void kept(p2psafe_context *ctx, const struct p2psafe_options *options)
{
	char *text = NULL;

	CHECK(P2PSAFE_OK, p2psafe_cache_path(ctx, options, &text, NULL));
	CHECK(0, strncmp(text, options->cache_dir, strlen(options->cache_dir)));
	p2psafe_string_free(text);
	CHECK(P2PSAFE_OK, p2psafe_cache_show(ctx, options, &text, NULL));
	CHECK(1, strstr(text, "\"valid\"") != NULL);
	p2psafe_string_free(text);
	CHECK(1, p2psafe_cache_clear(ctx, options, NULL) > 0);
	CHECK(0, p2psafe_cache_clear(ctx, options, NULL));
}

static void refused(p2psafe_context *ctx)
{
	p2psafe_report *report = NULL;
	GUARDED(p2psafe_options, options);
	GUARDED(p2psafe_error, err);

	FUTURE_SET(err);
	p2psafe_options_init(&options.s, sizeof options.s);
	CHECK(GUARD, options.guard);
	options.s.host_dir = "/nonexistent";
	CHECK(P2PSAFE_E_CONFIG, p2psafe_probe(ctx, &options.s, &report, &err.s));
	CHECK(P2PSAFE_E_CONFIG, err.s.code);
	CHECK(1, err.guard == GUARD && err.s.text[0] != '\0' && report == NULL);
	FUTURE_ZERO(err);
#ifdef P2PSAFE_TEST_FUTURE
	options.s.future_number = 1;
	CHECK(P2PSAFE_E_NEWER, p2psafe_probe(ctx, &options.s, &report, &err.s));
	options.s.future_number = 0;
	options.s.future_text = "";
	CHECK(P2PSAFE_E_NEWER, p2psafe_decide(ctx, &options.s, &report, &err.s));
#elif defined P2PSAFE_TEST_OLD
	options.s.topology_file = "/nonexistent/topology.xml"; /* asked for, and nobody there who would write it */
	CHECK(P2PSAFE_E_NEWER, p2psafe_probe(ctx, &options.s, &report, &err.s));
	options.s.topology_file = NULL;
	options.s.placement_file = "/nonexistent/placement";
	report = (p2psafe_report *)(void *)&options;
	CHECK(P2PSAFE_E_NEWER, p2psafe_decide(ctx, &options.s, &report, &err.s));
	CHECK(1, report == NULL && err.s.code == P2PSAFE_E_NEWER && err.s.text[0] != '\0');
#endif
}

int main(int argc, char **argv)
{
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	GUARDED(p2psafe_options, options);
	GUARDED(p2psafe_error, err);

	if (argc != 4) {
		fprintf(stderr, "usage: consumer HEALTHY_HOST_DIR BROKEN_HOST_DIR CACHE_DIR\n");
		return 2;
	}
	words();
	nothing();
	CHECK(P2PSAFE_OK, p2psafe_context_new(&ctx, on_log, &lines_logged, &err.s));
	p2psafe_options_init(&options.s, sizeof options.s);
	options.s.host_dir = argv[1];
	options.s.cache_dir = argv[3];
	options.s.level = P2PSAFE_LEVEL_QUICK;
	options.s.deadline_ms = 120000; /* a busy machine may take its time */

	CHECK(P2PSAFE_OK, p2psafe_test(ctx, &options.s, &report, &err.s));
	decision(report, 1);
	gpus_and_pairs(report, P2PSAFE_VERDICT_OK);
	texts(report);
	CHECK(0, p2psafe_report_is_kept(report));
	p2psafe_report_free(report);

	CHECK(P2PSAFE_OK, p2psafe_decide(ctx, &options.s, &report, &err.s));
	decision(report, 1);
	CHECK(1, p2psafe_report_is_kept(report));
	p2psafe_report_free(report);
	kept(ctx, &options.s);

	options.s.host_dir = argv[2];
	CHECK(P2PSAFE_OK, p2psafe_probe(ctx, &options.s, &report, &err.s));
	decision(report, 0);
	gpus_and_pairs(report, P2PSAFE_VERDICT_UNTESTED);
	texts(report);
	p2psafe_report_free(report);

	refused(ctx);
	CHECK(1, lines_logged > 0);
	CHECK(1, options.guard == GUARD && err.guard == GUARD);
	p2psafe_context_free(ctx);
	return check_result();
}
