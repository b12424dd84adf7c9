/* Rules of the kernel (Documentation/admin-guide/kernel-parameters.txt and the parsers behind it):
 * - words are separated by blanks; double quotes hold blanks together and are removed (lib/cmdline.c, next_arg);
 * - '-' and '_' are the same in names (parameq); the last word of a family wins;
 * - everything after a word "--" belongs to init;
 * - iommu= is known on x86 only, iommu.passthrough= everywhere; both set the same variable;
 * - the list of pci= is cut at commas, and the lists inside it (disable_acs_redir=, config_acs=) are separated by ';'. A boot
 *   loader that was not told to quote takes ';' for the end of the command, and a ',' makes the second address an unknown
 *   sub-option: in both cases only the first address is in force. */
#include "iommu/cmdline.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/bdf.h"

#define WORD_MAX 2048 /* COMMAND_LINE_SIZE of x86; longer words are no options */

struct scan {
	struct p2s_host_facts *h;
	int passthrough; /* last of iommu=pt/nopt, iommu.passthrough=; -1 not said */
	int iommu_off;   /* iommu=off */
	int amd_off;
	int intel_off;
	int intel_on;
	int acs_list; /* in this pci= word: the last list of devices was an ACS one */
};

/* One word of a list: calls take(s, word) for each part of value that sep separates. */
static void each_part(struct scan *s, const char *value, char sep, void (*take)(struct scan *s, const char *part, int first))
{
	char part[WORD_MAX];
	int first = 1;

	for (;;) {
		const char *end = strchr(value, sep);
		size_t n = end != NULL ? (size_t)(end - value) : strlen(value);

		if (n < sizeof part) {
			memcpy(part, value, n);
			part[n] = '\0';
			take(s, part, first);
		}
		first = 0;
		if (end == NULL)
			return;
		value = end + 1;
	}
}

/* arch/x86/kernel/pci-dma.c, iommu_setup: parts are matched by their beginning, as there. */
static void take_iommu(struct scan *s, const char *part, int first)
{
	(void)first;
	if (strncmp(part, "off", 3) == 0)
		s->iommu_off = 1;
	else if (strncmp(part, "force", 5) == 0)
		s->iommu_off = 0;
	else if (strncmp(part, "pt", 2) == 0)
		s->passthrough = 1;
	else if (strncmp(part, "nopt", 4) == 0)
		s->passthrough = 0;
}

static void take_intel(struct scan *s, const char *part, int first)
{
	(void)first;
	if (strncmp(part, "on", 2) == 0) {
		s->intel_on = 1;
		s->intel_off = 0;
	} else if (strncmp(part, "off", 3) == 0) {
		s->intel_on = 0;
		s->intel_off = 1;
	}
}

static void take_amd(struct scan *s, const char *part, int first)
{
	(void)first;
	if (strncmp(part, "off", 3) == 0)
		s->amd_off = 1;
	else if (strncmp(part, "force_enable", 12) == 0)
		s->amd_off = 0;
	else if (strcmp(part, "on") == 0)
		s->h->cmd_amd_on = P2S_YES;
}

/* "bb:dd.f", "dddd:bb:dd.f", "pci:vvvv:dddd": what a list of devices holds, and no sub-option of pci= looks like. */
static int is_device(const char *text)
{
	struct p2psafe_bdf bdf;
	char full[40];
	unsigned a, b;

	if (strncmp(text, "pci:", 4) == 0)
		return 1;
	if (p2s_bdf_parse(text, &bdf))
		return 1;
	snprintf(full, sizeof full, "0000:%.30s", text);
	return p2s_bdf_parse(full, &bdf) || (sscanf(text, "%x:%x.", &a, &b) == 2 && strchr(text, '.') != NULL);
}

/* True for "0x1d@bb:dd.f" and "xx11x@bb:dd.f" as well. Before '@' stands a mask: digits, also as people write them in hex,
 * and x for "as it is". The name of another sub-option is none. */
static int is_list_rest(const char *part)
{
	size_t mask = strspn(part, "0123456789abcdefABCDEFxX");

	return is_device(part) || (mask > 0 && part[mask] == '@' && is_device(part + mask + 1));
}

static void take_pci(struct scan *s, const char *part, int first)
{
	static const struct { /* sub-options with devices in them */
		const char *name;
		int acs;
	} lists[] = {{"disable_acs_redir=", 1}, {"config_acs=", 1}, {"resource_alignment=", 0}};

	if (first)
		s->acs_list = 0;
	if (strcmp(part, "noacs") == 0)
		s->h->cmd_noacs = P2S_YES;
	if (s->acs_list && is_list_rest(part))
		s->h->cmd_acs_list_comma = P2S_YES;
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		if (strncmp(part, lists[i].name, strlen(lists[i].name)) != 0)
			continue;
		s->acs_list = lists[i].acs;
		if (lists[i].acs)
			s->h->cmd_acs_option = P2S_YES;
	}
}

static void remember(struct p2s_host_facts *h, const char *name, const char *value)
{
	size_t used = strlen(h->cmd_words);
	size_t need = strlen(name) + strlen(value) + 2;

	if (used + need < sizeof h->cmd_words)
		snprintf(h->cmd_words + used, sizeof h->cmd_words - used, "%s%s%s", used > 0 ? " " : "", name, value);
}

/* iommu.passthrough is a bool: kstrtobool() knows these first characters. */
static int boolean(const char *value, int old)
{
	switch (value[0]) {
	case '1':
	case 'y':
	case 'Y':
	case 't':
	case 'T':
		return 1;
	case '0':
	case 'n':
	case 'N':
	case 'f':
	case 'F':
		return 0;
	case 'o':
	case 'O':
		return value[1] == 'n' || value[1] == 'N' ? 1 : value[1] == 'f' || value[1] == 'F' ? 0 : old;
	default:
		return old;
	}
}

static void take_passthrough(struct scan *s, const char *value)
{
	s->passthrough = boolean(value, s->passthrough);
}

static void take_iommu_list(struct scan *s, const char *value)
{
	each_part(s, value, ',', take_iommu);
}

static void take_intel_list(struct scan *s, const char *value)
{
	each_part(s, value, ',', take_intel);
}

static void take_amd_list(struct scan *s, const char *value)
{
	each_part(s, value, ',', take_amd);
}

static void take_pci_list(struct scan *s, const char *value)
{
	each_part(s, value, ',', take_pci);
}

static void take_override(struct scan *s, const char *value)
{
	(void)value;
	s->h->cmd_acs_override = P2S_YES;
}

static void take_encrypt(struct scan *s, const char *value)
{
	s->h->cmd_mem_encrypt = strcmp(value, "on") == 0;
}

static const struct {
	const char *name; /* with '=' */
	void (*take)(struct scan *s, const char *value);
} options[] = {{"iommu=", take_iommu_list},   {"iommu.passthrough=", take_passthrough}, {"intel_iommu=", take_intel_list},
               {"amd_iommu=", take_amd_list}, {"pci=", take_pci_list},                  {"pcie_acs_override=", take_override},
               {"mem_encrypt=", take_encrypt}};

/* 1 if the word begins with the name; '-' and '_' are the same. */
static int named(const char *word, const char *name)
{
	for (; *name != '\0'; word++, name++)
		if (*word != *name && !(*word == '-' && *name == '_'))
			return 0;
	return 1;
}

static void take_word(struct scan *s, const char *word)
{
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
		const char *value = word + strlen(options[i].name);

		if (!named(word, options[i].name))
			continue;
		options[i].take(s, value);
		remember(s->h, options[i].name, value);
		return;
	}
}

/* Copies the next word without its quotes; NULL at the end. A quote that is never closed holds the rest together, as in the
 * kernel. */
static const char *next_word(const char *text, char *word)
{
	size_t n = 0;
	int quoted = 0;

	while (isspace((unsigned char)*text))
		text++;
	if (*text == '\0')
		return NULL;
	for (; *text != '\0' && (quoted || !isspace((unsigned char)*text)); text++) {
		if (*text == '"')
			quoted = !quoted;
		else if (n < WORD_MAX - 1)
			word[n++] = *text;
	}
	word[n] = '\0';
	return text;
}

void p2s_cmdline_parse(const char *text, struct p2s_host_facts *h)
{
	struct scan s = {.h = h, .passthrough = -1};
	char word[WORD_MAX];

	h->cmd_words[0] = '\0';
	h->cmd_read = text != NULL ? P2S_YES : P2S_UNREAD;
	h->cmd_pt = h->cmd_off = h->cmd_intel_on = h->cmd_amd_on = h->cmd_noacs = text != NULL ? P2S_NO : P2S_UNREAD;
	h->cmd_acs_list_comma = h->cmd_acs_option = h->cmd_acs_override = h->cmd_mem_encrypt = text != NULL ? P2S_NO : P2S_UNREAD;
	while (text != NULL && (text = next_word(text, word)) != NULL) {
		if (strcmp(word, "--") == 0)
			break;
		take_word(&s, word);
	}
	if (h->cmd_read != P2S_YES)
		return;
	h->cmd_pt = s.passthrough == 1;
	h->cmd_off = s.iommu_off || s.amd_off || s.intel_off;
	h->cmd_intel_on = s.intel_on;
}
