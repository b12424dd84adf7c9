#include "core/buf.h"
#include "emit/emit.h"

static int append(const char *text, size_t n, void *user)
{
	struct p2s_buf *b = user;

	p2s_buf_add(b, text, n);
	return b->failed ? -1 : 0;
}

/* Per thread, as errno: the trees are made by many small functions, and each of their steps may fail. initial-exec: four bytes that
 * are there when the thread starts; the general model calls the loader, which allocates at first use and aborts where it cannot. */
static _Thread_local int lost __attribute__((tls_model("initial-exec")));

void p2s_emit_append(json_t *list, json_t *value)
{
	lost |= json_array_append_new(list, value) != 0;
}

void p2s_emit_set(json_t *object, const char *key, json_t *value)
{
	lost |= json_object_set_new(object, key, value) != 0;
}

char *p2s_emit_dump(const json_t *tree, size_t flags)
{
	struct p2s_buf b = {0};
	int hole = lost;

	lost = 0;
	if (tree == NULL || hole || json_dump_callback(tree, append, &b, flags) != 0) {
		p2s_buf_free(&b);
		return NULL;
	}
	return p2s_buf_take(&b);
}
