/* Configuration space as bytes: PCI Express kind, ACS, payload, Resizable BAR, and the hypervisor's peer clique. Pure:
 * nothing here touches a device. Bytes may be cut, nonsense or hostile. */
#ifndef P2S_HELPER_HOST_CONFIG_H
#define P2S_HELPER_HOST_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#define P2S_CONFIG_BYTES 4096
#define P2S_CLIQUE_NONE (-2)

struct p2s_config {
	int32_t kind;     /* enum p2s_hop_kind; P2S_HOP_UNKNOWN: no PCI Express capability within reach */
	int32_t acs_cap;  /* register, or P2S_ACS_* */
	int32_t acs_ctl;
	uint32_t max_payload; /* bytes in force; 0 unread */
	int32_t rebar;        /* Resizable BAR capability for the BAR asked for; P2S_UNREAD */
	uint64_t rebar_max_bytes;
	int32_t clique; /* id, P2S_CLIQUE_NONE, or P2S_UNREAD */
};

/* len: bytes that could be read (64 without privilege, 256 without extended space, 4096). bar: whose Resizable BAR entry is
 * wanted. */
void p2s_config_parse(const unsigned char *bytes, size_t len, int bar, struct p2s_config *out);

#endif
