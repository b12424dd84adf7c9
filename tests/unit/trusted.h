/* A private folder per test that the library trusts: what a test of the kept record gets as its state. */
#ifndef P2S_TESTS_TRUSTED_H
#define P2S_TESTS_TRUSTED_H

#include "kept/trust.h"
#include "tmpdir.h"

struct place {
	char path[64];
	int dir;
};

static inline int setup(void **state)
{
	struct place *p = calloc(1, sizeof *p);
	const char *why;

	tmp_make(p->path, sizeof p->path);
	p->dir = p2s_trust_dir(p->path, &why);
	*state = p;
	return p->dir < 0;
}

static inline int teardown(void **state)
{
	struct place *p = *state;

	close(p->dir);
	tmp_remove(p->path);
	free(p);
	return 0;
}

#endif
