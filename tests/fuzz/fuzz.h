/* What every fuzz target shares. A target is one file with LLVMFuzzerTestOneInput; libFuzzer or fuzz_main.c drives it. */
#ifndef P2S_TESTS_FUZZ_H
#define P2S_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_ASSERT(cond)                                                               \
	do {                                                                            \
		if (!(cond)) {                                                          \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);      \
			abort();                                                        \
		}                                                                       \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The input as a row of choices. Behind its end everything is 0 and empty. */
struct fuzz_in {
	const uint8_t *at;
	size_t left;
};

static inline uint32_t fuzz_number(struct fuzz_in *in, size_t bytes)
{
	uint32_t v = 0;

	for (size_t i = 0; i < bytes && in->left > 0; i++, in->left--)
		v |= (uint32_t)*in->at++ << (8 * i);
	return v;
}

/* The next bytes, at most max; *len gets how many there are. */
static inline const uint8_t *fuzz_bytes(struct fuzz_in *in, size_t max, size_t *len)
{
	const uint8_t *start = in->at;

	*len = max < in->left ? max : in->left;
	in->at += *len;
	in->left -= *len;
	return start;
}

/* A copy with a NUL behind it. */
static inline char *fuzz_text(const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1);

	FUZZ_ASSERT(text != NULL);
	if (size > 0)
		memcpy(text, bytes, size);
	text[size] = '\0';
	return text;
}

#endif
