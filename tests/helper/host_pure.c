/* Configuration space as bytes, and paths from chains of bridges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/facts.h"
#include "core/link.h"
#include "helper/host_config.h"
#include "helper/host_path.h"
#include "p2psafe/p2psafe.h"

static unsigned char space[P2S_CONFIG_BYTES];

static void put(size_t at, uint32_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		space[at + (size_t)i] = (unsigned char)(value >> (8 * i));
}

/* A root port with PCI Express at 0x60, a peer grant at 0xc8, AER at 0x100, ACS at 0x2a0, Resizable BAR at 0x300. */
static void fill(void)
{
	memset(space, 0, sizeof space);
	put(0x00, 0x268410de, 4);
	put(0x06, 0x10, 2);
	put(0x34, 0x60, 1);
	put(0x60, 0xc810, 2);
	put(0x62, 2 | 4 << 4, 2);
	put(0x68, 2 << 5, 2); /* 512 bytes */
	put(0xc8, 0x09, 2);
	put(0xca, 8, 1);
	memcpy(space + 0xcb, "P2P", 3);
	put(0xce, 3 << 3, 1);
	put(0x100, 0x2a010001, 4);
	put(0x2a0, 0x3001000d, 4);
	put(0x2a4, 0x005f, 2);
	put(0x2a6, 0x001d, 2);
	put(0x300, 0x00010015, 4);
	put(0x304, 0xffff << 4, 4); /* up to 2^15 MiB */
	put(0x308, 1 | 1 << 5, 4);  /* one entry: BAR 1 */
}

static void everything(void **state)
{
	struct p2s_config c;

	(void)state;
	fill();
	p2s_config_parse(space, sizeof space, 1, &c);
	assert_int_equal(c.kind, P2S_HOP_ROOT_PORT);
	assert_int_equal(c.acs_cap, 0x5f);
	assert_int_equal(c.acs_ctl, 0x1d);
	assert_int_equal(c.max_payload, 512);
	assert_int_equal(c.clique, 3);
	assert_int_equal(c.rebar, P2S_YES);
	assert_int_equal(c.rebar_max_bytes, UINT64_C(1) << 35);
	p2s_config_parse(space, sizeof space, 2, &c);
	assert_int_equal(c.rebar, P2S_NO);
}

static void unread_is_not_none(void **state)
{
	struct p2s_config c;

	(void)state;
	fill();
	p2s_config_parse(space, 64, 1, &c); /* an ordinary user */
	assert_int_equal(c.acs_ctl, P2S_ACS_UNREAD);
	assert_int_equal(c.clique, P2S_UNREAD);
	assert_int_equal(c.rebar, P2S_UNREAD);
	p2s_config_parse(space, 256, 1, &c); /* PCI Express whose extended space is hidden */
	assert_int_equal(c.acs_ctl, P2S_ACS_UNREAD);
	assert_int_equal(c.clique, 3);
	assert_int_equal(c.kind, P2S_HOP_ROOT_PORT);
	put(0x34, 0xc8, 1); /* a conventional device */
	p2s_config_parse(space, 256, 1, &c);
	assert_int_equal(c.acs_ctl, P2S_ACS_NONE);
	put(0x100, 0x00010001, 4); /* AER and nothing behind it */
	p2s_config_parse(space, sizeof space, 1, &c);
	assert_int_equal(c.acs_ctl, P2S_ACS_NONE);
	assert_int_equal(c.rebar, P2S_NO);
	put(0xcb, 'X', 1);
	p2s_config_parse(space, sizeof space, 1, &c);
	assert_int_equal(c.clique, P2S_CLIQUE_NONE);
	memset(space, 0xff, sizeof space); /* nobody answers */
	p2s_config_parse(space, sizeof space, 1, &c);
	assert_int_equal(c.acs_ctl, P2S_ACS_UNREAD);
	assert_int_equal(c.clique, P2S_UNREAD);
}

static void loops_end(void **state)
{
	struct p2s_config c;

	(void)state;
	fill();
	put(0x61, 0x60, 1);
	put(0x100, 0x10010001, 4);
	p2s_config_parse(space, sizeof space, 1, &c);
	assert_int_equal(c.acs_ctl, P2S_ACS_UNREAD);
	assert_int_equal(c.clique, P2S_UNREAD);
}

static void chain(struct p2s_place *p, const char *root, int32_t node, const char *const *addresses, size_t count)
{
	memset(p, 0, sizeof *p);
	snprintf(p->root, sizeof p->root, "%s", root);
	p->node = node;
	p->hops = count;
	for (size_t i = 0; i < count; i++) {
		snprintf(p->hop[i].address, sizeof p->hop[i].address, "%s", addresses[i]);
		p->hop[i].speed_max_mts = 16000;
		p->hop[i].width_max = 16;
	}
}

static void paths(void **state)
{
	static const char *const under_a[] = {"0000:20:00.0", "0000:21:00.0", "0000:22:00.0", "0000:23:00.0"};
	static const char *const under_b[] = {"0000:20:00.0", "0000:21:00.0", "0000:22:01.0", "0000:24:00.0"};
	static const char *const deep[] = {"0000:20:00.0", "0000:21:00.0", "0000:22:02.0", "0000:25:00.0", "0000:26:00.0", "0000:27:00.0"};
	static const char *const far[] = {"ffff0000:60:00.0", "ffff0000:61:00.0"};
	struct p2s_place a, b;
	struct p2s_path p;

	(void)state;
	chain(&a, "pci0000:20", 0, under_a, 4);
	chain(&b, "pci0000:20", 0, under_b, 4);
	p2s_path_between(&a, &b, &p);
	assert_int_equal(p.path, P2PSAFE_PATH_PIX);
	assert_int_equal(p.limit_bytes_per_s, UINT64_C(31507692307));
	b.hop[2].width_max = 4; /* the narrowest decides */
	p2s_path_between(&a, &b, &p);
	assert_int_equal(p.limit_bytes_per_s, UINT64_C(31507692307) / 4);
	a.hop[3].max_payload = b.hop[3].max_payload = 512;
	b.hop[2].width_max = 16;
	p2s_path_between(&a, &b, &p);
	assert_int_equal(p.limit_bytes_per_s, UINT64_C(31507692307) * 512 / 536);
	chain(&b, "pci0000:20", 0, deep, 6);
	p2s_path_between(&a, &b, &p);
	assert_int_equal(p.path, P2PSAFE_PATH_PXB);
	chain(&b, "pciffff0000:60", 1, far, 2);
	p2s_path_between(&a, &b, &p);
	assert_int_equal(p.path, P2PSAFE_PATH_SYS);
	b.node = -1;
	p2s_path_between(&a, &b, &p);
	assert_int_equal(p.path, P2PSAFE_PATH_UNKNOWN);
	assert_int_equal(p.nccl_path, P2PSAFE_PATH_SYS);
	a.node = -1; /* nobody knows where either is: to NCCL they hang below one CPU */
	p2s_path_between(&a, &b, &p);
	assert_int_equal(p.path, P2PSAFE_PATH_UNKNOWN);
	assert_int_equal(p.nccl_path, P2PSAFE_PATH_PHB);
	b.hops = 0;
	p2s_path_between(&a, &b, &p);
	assert_int_equal(p.path, P2PSAFE_PATH_UNKNOWN);
	assert_int_equal(p.limit_bytes_per_s, 0);
	assert_int_equal(p2s_link_limit(UINT32_MAX, 16, 0), 0);
	assert_int_equal(p2s_link_limit(16000, 255, 0), 0);
	assert_int_equal(p2s_link_limit(16000, 16, 128), p2s_link_limit(16000, 16, 256));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(everything), cmocka_unit_test(unread_is_not_none),
	                                   cmocka_unit_test(loops_end), cmocka_unit_test(paths)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
