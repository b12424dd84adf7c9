/* When a record is used, when it is not, and what a marker forbids. */
#define _GNU_SOURCE
#include "kept.h"

static struct answer decide(const struct kept *k)
{
	struct p2psafe_options o;

	kept_options(k, &o);
	return kept_ask(p2psafe_decide, &o);
}

static struct answer test(const struct kept *k, uint64_t flags)
{
	struct p2psafe_options o;

	kept_options(k, &o);
	o.flags = flags;
	return kept_ask(p2psafe_test, &o);
}

static void kept_and_used(void **state)
{
	struct kept *k = *state;
	struct answer a = decide(k);
	struct answer b = decide(k);

	assert_int_equal(a.rc, 0);
	assert_int_equal(a.allowed, 1);
	assert_int_equal(a.kept, 0);
	assert_int_equal(b.allowed, 1);
	assert_int_equal(b.kept, 1);
	assert_int_equal(b.json_ok, 1);
	assert_int_equal(kept_runs(k), 1);
}

/* What changes the machine makes the record absent; what only renames things does not. */
static void the_machine_changed(void **state)
{
	static const struct {
		const char *file, *text;
		int again;
	} rows[] = {{"root/proc/uptime", "1", 0},
				{"root/proc/cmdline", "root=/dev/sdb quiet splash iommu=pt\n", 0},
				{"root/proc/cmdline", "root=/dev/sdb iommu=off\n", 1},
				{"root/proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n", 1},
				{"root/proc/sys/kernel/osrelease", "6.2.0\n", 1},
				{"root/sys/kernel/iommu_groups/2/type", "DMA-FQ\n", 1},
				{"root/proc/driver/nvidia/params", "DmaRemapPeerMmio: 0\n", 1},
				{"root/sys/class/dmi/id/bios_version", "2.0\n", 1},
				{"root/sys/bus/pci/devices/0000:02:00.0/numa_node", "1\n", 0},
				{"root/sys/bus/pci/devices/0000:02:00.0/resource", "0xe0000000 0xe0ffffff 0x40200\n", 1}};
	struct kept *k = *state;
	int runs;

	decide(k);
	runs = kept_runs(k);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		tmp_write(k->host, rows[i].file, rows[i].text);
		assert_int_equal(decide(k).allowed, 1);
		runs += rows[i].again;
		if (kept_runs(k) != runs)
			fail_msg("%s: %d runs, expected %d", rows[i].file, kept_runs(k), runs);
	}
}

static void renumbered_groups_change_nothing(void **state)
{
	struct kept *k = *state;
	char path[200];

	decide(k);
	snprintf(path, sizeof path, "%s/root/sys/bus/pci/devices/0000:02:00.0/iommu_group", k->host);
	assert_int_equal(unlink(path), 0);
	tmp_write(k->host, "root/sys/kernel/iommu_groups/77/type", "identity\n");
	assert_int_equal(symlink("../../../../kernel/iommu_groups/77", path), 0);
	assert_int_equal(decide(k).kept, 1);
	assert_int_equal(kept_runs(k), 1);
}

/* A process that may open two of the three GPUs is served by the record of all three; one that may open one is told so. */
static void a_record_serves_its_containers(void **state)
{
	struct kept *k = *state;
	struct answer a;

	kept_script(k, "bad 0 2");
	assert_int_equal(decide(k).allowed, 0);
	tmp_write(k->host, "host.json",
			  "{\"description\": \"a container\", \"source\": \"invented\", \"device_access\": {\"0\": \"none\"}}");
	a = decide(k);
	assert_int_equal(a.kept, 1);
	assert_int_equal(a.allowed, 1); /* the bad pair is not among ours */
	assert_int_equal(a.json_ok, 1);
	assert_int_equal(kept_runs(k), 1);
	tmp_write(
		k->host, "host.json",
		"{\"description\": \"a container\", \"source\": \"invented\", \"device_access\": {\"0\": \"none\", \"1\": \"none\"}}");
	a = decide(k);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(a.exit_code, 3);
	assert_int_equal(kept_runs(k), 1);
}

/* Before any record the helper tells whose device nodes these are, and only then a test starts. */
static void part_of_the_gpus_without_a_record(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	p2psafe_context *ctx;
	p2psafe_report *report;
	struct p2psafe_gpu g = {.size = sizeof g};

	tmp_write(k->host, "host.json",
			  "{\"description\": \"a container\", \"source\": \"invented\", \"device_access\": {\"1\": \"none\"}}");
	kept_options(k, &o);
	assert_int_equal(p2psafe_context_new(&ctx, NULL, NULL, NULL), 0);
	assert_int_equal(p2psafe_test(ctx, &o, &report, NULL), 0);
	assert_int_equal(p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P), 1);
	assert_int_equal(p2psafe_report_pair_count(report), 2);
	assert_int_equal(p2psafe_report_gpu(report, 1, &g), 0);
	assert_int_equal(g.is_ours, 0);
	p2psafe_report_free(report);
	tmp_write(
		k->host, "host.json",
		"{\"description\": \"a container\", \"source\": \"invented\", \"device_access\": {\"0\": \"none\", \"1\": \"none\"}}");
	assert_int_equal(p2psafe_test(ctx, &o, &report, NULL), 0);
	assert_int_equal(p2psafe_report_exit_code(report), 3);
	assert_int_equal(p2psafe_report_transport(report), P2PSAFE_TRANSPORT_NET);
	assert_int_equal(p2psafe_report_pair_count(report), 0);
	assert_int_equal(p2psafe_report_gpu(report, 2, &g), 0);
	assert_int_equal(g.is_ours, 1);
	assert_int_equal(p2psafe_report_gpu(report, 0, &g), 0);
	assert_int_equal(g.is_ours, 0);
	assert_int_equal(kept_runs(k), 1);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
}

static void a_list_of_gpus_is_served_too(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	struct answer a;

	kept_script(k, "bad 0 2");
	decide(k);
	kept_options(k, &o);
	o.gpus = "0000:01:00.0,0000:02:00.0";
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.kept, 1);
	assert_int_equal(a.allowed, 1);
	o.gpus = "GPU-00000000,2";
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.kept, 1);
	assert_int_equal(a.allowed, 0);
	o.gpus = "1,1";
	assert_int_equal(kept_ask(p2psafe_decide, &o).rc, P2PSAFE_E_CONFIG);
	assert_int_equal(kept_runs(k), 1);
}

static void damaged_records_are_absent(void **state)
{
	static const char *const texts[] = {"", "{", "null", "{\"record\": 1}", "{\"record\": 99}", "\xff\xfe"};
	struct kept *k = *state;
	char path[400];
	int runs;

	decide(k);
	runs = kept_runs(k);
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		FILE *f;

		kept_find(k, ".json", path, sizeof path);
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(texts[i], f);
		fclose(f);
		assert_int_equal(decide(k).allowed, 1);
		assert_int_equal(kept_runs(k), ++runs);
		assert_int_equal(decide(k).kept, 1);
	}
	/* cut in the middle, as a full disk leaves it */
	kept_find(k, ".json", path, sizeof path);
	assert_int_equal(truncate(path, 700), 0);
	assert_int_equal(decide(k).kept, 0);
	assert_int_equal(kept_runs(k), ++runs);
}

static void others_records_are_absent(void **state)
{
	struct kept *k = *state;
	char path[400];

	decide(k);
	kept_find(k, ".json", path, sizeof path);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(decide(k).kept, 0);
	assert_int_equal(kept_runs(k), 2);
	if (geteuid() != 0)
		return;
	kept_find(k, ".json", path, sizeof path);
	assert_int_equal(chown(path, 12345, 12345), 0);
	assert_int_equal(decide(k).kept, 0);
	assert_int_equal(kept_runs(k), 3);
	/* a folder of somebody else: nothing is kept there, and the test runs all the same */
	assert_int_equal(chown(k->cache, 12345, 12345), 0);
	assert_int_equal(decide(k).allowed, 1);
	assert_int_equal(kept_runs(k), 4);
	assert_int_equal(chown(k->cache, 0, 0), 0);
}

/* A decision without its full report still decides; the evidence is then only what the decision holds. */
static void a_lost_full_report(void **state)
{
	struct kept *k = *state;
	struct answer a;
	char path[400];

	kept_script(k, "bad 1 0");
	decide(k);
	kept_find(k, ".full", path, sizeof path);
	assert_int_equal(unlink(path), 0);
	a = decide(k);
	assert_int_equal(a.kept, 1);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(a.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(a.json_ok, 1);
}

static void no_cache_reads_and_writes_none(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;

	kept_options(k, &o);
	o.flags = P2PSAFE_FLAG_NO_CACHE;
	assert_int_equal(kept_ask(p2psafe_decide, &o).allowed, 1);
	assert_int_equal(kept_ask(p2psafe_decide, &o).kept, 0);
	assert_int_equal(kept_runs(k), 2);
	assert_int_equal(kept_files(k, ".json"), 0);
}

static void three_good_runs_outweigh_a_bad_one(void **state)
{
	struct kept *k = *state;

	kept_script(k, "bad 0 1");
	assert_int_equal(test(k, 0).allowed, 0);
	kept_script(k, "");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(decide(k).allowed, 0);
		assert_int_equal(test(k, 0).allowed, 1); /* test shows its own result */
	}
	assert_int_equal(decide(k).allowed, 1);
}

static struct answer test_quick_measured(const struct kept *k)
{
	struct p2psafe_options o;

	kept_options(k, &o);
	o.flags = P2PSAFE_FLAG_MEASURE;
	o.level = P2PSAFE_LEVEL_QUICK;
	return kept_ask(p2psafe_test, &o);
}

/* A pair that was measured slow stays slow for runs that do not measure, until the machine is another one. */
static void a_kept_measurement_counts(void **state)
{
	struct kept *k = *state;
	struct answer a;

	kept_script(k, "speed 2000000000 12000000000");
	a = test_quick_measured(k);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(a.verdict, P2PSAFE_VERDICT_DEGRADED);
	/* standard is wanted: a run of its own, which does not measure */
	a = decide(k);
	assert_int_equal(a.kept, 0);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(a.verdict, P2PSAFE_VERDICT_DEGRADED);
	assert_int_equal(a.json_ok, 1);
	a = decide(k);
	assert_int_equal(a.kept, 1);
	assert_int_equal(a.verdict, P2PSAFE_VERDICT_DEGRADED);
	assert_int_equal(a.json_ok, 1);
	assert_int_equal(kept_runs(k), 2);
	/* test shows its own result, and takes nothing away */
	assert_int_equal(test(k, 0).allowed, 1);
	assert_int_equal(decide(k).verdict, P2PSAFE_VERDICT_DEGRADED);
	/* only who measures again can say that it got faster */
	kept_script(k, "speed 50000000000 12000000000");
	assert_int_equal(test(k, P2PSAFE_FLAG_MEASURE).allowed, 1);
	assert_int_equal(decide(k).allowed, 1);
	assert_int_equal(decide(k).kept, 1);
}

static void numbers_of_another_machine_do_not_count(void **state)
{
	struct kept *k = *state;

	kept_script(k, "speed 2000000000 12000000000");
	assert_int_equal(test_quick_measured(k).verdict, P2PSAFE_VERDICT_DEGRADED);
	tmp_write(k->host, "root/proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n");
	assert_int_equal(decide(k).allowed, 1);
}

static void a_hang_is_kept_for_the_boot(void **state)
{
	struct kept *k = *state;

	kept_script(k, "hang 0 1");
	assert_int_equal(test(k, 0).verdict, P2PSAFE_VERDICT_HANG);
	assert_int_equal(kept_files(k, "marker"), 1);
	kept_script(k, "");
	for (int i = 0; i < 4; i++)
		test(k, P2PSAFE_FLAG_KEEP_GOING);
	assert_int_equal(decide(k).verdict, P2PSAFE_VERDICT_HANG);
}

/* Every leg was OK, and then the driver had no such GPU any more. */
static void a_lost_gpu_leaves_a_marker(void **state)
{
	struct kept *k = *state;

	kept_script(k, "state 1 failed");
	assert_int_equal(test(k, 0).verdict, P2PSAFE_VERDICT_ERROR);
	assert_int_equal(kept_files(k, "marker"), 1);
	assert_int_equal(decide(k).verdict, P2PSAFE_VERDICT_ERROR);
}

/* Nothing of its pairs ran, so they are untested; what was kept of them before is no answer any more. */
static void a_hang_before_the_first_leg_outweighs_a_pass(void **state)
{
	struct kept *k = *state;
	struct answer a;

	kept_script(k, "");
	assert_int_equal(test(k, 0).allowed, 1);
	kept_script(k, "state 1 failed\nno_pairs"); /* it could not be used, which may pass */
	assert_int_equal(test(k, 0).allowed, 0);
	assert_int_equal(decide(k).allowed, 1);
	kept_script(k, "state 1 wedged\nno_pairs");
	assert_int_equal(test(k, 0).verdict, P2PSAFE_VERDICT_UNTESTED);
	a = decide(k);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(a.kept, 1);
	assert_int_equal(a.verdict, P2PSAFE_VERDICT_UNTESTED);
}

/* It was lost before a leg was over, where a failed start may pass: neither of a GPU nor of a marker is that the same. */
static void a_lost_gpu_outweighs_a_pass(void **state)
{
	struct kept *k = *state;

	kept_script(k, "");
	assert_int_equal(test(k, 0).allowed, 1);
	kept_script(k, "lost\nstate 1 failed\nno_pairs");
	assert_int_equal(test(k, 0).verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(kept_files(k, "marker"), 0); /* nothing risky had begun */
	assert_int_equal(decide(k).allowed, 0);
	kept_script(k, "lost\nstate 1 failed");
	assert_int_equal(test(k, 0).verdict, P2PSAFE_VERDICT_ERROR);
	assert_int_equal(kept_files(k, "marker"), 1);
}

/* The finding about a marker names its folder: it may be another than the one that the caller clears. */
static void a_marker_is_told_with_its_folder(const struct kept *k)
{
	struct p2psafe_options o;
	p2psafe_context *ctx;
	p2psafe_report *report;
	char want[200];
	int told = 0;

	kept_options(k, &o);
	snprintf(want, sizeof want, "marker in %s", k->cache);
	assert_int_equal(p2psafe_context_new(&ctx, NULL, NULL, NULL), 0);
	assert_int_equal(p2psafe_test(ctx, &o, &report, NULL), 0);
	for (int32_t i = 0; i < p2psafe_report_finding_count(report); i++) {
		const char *source = p2psafe_report_evidence_source(report, i, 0);

		told += source != NULL && strcmp(source, want) == 0;
	}
	assert_int_equal(told, 1);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
}

/* The machine came back after a crash: nothing risky until a person says so. */
static void no_reboot_loop(void **state)
{
	struct kept *k = *state;
	struct answer a;

	kept_script(k, "hang 0 1");
	test(k, 0);
	kept_script(k, "");
	tmp_write(k->host, "root/proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n");
	a = decide(k);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(a.verdict, P2PSAFE_VERDICT_UNTESTED);
	a = test(k, 0);
	assert_int_equal(a.verdict, P2PSAFE_VERDICT_UNTESTED);
	a_marker_is_told_with_its_folder(k);
	assert_int_equal(kept_files(k, "marker"), 1);
	a = test(k, P2PSAFE_FLAG_KEEP_GOING);
	assert_int_equal(a.allowed, 1);
	assert_int_equal(kept_files(k, "marker"), 0);
	assert_int_equal(test(k, 0).allowed, 1);
}

/* That no GPU has this name is known when the driver has told the names, behind a whole test. It ended well. */
static void a_name_that_no_gpu_has_leaves_no_marker(void **state)
{
	static const struct {
		const char *script;
		int markers;
	} rows[] = {{"", 0}, {"hang 0 1", 1}};
	struct kept *k = *state;
	struct p2psafe_options o;

	kept_options(k, &o);
	o.gpus = "GPU-deadbeef,GPU-00000001";
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		kept_script(k, rows[i].script);
		assert_int_equal(kept_ask(p2psafe_test, &o).rc, P2PSAFE_E_CONFIG);
		assert_int_equal(kept_files(k, "marker"), rows[i].markers);
		tmp_remove(k->cache);
		assert_int_equal(kept_ask(p2psafe_decide, &o).rc, P2PSAFE_E_CONFIG);
		assert_int_equal(kept_files(k, "marker"), rows[i].markers);
	}
}

static void a_second_marker_of_one_boot_vetoes(void **state)
{
	struct kept *k = *state;

	kept_script(k, "hang 0 1");
	test(k, 0);
	kept_script(k, "hang 0 1");
	assert_int_equal(test(k, 0).verdict, P2PSAFE_VERDICT_HANG); /* one more run */
	assert_int_equal(test(k, 0).verdict, P2PSAFE_VERDICT_UNTESTED);
	{
		struct p2psafe_options o;
		p2psafe_context *ctx;

		kept_options(k, &o);
		assert_int_equal(p2psafe_context_new(&ctx, NULL, NULL, NULL), 0);
		assert_true(p2psafe_cache_clear(ctx, &o, NULL) >= 2);
		p2psafe_context_free(ctx);
	}
	kept_script(k, "");
	assert_int_equal(test(k, 0).allowed, 1);
}

static void an_operators_record(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	struct answer a;
	char path[400];
	char copy[400];
	char command[1000];

	decide(k);
	kept_find(k, ".json", path, sizeof path);
	snprintf(copy, sizeof copy, "%s/operator.json", k->base);
	snprintf(command, sizeof command, "cp %s %s", path, copy);
	assert_int_equal(system(command), 0);
	kept_options(k, &o);
	o.cache_dir = NULL;
	o.result_file = copy;
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.kept, 1);
	assert_int_equal(a.allowed, 1);
	assert_int_equal(a.json_ok, 1);
	assert_int_equal(kept_runs(k), 1);
	/* of another machine: not used */
	tmp_write(k->host, "root/proc/sys/kernel/osrelease", "6.9\n");
	assert_int_equal(kept_ask(p2psafe_decide, &o).kept, 0);
	assert_int_equal(kept_runs(k), 2);
}

/* Writes the newest record again with another age. */
static void make_old(const struct kept *k)
{
	char path[400];
	char text[20000] = "";
	char from[64];
	char *at;
	FILE *f;

	kept_find(k, ".json", path, sizeof path);
	f = fopen(path, "r+");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof text - 1, f) > 0);
	at = strstr(text, "\"created_unix\":");
	assert_non_null(at);
	snprintf(from, sizeof from, "%.30s", at);
	*strchr(from, ',') = '\0';
	kept_forge(text, sizeof text, from, "\"created_unix\":1111111111"); /* 2005 */
	rewind(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* What could not be tested is tried again when it is old, but for those who never do. */
static void an_old_untested_record(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	struct answer a;

	kept_script(k, "missing mp_push");
	assert_int_equal(decide(k).verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(kept_runs(k), 1);
	assert_int_equal(decide(k).kept, 1);
	make_old(k);
	kept_options(k, &o);
	o.flags = P2PSAFE_FLAG_NO_RETRY;
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.kept, 1);
	assert_int_equal(a.verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(kept_runs(k), 1);
	kept_script(k, "");
	a = decide(k);
	assert_int_equal(a.kept, 0);
	assert_int_equal(a.allowed, 1);
	assert_int_equal(kept_runs(k), 2);
}

/* Who asks for a recheck and gets none - no helper, one that dies or says nothing - is not given the kept permission. */
static void a_recheck_that_did_not_happen(void **state)
{
	static const char *const faults[] = {"1 exit", "2 kill", "2 silent", NULL};
	struct kept *k = *state;
	struct p2psafe_options o;
	struct answer a;

	kept_options(k, &o);
	assert_int_equal(kept_ask(p2psafe_decide, &o).allowed, 1);
	o.flags |= P2PSAFE_FLAG_RECHECK;
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.kept, 1);
	assert_int_equal(a.allowed, 1);
	o.deadline_ms = 1500;
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
		if (faults[i] != NULL)
			setenv("P2PSAFE_SIM_FAULT", faults[i], 1);
		else
			o.helper_path = "/nonexistent/helper";
		a = kept_ask(p2psafe_decide, &o);
		unsetenv("P2PSAFE_SIM_FAULT");
		if (a.rc != 0 || a.allowed || a.kept)
			fail_msg("%s: %d, allowed %d, kept %d", faults[i] != NULL ? faults[i] : "no helper", a.rc, a.allowed, a.kept);
	}
}

static void show_and_path(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	p2psafe_context *ctx;
	char *text;

	kept_options(k, &o);
	assert_int_equal(p2psafe_context_new(&ctx, NULL, NULL, NULL), 0);
	assert_int_equal(p2psafe_cache_path(ctx, &o, &text, NULL), 0);
	assert_string_equal(text, k->cache);
	p2psafe_string_free(text);
	assert_int_equal(p2psafe_cache_show(ctx, &o, &text, NULL), 0);
	assert_string_equal(text, "");
	p2psafe_string_free(text);
	decide(k);
	assert_int_equal(p2psafe_cache_show(ctx, &o, &text, NULL), 0);
	assert_non_null(strstr(text, "\"valid\": true"));
	p2psafe_string_free(text);
	tmp_write(k->host, "root/proc/sys/kernel/osrelease", "6.9\n");
	assert_int_equal(p2psafe_cache_show(ctx, &o, &text, NULL), 0);
	assert_non_null(strstr(text, "\"valid\": false"));
	assert_non_null(strstr(text, "kernel changed"));
	p2psafe_string_free(text);
	o.cache_dir = NULL; /* a simulated host is kept only where it is told to be */
	assert_int_equal(p2psafe_cache_path(ctx, &o, &text, NULL), 0);
	assert_string_equal(text, "");
	p2psafe_string_free(text);
	p2psafe_context_free(ctx);
}

#define T(name) cmocka_unit_test_setup_teardown(name, kept_setup, kept_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(kept_and_used),
									   T(the_machine_changed),
									   T(renumbered_groups_change_nothing),
									   T(a_record_serves_its_containers),
									   T(part_of_the_gpus_without_a_record),
									   T(a_list_of_gpus_is_served_too),
									   T(damaged_records_are_absent),
									   T(others_records_are_absent),
									   T(a_lost_full_report),
									   T(no_cache_reads_and_writes_none),
									   T(three_good_runs_outweigh_a_bad_one),
									   T(a_kept_measurement_counts), T(numbers_of_another_machine_do_not_count), T(a_hang_is_kept_for_the_boot),
									   T(a_lost_gpu_leaves_a_marker), T(a_lost_gpu_outweighs_a_pass), T(a_hang_before_the_first_leg_outweighs_a_pass),
									   T(no_reboot_loop),
									   T(a_name_that_no_gpu_has_leaves_no_marker), T(a_second_marker_of_one_boot_vetoes),
									   T(an_operators_record),
									   T(an_old_untested_record),
									   T(a_recheck_that_did_not_happen), T(show_and_path)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
