/* What NVML says decides who takes part: each reason by itself, on one GPU of three. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "conductor_hosts.h"
#include "conductor_player.h"
#include "ipc/proto.h"

static struct play p;

#define GPU(n, bus, more)                                                                                                          \
	"{\"bdf\": \"0000:" bus ":00.0\", \"uuid\": \"GPU-00000000-0000-0000-0000-00000000000" n "\", \"name\": \"Simulated\", "       \
	"\"minor\": " n more "}"

static int has_fact(const char *code, int32_t src)
{
	for (size_t i = 0; i < p.fact_count; i++)
		if (strcmp(p.facts[i].code, code) == 0 && p.facts[i].src == src)
			return 1;
	return 0;
}

static void run(const char *gpu, const char *nvml, const char *status)
{
	struct made_host h;
	char text[2048];

	host_make(&h, 3, "pcie", "", "", "");
	snprintf(text, sizeof text,
	         "{\"driver_api\": 12080, \"gpus\": [" GPU("1", "10", "%s") ", " GPU("2", "20", "") ", " GPU("3", "30", "")
	         "], \"links\": {\"default\": {\"kind\": \"pcie\"}}, \"nvml\": {%s}}", gpu, nvml);
	host_write(&h, "cuda.json", text);
	if (status[0] != '\0')
		host_write(&h, "root/proc/77/status", status);
	host_play(&p, &h, 3);
	assert_true(play_run(&p));
	host_remove(&h);
}

static void a_reason_keeps_one_gpu_out(void **state)
{
	static const struct {
		const char *gpu, *status;
		int32_t want;
	} rows[] = {{", \"mig\": true", "", P2PSAFE_GPU_STATE_RISKY},
	            {", \"vgpu\": true", "", P2PSAFE_GPU_STATE_RISKY},
	            {", \"recovery_action\": 3", "", P2PSAFE_GPU_STATE_RISKY},
	            {", \"compute_mode\": 3", "", P2PSAFE_GPU_STATE_RISKY},
	            {", \"processes\": [{\"pid\": 78, \"name\": \"/usr/bin/nvidia-cuda-mps-server\"}]", "", P2PSAFE_GPU_STATE_RISKY},
	            {", \"processes\": [{\"pid\": 77, \"name\": \"x\"}]", "Name:\tx\nUid:\t1001\t1001\t1001\t1001\n", P2PSAFE_GPU_STATE_BUSY}};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		run(rows[i].gpu, "", rows[i].status);
		if (p.gpus[0].state != rows[i].want || !has_fact("PROBE_RISK_HIGH", 0) || has_fact("PROBE_RISK_HIGH", 1))
			fail_msg("row %zu: state %d", i, (int)p.gpus[0].state);
		for (size_t k = 0; k < p.leg_count; k++)
			if (p.legs[k].src == 0 || p.legs[k].dst == 0)
				assert_int_equal(p.legs[k].verdict, P2PSAFE_VERDICT_UNTESTED);
		assert_int_equal(p.gpus[1].state, P2PSAFE_GPU_STATE_READY);
		play_free(&p);
	}
}

/* A process of the caller's own, and one that cannot be seen, are no reason; they are told. */
static void busy_is_told(void **state)
{
	(void)state;
	run(", \"fabric_state\": 3, \"fabric_status\": 999, \"processes\": [{\"pid\": 77}]", "", "Name:\tx\nUid:\t0\t0\t0\t0\n");
	assert_int_equal(p.gpu_facts[0][P2S_GPU_FACT_FABRIC_STATE], 3); /* over, and not well */
	assert_int_equal(p.gpu_facts[0][P2S_GPU_FACT_FABRIC_STATUS], 999);
	assert_int_equal(p.gpu_facts[1][P2S_GPU_FACT_FABRIC_STATE], 0);
	assert_true(p.gpu_facts[1][P2S_GPU_FACT_FABRIC_STATUS] == UINT64_MAX); /* it means nothing there */
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_READY);
	assert_true(has_fact("GPU_BUSY", 0));
	assert_false(has_fact("NVML_MISSING", -1) || has_fact("NVML_STUCK", -1));
	play_free(&p);
	run(", \"processes\": [{\"pid\": 4711}]", "", "");
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_READY);
	assert_true(has_fact("GPU_BUSY", 0));
	play_free(&p);
}

/* Somebody else is the one process that may use it: no context, and it is said why. */
static void an_exclusive_gpu_that_is_taken(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 2, "pcie", "", "", "");
	host_write(&h, "cuda.json",
	           "{\"driver_api\": 12080, \"gpus\": [" GPU("1", "10", ", \"compute_mode\": 3") ", " GPU("2", "20", "")
	           "], \"links\": {\"default\": {\"kind\": \"pcie\"}}, \"faults\": [{\"op\": \"call\", \"name\": "
	           "\"cuDevicePrimaryCtxRetain\", \"effect\": \"error\", \"error\": 46, \"count\": 4}]}");
	host_play(&p, &h, 2);
	assert_true(play_run(&p));
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_FAILED);
	assert_true(has_fact("GPU_INIT_FAILED", 0) && has_fact("PROBE_RISK_HIGH", 0));
	assert_false(has_fact("PROBE_RISK_HIGH", 1));
	host_remove(&h);
	play_free(&p);
}

/* Whoever holds a GPU without a context for us is told, too: it may be why there is none. */
static void a_gpu_that_others_hold(void **state)
{
	static const struct {
		const char *gpu, *status;
	} rows[] = {{", \"init_error\": 46, \"processes\": [{\"pid\": 78, \"name\": \"nvidia-cuda-mps-server\"}]", ""},
	            {", \"init_error\": 2, \"processes\": [{\"pid\": 77, \"name\": \"x\"}]", "Name:\tx\nUid:\t1001\t1001\t1001\t1001\n"}};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		run(rows[i].gpu, "", rows[i].status);
		assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_FAILED);
		assert_true(has_fact("GPU_INIT_FAILED", 0) && has_fact("PROBE_RISK_HIGH", 0));
		assert_false(has_fact("PROBE_RISK_HIGH", 1));
		play_free(&p);
	}
}

/* The driver itself started, and one GPU waits for the fabric: told once, whichever worker meets it. */
static void a_gpu_that_waits_for_the_fabric(void **state)
{
	size_t told = 0;

	(void)state;
	run(", \"init_error\": 802", "", "");
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_FAILED);
	assert_int_equal(p.gpus[1].state, P2PSAFE_GPU_STATE_READY);
	assert_true(has_fact("GPU_INIT_FAILED", 0));
	for (size_t i = 0; i < p.fact_count; i++)
		told += strcmp(p.facts[i].code, "FABRIC_MANAGER_DOWN") == 0 && strstr(p.facts[i].text, "error 802") != NULL;
	assert_int_equal(told, 1);
	play_free(&p);
}

/* A twentieth of what is free is all that a test takes: where that is nothing the GPU is left alone, and it is said why. */
static void a_full_gpu_is_left_alone(void **state)
{
	(void)state;
	run(", \"memory_bytes\": 17179869184, \"free_bytes\": 20971520", "", "");
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_BUSY);
	assert_non_null(strstr(p.gpus[0].error, "too little memory is free to test"));
	assert_true(has_fact("GPU_BUSY", 0) && !has_fact("GPU_BUSY", 1));
	for (size_t k = 0; k < p.leg_count; k++)
		if (p.legs[k].src == 0 || p.legs[k].dst == 0)
			assert_int_equal(p.legs[k].verdict, P2PSAFE_VERDICT_UNTESTED);
		else
			assert_true(p.legs[k].verdict == P2PSAFE_VERDICT_OK || p.legs[k].leg == P2PSAFE_LEG_ATOMICS);
	assert_int_equal(p.gpus[1].state, P2PSAFE_GPU_STATE_READY);
	play_free(&p);
	/* With little, but enough, all of it is tested, by small buffers. */
	run(", \"memory_bytes\": 17179869184, \"free_bytes\": 104857600", "", "");
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_READY);
	assert_false(has_fact("GPU_BUSY", 0));
	for (size_t k = 0; k < p.leg_count; k++)
		assert_true(p.legs[k].verdict == P2PSAFE_VERDICT_OK || p.legs[k].leg == P2PSAFE_LEG_ATOMICS);
	play_free(&p);
}

static void confidential_mode_is_everybodys(void **state)
{
	(void)state;
	run("", "\"confidential\": true", "");
	for (int i = 0; i < 3; i++)
		assert_int_equal(p.gpus[i].state, P2PSAFE_GPU_STATE_RISKY);
	play_free(&p);
}

static void nvml_that_hangs_is_told(void **state)
{
	(void)state;
	run("", "\"hang\": true", "");
	assert_true(has_fact("NVML_STUCK", -1));
	assert_false(has_fact("NVML_MISSING", -1));
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_READY);
	play_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_reason_keeps_one_gpu_out), cmocka_unit_test(busy_is_told),
	                                   cmocka_unit_test(confidential_mode_is_everybodys), cmocka_unit_test(a_full_gpu_is_left_alone),
	                                   cmocka_unit_test(an_exclusive_gpu_that_is_taken),
	                                   cmocka_unit_test(a_gpu_that_others_hold),
	                                   cmocka_unit_test(a_gpu_that_waits_for_the_fabric),
	                                   cmocka_unit_test(nvml_that_hangs_is_told)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
