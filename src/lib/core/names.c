#include "core/names.h"

#include <string.h>

#include "p2psafe/p2psafe.h"

struct word {
	enum p2s_word_group group;
	int32_t value;
	const char *text;
};

static const struct word words[] = {
#define P2S_WORD(group, id, value, text) {P2S_GROUP_##group, value, text},
#include "core/words.def"
#undef P2S_WORD
};

/* The header is the contract: a table that disagrees with it does not compile. */
#define P2S_WORD(group, id, value, text) _Static_assert(P2PSAFE_##group##_##id == (value), #group " " #id);
#include "core/words.def"
#undef P2S_WORD

const char *p2s_word_name(enum p2s_word_group group, int32_t value)
{
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (words[i].group == group && words[i].value == value)
			return words[i].text;
	return "unknown";
}

static const struct word *find(enum p2s_word_group group, const char *name)
{
	if (name == NULL)
		return NULL;
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (words[i].group == group && strcmp(words[i].text, name) == 0)
			return &words[i];
	return NULL;
}

int32_t p2s_word_value(enum p2s_word_group group, const char *name)
{
	const struct word *w = find(group, name);

	return w == NULL ? 0 : w->value;
}

int32_t p2s_word_known(enum p2s_word_group group, const char *name)
{
	return find(group, name) != NULL;
}
