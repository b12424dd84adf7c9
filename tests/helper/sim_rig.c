#include "sim_rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct rig cu;
const char *rig_mask;
int rig_quiet;

/* What the simulated module loader looks for; the twins do the work. */
static const char ptx[] = ".version 6.4\n.target sm_70\n.address_size 64\n"
			  ".visible .entry p2s_fill()\n.visible .entry p2s_check()\n"
			  ".visible .entry p2s_load()\n.visible .entry p2s_mp()\n.visible .entry p2s_tear()\n"
			  ".visible .entry p2s_atomic()\n";

void rig_failed(const char *file, int line, const char *text)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, text);
	_exit(1);
}

void rig_failed_call(const char *file, int line, const char *text, int rc)
{
	fprintf(stderr, "%s:%d: %s gave %d\n", file, line, text, rc);
	_exit(1);
}

static void write_host(const char *dir, int gpus, const char *more)
{
	char path[256];
	FILE *f;
	int i;

	snprintf(path, sizeof(path), "%s/cuda.json", dir);
	f = fopen(path, "w");
	CHECK(f != NULL);
	fprintf(f, "{\"driver_api\": 12080");
	if (gpus)
		fprintf(f, ", \"gpus\": [");
	for (i = 0; i < gpus; i++)
		fprintf(f, "%s{\"bdf\": \"0000:%02x:00.0\", "
		        "\"uuid\": \"GPU-%08x-0000-0000-0000-000000000000\", \"name\": \"GPU\", \"minor\": %d}",
		        i ? "," : "", i + 1, i + 1, i);
	fprintf(f, "%s%s%s}\n", gpus ? "]" : "", strstr(more,
		"\"links\"") ? "" : ", \"links\": {\"default\": {\"kind\": \"pcie\"}}", more);
	CHECK(!fclose(f));
}

int rig_memory(void)
{
	int fd = memfd_create("rig", 0);

	CHECK(fd >= 0);
	return fd;
}

int rig_start(int gpus, const char *more, int fd, void (*fn)(void *), void *arg)
{
	int pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		char dir[] = "/tmp/p2psafe-rig-XXXXXX", text[16], path[64];

		alarm(120);
		CHECK(mkdtemp(dir) != NULL);
		write_host(dir, gpus, more);
		setenv("P2PSAFE_SIM_HOST", dir, 1);
		setenv("P2PSAFE_SIM_LOG", "2", 1);
		setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
		if (rig_mask)
			setenv("CUDA_VISIBLE_DEVICES", rig_mask, 1);
		else
			unsetenv("CUDA_VISIBLE_DEVICES");
		if (rig_quiet)
			CHECK(freopen("/dev/null", "w", stderr) != NULL);
		snprintf(text, sizeof(text), "%d", fd);
		if (fd >= 0)
			setenv("P2PSAFE_SIM_FD", text, 1);
		else
			unsetenv("P2PSAFE_SIM_FD");
		rig_load();
		snprintf(path, sizeof(path), "%s/cuda.json", dir);
		unlink(path);
		rmdir(dir);
		fn(arg);
		_exit(0);
	}
	return pid;
}

int rig_wait(int pid)
{
	int status = 0;

	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int rig_run(int gpus, const char *more, void (*fn)(void *), void *arg)
{
	return rig_wait(rig_start(gpus, more, -1, fn, arg));
}

void rig_load(void)
{
	void *at;

	cu.library = dlopen(SIM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!cu.library)
		rig_failed(__FILE__, __LINE__, dlerror());
#define RIG_FN(name)                            \
	at = dlsym(cu.library, #name);          \
	CHECK(at != NULL);                      \
	memcpy(&cu.name, &at, sizeof(at));
#include "sim_rig.def"
#undef RIG_FN
	CU(cu.cuInit(0));
}

void rig_open(struct rig_gpu *g, int dev)
{
	CUmodule module;
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED);
	memset(g, 0, sizeof(*g));
	CU(cu.cuDevicePrimaryCtxRetain(&g->ctx, dev));
	CU(cu.cuCtxSetCurrent(g->ctx));
	CU(cu.cuStreamCreate(&g->stream, 1));
	CU(cu.cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
	CU(cu.cuModuleGetFunction(&g->fill, module, "p2s_fill"));
	CU(cu.cuModuleGetFunction(&g->check, module, "p2s_check"));
	CU(cu.cuModuleGetFunction(&g->load, module, "p2s_load"));
	CU(cu.cuModuleGetFunction(&g->mp, module, "p2s_mp"));
	CU(cu.cuModuleGetFunction(&g->tear, module, "p2s_tear"));
	CU(cu.cuModuleGetFunction(&g->atomic, module, "p2s_atomic"));
	g->ctl = page;
	CU(cu.cuMemHostRegister_v2(page, 4096, 0));
	CU(cu.cuMemAlloc_v2(&g->res, 1 << 16));
}

void rig_launch(struct rig_gpu *g, CUfunction f, const uint64_t *a, unsigned n)
{
	void *params[P2S_KERNEL_ARGS_MAX];
	unsigned i;

	for (i = 0; i < n; i++)
		params[i] = (void *)(uintptr_t)&a[i];
	CU(cu.cuCtxSetCurrent(g->ctx));
	CU(cu.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, g->stream, params, NULL));
}

CUresult rig_sync(struct rig_gpu *g, int ms)
{
	struct timespec t = { 0, 100000 };
	CUresult rc = CU_NOT_READY;
	long i;

	CU(cu.cuCtxSetCurrent(g->ctx));
	for (i = 0; i < ms * 10L && rc == CU_NOT_READY; i++) {
		rc = cu.cuStreamQuery(g->stream);
		if (rc == CU_NOT_READY)
			nanosleep(&t, NULL);
	}
	return rc;
}

void rig_fill(struct rig_gpu *g, CUdeviceptr p, uint64_t begin, uint64_t end, uint64_t seed)
{
	uint64_t a[4] = { p, begin, end, seed };

	rig_launch(g, g->fill, a, 4);
	CU(rig_sync(g, 20000));
}

struct p2s_check_result rig_check(struct rig_gpu *g, CUdeviceptr p, uint64_t bytes, uint64_t in_begin, uint64_t in_end,
                                  uint64_t seed, uint64_t seed_out)
{
	struct p2s_check_result r = { .first_bad = ~UINT64_C(0) };
	uint64_t a[8] = { p, 0, bytes, in_begin, in_end, seed, seed_out, g->res };

	CU(cu.cuCtxSetCurrent(g->ctx));
	CU(cu.cuMemcpyHtoDAsync_v2(g->res, &r, sizeof(r), g->stream));
	rig_launch(g, g->check, a, 8);
	CU(cu.cuMemcpyDtoHAsync_v2(&r, g->res, sizeof(r), g->stream));
	CU(rig_sync(g, 20000));
	return r;
}

uint64_t rig_bad(struct rig_gpu *g, CUdeviceptr p, uint64_t bytes, uint64_t seed)
{
	return rig_check(g, p, bytes, 0, bytes, seed, seed).bad_words;
}

CUdeviceptr rig_peer(struct rig_gpu *a, struct rig_gpu *b, uint64_t bytes)
{
	CUdeviceptr p;
	CUresult rc;

	CU(cu.cuCtxSetCurrent(b->ctx));
	CU(cu.cuMemAlloc_v2(&p, bytes));
	CU(cu.cuCtxSetCurrent(a->ctx));
	rc = cu.cuCtxEnablePeerAccess(b->ctx, 0);
	CHECK(rc == CU_OK || rc == CU_PEER_ALREADY);
	return p;
}

void rig_mp(struct rig_gpu *g, const struct rig_mp *m)
{
	struct p2s_role_result zero[2];
	uint64_t a[14] = { (uint64_t)(uintptr_t)g->ctl, g->res, m->w_dst, m->r_src, m->w_seed, m->r_seed, m->rounds, m->words, m->slot,
		           m->flag, m->idiom, m->pace, m->max_ns, UINT64_C(1) << 40 };

	memset(zero, 0, sizeof(zero));
	memset(g->ctl, 0, 4096);
	CU(cu.cuCtxSetCurrent(g->ctx));
	CU(cu.cuMemcpyHtoDAsync_v2(g->res, zero, sizeof(zero), g->stream));
	CU(rig_sync(g, 5000));
	rig_launch(g, g->mp, a, 14);
	g->ctl->go.word = 1;
}

void rig_roles(struct rig_gpu *g, struct p2s_role_result out[2])
{
	CU(cu.cuCtxSetCurrent(g->ctx));
	CU(cu.cuMemcpyDtoHAsync_v2(out, g->res, 2 * sizeof(*out), g->stream));
	CU(rig_sync(g, 5000));
}
