/* The way to each GPU as JSON, and back. */
#include <stdio.h>
#include <string.h>

#include "core/bdf.h"
#include "emit/emit.h"

/* Index = enum p2s_hop_kind. */
static const char *const kinds[] = {"unknown", "root_port", "switch_up", "switch_down", "bridge", "endpoint"};

#define KINDS ((int32_t)(sizeof kinds / sizeof kinds[0]))

static json_t *number(uint32_t v)
{
	return v == 0 ? json_null() : json_integer((json_int_t)v);
}

/* "0x001d"; "none": there is no such capability; null: not readable, which is not off. */
static json_t *acs(int32_t v)
{
	char text[16];

	if (v == P2S_ACS_NONE)
		return json_string("none");
	if (v < 0)
		return json_null();
	snprintf(text, sizeof text, "0x%04x", (unsigned)v & 0xffff);
	return json_string(text);
}

/* Vendor and device as lspci writes them; null: not readable. */
static json_t *id(const struct p2s_hop *h)
{
	char text[16];

	if (h->vendor == 0 || h->vendor >= 0xffff)
		return json_null();
	snprintf(text, sizeof text, "%04x:%04x", h->vendor, h->device & 0xffff);
	return json_string(text);
}

static void read_id(const json_t *o, struct p2s_hop *h)
{
	const char *text = json_string_value(json_object_get(o, "id"));

	h->vendor = h->device = 0xffff;
	if (text == NULL || strlen(text) != 9 || strspn(text, "0123456789abcdef") != 4 || strspn(text + 5, "0123456789abcdef") != 4)
		return; /* sscanf() alone takes signs and blanks */
	if (sscanf(text, "%4x:%4x", &h->vendor, &h->device) != 2)
		h->vendor = h->device = 0xffff;
}

json_t *p2s_emit_path(const struct p2s_gpu_facts *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->hop_count && i < P2S_HOPS; i++) {
		const struct p2s_hop *h = &f->hops[i];

		p2s_emit_append(list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "bdf", h->address, "kind",
		                                      h->kind >= 0 && h->kind < KINDS ? kinds[h->kind] : kinds[0], "id", id(h), "acs_cap",
		                                      acs(h->acs_cap), "acs_ctl", acs(h->acs_ctl), "speed", number(h->speed_max_mts),
		                                      "width", number(h->width_max), "max_payload", number(h->max_payload),
		                                      "speed_loaded", number(h->speed_loaded_mts), "width_loaded",
		                                      number(h->width_loaded)));
	}
	return list;
}

json_t *p2s_emit_link(const struct p2s_gpu_facts *f)
{
	static const struct p2s_hop none;
	const struct p2s_hop *h = f->hop_count > 0 && f->hop_count <= P2S_HOPS ? &f->hops[f->hop_count - 1] : &none;

	return json_pack("{s:o, s:o, s:o, s:o}", "speed", number(h->speed_now_mts), "speed_max", number(h->speed_max_mts), "width",
	                 number(h->width_now), "width_max", number(h->width_max));
}

static uint32_t read_number(const json_t *o, const char *key, json_int_t max)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 && v <= max ? (uint32_t)v : 0;
}

static int32_t read_acs(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	unsigned v;

	if (text != NULL && strcmp(text, "none") == 0)
		return P2S_ACS_NONE;
	return text != NULL && strlen(text) == 6 && sscanf(text, "0x%4x", &v) == 1 ? (int32_t)v : P2S_ACS_UNREAD;
}

void p2s_emit_parse_path(const json_t *gpu, struct p2s_gpu_facts *f)
{
	const json_t *path = json_object_get(gpu, "path");
	const json_t *link = json_object_get(gpu, "link");
	struct p2psafe_bdf bdf;
	const json_t *o;
	size_t i;

	if (json_array_size(path) == 0 || json_array_size(path) > P2S_HOPS)
		return;
	json_array_foreach((json_t *)path, i, o) {
		const char *address = json_string_value(json_object_get(o, "bdf"));
		const char *kind = json_string_value(json_object_get(o, "kind"));
		struct p2s_hop *h = &f->hops[i];

		if (address == NULL || !p2s_bdf_parse(address, &bdf)) {
			f->hop_count = 0; /* half a way is none */
			return;
		}
		p2s_bdf_format(&bdf, h->address);
		h->kind = P2S_HOP_UNKNOWN;
		for (int32_t k = 0; kind != NULL && k < KINDS; k++)
			if (strcmp(kind, kinds[k]) == 0)
				h->kind = k;
		read_id(o, h);
		h->acs_cap = read_acs(o, "acs_cap");
		h->acs_ctl = read_acs(o, "acs_ctl");
		h->speed_max_mts = read_number(o, "speed", 1000000);
		h->width_max = read_number(o, "width", 64);
		h->max_payload = read_number(o, "max_payload", 4096);
		h->speed_loaded_mts = read_number(o, "speed_loaded", 1000000);
		h->width_loaded = read_number(o, "width_loaded", 64);
		h->window_ok = P2S_UNREAD;
		f->hop_count = i + 1;
	}
	f->hops[f->hop_count - 1].speed_now_mts = read_number(link, "speed", 1000000);
	f->hops[f->hop_count - 1].width_now = read_number(link, "width", 64);
}
