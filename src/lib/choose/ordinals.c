#include <stdlib.h>
#include <string.h>

#include "choose/choose.h"
#include "choose/visible.h"

/* The GPUs that CUDA may have here, in PCI order. 0 where it counts parts of GPUs instead. */
static size_t pci_order(const struct p2s_model *m, int32_t *list, int32_t *mixed)
{
	size_t n = 0;

	*mixed = 0;
	for (size_t i = 0; i < m->gpu_count; i++) {
		if (!m->gpus[i].ours)
			continue;
		if (m->gpus[i].facts.mig == P2S_YES)
			return 0;
		if (n > 0 && m->gpus[i].device != m->gpus[list[0]].device)
			*mixed = 1;
		list[n++] = (int32_t)i;
	}
	return n;
}

/* Puts the n GPUs of list into the driver's own order. 0: it told nothing, or it told about a set of GPUs that is not this one. Of
 * "fastest first" only the first place is documented, so the order of some of them does not follow from the order of all. */
static int32_t told_order(const struct p2s_model *m, int32_t *list, size_t n)
{
	int32_t at[P2S_MAX_GPUS];
	size_t told = 0;

	for (size_t i = 0; i < n; i++) {
		if (m->gpus[list[i]].driver_order < 0)
			return 0;
		at[i] = -1;
	}
	for (size_t i = 0; i < m->gpu_count; i++) {
		int32_t place = m->gpus[i].driver_order;

		if (place < 0)
			continue;
		if ((size_t)place >= n || at[place] >= 0)
			return 0;
		at[place] = (int32_t)i;
		told++;
	}
	if (told != n)
		return 0;
	memcpy(list, at, n * sizeof *list);
	return 1;
}

/* The driver's own list, before the mask, as far as it is known. */
static size_t driver_order(const struct p2s_model *m, const char *order, int32_t *list)
{
	int32_t mixed;
	size_t n = pci_order(m, list, &mixed);

	/* Equal models keep PCI order under "fastest first" too; among different ones only the driver knows. */
	if ((order == NULL || strcmp(order, "PCI_BUS_ID") != 0) && !told_order(m, list, n) && mixed)
		return 0;
	/* A GPU that did not come up is counted where only its context failed, and is not where the driver shows none: from there on
	 * nobody knows. */
	for (size_t i = 0; i < n; i++)
		if (m->gpus[list[i]].state == P2PSAFE_GPU_STATE_FAILED)
			return i;
	return n;
}

/* Index of the one GPU of ours whose UUID begins so; -1 none or several, or one that may not be there for CUDA. */
static int32_t by_uuid(const struct p2s_model *m, const struct p2s_visible *v)
{
	int32_t found = -1;

	for (size_t i = 0; i < m->gpu_count; i++) {
		if (!m->gpus[i].ours || strncmp(m->gpus[i].uuid, v->text, v->length) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int32_t)i;
	}
	return found >= 0 && m->gpus[found].state == P2PSAFE_GPU_STATE_FAILED ? -1 : found;
}

static void none(struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].ordinal = -1;
}

void p2s_choose_ordinals(struct p2s_model *m, const char *visible, const char *order)
{
	int32_t list[P2S_MAX_GPUS];
	size_t count = driver_order(m, order, list);
	struct p2s_visible v = {0};
	int32_t next = 0;

	none(m);
	if (visible == NULL) {
		for (size_t i = 0; i < count; i++)
			m->gpus[list[i]].ordinal = (int32_t)i;
		return;
	}
	for (const char *at = visible; p2s_visible_next(&v, &at);) {
		int32_t g = -1;

		if (v.kind == P2S_VISIBLE_UUID)
			g = by_uuid(m, &v);
		else if (v.kind == P2S_VISIBLE_ORDINAL && v.ordinal < count)
			g = list[v.ordinal];
		if (g < 0)
			return;
		if (m->gpus[g].ordinal >= 0) { /* a device that is named twice leaves none at all */
			none(m);
			return;
		}
		m->gpus[g].ordinal = next++;
	}
}
