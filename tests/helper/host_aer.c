/* PCIe error counters along the way to a GPU, in a tree whose counters rise between two looks. */
#define _GNU_SOURCE
#include "unit.h"
#include "tmpdir.h"

#include "helper/aer_counters.h"

#define GPU "0000:03:00.0"
#define PORT "0000:00:01.0"
#define TREE "root/sys/devices/pci0000:00/" PORT

static char base[256];
static struct p2s_fsroot root;

static void counter(const char *folder, const char *file, const char *text)
{
	char name[200];

	snprintf(name, sizeof name, "%s/%s", folder, file);
	tmp_write(base, name, text);
}

static int setup(void **state)
{
	(void)state;
	tmp_make(base, sizeof base);
	tmp_write(base, "host.json", "{\"description\": \"a test\", \"source\": \"invented\"}");
	counter(TREE, "aer_dev_correctable", "RxErr 1\nTOTAL_ERR_COR 1\n");
	counter(TREE, "aer_dev_nonfatal", "CmpltTO 2\nTOTAL_ERR_NONFATAL 2\n");
	counter(TREE, "aer_dev_fatal", "no such words\n");
	counter(TREE "/" GPU, "aer_dev_correctable", "TOTAL_ERR_COR 18446744073709551614\n");
	tmp_write(base, "root/sys/bus/pci/devices/none", "");
	tmp_link(base, "root/sys/bus/pci/devices/" GPU, "../../../devices/pci0000:00/" PORT "/" GPU);
	tmp_link(base, "root/sys/bus/pci/devices/" PORT, "../../../devices/pci0000:00/" PORT);
	return p2s_fsroot_open(&root, base) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	p2s_fsroot_close(&root);
	tmp_remove(base);
	return 0;
}

static void every_bridge_and_the_gpu(void **state)
{
	struct p2s_aer_place p;
	uint64_t now[P2S_AER_KINDS];

	(void)state;
	p2s_aer_look(&root, GPU, &p);
	assert_int_equal(p.count, 2);
	assert_string_equal(p.address[0], PORT);
	assert_string_equal(p.address[1], GPU);
	assert_true(p.value[0][0] == 1);
	assert_true(p.value[0][1] == 2);
	assert_true(p.value[0][2] == UINT64_MAX); /* a file that does not say: not read, which is not 0 */
	assert_true(p.value[1][0] == UINT64_MAX - 1);
	assert_true(p.value[1][1] == UINT64_MAX); /* no file */
	counter(TREE, "aer_dev_nonfatal", "CmpltTO 5\nTOTAL_ERR_NONFATAL 5\n");
	p2s_aer_read(&root, p.address[0], now);
	assert_true(now[0] == 1);
	assert_true(now[1] == 5);
	assert_true(now[2] == UINT64_MAX);
}

/* Where the links are missing the GPU stands alone, and what stands alone has no bridge to blame. */
static void without_a_way(void **state)
{
	struct p2s_aer_place p;

	(void)state;
	p2s_aer_look(&root, "0000:09:00.0", &p);
	assert_int_equal(p.count, 1);
	assert_string_equal(p.address[0], "0000:09:00.0");
	for (size_t k = 0; k < P2S_AER_KINDS; k++)
		assert_true(p.value[0][k] == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_bridge_and_the_gpu), cmocka_unit_test(without_a_way)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
