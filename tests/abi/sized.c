/* Callers of other releases: every struct that crosses the interface, shorter (an older header) and longer (a newer one) than
 * the library knows. Input: what is missing means the default, what is unknown must be zero. Output: never a byte beyond the
 * caller's size, zeros in what the library does not know. The memory behind each struct is watched.
 *
 * usage: sized HOST_DIR (a simulated host with two GPUs) */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "p2psafe/p2psafe.h"

#define GUARD 0xA5
#define GUARD_BYTES 64
#define BLOCK_BYTES (70 * 1024)

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

static int32_t probe(p2psafe_context *ctx, const void *options, struct p2psafe_error *err)
{
	p2psafe_report *report = NULL;
	int32_t status = p2psafe_probe(ctx, options, &report, err);

	CHECK(status == P2PSAFE_OK, report != NULL);
	p2psafe_report_free(report);
	return status;
}

static void options_matrix(p2psafe_context *ctx, const char *host)
{
	const size_t own = sizeof(struct p2psafe_options);
	const size_t old = offsetof(struct p2psafe_options, cuda_library); /* a release without the last four members */
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options *options;
	char *place = NULL;

	options = block_new(old);
	options->host_dir = host;
	CHECK(P2PSAFE_OK, probe(ctx, options, &err));
	CHECK(1, block_intact(old));

	options = block_new(sizeof(size_t)); /* only the size: all defaults */
	CHECK(P2PSAFE_OK, p2psafe_cache_path(ctx, options, &place, &err));
	p2psafe_string_free(place);
	CHECK(1, block_intact(sizeof(size_t)));

	options = block_new(own + 40); /* a newer caller that uses nothing new */
	options->host_dir = host;
	CHECK(P2PSAFE_OK, probe(ctx, options, &err));
	CHECK(1, block_intact(own + 40));

	for (size_t at = own; at < own + 40; at += 13) { /* a newer caller that asks for something unknown */
		options = block_new(own + 40);
		options->host_dir = host;
		block[at] = 1;
		CHECK(P2PSAFE_E_NEWER, probe(ctx, options, &err));
		CHECK(P2PSAFE_E_NEWER, err.code);
		CHECK(1, err.text[0] != '\0');
		CHECK(1, block_intact(own + 40));
	}

	options = block_new(own);
	options->host_dir = host;
	options->flags = UINT64_C(1) << 63;
	CHECK(P2PSAFE_E_NEWER, probe(ctx, options, &err));
	options->flags = 0;
	options->reserved_0 = 1;
	CHECK(1, probe(ctx, options, &err) < 0);

	for (size_t i = 0; i < 4; i++) {
		static const size_t absurd[] = {0, 1, sizeof(size_t) - 1, 65537};

		options = block_new(own);
		options->size = absurd[i];
		CHECK(P2PSAFE_E_SIZE, probe(ctx, options, &err));
		CHECK(P2PSAFE_E_SIZE, err.code);
	}

	p2psafe_options_init(block_new(old), old);
	CHECK(1, block_intact(old));
	CHECK(1, all_zero(block + sizeof(size_t), old - sizeof(size_t)));
	memset(block, 0xff, own + 40);
	memset(block + own + 40, GUARD, GUARD_BYTES);
	p2psafe_options_init((struct p2psafe_options *)(void *)block, own + 40);
	CHECK(1, block_intact(own + 40));
	CHECK(1, all_zero(block + sizeof(size_t), own + 40 - sizeof(size_t)));
}

/* A call that fails with E_INVALID and describes it in a struct of any size. */
static void fail(void *err)
{
	CHECK(P2PSAFE_E_INVALID, p2psafe_context_new(NULL, NULL, NULL, err));
}

static void error_matrix(void)
{
	const size_t own = sizeof(struct p2psafe_error);
	const size_t old = offsetof(struct p2psafe_error, gpu); /* size, code, os_error */
	struct p2psafe_error *err;

	fail(NULL);
	err = block_new(own);
	fail(err);
	CHECK(P2PSAFE_E_INVALID, err->code);
	CHECK(1, err->text[0] != '\0' && memchr(err->text, '\0', sizeof err->text) != NULL && strchr(err->text, '\n') == NULL);
	CHECK(1, block_intact(own));

	err = block_new(old);
	fail(err);
	CHECK(P2PSAFE_E_INVALID, err->code);
	CHECK(1, block_intact(old));

	err = block_new(own + 24);
	memset(block + own, 0xff, 24);
	fail(err);
	CHECK(P2PSAFE_E_INVALID, err->code);
	CHECK(1, block_intact(own + 24));
	CHECK(1, all_zero(block + own, 24));

	for (size_t size = old + 9; size < own; size += 37) { /* not the end of any release's struct: still nothing beyond it */
		err = block_new(size);
		fail(err);
		CHECK(P2PSAFE_E_INVALID, err->code);
		CHECK(1, block_intact(size));
	}

	for (size_t i = 0; i < 3; i++) { /* a forgotten size: the call fails as it would, nothing is written */
		static const size_t absurd[] = {0, 4, 65537};

		err = block_new(own);
		err->size = absurd[i];
		fail(err);
		CHECK(1, all_zero(block + sizeof(size_t), own - sizeof(size_t)));
	}
}

typedef int32_t (*getter)(const p2psafe_report *report, int32_t i, void *out);

static int32_t get_gpu(const p2psafe_report *report, int32_t i, void *out)
{
	return p2psafe_report_gpu(report, i, out);
}

static int32_t get_pair(const p2psafe_report *report, int32_t i, void *out)
{
	return p2psafe_report_pair(report, i, out);
}

static int32_t get_consumer(const p2psafe_report *report, int32_t i, void *out)
{
	return p2psafe_report_consumer(report, P2PSAFE_CONSUMER_NCCL_P2P + i, out);
}

static int32_t get_group(const p2psafe_report *report, int32_t i, void *out)
{
	int32_t pair[] = {i, i + 1};

	return p2psafe_report_group(report, pair, 2, out);
}

static int32_t get_about(const p2psafe_report *report, int32_t i, void *out)
{
	(void)i;
	return p2psafe_report_about(report, out);
}

static int32_t get_staged(const p2psafe_report *report, int32_t i, void *out)
{
	return p2psafe_report_staged(report, i, out);
}

/* own: the library's size; old: where an older struct ended. */
static void out_matrix(const p2psafe_report *report, getter get, size_t own, size_t old)
{
	unsigned char full[512];

	CHECK(1, own <= sizeof full);
	CHECK(P2PSAFE_OK, get(report, 0, block_new(own)));
	CHECK(1, block_intact(own));
	CHECK(0, all_zero(block + sizeof(size_t), own - sizeof(size_t)));
	memcpy(full, block, own);

	CHECK(P2PSAFE_OK, get(report, 0, block_new(old)));
	CHECK(1, block_intact(old));
	CHECK(0, memcmp(block + sizeof(size_t), full + sizeof(size_t), old - sizeof(size_t)));

	block_new(own + 48);
	memset(block + own, 0xff, 48);
	CHECK(P2PSAFE_OK, get(report, 0, block));
	CHECK(1, block_intact(own + 48));
	CHECK(0, memcmp(block + sizeof(size_t), full + sizeof(size_t), own - sizeof(size_t)));
	CHECK(1, all_zero(block + own, 48));

	for (size_t i = 0; i < 3; i++) {
		static const size_t absurd[] = {0, 7, 65537};

		block_new(own);
		memcpy(block, &absurd[i], sizeof(size_t));
		CHECK(P2PSAFE_E_SIZE, get(report, 0, block));
		CHECK(1, all_zero(block + sizeof(size_t), own - sizeof(size_t)));
	}
}

int main(int argc, char **argv)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options options;
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;

	if (argc != 2) {
		fprintf(stderr, "usage: sized HOST_DIR\n");
		return 2;
	}
	CHECK(P2PSAFE_OK, p2psafe_context_new(&ctx, NULL, NULL, &err));
	options_matrix(ctx, argv[1]);
	error_matrix();

	p2psafe_options_init(&options, sizeof options);
	options.host_dir = argv[1];
	CHECK(P2PSAFE_OK, p2psafe_probe(ctx, &options, &report, &err));
	CHECK(2, p2psafe_report_gpu_count(report));
	out_matrix(report, get_gpu, sizeof(struct p2psafe_gpu), offsetof(struct p2psafe_gpu, bar1_bytes));
	out_matrix(report, get_pair, sizeof(struct p2psafe_pair), offsetof(struct p2psafe_pair, limit_bytes_per_s));
	out_matrix(report, get_consumer, sizeof(struct p2psafe_consumer_info), offsetof(struct p2psafe_consumer_info, verdict));
	out_matrix(report, get_group, sizeof(struct p2psafe_group), offsetof(struct p2psafe_group, score));
	out_matrix(report, get_about, sizeof(struct p2psafe_about), offsetof(struct p2psafe_about, driver_version));
	out_matrix(report, get_staged, sizeof(struct p2psafe_staged), offsetof(struct p2psafe_staged, a_to_b_bytes_per_s));
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	return check_result();
}
