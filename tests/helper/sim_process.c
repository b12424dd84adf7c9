/* Several processes on one simulated machine: handles, concurrency, and processes that die. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_rig.h"

#define MIB (UINT64_C(1) << 20)

/* What two processes tell each other. */
struct board {
	volatile int step;
	struct cu_ipc_handle handle;
	int sock[2];
	volatile uint64_t free_bytes;
};

static struct board *board;

static void await_step(int step)
{
	struct timespec t = { 0, 200000 };
	int i;

	for (i = 0; i < 100000 && board->step < step; i++)
		nanosleep(&t, NULL);
	CHECK(board->step >= step);
}

static void reach(int step)
{
	__atomic_store_n(&board->step, step, __ATOMIC_RELEASE);
}

static void send_fd(int fd)
{
	char byte = 0, space[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	CHECK(sendmsg(board->sock[0], &m, 0) == 1);
}

static int receive_fd(void)
{
	char byte, space[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	int fd;

	CHECK(recvmsg(board->sock[1], &m, 0) == 1 && CMSG_FIRSTHDR(&m) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return fd;
}

/* cuMem memory of a GPU, mapped for itself. */
static CUmemHandle own_memory(int dev, uint64_t bytes, CUdeviceptr *ptr)
{
	struct cu_alloc_prop prop = { .type = CU_ALLOC_PINNED, .handle_types = CU_HANDLE_FD, .location = { CU_LOCATION_DEVICE, dev } };
	struct cu_access_desc access = { { CU_LOCATION_DEVICE, dev }, CU_ACCESS_READWRITE };
	CUmemHandle handle;
	size_t granularity;

	prop.flags.gdr = 1;
	CU(cu.cuMemGetAllocationGranularity(&granularity, &prop, 0));
	CHECK(bytes % granularity == 0);
	CHECK(cu.cuMemCreate(&handle, bytes + 4096, &prop, 0) == CU_INVALID_VALUE);
	CU(cu.cuMemCreate(&handle, bytes, &prop, 0));
	CU(cu.cuMemAddressReserve(ptr, bytes, 0, 0, 0));
	CU(cu.cuMemMap(*ptr, bytes, 0, handle, 0));
	CU(cu.cuMemSetAccess(*ptr, bytes, &access, 1));
	return handle;
}

static void owner(void *arg)
{
	struct rig_gpu g;
	CUdeviceptr plain, mapped;
	CUmemHandle handle;
	int fd;

	(void)arg;
	rig_open(&g, 0);
	CU(cu.cuMemAlloc_v2(&plain, 8 * MIB));
	handle = own_memory(0, 8 * MIB, &mapped);
	rig_fill(&g, plain, 0, 8 * MIB, 1);
	rig_fill(&g, mapped, 0, 8 * MIB, 2);
	CU(cu.cuIpcGetMemHandle(&board->handle, plain));
	CHECK(cu.cuIpcOpenMemHandle_v2(&plain, board->handle, 1) == CU_INVALID_CONTEXT);
	CU(cu.cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_FD, 0));
	send_fd(fd);
	close(fd);
	reach(1);
	await_step(2);
	CHECK(rig_check(&g, plain, 8 * MIB, 4096, 4096 + 128, 11, 1).bad_words == 0);
	CHECK(rig_check(&g, mapped, 8 * MIB, 100, 5000, 12, 2).bad_words == 0);
	reach(3);
}

static void accessor(void *arg)
{
	struct cu_access_desc access = { { CU_LOCATION_DEVICE, 1 }, CU_ACCESS_READWRITE };
	struct rig_gpu g;
	CUdeviceptr ipc, mapped;
	CUmemHandle handle;
	uint64_t args[4] = { 0, 0, 64, 5 };

	(void)arg;
	rig_open(&g, 1);
	await_step(1);
	CHECK(cu.cuIpcOpenMemHandle_v2(&ipc, board->handle, 0) == CU_INVALID_VALUE);
	CU(cu.cuIpcOpenMemHandle_v2(&ipc, board->handle, 1));
	CU(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)receive_fd(), CU_HANDLE_FD));
	CU(cu.cuMemAddressReserve(&mapped, 8 * MIB, 0, 0, 0));
	CU(cu.cuMemMap(mapped, 8 * MIB, 0, handle, 0));
	CU(cu.cuMemRelease(handle)); /* the mapping keeps the memory */
	CU(cu.cuMemSetAccess(mapped, 8 * MIB, &access, 1));
	rig_fill(&g, ipc, 4096, 4096 + 128, 11);
	rig_fill(&g, mapped, 100, 5000, 12);
	reach(2);
	await_step(3);
	CU(cu.cuIpcCloseMemHandle(ipc));
	CU(cu.cuMemUnmap(mapped, 8 * MIB));
	CU(cu.cuMemAddressFree(mapped, 8 * MIB));
	args[0] = mapped;
	rig_launch(&g, g.fill, args, 4);
	CHECK(rig_sync(&g, 5000) == CU_ILLEGAL_ADDRESS);
}

static int setup(void **state)
{
	(void)state;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return -1;
	return socketpair(AF_UNIX, SOCK_STREAM, 0, board->sock);
}

static int teardown(void **state)
{
	(void)state;
	close(board->sock[0]);
	close(board->sock[1]);
	return munmap(board, sizeof(*board));
}

static void test_handles(void **state)
{
	int fd = rig_memory();
	int a = rig_start(2, "", fd, owner, NULL), b = rig_start(2, "", fd, accessor, NULL);

	(void)state;
	assert_int_equal(rig_wait(a), 0);
	assert_int_equal(rig_wait(b), 0);
	close(fd);
}

/* Writes without end, so that a kill meets it somewhere inside. */
static void busy(void *arg)
{
	struct rig_gpu g;
	CUdeviceptr buf, more;
	struct rig_mp m = { .w_seed = 1, .rounds = 1 << 14, .words = 30, .slot = 512, .flag = 448, .max_ns = 1000000000 };
	uint64_t args[4];

	(void)arg;
	rig_open(&g, 1);
	await_step(1);
	CU(cu.cuIpcOpenMemHandle_v2(&buf, board->handle, 1));
	m.w_dst = buf;
	reach(2);
	for (;;) {
		rig_mp(&g, &m);
		CU(rig_sync(&g, 60000));
		args[0] = buf;
		args[1] = 8;
		args[2] = 8 * MIB - 8;
		args[3] = 9;
		rig_launch(&g, g.fill, args, 4);
		CU(cu.cuMemAlloc_v2(&more, MIB));
		CU(rig_sync(&g, 60000));
	}
}

static void survivor(void *arg)
{
	struct rig_gpu g;
	CUdeviceptr buf, p;
	size_t total, left;
	int i;

	(void)arg;
	rig_open(&g, 0);
	CU(cu.cuMemAlloc_v2(&buf, 8 * MIB));
	CU(cu.cuIpcGetMemHandle(&board->handle, buf));
	reach(1);
	await_step(3);
	for (i = 0; i < 20; i++) {
		rig_fill(&g, buf, 0, 8 * MIB, (uint64_t)i);
		CHECK(rig_bad(&g, buf, 8 * MIB, (uint64_t)i) == 0);
		CU(cu.cuMemAlloc_v2(&p, MIB));
		CU(cu.cuMemFree_v2(p));
	}
	/* What the dead process had on the other GPU is free again. */
	rig_open(&g, 1);
	CU(cu.cuMemGetInfo_v2(&left, &total));
	board->free_bytes = left;
}

static void kill_one(unsigned delay_us)
{
	struct timespec t = { 0, (long)delay_us * 1000 };
	siginfo_t info;
	int fd = rig_memory();
	int a = rig_start(2, "", fd, survivor, NULL), b = rig_start(2, "", fd, busy, NULL);

	await_step(2);
	nanosleep(&t, NULL);
	kill(b, SIGKILL);
	/* Ended but not reaped: a zombie holds no lock and no memory either. */
	assert_int_equal(waitid(P_PID, (id_t)b, &info, WEXITED | WNOWAIT), 0);
	reach(3);
	assert_int_equal(rig_wait(a), 0);
	assert_int_equal(rig_wait(b), 1000 + SIGKILL);
	assert_true(board->free_bytes == UINT64_C(21474836480) - 65536);
	board->step = 0;
	close(fd);
}

static void test_killed(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 25; i++)
		kill_one(1000 + i * 337);
}

static void first_user(void *arg)
{
	CUcontext ctx;

	(void)arg;
	CU(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	reach(1);
	await_step(2);
}

static void second_user(void *arg)
{
	CUcontext ctx;

	(void)arg;
	await_step(1);
	CHECK(cu.cuDevicePrimaryCtxRetain(&ctx, 0) == CU_DEVICE_UNAVAILABLE);
	reach(2);
}

static void test_exclusive(void **state)
{
	const char *more = ", \"gpus\": [{\"bdf\": \"0000:01:00.0\", \"uuid\": \"GPU-00000001-0000-0000-0000-000000000000\", "
			   "\"name\": \"GPU\", \"minor\": 0, \"compute_mode\": 3}]";
	int fd = rig_memory(), a, b;

	(void)state;
	a = rig_start(0, more, fd, first_user, NULL);
	b = rig_start(0, more, fd, second_user, NULL);
	assert_int_equal(rig_wait(a), 0);
	assert_int_equal(rig_wait(b), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_handles, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exclusive, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
