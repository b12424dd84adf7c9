/* Loading the kernels: ready-made code for this GPU where the build had an assembler (cubins.h), else, and whenever that
 * does not load, the PTX text, which the driver compiles. */
#include "helper/channel.h"

#include <stdio.h>

#include "helper/cubins.h"

#define LOG_BYTES 4096

#define P2S_KERNEL_NAME(name, args) "p2s_" #name,
static const char *const names[P2S_KERNEL_COUNT] = {P2S_KERNELS(P2S_KERNEL_NAME) P2S_KERNELS_MEASURE(P2S_KERNEL_NAME)};
#undef P2S_KERNEL_NAME

/* The JIT's message as one line of printable text. */
static void keep_log(const char *log, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < LOG_BYTES && log[i] != '\0' && n + 1 < cap; i++) {
		char ch = log[i];

		if (ch < ' ' || ch > '~')
			ch = ' ';
		if (ch == ' ' && (n == 0 || out[n - 1] == ' '))
			continue;
		out[n++] = ch;
	}
	out[n] = '\0';
}

static p2s_curesult load(struct p2s_channel *c, int measure, const void *image, char *log)
{
	const struct p2s_cuda *cu = &c->worker->cu;
	int32_t options[] = {P2S_CU_JIT_ERROR_LOG_BUFFER, P2S_CU_JIT_ERROR_LOG_BUFFER_SIZE};
	void *values[] = {log, (void *)(uintptr_t)(LOG_BYTES - 1)};
	int first = measure ? P2S_KERNEL_BASE : 0;
	int end = measure ? P2S_KERNEL_COUNT : P2S_KERNEL_BASE;
	p2s_cumodule module = NULL;
	p2s_curesult r = cu->cuModuleLoadDataEx(&module, image, 2, options, values);

	for (int i = first; r == P2S_CU_SUCCESS && i < end; i++)
		r = cu->cuModuleGetFunction(&c->fn[i], module, names[i]);
	return r;
}

const struct p2s_cubin *p2s_cubin_for(int32_t arch, int32_t measure)
{
	const struct p2s_cubin *best = NULL;

	for (const struct p2s_cubin *b = p2s_cubins; b->arch != 0; b++)
		if (b->measure == measure && b->arch / 10 == arch / 10 && b->arch <= arch && (best == NULL || b->arch > best->arch))
			best = b;
	return best;
}

int p2s_channel_module(struct p2s_channel *c, int measure, int32_t *error, char *out, size_t cap)
{
	/* A simulated driver runs twins and knows text only: every build asks it for the same. */
	int text = c->text_only || c->worker->cu.simulated;
	const struct p2s_cubin *ready = text ? NULL : p2s_cubin_for(c->arch, measure);
	char log[LOG_BYTES] = "";

	if (ready != NULL && load(c, measure, ready->image, log) == P2S_CU_SUCCESS) {
		*error = P2S_CU_SUCCESS;
		out[0] = '\0';
		return 2;
	}
	log[0] = '\0';
	*error = load(c, measure, measure ? p2s_kernels_measure_ptx : p2s_kernels_ptx, log);
	keep_log(log, out, cap);
	return *error == P2S_CU_SUCCESS;
}
