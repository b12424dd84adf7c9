/* Counting checks for the programs of this folder: each says where it failed and what it saw, and the program goes on. */
#ifndef P2S_TESTS_ABI_CHECK_H
#define P2S_TESTS_ABI_CHECK_H

#include <inttypes.h>
#include <stdio.h>

static int checks;
static int failures;

/* wanted == found, as 64-bit numbers. */
#define CHECK(wanted, found) check_equal(__FILE__, __LINE__, #found, (int64_t)(wanted), (int64_t)(found))

static inline void check_equal(const char *file, int line, const char *what, int64_t wanted, int64_t found)
{
	checks++;
	if (wanted == found)
		return;
	failures++;
	fprintf(stderr, "%s:%d: %s is %" PRId64 ", wanted %" PRId64 "\n", file, line, what, found, wanted);
}

/* Exit status for main: 0 only if something was checked and nothing failed. */
static inline int check_result(void)
{
	printf("%d checks, %d failed\n", checks, failures);
	return checks > 0 && failures == 0 ? 0 : 1;
}

#endif
