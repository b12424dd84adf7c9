#define _GNU_SOURCE
#include "inventory/driver.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/ascii.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* Parameters that change peer transfers; others (TemporaryFilePath, ...) are of no interest. */
static const char *const parameters[] = {"DmaRemapPeerMmio:", "EnablePCIERelaxedOrderingMode:", "EnableResizableBar:",
                                         "NvLinkDisable:",    "EnableGpuFirmware:",             "RegistryDwords:",
                                         "RegistryDwordsPerDevice:", "CoherentGPUMemoryMode:",  "GrdmaPciTopoCheckOverride:",
                                         "ExcludedGpus:",     "ImexChannelCount:"};

/* Keys of RegistryDwords after which the driver's word about peer access is an order and no observation. */
static const char *const p2p_keys[] = {"ForceP2P", "RMForceP2PType", "PeerMappingOverride", "RMForceStaticBar1", "RMPcieP2PType"};

/* Marks that builders of patched modules leave in the version. Most leave none. */
static const char *const patch_marks[] = {"p2p", "patch", "tinygrad", "aikitoria", "geohot", "hack"};

/* A word that starts as a version does: digits with dots, perhaps a suffix. */
static int32_t is_version(const char *word)
{
	size_t n = strspn(word, "0123456789.");

	if (!isdigit((unsigned char)word[0]) || memchr(word, '.', n) == NULL || strlen(word) > 31)
		return 0;
	return word[n] == '\0' || ((word[n] == '-' || word[n] == '+' || word[n] == '~' || word[n] == '_') && n > 3);
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (user@host)  date": the version is the
 * first word made of digits and dots; who built it is nobody's business. */
static void read_version(const struct p2s_fsroot *root, struct p2s_model *m)
{
	char text[1024];
	char *save = NULL;
	char *word;

	if (p2s_fsroot_read(root, "/proc/driver/nvidia/version", text, sizeof text, NULL, NULL) == P2S_READ_OK &&
	    strncmp(text, "NVRM version:", 13) == 0) {
		text[strcspn(text, "\n")] = '\0';
		snprintf(m->driver_flavour, sizeof m->driver_flavour, "%s",
		         strstr(text, "Open Kernel Module") != NULL ? "open" : "proprietary");
		for (word = strtok_r(text, " \t", &save); word != NULL; word = strtok_r(NULL, " \t", &save)) {
			if (is_version(word)) {
				snprintf(m->driver_version, sizeof m->driver_version, "%.31s", word);
				return;
			}
		}
		return;
	}
	if (p2s_fsroot_line(root, "/sys/module/nvidia/version", text, 64) == P2S_READ_OK)
		snprintf(m->driver_version, sizeof m->driver_version, "%.31s", text);
}

static void read_parameters(const struct p2s_fsroot *root, struct p2s_model *m)
{
	char text[16384];
	char *save = NULL;
	size_t used = 0;

	if (p2s_fsroot_read(root, "/proc/driver/nvidia/params", text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return;
	for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		for (size_t i = 0; i < COUNT(parameters); i++) {
			size_t n = strlen(line);

			if (strncmp(line, parameters[i], strlen(parameters[i])) != 0)
				continue;
			if (used + n + 2 > sizeof m->driver_parameters)
				return;
			memcpy(m->driver_parameters + used, line, n);
			m->driver_parameters[used + n] = '\n';
			used += n + 1;
			m->driver_parameters[used] = '\0';
		}
	}
}

void p2s_driver_read(const struct p2s_fsroot *root, struct p2s_model *m)
{
	read_version(root, m);
	read_parameters(root, m);
}

/* The value of a parameter among the lines that were kept; 0 not there. */
static int32_t value_of(const struct p2s_model *m, const char *name, char *out, size_t cap)
{
	size_t n = strlen(name);

	for (const char *at = m->driver_parameters; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n') {
		if (strncmp(at, name, n) != 0 || at[n] != ':')
			continue;
		at += n + 1;
		at += strspn(at, " \t");
		snprintf(out, cap, "%.*s", (int)(strcspn(at, "\n") < cap ? strcspn(at, "\n") : cap - 1), at);
		return 1;
	}
	return 0;
}

int32_t p2s_driver_has_key(const char *dwords, const char *key)
{
	static const char ends[] = "=;,\" \t";
	size_t n = strlen(key);

	while (*dwords != '\0') {
		size_t len = strcspn(dwords, ends);

		if (len == n && p2s_ascii_same_start(dwords, key, n))
			return 1;
		dwords += len;
		/* The value ends at the next separator; what is between is no key. */
		if (*dwords == '=')
			dwords += 1 + strcspn(dwords + 1, ";,\" \t");
		dwords += strspn(dwords, ";,\" \t");
	}
	return 0;
}

static void look_for_patch(struct p2s_model *m)
{
	struct p2s_host_facts *h = &m->facts.host;

	if (m->driver_version[0] == '\0')
		return;
	h->patched = P2S_NO; /* no sign; most patched drivers show none */
	for (size_t i = 0; i < COUNT(patch_marks); i++) {
		if (!p2s_ascii_contains(m->driver_version, patch_marks[i]))
			continue;
		h->patched = P2S_YES;
		snprintf(h->patched_why, sizeof h->patched_why, "driver version %s names a patch", m->driver_version);
		return;
	}
}

void p2s_driver_facts(struct p2s_model *m)
{
	static const char *const lists[] = {"RegistryDwords", "RegistryDwordsPerDevice"};
	struct p2s_host_facts *h = &m->facts.host;
	char value[512];

	if (value_of(m, "DmaRemapPeerMmio", value, sizeof value) && (strcmp(value, "0") == 0 || strcmp(value, "1") == 0))
		h->remap_peer_mmio = value[0] == '1';
	for (size_t i = 0; i < COUNT(lists); i++) {
		if (!value_of(m, lists[i], value, sizeof value))
			continue;
		if (h->force_p2p_keys == P2S_UNREAD)
			h->force_p2p_keys = P2S_NO;
		for (size_t k = 0; k < COUNT(p2p_keys); k++) {
			if (!p2s_driver_has_key(value, p2p_keys[k]))
				continue;
			h->force_p2p_keys = P2S_YES;
			snprintf(h->registry_dwords, sizeof h->registry_dwords, "%.191s", value);
		}
	}
	look_for_patch(m);
}
