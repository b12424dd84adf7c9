/* CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: whatever they hold, ordinals are 0 to n-1, once each, on our GPUs only, and nothing else
 * changes. First line: the order; the rest: the mask. */
#include "fuzz.h"

#include <string.h>

#include "choose/choose.h"
#include "choose/visible.h"

#define GPUS 4

static void machine(struct p2s_model *m, int mixed)
{
	p2s_model_init(m);
	for (int i = 0; i < GPUS; i++) {
		struct p2s_gpu *g = p2s_model_add_gpu(m);

		FUZZ_ASSERT(g != NULL);
		snprintf(g->uuid, sizeof g->uuid, "GPU-5d3c%04d-6b1f-4c5d-8e2a-0c3d5f7a9b%02d", i / 2, i);
		g->device = mixed && i == 1 ? 0x2684 : 0x26b1;
		g->ours = i != 3; /* the last one is somebody else's */
		g->in_group = g->ours && i != 2;
		g->state = P2PSAFE_GPU_STATE_READY;
	}
}

static void check(const char *visible, const char *order, int mixed)
{
	struct p2s_model m;
	int seen = 0;

	machine(&m, mixed);
	p2s_choose_ordinals(&m, visible, order);
	for (int n = 0; n < GPUS; n++) {
		int at = 0;

		for (int i = 0; i < GPUS; i++)
			at += m.gpus[i].ordinal == n;
		FUZZ_ASSERT(at <= 1 && (at == 0 || n == seen));
		seen += at;
	}
	for (int i = 0; i < GPUS; i++) {
		FUZZ_ASSERT(m.gpus[i].ordinal >= -1 && m.gpus[i].ordinal < seen + (seen == 0));
		FUZZ_ASSERT(m.gpus[i].ours || m.gpus[i].ordinal == -1);
		FUZZ_ASSERT(m.gpus[i].in_group == (i < 2)); /* the group never depends on a mask */
	}
	p2s_model_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1);
	struct p2s_visible v = {0};
	char *mask;
	size_t entries = 0;

	if (text == NULL)
		abort();
	memcpy(text, bytes, size);
	text[size] = '\0';
	mask = strchr(text, '\n');
	if (mask != NULL)
		*mask++ = '\0';
	for (const char *at = mask != NULL ? mask : text; p2s_visible_next(&v, &at); entries++) {
		FUZZ_ASSERT(v.kind != P2S_VISIBLE_START && v.length <= size);
		FUZZ_ASSERT(v.kind != P2S_VISIBLE_ORDINAL || v.ordinal < 1000000000);
	}
	FUZZ_ASSERT(entries <= size);
	for (int mixed = 0; mixed < 2; mixed++) {
		check(mask != NULL ? mask : text, text, mixed);
		check(mask, NULL, mixed);
		check(NULL, text, mixed);
	}
	free(text);
	return 0;
}
