#include "sim/keys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int sim_fail(struct sim_error *e, const char *where, const char *format, ...)
{
	va_list ap;
	int n = snprintf(e->text, e->bytes, "%s: ", where);

	if (n < 0 || (size_t)n >= e->bytes)
		return 0;
	va_start(ap, format);
	vsnprintf(e->text + n, e->bytes - (size_t)n, format, ap);
	va_end(ap);
	return 0;
}

static int read_int(const json_t *v, const struct sim_key *k, int64_t *out, const char *where, struct sim_error *e)
{
	int64_t x;

	if (!json_is_integer(v))
		return sim_fail(e, where, "%s must be an integer", k->name);
	x = json_integer_value(v);
	if (x < k->min || x > k->max)
		return sim_fail(e, where, "%s is out of range", k->name);
	*out = x;
	return 1;
}

static int read_bool(const json_t *v, const struct sim_key *k, int64_t *out, const char *where, struct sim_error *e)
{
	if (json_is_boolean(v)) {
		*out = json_is_true(v);
		return 1;
	}
	if (json_is_integer(v) && (json_integer_value(v) == 0 || json_integer_value(v) == 1)) {
		*out = json_integer_value(v);
		return 1;
	}
	return sim_fail(e, where, "%s must be true or false", k->name);
}

static int read_text(const json_t *v, const struct sim_key *k, char *out, const char *where, struct sim_error *e)
{
	if (!json_is_string(v))
		return sim_fail(e, where, "%s must be a string", k->name);
	if (json_string_length(v) >= (size_t)k->max)
		return sim_fail(e, where, "%s is too long", k->name);
	memcpy(out, json_string_value(v), json_string_length(v) + 1);
	return 1;
}

int sim_keys_read(const json_t *o, const struct sim_key *keys, size_t count, void *base, const char *where, struct sim_error *e)
{
	const char *name;
	json_t *v;
	size_t i;

	if (!json_is_object(o))
		return sim_fail(e, where, "must be an object");
	json_object_foreach((json_t *)o, name, v) {
		for (i = 0; i < count && strcmp(name, keys[i].name) != 0; i++)
			;
		if (i == count)
			return sim_fail(e, where, "unknown key %s", name);
	}
	for (i = 0; i < count; i++) {
		const struct sim_key *k = &keys[i];
		char *at = (char *)base + k->offset;
		int ok = 1;

		v = json_object_get(o, k->name);
		if (!v) {
			if (k->required)
				return sim_fail(e, where, "%s is missing", k->name);
			continue;
		}
		if (k->kind == SIM_KEY_INT)
			ok = read_int(v, k, (int64_t *)(void *)at, where, e);
		else if (k->kind == SIM_KEY_BOOL)
			ok = read_bool(v, k, (int64_t *)(void *)at, where, e);
		else if (k->kind == SIM_KEY_TEXT)
			ok = read_text(v, k, at, where, e);
		if (!ok)
			return 0;
	}
	return 1;
}
