/* Callers of other releases: every struct that crosses the interface, shorter (an older header) and longer (a newer one) than
 * the library knows. Input: what is missing means the default, what is unknown must be zero. Output: never a byte beyond the
 * caller's size, zeros in what the library does not know. The memory behind each struct is watched. The structs, and every size
 * that an older one can have had, come from the header itself: a struct without a row here fails.
 *
 * usage: sized HEALTHY_HOST_DIR BROKEN_HOST_DIR (simulated hosts: two GPUs and no fault; with findings) */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ends.h"

#define GUARD 0xA5
#define GUARD_BYTES 64
#define BLOCK_BYTES (70 * 1024)
#define NEWER 48 /* bytes that only a newer caller knows */
#define STRUCTS (sizeof all_ends / sizeof all_ends[0])

static const size_t absurd[] = {0, 1, sizeof(size_t) - 1, 65537, SIZE_MAX};
#define ABSURD (sizeof absurd / sizeof absurd[0])

static const char *healthy;
static const char *broken;
static int covered[STRUCTS];

/* A caller's struct of any size with guard bytes behind it. */
static _Alignas(16) unsigned char block[BLOCK_BYTES + GUARD_BYTES];

static void *block_new(size_t size)
{
	memset(block, 0, size);
	memset(block + size, GUARD, GUARD_BYTES);
	memcpy(block, &size, sizeof size);
	return block;
}

static int block_intact(size_t size)
{
	size_t kept;

	memcpy(&kept, block, sizeof kept);
	for (size_t i = 0; i < GUARD_BYTES; i++)
		if (block[size + i] != GUARD)
			return 0;
	return kept == size;
}

static int all_zero(const unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bytes[i] != 0)
			return 0;
	return 1;
}

/* The row of a struct, which is covered by now. */
static const struct ends *ends_of(const char *name)
{
	for (size_t i = 0; i < STRUCTS; i++)
		if (strcmp(all_ends[i].name, name) == 0) {
			covered[i] = 1;
			return &all_ends[i];
		}
	fprintf(stderr, "sized: the header has no struct %s\n", name);
	exit(2);
}

/* ---- Input ---------------------------------------------------------------------------------------------- */

static p2psafe_context *context;

/* Calls with the struct in block; fill sets its first members as far as size reaches. */
typedef int32_t (*taker)(struct p2psafe_error *err);
typedef void (*filler)(size_t size);

static void set(size_t at, const void *value, size_t bytes, size_t size)
{
	if (at + bytes <= size)
		memcpy(block + at, value, bytes);
}

static void fill_options(size_t size)
{
	set(offsetof(struct p2psafe_options, host_dir), &healthy, sizeof healthy, size);
}

/* The default is this machine: any answer, but no crash and no refusal because of the size. */
static int32_t take_options(struct p2psafe_error *err)
{
	p2psafe_report *report = NULL;
	int32_t status = p2psafe_probe(context, (const struct p2psafe_options *)(const void *)block, &report, err);

	CHECK(status == P2PSAFE_OK, report != NULL);
	p2psafe_report_free(report);
	return status;
}

static int32_t take_place(struct p2psafe_error *err)
{
	char *place = NULL;
	int32_t status = p2psafe_cache_path(context, (const struct p2psafe_options *)(const void *)block, &place, err);

	CHECK(status == P2PSAFE_OK, place != NULL);
	p2psafe_string_free(place);
	return status;
}

static void fill_caches(size_t size)
{
	static const char *nowhere = "/dev/null"; /* no folder: the answer is that these caches cannot be written */

	set(offsetof(struct p2psafe_caches, home), &nowhere, sizeof nowhere, size);
}

static int32_t take_caches(struct p2psafe_error *err)
{
	char *done = NULL;
	int32_t status = p2psafe_report_write_caches(NULL, (const struct p2psafe_caches *)(const void *)block, &done, err);

	CHECK(status >= 0, done != NULL);
	p2psafe_string_free(done);
	return status < 0 ? status : P2PSAFE_OK;
}

static void in_matrix(const char *name, taker take, filler fill)
{
	const struct ends *ends = ends_of(name);
	const size_t own = ends->size;
	struct p2psafe_error err = {.size = sizeof err};

	for (size_t i = 0; i < ends->count; i++) { /* every older caller, and our own */
		block_new(ends->end[i]);
		fill(ends->end[i]);
		CHECK(P2PSAFE_OK, take(&err));
		CHECK(1, block_intact(ends->end[i]));
	}

	block_new(own + NEWER); /* a newer caller that uses nothing new */
	fill(own);
	CHECK(P2PSAFE_OK, take(&err));
	CHECK(1, block_intact(own + NEWER));

	for (size_t at = own; at < own + NEWER; at++) { /* a newer caller that asks for something unknown */
		block_new(own + NEWER);
		fill(own);
		block[at] = 0x80;
		CHECK(P2PSAFE_E_NEWER, take(&err));
		CHECK(P2PSAFE_E_NEWER, err.code);
		CHECK(1, err.text[0] != '\0');
		CHECK(1, block_intact(own + NEWER));
	}

	for (size_t i = 0; i < ABSURD; i++) {
		block_new(own);
		fill(own);
		memcpy(block, &absurd[i], sizeof(size_t));
		CHECK(P2PSAFE_E_SIZE, take(&err));
		CHECK(P2PSAFE_E_SIZE, err.code);
	}
}

static void options_alone(void)
{
	const struct ends *ends = ends_of("p2psafe_options");
	const size_t own = ends->size;
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options *options;

	options = block_new(own);
	options->host_dir = healthy;
	options->flags = UINT64_C(1) << 63;
	CHECK(P2PSAFE_E_NEWER, take_options(&err));
	options->flags = 0;
	options->reserved_0 = 1;
	CHECK(1, take_options(&err) < 0);

	for (size_t i = 0; i < ends->count; i++) { /* zeroed as far as the caller's struct goes, and no further */
		memset(block, 0xff, ends->end[i]);
		memset(block + ends->end[i], GUARD, GUARD_BYTES);
		p2psafe_options_init((struct p2psafe_options *)(void *)block, ends->end[i]);
		CHECK(1, block_intact(ends->end[i]));
		CHECK(1, all_zero(block + sizeof(size_t), ends->end[i] - sizeof(size_t)));
	}
	memset(block, 0xff, own + NEWER);
	memset(block + own + NEWER, GUARD, GUARD_BYTES);
	p2psafe_options_init((struct p2psafe_options *)(void *)block, own + NEWER);
	CHECK(1, block_intact(own + NEWER));
	CHECK(1, all_zero(block + sizeof(size_t), own + NEWER - sizeof(size_t)));
}

/* ---- The error ------------------------------------------------------------------------------------------ */

/* A call that fails with E_INVALID and describes it in a struct of any size. */
static void fail(void *err)
{
	CHECK(P2PSAFE_E_INVALID, p2psafe_context_new(NULL, NULL, NULL, err));
}

static void error_matrix(void)
{
	const struct ends *ends = ends_of("p2psafe_error");
	const size_t own = ends->size;
	struct p2psafe_error *err;

	fail(NULL);
	err = block_new(own);
	fail(err);
	CHECK(P2PSAFE_E_INVALID, err->code);
	CHECK(1, err->text[0] != '\0' && memchr(err->text, '\0', sizeof err->text) != NULL && strchr(err->text, '\n') == NULL);
	CHECK(1, block_intact(own));

	/* every size, also those that were no release's: never a byte beyond it */
	for (size_t size = sizeof(size_t); size <= own; size++) {
		err = block_new(size);
		fail(err);
		if (size >= ends->end[1])
			CHECK(P2PSAFE_E_INVALID, err->code);
		CHECK(1, block_intact(size));
	}

	err = block_new(own + NEWER);
	memset(block + own, 0xff, NEWER);
	fail(err);
	CHECK(P2PSAFE_E_INVALID, err->code);
	CHECK(1, block_intact(own + NEWER));
	CHECK(1, all_zero(block + own, NEWER));

	for (size_t i = 0; i < ABSURD; i++) { /* a forgotten size: the call fails as it would, nothing is written */
		err = block_new(own);
		err->size = absurd[i];
		fail(err);
		CHECK(1, all_zero(block + sizeof(size_t), own - sizeof(size_t)));
	}
}

/* ---- Output --------------------------------------------------------------------------------------------- */

typedef int32_t (*getter)(const p2psafe_report *report, void *out);

static int32_t get_gpu(const p2psafe_report *report, void *out)
{
	return p2psafe_report_gpu(report, 0, out);
}

static int32_t get_pair(const p2psafe_report *report, void *out)
{
	return p2psafe_report_pair(report, 1, out);
}

static int32_t get_leg(const p2psafe_report *report, void *out)
{
	return p2psafe_report_leg(report, 0, 0, out);
}

static int32_t get_size(const p2psafe_report *report, void *out)
{
	return p2psafe_report_size(report, 0, 0, out);
}

static int32_t get_consumer(const p2psafe_report *report, void *out)
{
	return p2psafe_report_consumer(report, P2PSAFE_CONSUMER_NCCL_P2P, out);
}

static int32_t get_setting(const p2psafe_report *report, void *out)
{
	return p2psafe_report_setting(report, 0, out);
}

static int32_t get_finding(const p2psafe_report *report, void *out)
{
	return p2psafe_report_finding(report, 0, out);
}

static int32_t get_group(const p2psafe_report *report, void *out)
{
	static const int32_t pair[] = {0, 1};

	return p2psafe_report_group(report, pair, 2, out);
}

static int32_t get_best_group(const p2psafe_report *report, void *out)
{
	int32_t gpus[2];

	return p2psafe_report_best_group(report, 0, 2, gpus, out);
}

static int32_t get_about(const p2psafe_report *report, void *out)
{
	return p2psafe_report_about(report, out);
}

static int32_t get_staged(const p2psafe_report *report, void *out)
{
	return p2psafe_report_staged(report, 0, out);
}

/* Each release's struct gets the same bytes, as far as it goes. */
static void out_matrix(const char *name, const p2psafe_report *report, getter get)
{
	const struct ends *ends = ends_of(name);
	const size_t own = ends->size;
	unsigned char full[512];

	CHECK(1, own <= sizeof full);
	CHECK(P2PSAFE_OK, get(report, block_new(own)));
	CHECK(1, block_intact(own));
	CHECK(0, all_zero(block + sizeof(size_t), own - sizeof(size_t)));
	memcpy(full, block, own);

	for (size_t size = sizeof(size_t); size <= own; size++) { /* older ones, and sizes that were no release's */
		CHECK(P2PSAFE_OK, get(report, block_new(size)));
		CHECK(1, block_intact(size));
		CHECK(0, memcmp(block + sizeof(size_t), full + sizeof(size_t), size - sizeof(size_t)));
	}

	block_new(own + NEWER);
	memset(block + own, 0xff, NEWER);
	CHECK(P2PSAFE_OK, get(report, block));
	CHECK(1, block_intact(own + NEWER));
	CHECK(0, memcmp(block + sizeof(size_t), full + sizeof(size_t), own - sizeof(size_t)));
	CHECK(1, all_zero(block + own, NEWER));

	for (size_t i = 0; i < ABSURD; i++) {
		block_new(own);
		memcpy(block, &absurd[i], sizeof(size_t));
		CHECK(P2PSAFE_E_SIZE, get(report, block));
		CHECK(1, all_zero(block + sizeof(size_t), own - sizeof(size_t)));
	}
}

static p2psafe_report *report_of(const char *host, uint64_t flags, int tested)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options options;
	p2psafe_report *report = NULL;
	int32_t status;

	p2psafe_options_init(&options, sizeof options);
	options.host_dir = host;
	options.flags = P2PSAFE_FLAG_NO_CACHE | flags;
	options.level = P2PSAFE_LEVEL_QUICK;
	options.deadline_ms = 120000; /* a busy machine may take its time */
	status = tested ? p2psafe_test(context, &options, &report, &err) : p2psafe_probe(context, &options, &report, &err);
	CHECK(P2PSAFE_OK, status);
	if (status != P2PSAFE_OK)
		fprintf(stderr, "%s\n", err.text);
	return report;
}

int main(int argc, char **argv)
{
	struct p2psafe_error err = {.size = sizeof err};
	p2psafe_report *tested;
	p2psafe_report *bad;

	if (argc != 3) {
		fprintf(stderr, "usage: sized HEALTHY_HOST_DIR BROKEN_HOST_DIR\n");
		return 2;
	}
	healthy = argv[1];
	broken = argv[2];
	CHECK(P2PSAFE_OK, p2psafe_context_new(&context, NULL, NULL, &err));
	in_matrix("p2psafe_options", take_options, fill_options);
	in_matrix("p2psafe_options", take_place, fill_options);
	options_alone();
	in_matrix("p2psafe_caches", take_caches, fill_caches);
	error_matrix();

	tested = report_of(healthy, P2PSAFE_FLAG_MEASURE, 1);
	bad = report_of(broken, 0, 0);
	CHECK(2, p2psafe_report_gpu_count(tested));
	out_matrix("p2psafe_about", tested, get_about);
	out_matrix("p2psafe_gpu", tested, get_gpu);
	out_matrix("p2psafe_pair", tested, get_pair);
	out_matrix("p2psafe_leg", tested, get_leg);
	out_matrix("p2psafe_size", tested, get_size);
	out_matrix("p2psafe_staged", tested, get_staged);
	out_matrix("p2psafe_consumer_info", tested, get_consumer);
	out_matrix("p2psafe_group", tested, get_group);
	out_matrix("p2psafe_group", tested, get_best_group);
	out_matrix("p2psafe_setting", bad, get_setting);
	out_matrix("p2psafe_finding", bad, get_finding);
	p2psafe_report_free(tested);
	p2psafe_report_free(bad);
	p2psafe_context_free(context);
	for (size_t i = 0; i < STRUCTS; i++) {
		CHECK(1, covered[i]);
		if (!covered[i])
			fprintf(stderr, "struct %s has no test here\n", all_ends[i].name);
	}
	return check_result();
}
