/* Any bytes as the "resource" file of a GPU. */
#include <string.h>

#include "fuzz.h"
#include "inventory/gpu_facts.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size)
{
	char *text = malloc(size + 1);
	struct p2s_gpu g;

	if (text == NULL)
		abort();
	memcpy(text, bytes, size);
	text[size] = '\0';
	memset(&g, 0, sizeof g);
	p2s_facts_gpu_init(&g.facts);
	p2s_gpu_facts_resource(text, &g);
	for (int i = 0; i < P2S_BARS; i++)
		if (g.bar_bytes[i] != 0 && g.bar_start[i] + (g.bar_bytes[i] - 1) < g.bar_start[i])
			abort(); /* a window that wraps around would own every address */
	if (g.facts.bar1_assigned == P2S_YES && g.bar_start[1] == 0 && g.bar_start[2] == 0)
		abort();
	free(text);
	return 0;
}
