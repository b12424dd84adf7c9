/* Compares a line with a shape of patterns.def. */
#include <ctype.h>
#include <string.h>

#include "evidence/log.h"

#define DIGITS 16 /* of a 64-bit number */

/* Hexadecimal with or without 0x. */
static const char *take_hex(const char *p, uint64_t *out)
{
	int digits = 0;

	*out = 0;
	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && isxdigit((unsigned char)p[2]))
		p += 2;
	for (; isxdigit((unsigned char)*p); p++) {
		int c = tolower((unsigned char)*p);

		if (++digits > DIGITS)
			return NULL;
		*out = *out << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return digits > 0 ? p : NULL;
}

static const char *take_decimal(const char *p, uint64_t limit, uint64_t *out)
{
	const char *start = p;

	*out = 0;
	for (; isdigit((unsigned char)*p); p++) {
		*out = *out * 10 + (uint64_t)(*p - '0');
		if (*out > limit)
			return NULL;
	}
	return p > start ? p : NULL;
}

/* A PCI address, also as "0x00:0x02.0" (some kernels) or without function (Xid). It is kept in one spelling, and without a
 * segment where the line had none. */
static const char *take_device(const char *p, char out[P2S_BDF_TEXT])
{
	char text[32];
	char whole[P2S_BDF_TEXT];
	struct p2psafe_bdf bdf;
	size_t n = 0;
	int colons = 0;

	while (n < sizeof text - 1 && (isxdigit((unsigned char)*p) || *p == ':' || *p == '.')) {
		if (p[0] == '0' && p[1] == 'x') {
			p += 2;
			continue;
		}
		colons += *p == ':';
		text[n++] = *p++;
	}
	while (n > 0 && (text[n - 1] == ':' || text[n - 1] == '.')) { /* punctuation behind it */
		n--;
		p--;
		colons -= *p == ':';
	}
	text[n] = '\0';
	if (!p2s_bdf_parse(text, &bdf))
		return NULL;
	p2s_bdf_format(&bdf, whole);
	memcpy(out, colons == 2 ? whole : strchr(whole, ':') + 1, strlen(colons == 2 ? whole : strchr(whole, ':') + 1) + 1);
	return p;
}

static const char *take_token(char token, const char *p, struct p2s_log_event *e)
{
	uint64_t n = 0;

	switch (token) {
	case 'd':
		return take_device(p, e->device);
	case 'a':
		p = take_hex(p, &e->fault_address);
		e->has_address = p != NULL;
		return p;
	case 'f':
		return take_hex(p, &e->flags);
	case 'r':
		return p[0] == '0' && p[1] == 'x' ? take_hex(p, &e->flags) : take_decimal(p, UINT32_MAX, &e->flags);
	case 'b':
		while (*p == ' ')
			p++;
		p = take_decimal(p, 31, &n);
		if (p != NULL)
			e->flags |= UINT64_C(1) << n;
		return p;
	case 's':
		p = take_hex(p, &n);
		e->stream = (uint32_t)n;
		e->has_stream = p != NULL && n <= UINT32_MAX;
		return p;
	case 'x':
		p = take_decimal(p, 999999, &n);
		e->xid = (int32_t)n;
		return p;
	case 'n':
		p = take_decimal(p, UINT32_MAX / 2, &n);
		e->repeats = (uint32_t)n;
		return p;
	default:
		return NULL;
	}
}

/* Compares up to the next star. Returns what is left of the text and of the shape, NULL when it does not fit. */
static const char *segment(const char **shape, const char *p, struct p2s_log_event *e)
{
	const char *s = *shape;

	while (*s != '\0' && *s != '*') {
		if (s[0] == '{' && s[1] != '\0' && s[2] == '}') {
			p = take_token(s[1], p, e);
			if (p == NULL)
				return NULL;
			s += 3;
		} else if (*s++ != *p++) {
			return NULL;
		}
	}
	*shape = s;
	return p;
}

/* Where the plain text at the start of a segment occurs next; p itself when the segment starts with a token. */
static const char *candidate(const char *segment_start, const char *p)
{
	char plain[96];
	size_t n = strcspn(segment_start, "*{");

	if (n == 0 || n >= sizeof plain)
		return p;
	memcpy(plain, segment_start, n);
	plain[n] = '\0';
	return strstr(p, plain);
}

int32_t p2s_log_shape(const char *shape, const char *text, struct p2s_log_event *event)
{
	struct p2s_log_event e = *event;
	const char *p = segment(&shape, text, &e);

	if (p == NULL)
		return 0;
	while (*shape == '*') {
		const char *start = ++shape;
		const char *end = NULL;

		if (*start == '\0') {
			p += strlen(p);
			break;
		}
		/* The first place where the segment fits is as good as any later one: what follows has the most room then. */
		while ((p = candidate(start, p)) != NULL && end == NULL) {
			struct p2s_log_event attempt = e;

			shape = start;
			end = segment(&shape, p, &attempt);
			if (end != NULL && *shape == '\0' && *end != '\0')
				end = NULL; /* the shape ends here, the line does not */
			if (end != NULL) {
				e = attempt;
				break;
			}
			if (*p++ == '\0')
				return 0;
		}
		if (end == NULL)
			return 0;
		p = end;
	}
	if (*p != '\0' || *shape != '\0')
		return 0;
	*event = e;
	return 1;
}
