/* Letters without regard to case, whatever the caller's locale: to strcasecmp() the small letter of I is no i in Turkish. */
#ifndef P2S_CORE_ASCII_H
#define P2S_CORE_ASCII_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline int p2s_ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

/* Do both begin with the same n bytes, or end together before? */
static inline int32_t p2s_ascii_same_start(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p2s_ascii_lower(a[i]) != p2s_ascii_lower(b[i]))
			return 0;
		if (a[i] == '\0')
			break;
	}
	return 1;
}

static inline int32_t p2s_ascii_same(const char *a, const char *b)
{
	return p2s_ascii_same_start(a, b, strlen(a) + 1);
}

static inline int32_t p2s_ascii_contains(const char *text, const char *part)
{
	size_t n = strlen(part);

	for (; *text != '\0'; text++)
		if (p2s_ascii_same_start(text, part, n))
			return 1;
	return n == 0;
}

#endif
