/* A driver that reports success for what it did not do: no judgement may rest on a kernel that did not run, or on results that were
 * not brought back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/word.h"
#include "helper/cuda_abi.h"
#include "helper/ops.h"
#include "worker_drive.h"

#define GPU "0000:01:00.0"
#define BUF P2S_BUF(0, 1)
#define BYTES 65536
#define SEED UINT64_C(0xa000000012345678)
#define POISON UINT64_C(0xa00000008765432f)
#define ROUNDS 8
#define WORDS 64
#define SLOT 1024
#define LAUNCHES_OF_INIT 8
/* The loop ends before it: then the last call of the sequence was not dropped. */
#define MOST 60

static const char *program;
static const char *library;
static char folder[64];

struct lie { /* the driver leaves out calls of that name from number `after` on */
	const char *name;
	int after;
	int once; /* only that one */
};

/* One GPU whose driver lies so. */
static void make_host(const struct lie *lie, int count)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof path, "%s/cuda.json", folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f,
			"{\"driver_api\": 12080, \"gpus\": [{\"bdf\": \"" GPU "\", \"uuid\": \"GPU-11111111-2222-3333-4444-555555555501\", "
			"\"name\": \"Test\", \"minor\": 0, \"memory_bytes\": 268435456, \"free_bytes\": 234881024}], "
			"\"links\": {\"default\": {\"kind\": \"pcie\"}}, \"faults\": [");
	for (int i = 0; i < count; i++)
		fprintf(f, "%s{\"op\": \"call\", \"name\": \"%s\", \"effect\": \"drop\", \"after\": %d%s}", i > 0 ? ", " : "", lie[i].name,
				lie[i].after, lie[i].once ? ", \"count\": 1" : "");
	fputs("]}\n", f);
	assert_int_equal(fclose(f), 0);
}

static int ask(struct drive *d, struct p2s_op_request q, struct p2s_op_answer *a)
{
	return drive_ask(d, 0, &q, -1, NULL, a);
}

#define ASK(d, a, ...) ask((d), (struct p2s_op_request){__VA_ARGS__}, (a))

static int check(struct drive *d, uint64_t len, uint64_t seed, struct p2s_op_answer *a)
{
	return ASK(d, a, .op = P2S_OP_CHECK, .buf = BUF, .len = len, .in_len = len, .seed = seed, .seed2 = seed);
}

static int slots(struct drive *d, uint64_t seed)
{
	struct p2s_op_answer a;

	return ASK(d, &a, .op = P2S_OP_FILL_SLOTS, .buf = BUF, .rounds = ROUNDS, .words = WORDS, .slot_bytes = SLOT,
			   .flag_off = WORDS * 8, .seed = seed, .timeout_ns = UINT64_C(2000000000));
}

/* What must never be: a judge that finds nothing where everything is wrong, and slots that were not filled. Returns 1 if all
 * calls were carried out. */
static int sequence(struct drive *d)
{
	struct p2s_op_answer a;
	int whole = ASK(d, &a, .op = P2S_OP_FILL, .buf = BUF, .len = BYTES, .seed = POISON) == P2S_RC_OK;

	if (check(d, BYTES, POISON, &a) != P2S_RC_OK || a.bad_words != 0)
		whole = 0;
	for (int i = 0; i < 2; i++) {
		int rc = check(d, BYTES, SEED, &a);

		assert_false(rc == P2S_RC_OK && a.bad_words == 0);
		assert_true(a.bad_words != 0); /* also where nobody reads rc */
		whole = whole && rc == P2S_RC_OK && a.bad_words == BYTES / 8;
	}
	for (int i = 0; i < 2; i++) {
		uint64_t seed = SEED + (uint64_t)i;
		int rc = slots(d, seed);

		if (rc != P2S_RC_OK || check(d, WORDS * 8, p2s_seed_epoch(seed, 1), &a) != P2S_RC_OK) {
			whole = 0;
			continue;
		}
		assert_int_equal(a.bad_words, 0);
	}
	return whole;
}

/* Returns 1 if such a driver did all that was asked. */
static int run(const struct lie *lie, int count)
{
	struct drive d;
	struct p2s_op_answer a;
	int whole = 0;

	make_host(lie, count);
	assert_true(drive_start(&d, program, library, folder, -1, 1));
	if (drive_init(&d, 0, GPU, &a) == P2S_RC_OK &&
		ASK(&d, &a, .op = P2S_OP_ALLOC, .buf = BUF, .len = BYTES, .mode = P2S_ALLOC_PLAIN) == P2S_RC_OK)
		whole = sequence(&d);
	drive_end(&d);
	return whole;
}

/* Call after call is left out, until so late a one that none is. */
static void leave_out(const char *name, int once)
{
	int noticed = 0;
	int after;

	for (after = 0; after < MOST; after++) {
		const struct lie lie = {name, after, once};
		int whole = run(&lie, 1);

		noticed += !whole;
		/* What INIT launches does nothing anyway: that it is left out shows nowhere. */
		if (whole && noticed > 0)
			break;
	}
	assert_true(after < MOST);
	assert_true(noticed > 0);
}

static void kernels_that_never_ran(void **state)
{
	(void)state;
	leave_out("cuLaunchKernel", 1);
	leave_out("cuLaunchKernel", 0);
}

static void results_that_were_not_brought_back(void **state)
{
	(void)state;
	leave_out("cuMemcpyDtoHAsync_v2", 1);
	leave_out("cuMemcpyDtoHAsync_v2", 0);
}

static void results_that_were_not_cleared(void **state)
{
	(void)state;
	leave_out("cuMemcpyHtoDAsync_v2", 1);
	leave_out("cuMemcpyHtoDAsync_v2", 0);
}

/* Whatever is still there from the check before, or from the kernel before, is no result of this one. */
static void results_of_the_time_before(void **state)
{
	static const char *const copies[] = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"};

	(void)state;
	for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++)
		for (int copy = 1; copy < 6; copy++)
			for (int launch = LAUNCHES_OF_INIT + 2; launch < LAUNCHES_OF_INIT + 7; launch++)
				for (int once = 0; once < 2; once++) {
					const struct lie lies[] = {{copies[i], copy, once}, {"cuLaunchKernel", launch, once}};

					assert_false(run(lies, 2));
				}
}

/* Access that the driver calls enabled although nobody enabled it: kernels would fault, copies would be staged unseen. */
static void access_that_nobody_enabled(void **state)
{
	struct drive d;
	struct p2s_op_answer a;
	char path[80];
	FILE *f;

	(void)state;
	snprintf(path, sizeof path, "%s/cuda.json", folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("{\"driver_api\": 12080, \"gpus\": [{\"bdf\": \"" GPU "\", \"uuid\": \"GPU-11111111-2222-3333-4444-555555555501\", "
		  "\"name\": \"Test\", \"minor\": 0, \"memory_bytes\": 268435456, \"free_bytes\": 234881024}, {\"bdf\": \"0000:02:00.0\", "
		  "\"uuid\": \"GPU-11111111-2222-3333-4444-555555555502\", \"name\": \"Test\", \"minor\": 1, \"memory_bytes\": 268435456, "
		  "\"free_bytes\": 234881024}], \"links\": {\"default\": {\"kind\": \"pcie\"}}, "
		  "\"faults\": [{\"op\": \"call\", \"name\": \"cuCtxEnablePeerAccess\", \"effect\": \"error\", \"error\": 704, \"count\": 1}]}\n",
		  f);
	assert_int_equal(fclose(f), 0);
	assert_true(drive_start(&d, program, library, folder, -1, 2));
	assert_int_equal(drive_init(&d, 0, GPU, &a), P2S_RC_OK);
	assert_int_equal(drive_init(&d, 1, "0000:02:00.0", &a), P2S_RC_OK);
	assert_int_equal(ASK(&d, &a, .op = P2S_OP_PEER_ENABLE, .text = "0000:02:00.0"), P2S_RC_ERROR);
	assert_int_equal(a.cuda_error, P2S_CU_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	/* by us, and then once more */
	assert_int_equal(ASK(&d, &a, .op = P2S_OP_PEER_ENABLE, .text = "0000:02:00.0"), P2S_RC_OK);
	assert_int_equal(ASK(&d, &a, .op = P2S_OP_PEER_ENABLE, .text = "0000:02:00.0"), P2S_RC_OK);
	drive_end(&d);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_that_never_ran),
		cmocka_unit_test(results_that_were_not_brought_back),
		cmocka_unit_test(results_that_were_not_cleared),
		cmocka_unit_test(results_of_the_time_before),
		cmocka_unit_test(access_that_nobody_enabled),
	};
	int failed;

	if (argc < 3 || !drive_folder(folder, sizeof folder))
		return 2;
	program = argv[1];
	library = argv[2];
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	drive_folder_end(folder);
	return failed;
}
