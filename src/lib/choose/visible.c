#include "choose/visible.h"

#include <string.h>

static int32_t is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int32_t read_number(const char *text, size_t length, uint32_t *out)
{
	size_t i = 0;
	size_t digits = 0;
	uint32_t v = 0;

	while (i < length && strchr(" \t\n\v\f\r", text[i]) != NULL)
		i++;
	if (i < length && text[i] == '+')
		i++;
	if (i + 1 < length && text[i] == '0' && (text[i + 1] == 'x' || text[i + 1] == 'X'))
		return 0;
	for (; i < length && is_digit(text[i]) && digits < 10; i++, digits++)
		v = v * 10 + (uint32_t)(text[i] - '0');
	*out = v;
	return digits > 0 && digits < 10;
}

static enum p2s_visible_kind kind_of(const char *text, size_t length)
{
	if (length > 4 && strncmp(text, "GPU-", 4) == 0)
		return P2S_VISIBLE_UUID;
	if (length > 4 && strncmp(text, "MIG-", 4) == 0)
		return P2S_VISIBLE_MIG;
	return P2S_VISIBLE_ORDINAL;
}

int32_t p2s_visible_next(struct p2s_visible *v, const char **at)
{
	const char *text = *at;
	size_t length = strcspn(text, ",");
	enum p2s_visible_kind kind = kind_of(text, length);

	/* at the end, also behind a last comma */
	if (*text == '\0' || (v->kind != P2S_VISIBLE_START && kind != v->kind))
		return 0;
	v->kind = kind;
	v->text = text;
	v->length = length;
	if (kind == P2S_VISIBLE_ORDINAL && !read_number(text, length, &v->ordinal))
		return 0;
	while (kind != P2S_VISIBLE_ORDINAL && v->length > 0 && text[v->length - 1] == ' ')
		v->length--;
	*at = text + length + (text[length] == ',');
	return 1;
}
