#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "choose/choose.h"

/* The driver's own list, before the mask: our GPUs in PCI order, or by speed. -1 where the order is not known. */
static size_t driver_order(const struct p2s_model *m, const char *order, int32_t *list)
{
	size_t n = 0;
	int32_t mixed = 0;

	for (size_t i = 0; i < m->gpu_count; i++) {
		if (!m->gpus[i].ours || m->gpus[i].state == P2PSAFE_GPU_STATE_FAILED)
			continue;
		if (n > 0 && m->gpus[i].device != m->gpus[list[0]].device)
			mixed = 1;
		list[n++] = (int32_t)i;
	}
	/* Equal models keep PCI order under "fastest first" too; among different ones only the driver knows. */
	if (mixed && (order == NULL || strcmp(order, "PCI_BUS_ID") != 0))
		return 0;
	return n;
}

/* Index of the GPU a mask entry names, -1 none or several. */
static int32_t resolve(const struct p2s_model *m, const char *word, size_t n, const int32_t *list, size_t count)
{
	int32_t found = -1;
	size_t v = 0;

	if (n >= 4 && strncasecmp(word, "GPU-", 4) == 0) {
		for (size_t i = 0; i < m->gpu_count; i++) {
			if (!m->gpus[i].ours || strncasecmp(m->gpus[i].uuid, word, n) != 0)
				continue;
			if (found >= 0)
				return -1;
			found = (int32_t)i;
		}
		return found;
	}
	if (n == 0 || n > 4)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)word[i]))
			return -1;
		v = v * 10 + (size_t)(word[i] - '0');
	}
	return v < count ? list[v] : -1;
}

void p2s_choose_ordinals(struct p2s_model *m, const char *visible, const char *order)
{
	int32_t list[P2S_MAX_GPUS];
	size_t count = driver_order(m, order, list);
	int32_t next = 0;

	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].ordinal = -1;
	if (visible == NULL) {
		for (size_t i = 0; i < count; i++)
			m->gpus[list[i]].ordinal = (int32_t)i;
		return;
	}
	/* CUDA reads the list up to the first entry that makes no sense; an entry named twice leaves no device at all. */
	for (const char *at = visible; *at != '\0';) {
		size_t n = strcspn(at, ",");
		size_t skip = strspn(at, " ");
		size_t len = n;
		int32_t g;

		while (len > skip && at[len - 1] == ' ')
			len--;
		g = skip < len ? resolve(m, at + skip, len - skip, list, count) : -1;
		if (g < 0)
			return;
		if (m->gpus[g].ordinal >= 0) {
			for (size_t i = 0; i < m->gpu_count; i++)
				m->gpus[i].ordinal = -1;
			return;
		}
		m->gpus[g].ordinal = next++;
		at += n + (at[n] == ',');
	}
}
