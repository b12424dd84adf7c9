/* A veto meets what the user had set for the same variable. Most are yes or no; these two may be stricter already, and then the
 * user's own stays. */
#include "veto.h"

#include <string.h>
#include <strings.h>

/* NCCL's path types, nearest first, and the old numeric form. Only those that every NCCL knows: it ignores the others, as words in
 * small letters (strcmp() in paths.cc, ncclGetLevel), and goes by its own default. C2C came with 2.26, P2C with 2.28. */
static const char *const levels[] = {"LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS"};
static const char *const numbered[] = {"LOC", "PIX", "PXB", "PHB", "SYS"};

static int level_of(const char *text)
{
	if (text[0] >= '0' && text[0] <= '9')
		text = numbered[text[1] != '\0' || text[0] > '4' ? 4 : text[0] - '0'];
	for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
		if (strcmp(text, levels[i]) == 0)
			return (int)i;
	}
	return -1; /* NCCL ignores it */
}

/* 1 if a plain list of protocols ("Simple", "LL,Simple", "^LL128") leaves LL128 out. Lists per function are not understood. */
static int without_ll128(const char *list)
{
	int inverted = list[0] == '^';
	int named = 0;
	int words = 0;
	const char *at = list + inverted;
	while (*at != '\0') {
		size_t n = strcspn(at, ",");
		if (n == 5 && strncasecmp(at, "LL128", n) == 0)
			named = 1;
		else if (!(n == 2 && strncasecmp(at, "LL", n) == 0) && !(n == 6 && strncasecmp(at, "Simple", n) == 0))
			return 0;
		words++;
		at += n + (at[n] == ',');
	}
	return words > 0 && named == inverted;
}

int cli_veto_is_stricter(const char *name, const char *user, const char *ours)
{
	if (user == NULL || user[0] == '\0')
		return 0;
	if (strcmp(name, "NCCL_P2P_LEVEL") == 0)
		return level_of(user) >= 0 && level_of(user) < level_of(ours);
	return strcmp(name, "NCCL_PROTO") == 0 && strcmp(ours, "^LL128") == 0 && without_ll128(user);
}
