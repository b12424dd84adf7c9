#define _GNU_SOURCE
#include "helper/aer_counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES "/sys/bus/pci/devices"

/* Total of a sysfs file of AER counters (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats); UINT64_MAX when it
 * cannot be read. */
static uint64_t total(const struct p2s_fsroot *root, const char *address, const char *file, const char *word)
{
	char path[128];
	char text[4096];
	const char *at;
	uint64_t value;
	char *end;

	snprintf(path, sizeof path, DEVICES "/%s/%s", address, file);
	if (p2s_fsroot_read(root, path, text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return UINT64_MAX;
	at = strstr(text, word);
	if (at == NULL || at[strlen(word)] != ' ')
		return UINT64_MAX;
	at += strlen(word) + 1;
	value = strtoull(at, &end, 10);
	return end > at ? value : UINT64_MAX;
}

void p2s_aer_read(const struct p2s_fsroot *root, const char *address, uint64_t value[P2S_AER_KINDS])
{
	static const struct {
		const char *file, *word;
	} files[P2S_AER_KINDS] = {{"aer_dev_correctable", "TOTAL_ERR_COR"},
	                          {"aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"},
	                          {"aer_dev_fatal", "TOTAL_ERR_FATAL"}};

	for (size_t k = 0; k < P2S_AER_KINDS; k++)
		value[k] = total(root, address, files[k].file, files[k].word);
}

void p2s_aer_look(const struct p2s_fsroot *root, const char *gpu, struct p2s_aer_place *p)
{
	struct p2psafe_bdf bdf;
	char path[128];
	char link[2048];
	char *save = NULL;

	memset(p, 0, sizeof *p);
	snprintf(path, sizeof path, DEVICES "/%s", gpu);
	if (p2s_fsroot_link(root, path, link, sizeof link) == P2S_READ_OK)
		for (char *part = strtok_r(link, "/", &save); part != NULL && p->count < P2S_HOPS; part = strtok_r(NULL, "/", &save))
			if (p2s_bdf_parse(part, &bdf))
				p2s_bdf_format(&bdf, p->address[p->count++]);
	if (p->count == 0 || strcmp(p->address[p->count - 1], gpu) != 0) {
		p->count = 1;
		snprintf(p->address[0], sizeof p->address[0], "%s", gpu);
	}
	for (size_t i = 0; i < p->count; i++)
		p2s_aer_read(root, p->address[i], p->value[i]);
}
