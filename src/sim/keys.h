/* Strict reading of one JSON object through a table of keys: unknown keys, wrong types and numbers out of range are errors that
 * name the place. */
#ifndef P2S_SIM_KEYS_H
#define P2S_SIM_KEYS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum sim_key_kind {
	SIM_KEY_INT,  /* int64_t */
	SIM_KEY_BOOL, /* int64_t; true and false, or 0 and 1 */
	SIM_KEY_TEXT, /* char[max] */
	SIM_KEY_ELSE  /* read by the caller; only known here */
};

struct sim_key {
	const char *name;
	enum sim_key_kind kind;
	size_t offset;
	int64_t min;
	int64_t max; /* TEXT: bytes of the array */
	int required;
};

struct sim_error {
	char *text;
	size_t bytes;
};

/* Writes "where: message" and returns 0, so that callers can return it. */
int sim_fail(struct sim_error *e, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Reads object o into base. Keys that are absent leave their member as it is. Returns 1, or 0 with the error told. */
int sim_keys_read(const json_t *o, const struct sim_key *keys, size_t count, void *base, const char *where,
	struct sim_error *e);

#endif
