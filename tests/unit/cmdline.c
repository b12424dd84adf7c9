/* The command line as hints: what counts, what is no option, what a boot loader cuts off. */
#include "unit.h"

#include "iommu/cmdline.h"

struct row {
	const char *text;
	int32_t pt, off, intel_on, amd_on, noacs, acs, comma;
};

static void the_words(void **state)
{
	static const struct row rows[] = {
		{"root=/dev/sda1 ro quiet", 0, 0, 0, 0, 0, 0, 0},
		{"iommu=pt", 1, 0, 0, 0, 0, 0, 0},
		{"iommu=pt iommu=nopt", 0, 0, 0, 0, 0, 0, 0},          /* the last one wins */
		{"iommu=nopt iommu.passthrough=1", 1, 0, 0, 0, 0, 0, 0}, /* one variable, two names */
		{"iommu=pt iommu.passthrough=0", 0, 0, 0, 0, 0, 0, 0},
		{"iommu.passthrough=on", 1, 0, 0, 0, 0, 0, 0},
		{"iommu.passthrough=maybe iommu=pt", 1, 0, 0, 0, 0, 0, 0},
		{"iommu=soft,pt", 1, 0, 0, 0, 0, 0, 0}, /* a list */
		{"iommu=off", 0, 1, 0, 0, 0, 0, 0},
		{"iommu=off,force", 0, 0, 0, 0, 0, 0, 0},
		{"amd_iommu=off", 0, 1, 0, 0, 0, 0, 0},
		{"amd-iommu=off", 0, 1, 0, 0, 0, 0, 0}, /* both signs are one in names */
		{"intel_iommu=on,sm_on iommu=pt", 1, 0, 1, 0, 0, 0, 0},
		{"intel_iommu=on intel_iommu=off", 0, 1, 0, 0, 0, 0, 0},
		{"intel_iommu=off intel_iommu=on", 0, 0, 1, 0, 0, 0, 0},
		{"amd_iommu=on iommu=pt", 1, 0, 0, 1, 0, 0, 0}, /* no option */
		{"amd_iommu=fullflush", 0, 0, 0, 0, 0, 0, 0},
		{"pci=noacs", 0, 0, 0, 0, 1, 0, 0}, /* no option */
		{"pci=realloc,noacs", 0, 0, 0, 0, 1, 0, 0},
		{"xpci=noacs pci.noacs=1 noacs", 0, 0, 0, 0, 0, 0, 0},
		{"pci=disable_acs_redir=0000:40:03.1;0000:60:03.1", 0, 0, 0, 0, 0, 1, 0},
		{"pci=disable_acs_redir=0000:40:03.1,0000:60:03.1", 0, 0, 0, 0, 0, 1, 1},
		{"pci=disable_acs_redir=40:03.1,60:03.1", 0, 0, 0, 0, 0, 1, 1},
		{"pci=config_acs=0x1d@40:03.1,xx11x@60:03.1", 0, 0, 0, 0, 0, 1, 1},
		{"pci=config_acs=000000@pci:1022:1483", 0, 0, 0, 0, 0, 1, 0},
		{"pci=disable_acs_redir=40:03.1,realloc", 0, 0, 0, 0, 0, 1, 0}, /* another sub-option is no lost address */
		/* nor is the device of another sub-option, or of another word */
		{"pci=disable_acs_redir=0000:40:01.1,resource_alignment=20@0000:03:00.0", 0, 0, 0, 0, 0, 1, 0},
		{"pci=disable_acs_redir=0000:40:01.1,resource_alignment=0000:03:00.0,20@0000:04:00.0", 0, 0, 0, 0, 0, 1, 0},
		{"pci=disable_acs_redir=0000:40:01.1 pci=60:03.1", 0, 0, 0, 0, 0, 1, 0},
		{"pci=config_acs=xx11x@40:03.1 pci=realloc,0x1d@60:03.1", 0, 0, 0, 0, 0, 1, 0},
		{"pci=resource_alignment=20@03:00.0,config_acs=xx11x@40:03.1,X1@60:03.1", 0, 0, 0, 0, 0, 1, 1},
		{"pci=disable_acs_redir=40:03.1,@60:03.1", 0, 0, 0, 0, 0, 1, 0}, /* no mask */
		{"pci=disable_acs_redir=40:03.1,realloc,60:03.1", 0, 0, 0, 0, 0, 1, 1},
		{"\"pci=disable_acs_redir=40:03.1; 60:03.1\" quiet", 0, 0, 0, 0, 0, 1, 0},
		{"pci=\"disable_acs_redir=40:03.1;60:03.1\" iommu=pt", 1, 0, 0, 0, 0, 1, 0},
		{"quiet -- iommu=pt pci=noacs", 0, 0, 0, 0, 0, 0, 0}, /* for init */
		{"quiet --iommu=pt", 0, 0, 0, 0, 0, 0, 0},
		{"iommu", 0, 0, 0, 0, 0, 0, 0},
		{"iommu=", 0, 0, 0, 0, 0, 0, 0},
		{"\"iommu=pt", 1, 0, 0, 0, 0, 0, 0}, /* never closed */
		{"\t iommu=pt \n", 1, 0, 0, 0, 0, 0, 0},
	};
	struct p2s_facts f;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct row *r = &rows[i];

		p2s_facts_init(&f);
		p2s_cmdline_parse(r->text, &f.host);
		if (f.host.cmd_pt != r->pt || f.host.cmd_off != r->off || f.host.cmd_intel_on != r->intel_on ||
		    f.host.cmd_amd_on != r->amd_on || f.host.cmd_noacs != r->noacs || f.host.cmd_acs_option != r->acs ||
		    f.host.cmd_acs_list_comma != r->comma || f.host.cmd_read != P2S_YES)
			fail_msg("%s: pt %d off %d intel %d amd %d noacs %d acs %d comma %d", r->text, (int)f.host.cmd_pt,
			         (int)f.host.cmd_off, (int)f.host.cmd_intel_on, (int)f.host.cmd_amd_on, (int)f.host.cmd_noacs,
			         (int)f.host.cmd_acs_option, (int)f.host.cmd_acs_list_comma);
	}
}

static void words_are_quoted_as_written(void **state)
{
	struct p2s_facts f;

	(void)state;
	p2s_facts_init(&f);
	p2s_cmdline_parse("root=UUID=1234 amd_iommu=on secret=x mem_encrypt=on pcie_acs_override=downstream,multifunction", &f.host);
	assert_string_equal(f.host.cmd_words, "amd_iommu=on mem_encrypt=on pcie_acs_override=downstream,multifunction");
	assert_int_equal(f.host.cmd_mem_encrypt, P2S_YES);
	assert_int_equal(f.host.cmd_acs_override, P2S_YES);
	p2s_cmdline_parse("mem_encrypt=on mem_encrypt=off", &f.host);
	assert_int_equal(f.host.cmd_mem_encrypt, P2S_NO);
}

static void unread_is_not_no(void **state)
{
	struct p2s_facts f;

	(void)state;
	p2s_facts_init(&f);
	p2s_cmdline_parse("iommu=pt", &f.host);
	p2s_cmdline_parse(NULL, &f.host);
	assert_int_equal(f.host.cmd_read, P2S_UNREAD);
	assert_int_equal(f.host.cmd_pt, P2S_UNREAD);
	assert_int_equal(f.host.cmd_acs_override, P2S_UNREAD);
	assert_string_equal(f.host.cmd_words, "");
}

static void long_words_do_no_harm(void **state)
{
	static char text[20000];
	struct p2s_facts f;

	(void)state;
	memset(text, 'a', sizeof text - 1);
	memcpy(text, "pci=disable_acs_redir=", 22);
	memcpy(text + 9000, " iommu=pt \"", 11);
	p2s_facts_init(&f);
	p2s_cmdline_parse(text, &f.host);
	assert_int_equal(f.host.cmd_pt, P2S_YES);
	assert_int_equal(f.host.cmd_acs_option, P2S_YES);
	assert_true(strlen(f.host.cmd_words) < sizeof f.host.cmd_words);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_words), cmocka_unit_test(words_are_quoted_as_written),
	                                   cmocka_unit_test(unread_is_not_no), cmocka_unit_test(long_words_do_no_harm)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
