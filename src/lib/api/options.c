#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "core/sized.h"

#define KNOWN_FLAGS (UINT64_C(511)) /* P2PSAFE_FLAG_KEEP_GOING .. _NO_RETRY */
#define DEADLINE_MAX_MS UINT64_C(86400000) /* a day: longer ones are a mistake in the unit */

P2PSAFE_API void p2psafe_options_init(struct p2psafe_options *options, size_t size)
{
	if (options == NULL || size < sizeof size || size > P2S_SIZED_MAX)
		return;
	memset(options, 0, size);
	memcpy(options, &size, sizeof size);
}

/* Copies text (NULL stays NULL). Returns 1, 0 when out of memory. */
static int32_t keep(char **to, const char *text)
{
	if (text == NULL)
		return 1;
	*to = strdup(text);
	return *to != NULL;
}

/* A variable that counts: set and not empty. secure_getenv: nothing is believed in a setuid program. */
static const char *variable(const char *name)
{
	const char *v = secure_getenv(name);

	return v != NULL && v[0] != '\0' ? v : NULL;
}

static int32_t read_environment(struct p2s_request *r, struct p2s_fault *fault)
{
	const char *untested = variable("P2PSAFE_ON_UNTESTED");
	int32_t ok = 1;

	if (untested != NULL && strcmp(untested, "pass") == 0)
		r->flags |= P2PSAFE_FLAG_PASS_UNTESTED;
	else if (untested != NULL && strcmp(untested, "veto") != 0)
		return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "P2PSAFE_ON_UNTESTED=%.60s: expected veto or pass", untested);
	if (r->cache_dir == NULL)
		ok &= keep(&r->cache_dir, variable("P2PSAFE_CACHE"));
	if (r->result_file == NULL)
		ok &= keep(&r->result_file, variable("P2PSAFE_RESULT"));
	ok &= keep(&r->xdg_cache, variable("XDG_CACHE_HOME"));
	ok &= keep(&r->home, variable("HOME"));
	ok &= keep(&r->visible, secure_getenv("CUDA_VISIBLE_DEVICES")); /* empty counts: no device */
	r->environment = 1;
	ok &= keep(&r->nvidia_visible, variable("NVIDIA_VISIBLE_DEVICES"));
	r->topology_set = secure_getenv("NCCL_TOPO_FILE") != NULL;
	ok &= keep(&r->nccl_conf, variable("NCCL_CONF_FILE"));
	ok &= keep(&r->device_order, variable("CUDA_DEVICE_ORDER"));
	return ok ? 0 : p2s_fault_set(fault, P2PSAFE_E_NOMEM, 0, "out of memory");
}

static int32_t check(const struct p2psafe_options *o, struct p2s_fault *fault)
{
	if (o->flags & ~KNOWN_FLAGS)
		return p2s_fault_set(fault, P2PSAFE_E_NEWER, 0, "options.flags: bits 0x%llx are unknown to version %s",
		                     (unsigned long long)(o->flags & ~KNOWN_FLAGS), p2psafe_version_string());
	if (o->reserved_0 != 0)
		return p2s_fault_set(fault, P2PSAFE_E_NEWER, 0, "options.reserved_0: %d; expected 0", (int)o->reserved_0);
	if (o->level < P2PSAFE_LEVEL_DEFAULT || o->level > P2PSAFE_LEVEL_THOROUGH)
		return p2s_fault_set(fault, P2PSAFE_E_INVALID, 0, "options.level: %d; expected a P2PSAFE_LEVEL_*", (int)o->level);
	if (o->deadline_ms > DEADLINE_MAX_MS || o->soak_ms > DEADLINE_MAX_MS)
		return p2s_fault_set(fault, P2PSAFE_E_INVALID, 0, "options: a deadline or soak of more than a day; expected milliseconds");
	if (o->gpus != NULL && o->gpus[0] == '\0')
		return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "gpus: an empty list; expected addresses, UUIDs or ordinals, or NULL");
	if (o->host_dir != NULL && strlen(o->host_dir) >= 1024)
		return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "host_dir: longer than 1023 bytes");
	if (o->topology_file != NULL && (o->topology_file[0] != '/' || strlen(o->topology_file) >= sizeof ((struct p2s_setting *)0)->value))
		return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "topology_file: \"%.100s\"; expected an absolute path below 192 bytes",
		                     o->topology_file);
	for (const char *p = o->topology_file; p != NULL && *p != '\0'; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "topology_file: a control character in the path");
	if (o->cuda_library != NULL && strlen(o->cuda_library) >= 1024)
		return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "cuda_library: longer than 1023 bytes");
	return 0;
}

int32_t p2s_request_make(struct p2s_request *r, const struct p2psafe_options *options, struct p2s_fault *fault)
{
	struct p2psafe_options own = {0};
	int32_t rc = p2s_sized_in(&own, sizeof own, options);

	memset(r, 0, sizeof *r);
	if (rc == P2PSAFE_E_SIZE)
		return p2s_fault_set(fault, rc, 0, "options.size: 0 or absurd; expected sizeof(struct p2psafe_options)");
	if (rc == P2PSAFE_E_NEWER)
		return p2s_fault_set(fault, rc, 0, "options: a member newer than version %s is set", p2psafe_version_string());
	rc = check(&own, fault);
	if (rc != 0)
		return rc;
	r->flags = own.flags;
	r->deadline_ms = own.deadline_ms;
	r->soak_ms = own.soak_ms;
	r->level = own.level == P2PSAFE_LEVEL_DEFAULT ? P2PSAFE_LEVEL_STANDARD : own.level;
	r->simulated = own.host_dir != NULL || own.cuda_library != NULL;
	if (!keep(&r->gpus, own.gpus) || !keep(&r->host_dir, own.host_dir) || !keep(&r->cuda_library, own.cuda_library) ||
	    !keep(&r->helper_path, own.helper_path) || !keep(&r->cache_dir, own.cache_dir) || !keep(&r->result_file, own.result_file) ||
	    !keep(&r->topology_file, own.topology_file) || !keep(&r->placement_file, own.placement_file))
		rc = p2s_fault_set(fault, P2PSAFE_E_NOMEM, 0, "out of memory");
	if (rc == 0 && r->flags & P2PSAFE_FLAG_ENVIRONMENT)
		rc = read_environment(r, fault);
	if (rc != 0)
		p2s_request_free(r);
	return rc;
}

void p2s_request_free(struct p2s_request *r)
{
	free(r->gpus);
	free(r->host_dir);
	free(r->cuda_library);
	free(r->helper_path);
	free(r->cache_dir);
	free(r->result_file);
	free(r->topology_file);
	free(r->placement_file);
	free(r->xdg_cache);
	free(r->home);
	free(r->visible);
	free(r->device_order);
	free(r->nccl_conf);
	free(r->nvidia_visible);
	memset(r, 0, sizeof *r);
}
