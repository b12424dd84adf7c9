/* A growing string. A failed allocation is remembered in `failed`; further appends are then ignored, so callers
 * check once at the end. */
#ifndef P2S_CORE_BUF_H
#define P2S_CORE_BUF_H

#include <stddef.h>

struct p2s_buf {
	char *data; /* NUL-terminated whenever not NULL */
	size_t len;
	size_t cap;
	int failed;
};

void p2s_buf_add(struct p2s_buf *b, const char *text, size_t n);
void p2s_buf_str(struct p2s_buf *b, const char *text);
void p2s_buf_printf(struct p2s_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text, owned by the caller (free()), or NULL if an append failed. Leaves *b empty. An empty buf gives "". */
char *p2s_buf_take(struct p2s_buf *b);
void p2s_buf_free(struct p2s_buf *b);

#endif
