/* What every fuzz target shares. A target is one file with LLVMFuzzerTestOneInput; libFuzzer or fuzz_main.c drives it. */
#ifndef P2S_TESTS_FUZZ_H
#define P2S_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_ASSERT(cond)                                                               \
	do {                                                                            \
		if (!(cond)) {                                                          \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);      \
			abort();                                                        \
		}                                                                       \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
