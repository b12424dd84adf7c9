#include "helper/cuda_loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct symbol {
	const char *name;
	size_t offset;
	uint32_t feature;
};

static const struct symbol symbols[] = {
#define P2S_CU_SYM(name, args, feature) {#name, offsetof(struct p2s_cuda, name), feature},
#include "helper/cuda_syms.def"
#undef P2S_CU_SYM
};

int p2s_cuda_load(struct p2s_cuda *cu, const char *path)
{
	const char *file = path != NULL && path[0] != '\0' ? path : "libcuda.so.1";
	int (*sim_missing)(const char *) = NULL;
	void *lib;
	void *at;

	memset(cu, 0, sizeof *cu);
	lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL) {
		const char *why = dlerror();

		snprintf(cu->error, sizeof cu->error, "%s", why != NULL ? why : file);
		return 0;
	}
	/* The simulated driver exports everything and says here what the simulated host's driver lacks (docs/HOSTS.md). */
	at = dlsym(lib, "p2psafe_sim_missing");
	if (at != NULL)
		memcpy(&sim_missing, &at, sizeof at);
	cu->simulated = at != NULL;
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		const struct symbol *s = &symbols[i];

		at = sim_missing != NULL && sim_missing(s->name) == 1 ? NULL : dlsym(lib, s->name);
		memcpy((char *)cu + s->offset, &at, sizeof at);
		if (at != NULL)
			continue;
		cu->missing |= s->feature;
		if (s->feature == 0 && cu->missing_required[0] == '\0')
			snprintf(cu->missing_required, sizeof cu->missing_required, "%s", s->name);
	}
	return cu->missing_required[0] == '\0';
}
