#include "sim/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/word.h"
#include "sim/config_faults.h"
#include "sim/config_speed.h"
#include "sim/keys.h"

#define GIB (INT64_C(1) << 30)
#define TIB (INT64_C(1) << 40)
#define PCIE_BYTES_PER_S INT64_C(25000000000)    /* 16 lanes of the fourth generation */
#define NVLINK_BYTES_PER_S INT64_C(390000000000) /* 18 links of the fourth */
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct head {
	int64_t driver_api;
	int64_t init_error;
	int64_t seed;
	char mutant[32];
};

static const struct sim_key head_keys[] = {
	{ "driver_api", SIM_KEY_INT, offsetof(struct head, driver_api), 1000, 99990, 1 },
	{ "init_error", SIM_KEY_INT, offsetof(struct head, init_error), 0, 9999, 0 },
	{ "seed", SIM_KEY_INT, offsetof(struct head, seed), 0, INT64_MAX, 0 },
	{ "mutant", SIM_KEY_TEXT, offsetof(struct head, mutant), 0, sizeof(((struct head *)0)->mutant), 0 },
	{ "missing_symbols", SIM_KEY_ELSE, 0, 0, 0, 0 },
	{ "gpus", SIM_KEY_ELSE, 0, 0, 0, 1 },
	{ "links", SIM_KEY_ELSE, 0, 0, 0, 1 },
	{ "staged", SIM_KEY_ELSE, 0, 0, 0, 0 },
	{ "nvml", SIM_KEY_ELSE, 0, 0, 0, 0 },
	{ "faults", SIM_KEY_ELSE, 0, 0, 0, 0 },
};

#define GPU_INT(key, min, max, required) { #key, SIM_KEY_INT, offsetof(struct sim_gpu, key), min, max, required }
#define GPU_BOOL(key) { #key, SIM_KEY_BOOL, offsetof(struct sim_gpu, key), 0, 1, 0 }
#define GPU_TEXT(key, member) { key, SIM_KEY_TEXT, offsetof(struct sim_gpu, member), 0, \
	sizeof(((struct sim_gpu *)0)->member), 1 }

static const struct sim_key gpu_keys[] = {
	GPU_TEXT("bdf", address),
	GPU_TEXT("uuid", uuid),
	GPU_TEXT("name", name),
	GPU_INT(minor, 0, 1024, 1),
	{ "cc", SIM_KEY_ELSE, 0, 0, 0, 0 },
	GPU_INT(sm_count, 1, 1024, 0),
	GPU_INT(memory_bytes, 1 << 26, 4 * TIB, 0),
	GPU_INT(free_bytes, 0, 4 * TIB, 0),
	GPU_INT(port_bytes_per_s, 1000, INT64_C(100000000000000), 0),
	GPU_INT(host_numa_id, -1, 1 << 20, 0),
	GPU_INT(init_error, 0, 9999, 0),
	GPU_INT(compute_mode, 0, 3, 0),
	GPU_BOOL(cumem_fd),
	GPU_BOOL(ipc),
	GPU_BOOL(gdr),
	GPU_BOOL(integrated),
	GPU_BOOL(jit),
	GPU_BOOL(alloc_waits),
	GPU_BOOL(mps),
	GPU_BOOL(mig),
	GPU_BOOL(vgpu),
	GPU_BOOL(persistence),
	GPU_BOOL(display_active),
	GPU_INT(recovery_action, 0, 4, 0),
	GPU_INT(fabric_state, 0, 3, 0),
	GPU_INT(fabric_status, 0, 999, 0),
	{ "processes", SIM_KEY_ELSE, 0, 0, 0, 0 },
};

struct link_text {
	struct sim_link link;
	char kind[16];
	char src[32];
	char dst[32];
};

#define LINK_INT(key, min, max) { #key, SIM_KEY_INT, offsetof(struct link_text, link.key), min, max, 0 }
#define LINK_BOOL(key) { #key, SIM_KEY_BOOL, offsetof(struct link_text, link.key), 0, 1, 0 }
#define LINK_TEXT(key, required) { #key, SIM_KEY_TEXT, offsetof(struct link_text, key), 0, \
	sizeof(((struct link_text *)0)->key), required }
#define LINK_KEYS                                                                                             \
	{ "kind", SIM_KEY_TEXT, offsetof(struct link_text, kind), 0, sizeof(((struct link_text *)0)->kind), 0 },  \
		LINK_INT(bytes_per_s, 1000, INT64_C(100000000000000)), LINK_INT(latency_ns, 0, 1000000000),       \
		LINK_BOOL(can_access), LINK_BOOL(native_atomics), LINK_INT(nvlinks, 0, 64),                       \
		LINK_INT(granularity, 8, 128), LINK_BOOL(reorder)

static const struct sim_key default_keys[] = { LINK_KEYS };
static const struct sim_key pair_keys[] = { LINK_TEXT(src, 1), LINK_TEXT(dst, 1), LINK_KEYS };

static const struct sim_key staged_keys[] = {
	{ "bytes_per_s", SIM_KEY_INT, offsetof(struct sim_config, staged_bytes_per_s), 1000, INT64_C(100000000000000), 0 },
	{ "latency_ns", SIM_KEY_INT, offsetof(struct sim_config, staged_latency_ns), 0, 1000000000, 0 },
};

struct nvml_text {
	struct sim_nvml nvml;
	char p2p[5][8];
};

#define NVML_INT(key, max) { #key, SIM_KEY_INT, offsetof(struct nvml_text, nvml.key), 0, max, 0 }
#define NVML_P2P(name, i) { name, SIM_KEY_TEXT, offsetof(struct nvml_text, p2p[i]), 0, 8, 0 }

static const struct sim_key nvml_keys[] = {
	{ "available", SIM_KEY_BOOL, offsetof(struct nvml_text, nvml.available), 0, 1, 0 },
	{ "confidential", SIM_KEY_BOOL, offsetof(struct nvml_text, nvml.confidential), 0, 1, 0 },
	{ "hang", SIM_KEY_BOOL, offsetof(struct nvml_text, nvml.hang), 0, 1, 0 },
	{ "link_bytes_per_s", SIM_KEY_INT, offsetof(struct nvml_text, nvml.link_bytes_per_s), 0, INT64_C(100000000000000), 0 },
	NVML_INT(pcie_replays, INT32_MAX),
	NVML_INT(pcie_replays_step, INT32_MAX),
	NVML_INT(nvlink_errors, INT64_C(1) << 40),
	NVML_INT(nvlink_errors_step, INT64_C(1) << 40),
	{ "old_counters", SIM_KEY_BOOL, offsetof(struct nvml_text, nvml.old_counters), 0, 1, 0 },
	NVML_P2P("p2p_read", 0),
	NVML_P2P("p2p_write", 1),
	NVML_P2P("p2p_nvlink", 2),
	NVML_P2P("p2p_atomics", 3),
	NVML_P2P("p2p_pcie", 4),
};

/* Index = nvmlGpuP2PStatus_t. */
static const char *const p2p_words[] = { "OK", "CNS", "GNS", "TNS", "DR", "NS", "U" };
static const char *const mutant_words[] = { "", "flag_before_data", "no_fence", "check_through_window" };

static int word_index(const char *const *words, size_t count, const char *text)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(words[i], text))
			return (int)i;
	return -1;
}

int sim_config_gpu(const struct sim_config *c, const char *address)
{
	struct p2psafe_bdf bdf;
	int i;

	if (!p2s_bdf_parse(address, &bdf))
		return -1;
	for (i = 0; i < c->gpu_count; i++)
		if (!p2s_bdf_compare(&bdf, &c->gpus[i].bdf))
			return i;
	return -1;
}

static int read_uuid(struct sim_gpu *g, const char *where, struct sim_error *e)
{
	const char *p = g->uuid;
	int i, n = 0;

	if (strncmp(p, "GPU-", 4) != 0 || strlen(p) != 40)
		return sim_fail(e, where, "uuid must be GPU- and 8-4-4-4-12 hexadecimal digits");
	for (i = 4; i < 40; i++) {
		unsigned digit;
		char c = p[i];

		if (i == 12 || i == 17 || i == 22 || i == 27) {
			if (c != '-')
				return sim_fail(e, where, "uuid must be GPU- and 8-4-4-4-12 hexadecimal digits");
			continue;
		}
		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (unsigned)(c - 'a') + 10;
		else
			return sim_fail(e, where, "uuid has a character that is no lower-case hexadecimal digit");
		g->uuid_bytes[n / 2] = (unsigned char)((unsigned)g->uuid_bytes[n / 2] << 4 | digit);
		n++;
	}
	return 1;
}

static const struct sim_key process_keys[] = {
	{ "pid", SIM_KEY_INT, offsetof(struct sim_process, pid), 1, 4194304, 1 },
	{ "name", SIM_KEY_TEXT, offsetof(struct sim_process, name), 0, sizeof(((struct sim_process *)0)->name), 0 },
};

static int read_processes(struct sim_gpu *g, const json_t *list, const char *where, struct sim_error *e)
{
	size_t i;

	if (list && (!json_is_array(list) || json_array_size(list) > SIM_MAX_PROCESSES))
		return sim_fail(e, where, "processes must be an array of at most %d", SIM_MAX_PROCESSES);
	for (i = 0; i < json_array_size(list); i++)
		if (!sim_keys_read(json_array_get(list, i), process_keys, COUNT(process_keys), &g->process[g->process_count++], where, e))
			return 0;
	return 1;
}

static int read_gpu(struct sim_config *c, const json_t *o, struct sim_error *e)
{
	struct sim_gpu *g = &c->gpus[c->gpu_count];
	char where[32];
	json_t *cc;
	int i;

	snprintf(where, sizeof(where), "gpus[%d]", c->gpu_count);
	*g = (struct sim_gpu){ .cc_major = 9, .sm_count = 8, .memory_bytes = 24 * GIB, .free_bytes = 20 * GIB, .host_numa_id = -1,
		               .cumem_fd = 1, .ipc = 1, .gdr = 1, .jit = 1, .alloc_waits = 1, .persistence = 1 };
	if (!sim_keys_read(o, gpu_keys, COUNT(gpu_keys), g, where, e))
		return 0;
	if (!p2s_bdf_parse(g->address, &g->bdf))
		return sim_fail(e, where, "bdf is no PCI address");
	p2s_bdf_format(&g->bdf, g->address);
	if (!read_uuid(g, where, e) || !read_processes(g, json_object_get(o, "processes"), where, e))
		return 0;
	cc = json_object_get(o, "cc");
	if (cc) {
		json_t *major = json_array_get(cc, 0), *minor = json_array_get(cc, 1);

		if (!json_is_array(cc) || json_array_size(cc) != 2 || !json_is_integer(major) || !json_is_integer(minor))
			return sim_fail(e, where, "cc must be two integers");
		g->cc_major = json_integer_value(major);
		g->cc_minor = json_integer_value(minor);
		if (g->cc_major < 1 || g->cc_major > 99 || g->cc_minor < 0 || g->cc_minor > 9)
			return sim_fail(e, where, "cc is out of range");
	}
	if (g->free_bytes > g->memory_bytes)
		return sim_fail(e, where, "free_bytes is more than memory_bytes");
	for (i = 0; i < c->gpu_count; i++) {
		int order = p2s_bdf_compare(&c->gpus[i].bdf, &g->bdf);

		if (order >= 0)
			return sim_fail(e, where, order ? "gpus must be in PCI order" : "bdf occurs twice");
		if (c->gpus[i].minor == g->minor || !strcmp(c->gpus[i].uuid, g->uuid))
			return sim_fail(e, where, "minor or uuid occurs twice");
	}
	c->gpu_count++;
	return 1;
}

static int link_kind(struct link_text *t, const char *where, struct sim_error *e)
{
	int64_t g = t->link.granularity;

	if (t->kind[0]) {
		if (strcmp(t->kind, "pcie") != 0 && strcmp(t->kind, "nvlink") != 0)
			return sim_fail(e, where, "kind must be pcie or nvlink");
		t->link.nvlink = t->kind[0] == 'n';
	}
	if (g && g != 8 && g != 16 && g != 32 && g != 128)
		return sim_fail(e, where, "granularity must be 8, 16, 32 or 128");
	return 1;
}

static int read_links(struct sim_config *c, const json_t *o, struct sim_error *e)
{
	static const struct sim_key keys[] = { { "default", SIM_KEY_ELSE, 0, 0, 0, 0 }, { "pairs", SIM_KEY_ELSE, 0, 0, 0, 0 },
		                               { "uplinks", SIM_KEY_ELSE, 0, 0, 0, 0 } };
	/* native_atomics -1, bytes_per_s and granularity 0: not said, follows the kind */
	struct link_text t = { .link = { .latency_ns = 1000, .can_access = 1, .native_atomics = -1, .reorder = 1 } };
	const json_t *pairs = json_object_get(o, "pairs"), *first = json_object_get(o, "default");
	size_t i;
	int s, d;

	if (!sim_keys_read(o, keys, COUNT(keys), &t, "links", e))
		return 0;
	if (first && !sim_keys_read(first, default_keys, COUNT(default_keys), &t, "links.default", e))
		return 0;
	if (!link_kind(&t, "links.default", e))
		return 0;
	for (s = 0; s < c->gpu_count; s++)
		for (d = 0; d < c->gpu_count; d++)
			c->links[s][d] = t.link;
	if (pairs && !json_is_array(pairs))
		return sim_fail(e, "links", "pairs must be an array");
	for (i = 0; i < json_array_size(pairs); i++) {
		const json_t *p = json_array_get(pairs, i);
		char where[40];
		int src, dst;

		snprintf(where, sizeof(where), "links.pairs[%zu]", i);
		if (!sim_fault_gpu(c, json_object_get(p, "src"), &src, "src", where, e) ||
		    !sim_fault_gpu(c, json_object_get(p, "dst"), &dst, "dst", where, e))
			return 0;
		for (s = 0; s < c->gpu_count; s++) {
			for (d = 0; d < c->gpu_count; d++) {
				if ((src != SIM_ANY && src != s) || (dst != SIM_ANY && dst != d))
					continue;
				memset(&t, 0, sizeof(t));
				t.link = c->links[s][d];
				if (!sim_keys_read(p, pair_keys, COUNT(pair_keys), &t, where, e) || !link_kind(&t, where, e))
					return 0;
				c->links[s][d] = t.link;
			}
		}
	}
	for (s = 0; s < c->gpu_count; s++) {
		for (d = 0; d < c->gpu_count; d++) {
			struct sim_link *l = &c->links[s][d];

			if (l->native_atomics < 0)
				l->native_atomics = l->nvlink;
			if (!l->bytes_per_s)
				l->bytes_per_s = l->nvlink ? NVLINK_BYTES_PER_S : PCIE_BYTES_PER_S;
			/* Lines of 128 bytes stay whole in the own memory and on NVLink, as NCCL counts on. */
			if (!l->granularity)
				l->granularity = l->nvlink || s == d ? 128 : 32;
		}
	}
	return 1;
}

static int read_nvml(struct sim_config *c, const json_t *o, struct sim_error *e)
{
	struct nvml_text t = { .nvml = { .available = 1 } };
	int i;

	if (o && !sim_keys_read(o, nvml_keys, COUNT(nvml_keys), &t, "nvml", e))
		return 0;
	for (i = 0; i < 5; i++) {
		t.nvml.p2p[i] = t.p2p[i][0] ? word_index(p2p_words, COUNT(p2p_words), t.p2p[i]) : 0;
		if (t.nvml.p2p[i] < 0)
			return sim_fail(e, "nvml", "%s is no P2P status", t.p2p[i]);
	}
	c->nvml = t.nvml;
	return 1;
}

static int read_root(struct sim_config *c, const json_t *root, struct sim_error *e)
{
	struct head head = { .seed = 1 };
	const json_t *gpus = json_object_get(root, "gpus"), *missing = json_object_get(root, "missing_symbols");
	const json_t *staged = json_object_get(root, "staged");
	size_t i;

	if (!sim_keys_read(root, head_keys, COUNT(head_keys), &head, "cuda.json", e))
		return 0;
	c->driver_api = head.driver_api;
	c->init_error = head.init_error;
	c->seed = head.seed;
	c->mutant = word_index(mutant_words, COUNT(mutant_words), head.mutant);
	if (c->mutant < 0)
		return sim_fail(e, "cuda.json", "%s is no mutant", head.mutant);
	if (missing && (!json_is_array(missing) || json_array_size(missing) > SIM_MAX_MISSING))
		return sim_fail(e, "cuda.json", "missing_symbols must be a short array");
	for (i = 0; i < json_array_size(missing); i++) {
		const char *s = json_string_value(json_array_get(missing, i));

		if (!s || !s[0] || strlen(s) >= sizeof(c->missing[0]))
			return sim_fail(e, "cuda.json", "missing_symbols must be names");
		memcpy(c->missing[c->missing_count++], s, strlen(s) + 1);
	}
	if (!json_is_array(gpus) || json_array_size(gpus) > P2S_MAX_GPUS)
		return sim_fail(e, "cuda.json", "gpus must be an array of at most %d", P2S_MAX_GPUS);
	for (i = 0; i < json_array_size(gpus); i++)
		if (!read_gpu(c, json_array_get(gpus, i), e))
			return 0;
	c->staged_bytes_per_s = INT64_C(12000000000);
	c->staged_latency_ns = 14000;
	if (staged && !sim_keys_read(staged, staged_keys, COUNT(staged_keys), c, "staged", e))
		return 0;
	return read_links(c, json_object_get(root, "links"), e) &&
	       sim_speed_read(c, json_object_get(json_object_get(root, "links"), "uplinks"), e) &&
	       read_nvml(c, json_object_get(root, "nvml"), e) &&
	       sim_faults_read(c, json_object_get(root, "faults"), e);
}

int sim_config_load(struct sim_config *c, const char *host_dir, char *err, size_t err_bytes)
{
	struct sim_error e = { err, err_bytes };
	json_error_t je;
	char path[4200];
	char *text;
	json_t *root;
	const char *p;
	int n = snprintf(path, sizeof(path), "%s/cuda.json", host_dir), ok;

	memset(c, 0, sizeof(*c));
	err[0] = 0;
	if (n < 0 || (size_t)n >= sizeof(path))
		return sim_fail(&e, "cuda.json", "the path is too long");
	root = json_load_file(path, JSON_REJECT_DUPLICATES, &je);
	if (!root)
		return sim_fail(&e, path, "line %d: %s", je.line, je.text);
	ok = read_root(c, root, &e);
	text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
	for (p = text; p && *p; p++)
		c->digest = p2s_mix(c->digest ^ (unsigned char)*p) + 1;
	free(text);
	json_decref(root);
	return ok;
}
