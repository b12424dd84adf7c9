/* Numbers: PCI Express base specification 6.0, chapter 7; names as in pciutils' header.h. */
#include "helper/host_config.h"

#include <string.h>

#include "core/facts.h"

#define STATUS 0x06
#define STATUS_LIST 0x10
#define FIRST_CAP 0x34
#define CAP_VENDOR 0x09
#define CAP_EXPRESS 0x10
#define CAPS_MAX 48 /* what fits between 0x40 and 0x100 */
#define EXT_START 0x100
#define EXT_ACS 0x000d
#define EXT_REBAR 0x0015
#define EXT_MAX 960 /* what fits between 0x100 and 0x1000 */

struct space {
	const unsigned char *b;
	size_t len;
};

static uint32_t get(const struct space *s, size_t at, size_t bytes)
{
	uint32_t v = 0;

	for (size_t i = 0; i < bytes && at + i < s->len; i++)
		v |= (uint32_t)s->b[at + i] << (8 * i);
	return v;
}

/* Offset of the first capability with this id for which fits() is true; 0 none, -1 the list could not be followed to its end. */
static int find(const struct space *s, unsigned id, int (*fits)(const struct space *s, size_t at))
{
	size_t at;
	int steps = 0;

	if (s->len < STATUS + 2 || (get(s, STATUS, 2) & STATUS_LIST) == 0)
		return s->len < 64 ? -1 : 0;
	for (at = get(s, FIRST_CAP, 1) & 0xfc; at >= 0x40; at = get(s, at + 1, 1) & 0xfc) {
		if (at + 4 > s->len || ++steps > CAPS_MAX)
			return -1;
		if (get(s, at, 1) == id && (fits == NULL || fits(s, at)))
			return (int)at;
	}
	return 0;
}

/* As find(), in extended space. */
static int find_extended(const struct space *s, unsigned id)
{
	size_t at = EXT_START;
	int steps = 0;

	if (s->len <= EXT_START)
		return -1;
	while (at >= EXT_START) {
		uint32_t head;

		if (at + 4 > s->len || ++steps > EXT_MAX)
			return -1;
		head = get(s, at, 4);
		if (head == UINT32_MAX)
			return -1; /* nobody answers there */
		if (head == 0)
			return 0;
		if ((head & 0xffff) == id)
			return at + 8 <= s->len ? (int)at : -1;
		at = head >> 20 & 0xffc;
	}
	return 0;
}

/* A hypervisor's grant: eight bytes with the signature "P2P" (QEMU, hw/vfio/pci-quirks.c; the driver looks for the same). */
static int is_clique(const struct space *s, size_t at)
{
	return at + 8 <= s->len && get(s, at + 2, 1) >= 8 && memcmp(s->b + at + 3, "P2P", 3) == 0;
}

static int32_t kind_of(unsigned type)
{
	switch (type) {
	case 0:
	case 1:
	case 9: /* integrated into the root complex */
		return P2S_HOP_ENDPOINT;
	case 4:
		return P2S_HOP_ROOT_PORT;
	case 5:
		return P2S_HOP_SWITCH_UP;
	case 6:
		return P2S_HOP_SWITCH_DOWN;
	case 7:
	case 8:
		return P2S_HOP_BRIDGE;
	default:
		return P2S_HOP_UNKNOWN;
	}
}

static void express(const struct space *s, int at, struct p2s_config *out)
{
	unsigned payload;

	out->kind = kind_of(get(s, (size_t)at + 2, 2) >> 4 & 0xf);
	if ((size_t)at + 10 > s->len)
		return;
	payload = get(s, (size_t)at + 8, 2) >> 5 & 7; /* device control */
	out->max_payload = payload <= 5 ? 128u << payload : 0;
}

static void acs(const struct space *s, int has_express, struct p2s_config *out)
{
	int at = find_extended(s, EXT_ACS);

	if (at > 0) {
		out->acs_cap = (int32_t)get(s, (size_t)at + 4, 2);
		out->acs_ctl = (int32_t)get(s, (size_t)at + 6, 2);
	} else if (at == 0 || (s->len == EXT_START && !has_express)) {
		/* A conventional device has no extended space at all; one of PCI Express without it is a machine that hides it. */
		out->acs_cap = out->acs_ctl = P2S_ACS_NONE;
	}
}

static void rebar(const struct space *s, int bar, struct p2s_config *out)
{
	int at = find_extended(s, EXT_REBAR);
	size_t entries;

	if (at < 0)
		return;
	out->rebar = P2S_NO;
	if (at == 0)
		return;
	entries = get(s, (size_t)at + 8, 4) >> 5 & 7;
	for (size_t i = 0; i < entries && i < 6; i++) {
		size_t entry = (size_t)at + 4 + 8 * i;
		uint32_t sizes = get(s, entry, 4) >> 4; /* bit n: 2^n MiB, up to 128 TiB */
		uint32_t control = get(s, entry + 4, 4);
		int top = -1;

		if (entry + 8 > s->len || (int)(control & 7) != bar)
			continue;
		out->rebar = P2S_YES;
		for (int n = 0; n < 28; n++)
			if (sizes >> n & 1)
				top = n;
		for (int n = 0; n < 16; n++)
			if (control >> (16 + n) & 1)
				top = 28 + n;
		if (top >= 0 && top + 20 < 64)
			out->rebar_max_bytes = UINT64_C(1) << (20 + top);
	}
}

void p2s_config_parse(const unsigned char *bytes, size_t len, int bar, struct p2s_config *out)
{
	struct space s = {bytes, len < P2S_CONFIG_BYTES ? len : P2S_CONFIG_BYTES};
	int at;

	memset(out, 0, sizeof *out);
	out->kind = P2S_HOP_UNKNOWN;
	out->acs_cap = out->acs_ctl = P2S_ACS_UNREAD;
	out->rebar = out->clique = P2S_UNREAD;
	if (s.len < 64 || get(&s, 0, 4) == UINT32_MAX || get(&s, 0, 4) == 0)
		return;
	at = find(&s, CAP_EXPRESS, NULL);
	if (at > 0)
		express(&s, at, out);
	acs(&s, at != 0, out);
	rebar(&s, bar, out);
	at = find(&s, CAP_VENDOR, is_clique);
	if (at > 0)
		out->clique = (int32_t)(bytes[at + 6] >> 3 & 0xf);
	else if (at == 0 && s.len >= 256)
		out->clique = P2S_CLIQUE_NONE;
}
