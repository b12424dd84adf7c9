/* Facts of GPUs, driver and IOMMU from trees of files. */
#define _GNU_SOURCE
#include "unit.h"

#include "inventory/driver.h"
#include "inventory/gpu_facts.h"
#include "inventory/host.h"
#include "inventory/inventory.h"
#include "iommu/iommu.h"
#include "tmpdir.h"

#define CPUS "/sys/devices/system/cpu/"
#define GPU "root/sys/bus/pci/devices/0000:01:00.0/"

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

static void look(struct p2s_model *m)
{
	struct p2s_fsroot root;
	struct p2s_seam seam;
	struct p2s_host h;

	assert_int_equal(p2s_host_json_read(base, &seam, NULL), 0);
	assert_int_equal(p2s_fsroot_open(&root, base), 1);
	p2s_model_init(m);
	p2s_host_read(&root, &seam, m, &h);
	assert_int_equal(p2s_inventory_read(&root, m, P2S_SCOPE_ALL), 1);
	p2s_host_read_more(&root, &seam, m);
	assert_int_equal(p2s_iommu_judge(&root, m), 1);
	p2s_fsroot_close(&root);
}

static void forget(const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s", base, name);
	assert_int_equal(unlink(path), 0);
}

static int evidence_says(const struct p2s_model *m, const char *words)
{
	for (size_t i = 0; i < m->iommu_evidence_count; i++)
		if (strstr(m->iommu_evidence[i].text, words) != NULL)
			return 1;
	return 0;
}

/* Every word that a kernel prints, and words that none prints. */
static void every_type(void **state)
{
	static const struct {
		const char *word;
		int32_t want;
		const char *evidence;
	} rows[] = {{"identity", P2PSAFE_IOMMU_IDENTITY, "identity: addresses pass unchanged"},
	            {"DMA", P2PSAFE_IOMMU_TRANSLATED, "DMA: addresses are translated"},
	            {"DMA-FQ", P2PSAFE_IOMMU_TRANSLATED, "DMA-FQ: addresses are translated"},
	            {"blocked", P2PSAFE_IOMMU_UNKNOWN, "blocked: all DMA is blocked"},
	            {"unmanaged", P2PSAFE_IOMMU_UNKNOWN, "unmanaged: a page table that"},
	            {"unknown", P2PSAFE_IOMMU_UNKNOWN, "unknown: the kernel itself"},
	            {"Identity", P2PSAFE_IOMMU_UNKNOWN, "Identity: a word that is not known"},
	            {"", P2PSAFE_IOMMU_UNKNOWN, "not readable"}};
	struct p2s_model m;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		tmp_write(base, "root/sys/kernel/iommu_groups/1/type", rows[i].word);
		tmp_write(base, "root/sys/kernel/iommu_groups/2/type", rows[i].word);
		look(&m);
		assert_int_equal(m.iommu_state, rows[i].want);
		if (!evidence_says(&m, rows[i].evidence))
			fail_msg("no evidence for \"%s\"", rows[i].word);
		assert_int_equal(m.gpus[0].facts.has_iommu_link, P2S_YES);
		assert_string_equal(m.gpus[0].facts.iommu_group, "1");
		p2s_model_free(&m);
	}
}

static void groups_without_a_type_file(void **state)
{
	struct p2s_model m;

	(void)state;
	forget("root/sys/kernel/iommu_groups/1/type");
	forget("root/sys/kernel/iommu_groups/2/type");
	look(&m); /* 6.1 has the file: somebody hides it */
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_UNKNOWN);
	p2s_model_free(&m);
	tmp_write(base, "root/proc/sys/kernel/osrelease", "4.15.0-213-generic\n");
	look(&m); /* the command line has iommu=pt */
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_IDENTITY);
	assert_int_equal(m.iommu_confidence, P2PSAFE_CONFIDENCE_LOW);
	p2s_model_free(&m);
	tmp_write(base, "root/proc/cmdline", "quiet\n");
	look(&m);
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_TRANSLATED);
	assert_int_equal(m.iommu_confidence, P2PSAFE_CONFIDENCE_LOW);
	p2s_model_free(&m);
	forget("root/proc/cmdline");
	look(&m);
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_UNKNOWN);
	p2s_model_free(&m);
}

/* The first domain of Xen sees no IOMMU, and Xen may well use one. */
static void xen_owns_the_iommu(void **state)
{
	struct p2s_model m;

	(void)state;
	forget("root/sys/bus/pci/devices/0000:01:00.0/iommu_group");
	forget("root/sys/bus/pci/devices/0000:02:00.0/iommu_group");
	look(&m);
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_NONE);
	assert_int_equal(m.gpus[0].facts.has_iommu_link, P2S_NO);
	p2s_model_free(&m);
	tmp_write(base, "root/sys/hypervisor/type", "xen\n");
	tmp_write(base, "root/sys/hypervisor/properties/features", "00000a01\n");
	look(&m);
	assert_string_equal(m.virtualization, "none");
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_UNKNOWN);
	assert_int_equal(m.iommu_confidence, P2PSAFE_CONFIDENCE_LOW);
	assert_int_equal(m.gpus[0].facts.has_iommu_link, P2S_UNREAD);
	assert_true(evidence_says(&m, "the IOMMU is Xen's"));
	p2s_model_free(&m);
}

static void vfio_owns_its_groups(void **state)
{
	struct p2s_model m;

	(void)state;
	tmp_write(base, "root/sys/kernel/iommu_groups/2/type", "DMA\n");
	forget("root/sys/bus/pci/devices/0000:02:00.0/driver");
	tmp_link(base, "root/sys/bus/pci/devices/0000:02:00.0/driver", "../../drivers/vfio-pci");
	look(&m); /* the state is that of the GPUs bound to nvidia */
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_IDENTITY);
	assert_int_equal(m.facts.host.vfio_gpus, 1);
	p2s_model_free(&m);
	forget(GPU "driver");
	tmp_link(base, GPU "driver", "../../drivers/vfio-pci");
	look(&m); /* none bound: all count, and vfio's default domain is no state */
	assert_int_equal(m.iommu_state, P2PSAFE_IOMMU_UNKNOWN);
	assert_int_equal(m.facts.host.vfio_gpus, 2);
	assert_true(evidence_says(&m, "not the one in force"));
	p2s_model_free(&m);
}

static void units_by_driver(void **state)
{
	static const struct {
		const char *name;
		int32_t driver;
	} rows[] = {{"ivhd0", P2S_IOMMU_DRIVER_AMD},
	            {"dmar0", P2S_IOMMU_DRIVER_INTEL},
	            {"smmu3.0x0000000005000000", P2S_IOMMU_DRIVER_SMMU},
	            {"virtio3", P2S_IOMMU_DRIVER_VIRTIO},
	            {"riscv-iommu@1000", P2S_IOMMU_DRIVER_OTHER}};
	struct p2s_model m;
	char name[128];

	(void)state;
	look(&m);
	assert_int_equal(m.facts.host.iommu_class_count, 0);
	assert_int_equal(m.facts.host.iommu_driver, P2S_IOMMU_DRIVER_NONE);
	p2s_model_free(&m);
	for (size_t i = 0; i < COUNT(rows); i++) {
		snprintf(name, sizeof name, "root/sys/class/iommu/%s", rows[i].name);
		tmp_write(base, name, "");
		look(&m);
		assert_int_equal(m.facts.host.iommu_class_count, 1);
		assert_int_equal(m.facts.host.iommu_driver, rows[i].driver);
		p2s_model_free(&m);
		forget(name);
	}
}

static void gpu_attributes(void **state)
{
	struct p2s_model m;

	(void)state;
	look(&m);
	assert_int_equal(m.gpus[0].facts.boot_vga, P2S_UNREAD);
	assert_int_equal(m.gpus[0].facts.asleep, P2S_UNREAD);
	assert_int_equal(m.gpus[0].facts.is_vf, P2S_NO);
	assert_int_equal(m.gpus[0].facts.bar1_assigned, P2S_YES);
	p2s_model_free(&m);
	tmp_write(base, GPU "boot_vga", "1\n");
	tmp_write(base, GPU "power_state", "D3cold\n");
	tmp_write(base, GPU "dma_mask_bits", "52\n");
	tmp_link(base, GPU "physfn", "../0000:01:00.4");
	tmp_write(base, "root/sys/bus/pci/devices/0000:02:00.0/power/runtime_status", "suspended\n");
	look(&m);
	assert_int_equal(m.gpus[0].facts.boot_vga, P2S_YES);
	assert_int_equal(m.gpus[0].facts.asleep, P2S_YES);
	assert_int_equal(m.gpus[0].facts.is_vf, P2S_YES);
	assert_int_equal(m.gpus[0].facts.dma_mask_bits, 52);
	assert_int_equal(m.gpus[1].facts.asleep, P2S_YES);
	p2s_model_free(&m);
	tmp_write(base, GPU "boot_vga", "7\n");
	tmp_write(base, GPU "power_state", "unknown\n");
	tmp_write(base, GPU "dma_mask_bits", "-1\n");
	look(&m);
	assert_int_equal(m.gpus[0].facts.boot_vga, P2S_UNREAD);
	assert_int_equal(m.gpus[0].facts.asleep, P2S_UNREAD);
	assert_int_equal(m.gpus[0].facts.dma_mask_bits, 0);
	p2s_model_free(&m);
}

/* Logical CPUs that are there; those that could be plugged in only where nobody tells. */
static void logical_cpus(void **state)
{
	static const struct {
		const char *present, *possible;
		uint32_t count;
	} rows[] = {{"0-383\n", "0-511\n", 384}, {"0\n", NULL, 1},     {"0-63,128-191\n", NULL, 128}, {"0-1,3,5-6\n", NULL, 5},
	            {NULL, "0-255\n", 256},      {NULL, NULL, 0},        {"", "0-15\n", 16},            {"many\n", "0-15\n", 16},
	            {"7-3\n", NULL, 0},          {"0-4294967295\n", NULL, 0}, {"0-3,\n", NULL, 0},      {"-1\n", NULL, 0}};
	struct p2s_model m;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (rows[i].present != NULL)
			tmp_write(base, "root" CPUS "present", rows[i].present);
		if (rows[i].possible != NULL)
			tmp_write(base, "root" CPUS "possible", rows[i].possible);
		look(&m);
		if (m.facts.host.cpu_count != rows[i].count)
			fail_msg("row %zu: %u CPUs", i, (unsigned)m.facts.host.cpu_count);
		p2s_model_free(&m);
		if (rows[i].present != NULL)
			forget("root" CPUS "present");
		if (rows[i].possible != NULL)
			forget("root" CPUS "possible");
	}
}

static void windows(void **state)
{
	static const struct {
		const char *text;
		int32_t assigned;
		uint64_t bytes, start;
		int32_t index;
	} rows[] = {
		{"0xf6000000 0xf6ffffff 0x40200\n0x2000000000 0x27ffffffff 0x14220c\n0x0 0x0 0x0\n", P2S_YES, UINT64_C(1) << 35,
		 UINT64_C(0x2000000000), 1},
		{"0xf6000000 0xf6ffffff 0x40200\n0x0 0x7ffffffff 0x2014220c\n0x0 0x0 0x0\n", P2S_NO, UINT64_C(1) << 35, 0, 1},
		{"0xf6000000 0xf6ffffff 0x40200\n0x0 0x0 0x0\n0x0 0x0 0x0\n", P2S_NO, 0, 0, 1},
		{"0x0 0x0 0x0\n0x0 0x0 0x0\n0x0 0x0 0x0\n", P2S_UNREAD, 0, 0, P2S_UNREAD},
		{"0x8000000000 0x8000ffffff 0x14220c\n0x0 0x0 0x0\n0x10000000000 0x13fffffffff 0x14220c\n", P2S_YES, UINT64_C(1) << 38, 0, 2},
		{"0xf6000000 0xf6ffffff 0x40200\nnonsense\n", P2S_UNREAD, 0, 0, P2S_UNREAD},
		{"0xf6000000 0xf6ffffff 0x40200\n0xffffffffffffffff 0x0 0x40200\n0x0 0x0 0x0\n", P2S_NO, 0, 0, 1},
		{"", P2S_UNREAD, 0, 0, P2S_UNREAD}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_gpu g = {0};

		p2s_facts_gpu_init(&g.facts);
		p2s_gpu_facts_resource(rows[i].text, &g);
		if (g.facts.bar1_assigned != rows[i].assigned || g.bar1_bytes != rows[i].bytes || g.bar_start[1] != rows[i].start)
			fail_msg("row %zu: assigned %d, %llx bytes at %llx", i, (int)g.facts.bar1_assigned,
			         (unsigned long long)g.bar1_bytes, (unsigned long long)g.bar_start[1]);
		assert_int_equal(g.facts.bar1_index, rows[i].index);
	}
}

static void registry_keys(void **state)
{
	(void)state;
	assert_true(p2s_driver_has_key("\"ForceP2P=17;RMForceP2PType=1\"", "ForceP2P"));
	assert_true(p2s_driver_has_key("RMForceStaticBar1=1; peermappingoverride=1", "PeerMappingOverride"));
	assert_false(p2s_driver_has_key("\"RMForceP2PType=1\"", "ForceP2P"));
	assert_false(p2s_driver_has_key("Name=ForceP2P;x=1", "ForceP2P"));
	assert_false(p2s_driver_has_key("\"\"", "ForceP2P"));
	assert_false(p2s_driver_has_key("====;;;;,,\"", "ForceP2P"));
}

static void driver_signs(void **state)
{
	struct p2s_model m;

	(void)state;
	tmp_write(base, "root/proc/driver/nvidia/params", "DmaRemapPeerMmio: 0\nRegistryDwords: \"\"\n");
	look(&m);
	assert_int_equal(m.facts.host.remap_peer_mmio, P2S_NO);
	assert_int_equal(m.facts.host.force_p2p_keys, P2S_NO);
	assert_int_equal(m.facts.host.patched, P2S_NO);
	p2s_model_free(&m);
	tmp_write(base, "root/proc/driver/nvidia/params", "RegistryDwords: \"ForceP2P=17;PeerMappingOverride=1\"\n");
	tmp_write(base, "root/proc/driver/nvidia/version",
	          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01-p2p  Release Build  (user@host)  Mon\n");
	look(&m);
	assert_string_equal(m.driver_version, "565.57.01-p2p");
	assert_int_equal(m.facts.host.remap_peer_mmio, P2S_UNREAD);
	assert_int_equal(m.facts.host.force_p2p_keys, P2S_YES);
	assert_string_equal(m.facts.host.registry_dwords, "\"ForceP2P=17;PeerMappingOverride=1\"");
	assert_int_equal(m.facts.host.patched, P2S_YES);
	p2s_model_free(&m);
	forget("root/proc/driver/nvidia/params");
	forget("root/proc/driver/nvidia/version");
	look(&m);
	assert_int_equal(m.facts.host.force_p2p_keys, P2S_UNREAD);
	assert_int_equal(m.facts.host.patched, P2S_UNREAD);
	assert_int_equal(m.facts.host.nodes_usable, 2);
	assert_int_equal(m.facts.host.shm_bytes, UINT64_C(1) << 30);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(every_type, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(groups_without_a_type_file, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(vfio_owns_its_groups, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(xen_owns_the_iommu, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(units_by_driver, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(gpu_attributes, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(driver_signs, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(logical_cpus, setup, teardown),
	                                   cmocka_unit_test(windows), cmocka_unit_test(registry_keys)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
