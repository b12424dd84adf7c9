#include "kept/compact.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kept/record.h"

int32_t p2s_compact_row(const char *row, char *out, size_t cap)
{
	size_t used = 0;

	out[0] = '\0';
	while (*row != '\0') {
		size_t n = 1;
		int w;

		while (row[n] == row[0])
			n++;
		w = snprintf(out + used, cap - used, n > 1 ? "%s%c*%zu" : "%s%c", used > 0 ? "," : "", row[0], n);
		if (w < 0 || (size_t)w >= cap - used)
			return 0;
		used += (size_t)w;
		row += n;
	}
	return 1;
}

int32_t p2s_compact_expand(const char *text, char *out, size_t n)
{
	size_t used = 0;

	if (strpbrk(text, ",*") == NULL) {
		if (strlen(text) != n)
			return 0;
		memcpy(out, text, n);
		return 1;
	}
	while (*text != '\0') {
		char letter = *text++;
		size_t count = 1;

		if (letter == ',' || letter == '*')
			return 0;
		if (*text == '*') {
			count = 0;
			for (text++; isdigit((unsigned char)*text) && count <= n; text++)
				count = count * 10 + (size_t)(*text - '0');
		}
		if (count == 0 || count > n - used || (*text != ',' && *text != '\0'))
			return 0;
		memset(out + used, letter, count);
		used += count;
		if (*text == ',' && *++text == '\0')
			return 0;
	}
	return used == n;
}

int32_t p2s_compact_again(const char *text, size_t most, size_t *count)
{
	size_t n = 0;

	if (text == NULL || text[0] != '=')
		return 0;
	for (text++; isdigit((unsigned char)*text) && n <= most; text++)
		n = n * 10 + (size_t)(*text - '0');
	if (*text != '\0' || n == 0 || n > most)
		return 0;
	*count = n;
	return 1;
}

void p2s_compact_hash(const char *text, char *out, size_t cap)
{
	snprintf(out, cap, "#%016" PRIx64, p2s_record_hash(text, strlen(text)));
}
