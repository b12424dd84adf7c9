/* Any bytes as a kernel command line. */
#include <string.h>

#include "fuzz.h"
#include "iommu/cmdline.h"

static int tristate(int32_t v)
{
	return v == P2S_YES || v == P2S_NO;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size)
{
	char *text = malloc(size + 1);
	struct p2s_facts f;
	struct p2s_host_facts *h = &f.host;

	if (text == NULL)
		abort();
	memcpy(text, bytes, size);
	text[size] = '\0';
	p2s_facts_init(&f);
	p2s_cmdline_parse(text, h);
	/* What was read has an answer for everything, and the words fit. */
	if (h->cmd_read != P2S_YES || !tristate(h->cmd_pt) || !tristate(h->cmd_off) || !tristate(h->cmd_intel_on) ||
	    !tristate(h->cmd_amd_on) || !tristate(h->cmd_noacs) || !tristate(h->cmd_acs_option) || !tristate(h->cmd_acs_list_comma) ||
	    !tristate(h->cmd_acs_override) || !tristate(h->cmd_mem_encrypt) || memchr(h->cmd_words, '\0', sizeof h->cmd_words) == NULL)
		abort();
	if (h->cmd_acs_list_comma == P2S_YES && h->cmd_acs_option != P2S_YES)
		abort();
	free(text);
	return 0;
}
