/* libcuda-shadow.so.1: a wrapper around the REAL driver library for tests on real GPUs. It damages one directed pair on
 * purpose: whatever src's engines do to memory owned by dst happens to a private copy in src's own memory instead. So every
 * call succeeds, src reads back what it wrote, and dst never sees a byte: the private mirror of NVIDIA/nccl#2335, on hardware that is
 * in order.
 *
 * Use: p2psafe test --cuda-library .../libcuda-shadow.so.1
 * Configuration: the file shadow.conf beside the library, "src=0000:00:06.0 dst=0000:00:07.0". Without it, or where a
 * wrapped call cannot be understood, calls fail with CUDA_ERROR_UNKNOWN: a test of damage must not pass by accident.
 *
 * How: the loader of the helper asks dlsym() on this library, which looks here first and then in the libcuda.so.1 that it
 * needs, so only the calls that move bytes are wrapped: cuLaunchKernel and the copies. Arguments that point into dst's
 * memory while src's context is current are exchanged for pointers into the copy. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "helper/kernels.h"

#define WRAPPED __attribute__((visibility("default")))
#define ERROR_UNKNOWN 999
/* CUpointer_attribute (cuda.h, CUDA 13.0) */
#define ATTRIBUTE_DEVICE_ORDINAL 9
#define ATTRIBUTE_RANGE_START 11
#define ATTRIBUTE_RANGE_SIZE 12

typedef uint64_t dptr;

int cuModuleGetFunction(void **out, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **params, void **extra);
int cuMemcpyAsync(dptr dst, dptr src, size_t bytes, void *stream);
int cuMemcpyPeerAsync(dptr dst, void *dst_ctx, dptr src, void *src_ctx, size_t bytes, void *stream);

struct shadow {
	dptr start;
	uint64_t size;
	dptr copy;
};

struct function {
	void *handle;
	int args;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shadow shadows[256];
static int shadow_count;
static struct function functions[64];
static int function_count;

/* The driver's own function. Not RTLD_NEXT: in a library that was itself opened with dlopen() that looks through the program's
 * libraries, where the driver is not. */
static void *real(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *function = driver == NULL ? NULL : dlsym(driver, name);

	if (driver != NULL)
		dlclose(driver);
	return function;
}

/* The ordinals of src and dst in this process; 0 when they cannot be told. */
static int configured(int *src, int *dst)
{
	int (*by_address)(int *, const char *) = (int (*)(int *, const char *))real("cuDeviceGetByPCIBusId");
	char path[4096], line[256] = "", a[32], b[32];
	Dl_info info;
	char *slash;
	FILE *f;

	if (by_address == NULL || dladdr((void *)&lock, &info) == 0)
		return 0;
	snprintf(path, sizeof path - 16, "%s", info.dli_fname);
	slash = strrchr(path, '/');
	if (slash == NULL)
		return 0;
	strcpy(slash, "/shadow.conf");
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fgets(line, sizeof line, f) == NULL)
		line[0] = '\0';
	fclose(f);
	if (sscanf(line, "src=%31s dst=%31s", a, b) != 2)
		return 0;
	/* A worker that does not see one of the two has nothing to damage. */
	if (by_address(src, a) != 0)
		*src = -1;
	if (by_address(dst, b) != 0)
		*dst = -1;
	return 1;
}

/* Exchanges *p if it points into dst's memory while src's context is current. Returns a CUresult. */
static int exchange(dptr *p)
{
	int (*current)(int *) = (int (*)(int *))real("cuCtxGetDevice");
	int (*attribute)(void *, int, dptr) = (int (*)(void *, int, dptr))real("cuPointerGetAttribute");
	int (*alloc)(dptr *, size_t) = (int (*)(dptr *, size_t))real("cuMemAlloc_v2");
	int src, dst, here, owner = -1;
	dptr start = 0;
	size_t size = 0;
	struct shadow *s = NULL;
	int rc = 0;

	if (!configured(&src, &dst) || current == NULL || attribute == NULL || alloc == NULL)
		return ERROR_UNKNOWN;
	if (*p == 0 || current(&here) != 0 || here != src || attribute(&owner, ATTRIBUTE_DEVICE_ORDINAL, *p) != 0 || owner != dst)
		return 0;
	if (attribute(&start, ATTRIBUTE_RANGE_START, *p) != 0 || attribute(&size, ATTRIBUTE_RANGE_SIZE, *p) != 0 || *p < start)
		return ERROR_UNKNOWN;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < shadow_count && s == NULL; i++)
		if (shadows[i].start == start && shadows[i].size == size)
			s = &shadows[i];
	if (s == NULL) {
		if (shadow_count == 256) {
			rc = ERROR_UNKNOWN;
		} else {
			s = &shadows[shadow_count];
			s->start = start;
			s->size = size;
			rc = alloc(&s->copy, size);
			if (rc == 0)
				shadow_count++;
		}
	}
	if (rc == 0)
		*p = s->copy + (*p - start);
	pthread_mutex_unlock(&lock);
	return rc;
}

WRAPPED int cuModuleGetFunction(void **out, void *module, const char *name)
{
	static const struct {
		const char *name;
		int args;
	} known[] = {
#define K(name, args) {"p2s_" #name, args},
		P2S_KERNELS(K)
#undef K
	};
	int (*next)(void **, void *, const char *) = (int (*)(void **, void *, const char *))real("cuModuleGetFunction");
	int rc = next == NULL ? ERROR_UNKNOWN : next(out, module, name);

	if (rc != 0)
		return rc;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(known[i].name, name) == 0 && function_count < 64) {
			functions[function_count].handle = *out;
			functions[function_count++].args = known[i].args;
		}
	pthread_mutex_unlock(&lock);
	return 0;
}

WRAPPED int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                           unsigned shared, void *stream, void **params, void **extra)
{
	int (*next)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) =
		(int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))real(
			"cuLaunchKernel");
	uint64_t values[P2S_KERNEL_ARGS_MAX];
	void *pointers[P2S_KERNEL_ARGS_MAX];
	int args = -1;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < function_count; i++)
		if (functions[i].handle == function)
			args = functions[i].args;
	pthread_mutex_unlock(&lock);
	if (next == NULL || args < 0 || params == NULL)
		return ERROR_UNKNOWN;
	for (int i = 0; i < args; i++) {
		int rc;

		memcpy(&values[i], params[i], sizeof values[i]);
		pointers[i] = &values[i];
		rc = exchange(&values[i]);
		if (rc != 0)
			return rc;
	}
	return next(function, gx, gy, gz, bx, by, bz, shared, stream, pointers, extra);
}

WRAPPED int cuMemcpyAsync(dptr dst, dptr src, size_t bytes, void *stream)
{
	int (*next)(dptr, dptr, size_t, void *) = (int (*)(dptr, dptr, size_t, void *))real("cuMemcpyAsync");
	int rc = exchange(&dst);

	if (rc == 0)
		rc = exchange(&src);
	return rc != 0 || next == NULL ? ERROR_UNKNOWN : next(dst, src, bytes, stream);
}

WRAPPED int cuMemcpyPeerAsync(dptr dst, void *dst_ctx, dptr src, void *src_ctx, size_t bytes, void *stream)
{
	int (*next)(dptr, void *, dptr, void *, size_t, void *) =
		(int (*)(dptr, void *, dptr, void *, size_t, void *))real("cuMemcpyPeerAsync");
	int (*plain)(dptr, dptr, size_t, void *) = (int (*)(dptr, dptr, size_t, void *))real("cuMemcpyAsync");
	dptr d = dst, s = src;
	int rc = exchange(&d);

	if (rc == 0)
		rc = exchange(&s);
	if (rc != 0 || next == NULL || plain == NULL)
		return ERROR_UNKNOWN;
	return d == dst && s == src ? next(dst, dst_ctx, src, src_ctx, bytes, stream) : plain(d, s, bytes, stream);
}
