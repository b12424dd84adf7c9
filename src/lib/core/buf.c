#include "core/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int room(struct p2s_buf *b, size_t n)
{
	size_t cap = b->cap == 0 ? 256 : b->cap;
	char *data;

	if (b->failed)
		return 0;
	if (n > (size_t)1 << 30 || b->len > (size_t)1 << 30) {
		b->failed = 1;
		return 0;
	}
	while (cap < b->len + n + 1)
		cap *= 2;
	if (cap == b->cap)
		return 1;
	data = realloc(b->data, cap);
	if (data == NULL) {
		b->failed = 1;
		return 0;
	}
	b->data = data;
	b->cap = cap;
	return 1;
}

void p2s_buf_add(struct p2s_buf *b, const char *text, size_t n)
{
	if (!room(b, n))
		return;
	if (n > 0)
		memcpy(b->data + b->len, text, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void p2s_buf_str(struct p2s_buf *b, const char *text)
{
	p2s_buf_add(b, text, strlen(text));
}

void p2s_buf_printf(struct p2s_buf *b, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0) {
		b->failed = 1;
		return;
	}
	if (!room(b, (size_t)n))
		return;
	va_start(args, format);
	vsnprintf(b->data + b->len, (size_t)n + 1, format, args);
	va_end(args);
	b->len += (size_t)n;
}

char *p2s_buf_take(struct p2s_buf *b)
{
	char *data;

	if (b->data == NULL && !b->failed)
		p2s_buf_add(b, "", 0);
	data = b->failed ? NULL : b->data;
	if (b->failed)
		free(b->data);
	memset(b, 0, sizeof *b);
	return data;
}

void p2s_buf_free(struct p2s_buf *b)
{
	free(b->data);
	memset(b, 0, sizeof *b);
}
