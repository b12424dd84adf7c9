/* Takes out of a line of the log what names people, machines, or what they run. PCI addresses stay. */
#include <ctype.h>
#include <string.h>

#include "evidence/log.h"

struct sink {
	char *at;
	size_t left; /* without the end */
};

static void put(struct sink *s, const char *text, size_t n)
{
	if (n > s->left)
		n = s->left;
	memcpy(s->at, text, n);
	s->at += n;
	s->left -= n;
}

/* Length of a UUID at p (8-4-4-4-12 hexadecimal digits), 0 if there is none. */
static size_t uuid(const char *p)
{
	static const int group[] = {8, 4, 4, 4, 12};
	size_t n = 0;

	for (size_t g = 0; g < sizeof group / sizeof group[0]; g++) {
		for (int i = 0; i < group[g]; i++)
			if (!isxdigit((unsigned char)p[n++]))
				return 0;
		if (g < 4 && p[n++] != '-')
			return 0;
	}
	return isalnum((unsigned char)p[n]) ? 0 : n;
}

/* "(user@host) ", which version lines carry. */
static size_t builder(const char *p)
{
	size_t n = strcspn(p, " ()");

	return p[0] == '(' && (n = strcspn(p + 1, " ()")) > 0 && p[1 + n] == ')' && memchr(p + 1, '@', n) != NULL ? n + 2 : 0;
}

static int32_t is_word_start(const char *text, const char *p)
{
	return p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
}

void p2s_log_redact(const char *text, char *out, size_t cap)
{
	/* what follows the words is replaced up to one of the stops */
	static const struct {
		const char *word, *stop, *instead;
	} values[] = {{"pid=", ", )", "*"},           {"name=", ",)", "*"},       {"Serial Number: ", " ,", "*"},
	              {"Serial Number ", " ,", "*"},  {"serial=", " ,", "*"},     {"S/N ", " ,", "*"},
	              {"hostname=", " ,)", "*"},      {"user=", " ,)", "*"},      {"comm=", " ,)", "*"}};
	struct sink sink = {out, cap > 0 ? cap - 1 : 0};
	const char *p = text;

	if (cap == 0)
		return;
	while (*p != '\0' && sink.left > 0) {
		size_t n = p == text || !isalnum((unsigned char)p[-1]) ? uuid(p) : 0;
		size_t i = 0;

		if (n > 0) {
			put(&sink, "*", 1);
			p += n;
			continue;
		}
		n = builder(p);
		if (n > 0) {
			put(&sink, "(*)", 3);
			p += n;
			continue;
		}
		while (i < sizeof values / sizeof values[0] &&
		       !(*p == values[i].word[0] && is_word_start(text, p) && strncmp(p, values[i].word, strlen(values[i].word)) == 0))
			i++;
		if (i == sizeof values / sizeof values[0]) {
			put(&sink, p++, 1);
			continue;
		}
		n = strlen(values[i].word);
		put(&sink, p, n);
		put(&sink, values[i].instead, 1);
		p += n;
		p += strcspn(p, values[i].stop);
	}
	*sink.at = '\0';
}
