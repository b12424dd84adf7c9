/* The simulated management library. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/nvml/nvml_api.h"

static void *library;

static void *symbol(const char *name)
{
	void *at = dlsym(library, name);

	if (!at)
		fail_msg("%s is missing", name);
	return at;
}

#define CALL(name) ((__typeof__(&name))(uintptr_t)symbol(#name))

static void test_h200(void **state)
{
	nvmlDevice_t a, b;
	struct nvml_pci pci;
	struct nvml_value value = { .field = 90 };
	char text[96];
	unsigned count, minor;
	int status, active;

	(void)state;
	setenv("P2PSAFE_SIM_HOST", HOSTS "/ok-2xh200-nvlink", 1);
	library = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	assert_int_equal(CALL(nvmlDeviceGetCount_v2)(&count), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(CALL(nvmlInit_v2)(), 0);
	assert_int_equal(CALL(nvmlDeviceGetCount_v2)(&count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(CALL(nvmlSystemGetDriverVersion)(text, sizeof(text)), 0);
	assert_string_equal(text, "580.159.04");
	assert_int_equal(CALL(nvmlDeviceGetHandleByPciBusId_v2)("00000000:00:06.0", &a), 0);
	assert_int_equal(CALL(nvmlDeviceGetHandleByIndex_v2)(1, &b), 0);
	assert_int_equal(CALL(nvmlDeviceGetHandleByPciBusId_v2)("0000:00:09.0", &a), NVML_ERROR_NOT_FOUND);
	assert_int_equal(CALL(nvmlDeviceGetName)(b, text, sizeof(text)), 0);
	assert_string_equal(text, "NVIDIA H200");
	assert_int_equal(CALL(nvmlDeviceGetUUID)(b, text, 8), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(CALL(nvmlDeviceGetMinorNumber)(b, &minor), 0);
	assert_int_equal(minor, 1);
	assert_int_equal(CALL(nvmlDeviceGetP2PStatus)(a, b, 0, &status), 0);
	assert_int_equal(status, 0);
	assert_int_equal(CALL(nvmlDeviceGetP2PStatus)(a, b, 4, &status), 0);
	assert_int_equal(status, 5);
	assert_int_equal(CALL(nvmlDeviceGetNvLinkState)(a, 17, &active), 0);
	assert_int_equal(active, 1);
	assert_int_equal(CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2)(a, 17, &pci), 0);
	assert_int_equal(pci.device, 7);
	assert_int_equal(CALL(nvmlDeviceGetNvLinkState)(a, 18, &active), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(CALL(nvmlDeviceGetFieldValues)(a, 1, &value), 0);
	assert_int_equal(value.result, 0);
	assert_int_equal(value.value.ui, 26562);
	assert_int_equal(CALL(nvmlShutdown)(), 0);
	assert_int_equal(CALL(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
}

/* Host f12: every call blocks for ever. */
static void test_hang(void **state)
{
	int status, pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		void *lib;

		setenv("P2PSAFE_SIM_HOST", HOSTS "/f12-hang-unkillable", 1);
		lib = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
		alarm(1);
		if (lib)
			((__typeof__(&nvmlInit_v2))(uintptr_t)dlsym(lib, "nvmlInit_v2"))();
		_exit(3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_hang), cmocka_unit_test(test_h200) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
