/* The rows of a veto, and how they meet what the user had set: a veto is never weakened, and never gives more than the user
 * did. */
#include "veto.h"

#include <string.h>
#include <strings.h>

const struct p2s_veto p2s_veto_of_all = {
	.count = 4,
	.rows = {{"NCCL_P2P_DISABLE", "1", 0}, {"NCCL_WIN_ENABLE", "0", 0}, {"NCCL_NVLS_ENABLE", "0", 0}, {"NCCL_MNNVL_ENABLE", "0", 0}},
	.tell = P2S_TELL_WARNING,
	.line = "NCCL is kept off peer-to-peer: no answer could be had in time",
};

int32_t p2s_veto_add(struct p2s_veto *v, const char *name, const char *value, int32_t unset)
{
	struct p2s_veto_row *row = &v->rows[v->count];

	if (v->count == P2S_VETO_ROWS || strlen(name) >= sizeof row->name || strlen(value) >= sizeof row->value)
		return 0;
	strcpy(row->name, name);
	strcpy(row->value, value);
	row->unset = unset;
	v->count++;
	return 1;
}

/* NCCL's path types, nearest first. Words only: its numbers changed between releases. */
static const char *const levels[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"};

/* The old numeric form: 0 to 4 and more. */
static const char *const numbered[] = {"LOC", "PIX", "PXB", "PHB", "SYS"};

/* Place of a level in the list, -1 for what NCCL would not understand: it compares with strcmp() (paths.cc, ncclGetLevel). */
static int32_t level_of(const char *text)
{
	if (text[0] >= '0' && text[0] <= '9')
		text = numbered[text[1] != '\0' || text[0] > '4' ? 4 : text[0] - '0'];
	for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
		if (strcmp(text, levels[i]) == 0)
			return (int32_t)i;
	return -1;
}

/* A user who asked for less keeps less. */
static const char *nearer(const char *ours, const char *user)
{
	int32_t theirs = level_of(user);

	return theirs >= 0 && theirs < level_of(ours) ? user : ours;
}

enum { LL = 1, LL128 = 2, SIMPLE = 4 };

/* The protocols of a plain list as "LL,Simple" or "^LL128"; -1 for anything else, as lists per function. */
static int32_t protocols_of(const char *text)
{
	static const struct {
		const char *name;
		int32_t bit;
	} words[] = {{"LL", LL}, {"LL128", LL128}, {"Simple", SIMPLE}};
	int32_t inverted = text[0] == '^';
	int32_t set = 0;

	for (const char *at = text + inverted; *at != '\0';) {
		size_t n = strcspn(at, ",");
		int32_t bit = 0;

		for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
			if (strlen(words[i].name) == n && strncasecmp(at, words[i].name, n) == 0)
				bit = words[i].bit;
		if (bit == 0)
			return -1;
		set |= bit;
		at += n + (at[n] == ',');
	}
	return inverted ? (LL | LL128 | SIMPLE) & ~set : set;
}

/* "^LL128" over the user's own list: what both allow. */
static const char *without_ll128(const char *ours, const char *user)
{
	int32_t left = protocols_of(user);

	if (left <= 0)
		return ours;
	if ((left & LL128) == 0)
		return user;
	return left == (LL | LL128) ? "LL" : left == (SIMPLE | LL128) ? "Simple" : ours;
}

const char *p2s_veto_get(const struct p2s_veto *v, const char *name, const char *user)
{
	for (size_t i = 0; i < v->count; i++) {
		const struct p2s_veto_row *row = &v->rows[i];

		if (strcmp(row->name, name) != 0)
			continue;
		if (row->unset)
			return NULL;
		if (user != NULL && user[0] != '\0' && strcmp(name, "NCCL_P2P_LEVEL") == 0)
			return nearer(row->value, user);
		if (user != NULL && user[0] != '\0' && strcmp(name, "NCCL_PROTO") == 0 && strcmp(row->value, "^LL128") == 0)
			return without_ll128(row->value, user);
		return row->value;
	}
	return user;
}
