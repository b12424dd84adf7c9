/* What is read from a tree, and what a damaged tree does. */
#define _GNU_SOURCE
#include "unit.h"

#include <time.h>

#include "inventory/host.h"
#include "inventory/inventory.h"
#include "iommu/iommu.h"
#include "tmpdir.h"

static char base[64];

static int setup(void **state)
{
	(void)state;
	tmp_make(base, sizeof base);
	tmp_host(base, 2);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tmp_remove(base);
	return 0;
}

static void look(struct p2s_model *m, struct p2s_host *h, enum p2s_scope scope)
{
	struct p2s_fsroot root;
	struct p2s_seam seam;

	assert_int_equal(p2s_host_json_read(base, &seam, NULL), 0);
	assert_int_equal(p2s_fsroot_open(&root, base), 1);
	p2s_model_init(m);
	assert_int_equal(p2s_inventory_read(&root, m, scope), 1);
	p2s_host_read(&root, &seam, m, h);
	assert_int_equal(p2s_iommu_judge(&root, m), 1);
	p2s_fsroot_close(&root);
}

static void a_plain_host(void **state)
{
	struct p2s_model m;
	struct p2s_host h;

	(void)state;
	look(&m, &h, P2S_SCOPE_ALL);
	assert_int_equal(m.gpu_count, 2);
	assert_string_equal(m.gpus[0].address, "0000:01:00.0");
	assert_string_equal(m.gpus[0].driver, "nvidia");
	assert_string_equal(m.gpus[0].domain_type, "identity");
	assert_int_equal(m.gpus[0].device, 0x2335);
	assert_int_equal(m.gpus[0].numa_node, 0);
	assert_int_equal(m.gpus[0].bar1_bytes, UINT64_C(0x1000000000)); /* BAR0 has 32 bits: BAR1 is index 1 */
	assert_string_equal(m.driver_version, "580.65.06");
	assert_string_equal(m.driver_flavour, "open");
	assert_string_equal(m.driver_parameters, "DmaRemapPeerMmio: 1\n");
	assert_string_equal(m.kernel, "6.1.0-test");
	assert_string_equal(m.virtualization, "none");
	assert_string_equal(h.cmdline, "iommu=pt");
	assert_string_equal(h.firmware, "1.2");
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_IDENTITY);
	p2s_model_free(&m);
}

/* Of this machine it is known since when it runs; a simulated one may have been captured at any time. */
static void since_when_it_runs(void **state)
{
	struct p2s_seam seam = {.simulated = 0};
	struct p2s_fsroot root;
	struct timespec up;
	struct p2s_model m;
	struct p2s_host h;

	(void)state;
	look(&m, &h, P2S_SCOPE_BOUND);
	assert_int_equal(h.booted_unix, 0);
	p2s_model_free(&m);
	p2s_model_init(&m);
	assert_int_equal(p2s_fsroot_open(&root, NULL), 1);
	p2s_host_read(&root, &seam, &m, &h);
	assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &up), 0);
	assert_in_range(h.booted_unix + up.tv_sec + 60, time(NULL), time(NULL) + 120);
	p2s_fsroot_close(&root);
	p2s_model_free(&m);
}

/* A hit looks only at the driver's own folder, and sees the same. */
static void the_short_look_sees_the_same(void **state)
{
	struct p2s_model all;
	struct p2s_model bound;
	struct p2s_host h;

	(void)state;
	look(&all, &h, P2S_SCOPE_ALL);
	look(&bound, &h, P2S_SCOPE_BOUND);
	assert_int_equal(all.gpu_count, bound.gpu_count);
	for (size_t i = 0; i < all.gpu_count; i++) {
		assert_string_equal(all.gpus[i].address, bound.gpus[i].address);
		assert_string_equal(all.gpus[i].driver, bound.gpus[i].driver);
		assert_string_equal(all.gpus[i].domain_type, bound.gpus[i].domain_type);
		assert_int_equal(all.gpus[i].device, bound.gpus[i].device);
		assert_memory_equal(all.gpus[i].bar_start, bound.gpus[i].bar_start, sizeof all.gpus[i].bar_start);
	}
	p2s_model_free(&all);
	p2s_model_free(&bound);
}

static void uevent_gives_the_same_numbers(void **state)
{
	struct p2s_model m;
	struct p2s_host h;

	(void)state;
	tmp_write(base, "root/sys/bus/pci/devices/0000:01:00.0/uevent",
			  "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2335\nPCI_SUBSYS_ID=10DE:18BE\nPCI_SLOT_NAME=0000:01:00.0\n");
	look(&m, &h, P2S_SCOPE_BOUND);
	assert_int_equal(m.gpus[0].device, 0x2335);
	assert_int_equal(m.gpus[0].subsystem_device, 0x18be);
	assert_int_equal(m.gpus[0].class_code, 0x30200);
	p2s_model_free(&m);
}

static void other_functions_are_no_gpus(void **state)
{
	struct p2s_model m;
	struct p2s_host h;

	(void)state;
	tmp_write(base, "root/sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n"); /* the card's audio */
	tmp_write(base, "root/sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
	tmp_write(base, "root/sys/bus/pci/devices/0000:09:00.0/vendor", "0x1002\n");
	tmp_write(base, "root/sys/bus/pci/devices/0000:09:00.0/class", "0x030000\n");
	tmp_write(base, "root/sys/bus/pci/devices/nonsense/vendor", "0x10de\n");
	look(&m, &h, P2S_SCOPE_ALL);
	assert_int_equal(m.gpu_count, 2);
	p2s_model_free(&m);
}

static void iommu_states(void **state)
{
	static const struct {
		const char *a, *b;
		int32_t want;
	} rows[] = {{"DMA-FQ", "DMA", P2PSAFE_IOMMU_TRANSLATED},
				{"identity", "DMA", P2PSAFE_IOMMU_MIXED},
				{"identity", "unknown", P2PSAFE_IOMMU_UNKNOWN},
				{"blocked", "blocked", P2PSAFE_IOMMU_UNKNOWN},
				{"", "identity", P2PSAFE_IOMMU_UNKNOWN}};
	struct p2s_model m;
	struct p2s_host h;
	char path[128];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		tmp_write(base, "root/sys/kernel/iommu_groups/1/type", rows[i].a);
		tmp_write(base, "root/sys/kernel/iommu_groups/2/type", rows[i].b);
		look(&m, &h, P2S_SCOPE_ALL);
		assert_int_equal(m.iommu_state, rows[i].want);
		p2s_model_free(&m);
	}
	for (int i = 1; i <= 2; i++) {
		snprintf(path, sizeof path, "%s/root/sys/bus/pci/devices/0000:%02x:00.0/iommu_group", base, i);
		assert_int_equal(unlink(path), 0);
	}
	look(&m, &h, P2S_SCOPE_ALL);
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_NONE);
	assert_int_equal(m.iommu_confidence, P2PSAFE_CONFIDENCE_HIGH);
	p2s_model_free(&m);
}

static void absurd_files(void **state)
{
	struct p2s_model m;
	struct p2s_host h;
	static char huge[70000];

	(void)state;
	memset(huge, 'A', sizeof huge - 1);
	tmp_write(base, "root/proc/cmdline", huge);
	tmp_write(base, "root/proc/driver/nvidia/version", huge);
	tmp_write(base, "root/proc/driver/nvidia/params", huge);
	tmp_write(base, "root/proc/sys/kernel/random/boot_id", huge);
	tmp_write(base, "root/sys/bus/pci/devices/0000:01:00.0/resource", "zz\n");
	tmp_write(base, "root/sys/bus/pci/devices/0000:01:00.0/numa_node", "99999999999999999999\n");
	tmp_write(base, "root/sys/kernel/iommu_groups/1/type", huge);
	look(&m, &h, P2S_SCOPE_ALL);
	assert_int_equal(m.gpu_count, 2);
	assert_int_equal(m.gpus[0].numa_node, -1);
	assert_int_equal(m.gpus[0].bar1_bytes, 0);
	assert_string_equal(m.driver_version, "");
	assert_string_equal(h.boot_id, "");
	assert_string_equal(h.cmdline, "");
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_UNKNOWN);
	p2s_model_free(&m);
}

static void host_json_is_strict(void **state)
{
	static const char *const bad[] = {"",
									  "[]",
									  "{",
									  "{\"description\": \"a\"}",
									  "{\"description\": \"a\", \"source\": \"b\", \"typo\": 1}",
									  "{\"description\": 1, \"source\": \"b\"}",
									  "{\"description\": \"a\", \"source\": \"b\", \"privileged\": 1}",
									  "{\"description\": \"a\", \"source\": \"b\", \"device_access\": {\"0\": \"w\"}}",
									  "{\"description\": \"a\", \"source\": \"b\", \"device_access\": {\"x\": \"rw\"}}",
									  "{\"description\": \"a\", \"source\": \"b\", \"ignore_sigkill_ms\": -1}",
									  "{\"description\": \"a\", \"source\": \"b\", \"kmsg\": \"maybe\"}",
									  "{\"description\": \"a\", \"description\": \"a\", \"source\": \"b\"}"};
	struct p2s_seam seam;
	struct p2s_fault fault;

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		tmp_write(base, "host.json", bad[i]);
		if (p2s_host_json_read(base, &seam, &fault) != P2PSAFE_E_CONFIG)
			fail_msg("accepted: %s", bad[i]);
		assert_int_not_equal(strlen(fault.text), 0);
	}
	tmp_write(base, "host.json",
			  "{\"description\": \"a\", \"source\": \"b\", \"device_access\": {\"1\": \"none\"}, \"kmsg\": \"denied\"}");
	assert_int_equal(p2s_host_json_read(base, &seam, &fault), 0);
	assert_int_equal(seam.access[1], 0);
	assert_int_equal(seam.access[0], -1);
	assert_string_equal(seam.log_state, "denied");
	assert_int_equal(p2s_host_json_read("/nonexistent", &seam, &fault), P2PSAFE_E_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(a_plain_host, setup, teardown),
									   cmocka_unit_test_setup_teardown(since_when_it_runs, setup, teardown),
									   cmocka_unit_test_setup_teardown(the_short_look_sees_the_same, setup, teardown),
									   cmocka_unit_test_setup_teardown(uevent_gives_the_same_numbers, setup, teardown),
									   cmocka_unit_test_setup_teardown(other_functions_are_no_gpus, setup, teardown),
									   cmocka_unit_test_setup_teardown(iommu_states, setup, teardown),
									   cmocka_unit_test_setup_teardown(absurd_files, setup, teardown),
									   cmocka_unit_test_setup_teardown(host_json_is_strict, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
