#include "old.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/sized.h"
#include "p2psafe/p2psafe.h"

void *old_today(const char *name)
{
	/* Loaded by its path: another library than this one, though both have the same SONAME. */
	void *library = dlopen(P2PSAFE_TEST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	void *function = library != NULL ? dlsym(library, name) : NULL;

	if (function == NULL) {
		fprintf(stderr, "the older library cannot be played: %s\n", dlerror());
		abort();
	}
	return function;
}

int32_t old_refuse(struct p2psafe_error *err, int32_t status)
{
	struct p2psafe_error own = {.size = sizeof own, .code = status};

	snprintf(own.text, sizeof own.text, "a struct of the caller: %s",
	         status == P2PSAFE_E_NEWER ? "a member newer than this library is set" : "its size is absurd");
	if (err != NULL)
		(void)p2s_sized_out(err, &own, sizeof own);
	return status;
}
