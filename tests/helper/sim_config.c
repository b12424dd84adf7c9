/* cuda.json is read strictly: whatever is misspelt, of another type or impossible is refused by cuInit, with a reason. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/config.h"
#include "sim_rig.h"

#define GPU(n)                                                                                 \
	"{\"bdf\": \"0000:0" n ":00.0\", \"uuid\": \"GPU-0000000" n "-0000-0000-0000-000000000000\", " \
	"\"name\": \"G\", \"minor\": " n "}"
#define HOST(gpus, more) "{\"driver_api\": 12080, \"gpus\": [" gpus "], \"links\": {}" more "}"
#define TWO GPU("1") "," GPU("2")

static struct sim_config config;
static char reason[400];

static int load(const char *text)
{
	char dir[] = "/tmp/p2psafe-config-XXXXXX", path[64];
	FILE *f;
	int ok;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/cuda.json", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	ok = sim_config_load(&config, dir, reason, sizeof(reason));
	remove(path);
	remove(dir);
	return ok;
}

static void refused(const char *text, const char *why)
{
	assert_false(load(text));
	if (!strstr(reason, why))
		fail_msg("%s\nis refused with: %s", text, reason);
}

static void test_good(void **state)
{
	(void)state;
	assert_true(load(HOST(TWO, ", \"faults\": [{\"src\": \"01:00.0\", \"op\": [\"flag\", \"atomic\"], \"effect\": \"wedge\"}]")));
	assert_int_equal(config.gpu_count, 2);
	assert_int_equal(config.gpus[1].minor, 2);
	assert_int_equal(config.gpus[0].uuid_bytes[3], 1);
	assert_int_equal(config.gpus[0].free_bytes, INT64_C(21474836480));
	assert_int_equal(config.links[0][1].granularity, 32);
	assert_int_equal(config.links[0][1].native_atomics, 0);
	assert_int_equal(config.faults[0].src, 0);
	assert_int_equal(config.faults[0].dst, SIM_ANY);
	assert_int_equal(config.faults[0].ops, SIM_OP_FLAG | SIM_OP_ATOMIC);
	assert_int_equal(config.faults[0].mappings, SIM_MAP_ALL);
	assert_int_equal(config.faults[0].rate, 1000000);
}

static void test_links(void **state)
{
	(void)state;
	assert_true(load("{\"driver_api\": 12080, \"gpus\": [" TWO "], "
	                 "\"links\": {\"default\": {\"kind\": \"nvlink\", \"latency_ns\": 5}, "
	                 "\"pairs\": [{\"src\": \"02:00.0\", \"dst\": \"*\", \"kind\": \"pcie\"}, "
	                 "{\"src\": \"*\", \"dst\": \"01:00.0\", \"can_access\": 0, \"granularity\": 8}]}}"));
	assert_int_equal(config.links[0][1].nvlink, 1);
	assert_int_equal(config.links[0][1].native_atomics, 1);
	assert_int_equal(config.links[0][1].can_access, 1);
	assert_int_equal(config.links[1][0].nvlink, 0);
	assert_int_equal(config.links[1][0].native_atomics, 0);
	assert_int_equal(config.links[1][0].can_access, 0);
	assert_int_equal(config.links[1][0].granularity, 8);
	assert_int_equal(config.links[1][0].latency_ns, 5);
}

static void test_refused(void **state)
{
	(void)state;
	refused("", "line");
	refused("{", "line");
	refused("[]", "must be an object");
	refused("{\"driver_api\": 12080, \"driver_api\": 12080}", "duplicate");
	refused("{\"gpus\": [], \"links\": {}}", "driver_api is missing");
	refused("{\"driver_api\": \"12080\", \"gpus\": [], \"links\": {}}", "driver_api must be an integer");
	refused("{\"driver_api\": 12080.5, \"gpus\": [], \"links\": {}}", "driver_api must be an integer");
	refused("{\"driver_api\": -1, \"gpus\": [], \"links\": {}}", "driver_api is out of range");
	refused(HOST(TWO, ", \"fautls\": []"), "unknown key fautls");
	refused(HOST(TWO, ", \"mutant\": \"nofence\""), "no mutant");
	refused(HOST(GPU("1") "," GPU("1"), ""), "bdf occurs twice");
	refused(HOST(GPU("2") "," GPU("1"), ""), "PCI order");
	refused(HOST("{\"bdf\": \"01:00.0\", \"uuid\": \"x\", \"name\": \"G\", \"minor\": 0}", ""), "uuid");
	refused(HOST("{\"bdf\": \"one\", \"uuid\": \"x\", \"name\": \"G\", \"minor\": 0}", ""), "no PCI address");
	refused(HOST(TWO, ", \"faults\": {}"), "array");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"flag\"}]"), "effect is missing");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"flagg\", \"effect\": \"drop\"}]"), "op flagg is unknown");
	refused(HOST(TWO, ", \"faults\": [{\"op\": [], \"effect\": \"drop\"}]"), "op is empty");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"flag\", \"effect\": \"dropp\"}]"), "effect dropp is unknown");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"flag\", \"effect\": \"drop\", \"mapping\": \"pear\"}]"),
		"mapping pear is unknown");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"flag\", \"effect\": \"drop\", \"src\": \"0000:09:00.0\"}]"), "is not in gpus");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"flag\", \"effect\": \"drop\", \"rate\": 0}]"), "rate is out of range");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"flag\", \"effect\": \"drop\", \"from\": 9, \"to\": 8}]"),
		"to must be above from");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"ce_write\", \"effect\": \"misdirect\"}]"), "needs a target");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"ce_write\", \"effect\": \"duplicate\"}]"), "needs a target");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"ce_read\", \"effect\": \"duplicate\", \"target\": \"02:00.0\"}]"),
	        "duplicate is for ce_write and sm_store");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"ce_write\", \"effect\": \"drop\", \"target\": \"02:00.0\"}]"),
	        "target belongs to misdirect and duplicate");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"ce_write\", \"effect\": \"misdirect\", \"dst\": \"02:00.0\", "
	                  "\"target\": \"02:00.0\"}]"),
		"the same place of the same GPU");
	assert_true(load(HOST(TWO, ", \"faults\": [{\"op\": \"ce_write\", \"effect\": \"misdirect\", \"dst\": \"02:00.0\", "
	                           "\"target\": \"02:00.0\", \"shift\": 65536}]")));
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"enable\", \"effect\": \"drop\"}]"), "can only fail");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"ce_write\", \"effect\": \"alias\"}]"), "bit belongs to alias");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"ce_write\", \"effect\": \"drop\", \"bit\": 12}]"), "bit belongs to alias");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"ce_write\", \"effect\": \"slow\"}]"), "factor belongs to");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"flag\", \"effect\": \"fast\", \"factor\": 2}]"), "belong to copies");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"call\", \"effect\": \"error\"}]"), "needs a name");
	refused(HOST(TWO, ", \"faults\": [{\"op\": [\"call\", \"open\"], \"name\": \"cuInit\", \"effect\": \"error\"}]"),
		"needs a name");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"call\", \"name\": \"cuInit\", \"effect\": \"block\"}]"), "ms belongs to block");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"open\", \"effect\": \"error\", \"calls\": 3}]"), "calls belongs to");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"fence\", \"effect\": \"drop\"}]"), "can only fail");
	assert_true(load(HOST(TWO, ", \"faults\": [{\"op\": \"call\", \"name\": \"cuInit\", \"effect\": \"drop\"}]")));
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"call\", \"name\": \"cuInit\", \"effect\": \"zeros\"}]"), "can only fail");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"sm_store\", \"effect\": \"reorder\"}]"), "belongs to op flag");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"atomic\", \"effect\": \"torn\"}]"), "torn belongs to");
	refused(HOST(TWO, ", \"faults\": [{\"op\": \"flag\", \"effect\": \"bit_flip\", \"bits\": 0}]"), "bits");
	refused(HOST(TWO, ", \"nvml\": {\"p2p_read\": \"YES\"}"), "no P2P status");
	refused("{\"driver_api\": 12080, \"gpus\": [" TWO "], \"links\": {\"default\": {\"granularity\": 24}}}", "granularity");
	refused("{\"driver_api\": 12080, \"gpus\": [" TWO "], \"links\": {\"default\": {\"kind\": \"usb\"}}}", "kind");
	refused("{\"driver_api\": 12080, \"gpus\": [" TWO "], "
	        "\"links\": {\"pairs\": [{\"src\": \"*\", \"dst\": \"*\", \"speed\": 1}]}}", "speed");
}

/* What the driver says about a host. */

static void devices(void *arg)
{
	const char *const *want = arg; /* addresses in the order of ordinals */
	int count, i;

	CU(cu.cuDeviceGetCount(&count));
	for (i = 0; want[i]; i++) {
		char text[32];

		CHECK(i < count);
		CU(cu.cuDeviceGetPCIBusId(text, sizeof(text), i));
		CHECK(!strcmp(text, want[i]));
	}
	CHECK(count == i);
	CHECK(cu.p2psafe_sim_missing("cuIpcGetMemHandle") == 1);
	CHECK(cu.p2psafe_sim_missing("cuInit") == 0);
}

static void test_visible_devices(void **state)
{
	static const char *const all[] = { "0000:01:00.0", "0000:02:00.0", "0000:03:00.0", NULL };
	static const char *const swapped[] = { "0000:03:00.0", "0000:01:00.0", NULL };
	static const char *const first[] = { "0000:02:00.0", NULL };
	const char *more = ", \"missing_symbols\": [\"cuIpcGetMemHandle\"]";

	(void)state;
	assert_int_equal(rig_run(3, more, devices, (void *)(uintptr_t)all), 0);
	rig_mask = "2,0";
	assert_int_equal(rig_run(3, more, devices, (void *)(uintptr_t)swapped), 0);
	rig_mask = "GPU-00000003,GPU-00000001";
	assert_int_equal(rig_run(3, more, devices, (void *)(uintptr_t)swapped), 0);
	/* The list ends at the first word that names nothing. */
	rig_mask = "1,7,0";
	assert_int_equal(rig_run(3, more, devices, (void *)(uintptr_t)first), 0);
	rig_mask = NULL;
}

static void never(void *arg)
{
	(void)arg;
}

static void test_start_fails(void **state)
{
	(void)state;
	rig_quiet = 1;
	assert_int_equal(rig_run(2, ", \"init_error\": 803", never, NULL), 1);
	assert_int_equal(rig_run(2, ", \"nonsense\": 1", never, NULL), 1);
	rig_mask = "";
	assert_int_equal(rig_run(2, "", never, NULL), 1);
	rig_mask = "0,0";
	assert_int_equal(rig_run(2, "", never, NULL), 1);
	rig_mask = NULL;
	rig_quiet = 0;
	assert_int_equal(rig_run(2, "", never, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),           cmocka_unit_test(test_links), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_visible_devices), cmocka_unit_test(test_start_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
