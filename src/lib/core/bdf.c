#include "core/bdf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Reads 1..max hex digits; returns the number of digits read, 0 if none or too many. */
static int hex(const char **p, int max, uint32_t *out)
{
	int n = 0;

	*out = 0;
	while (isxdigit((unsigned char)**p)) {
		int c = tolower((unsigned char)**p);

		if (++n > max)
			return 0;
		*out = *out << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
		(*p)++;
	}
	return n;
}

int32_t p2s_bdf_parse(const char *text, struct p2psafe_bdf *out)
{
	const char *p = text;
	uint32_t part[3];
	uint32_t function = 0;
	int parts = 0;

	if (text == NULL)
		return 0;
	for (;;) {
		if (parts == 3 || hex(&p, 8, &part[parts]) == 0)
			return 0;
		parts++;
		if (*p != ':')
			break;
		p++;
	}
	if (*p == '.') {
		p++;
		if (hex(&p, 1, &function) == 0)
			return 0;
	} else if (parts != 3) {
		return 0; /* "81:00" could be anything */
	}
	if (*p != '\0' || parts < 2)
		return 0;
	if (parts == 2) {
		part[2] = part[1];
		part[1] = part[0];
		part[0] = 0;
	}
	if (part[1] > 255 || part[2] > 31 || function > 7)
		return 0;
	memset(out, 0, sizeof *out);
	out->domain = part[0];
	out->bus = (uint8_t)part[1];
	out->device = (uint8_t)part[2];
	out->function = (uint8_t)function;
	return 1;
}

void p2s_bdf_format(const struct p2psafe_bdf *bdf, char out[P2S_BDF_TEXT])
{
	snprintf(out, P2S_BDF_TEXT, "%04x:%02x:%02x.%x", (unsigned)bdf->domain, (unsigned)bdf->bus, (unsigned)bdf->device & 31U,
	         (unsigned)bdf->function & 7U);
}

int32_t p2s_bdf_compare(const struct p2psafe_bdf *a, const struct p2psafe_bdf *b)
{
	if (a->domain != b->domain)
		return a->domain < b->domain ? -1 : 1;
	if (a->bus != b->bus)
		return a->bus < b->bus ? -1 : 1;
	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return (int32_t)a->function - (int32_t)b->function;
}
