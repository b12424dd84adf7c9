#include "core/buf.h"
#include "emit/emit.h"

static int append(const char *text, size_t n, void *user)
{
	struct p2s_buf *b = user;

	p2s_buf_add(b, text, n);
	return b->failed ? -1 : 0;
}

char *p2s_emit_dump(const json_t *tree, size_t flags)
{
	struct p2s_buf b = {0};

	if (tree == NULL || json_dump_callback(tree, append, &b, flags) != 0) {
		p2s_buf_free(&b);
		return NULL;
	}
	return p2s_buf_take(&b);
}
