/* A small simulated host below folder_path(): two GPUs behind root ports of their own, translated by nobody. Targets change its files
 * and put them back. */
#ifndef P2S_TESTS_FUZZ_TREE_H
#define P2S_TESTS_FUZZ_TREE_H

#include <stddef.h>

struct tree_file {
	const char *name; /* below the host folder */
	const char *text; /* NULL: a link */
	const char *link;
};

extern const struct tree_file tree_files[];
extern const size_t tree_count;

/* Path of the host folder; made at the first call. */
const char *tree_host(void);
/* Puts one file or link (back) as the table has it. */
void tree_restore(size_t i);

#endif
