/* Asks the real NCCL for an id, which needs no GPU and makes it load its plugins.
 * usage: unique_id LIBNCCL; exits 77 if it cannot be loaded */
#include <dlfcn.h>
#include <stdio.h>

struct id {
	char internal[128]; /* ncclUniqueId */
};

int main(int argc, char **argv)
{
	void *nccl = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*version)(int *);
	int (*get)(struct id *);
	struct id id;
	int number = 0;
	int rc;

	if (nccl == NULL) {
		fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: unique_id LIBNCCL");
		return 77;
	}
	*(void **)(void *)&version = dlsym(nccl, "ncclGetVersion");
	*(void **)(void *)&get = dlsym(nccl, "ncclGetUniqueId");
	if (version == NULL || get == NULL || version(&number) != 0)
		return 1;
	rc = get(&id);
	printf("NCCL %d, ncclGetUniqueId %d\n", number, rc);
	return rc == 0 ? 0 : 1;
}
