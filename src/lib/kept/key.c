#include "kept/key.h"

#include <stdio.h>
#include <string.h>

#include "kept/compact.h"

/* 0 differs. Unreadable on either side: named, not judged. */
static int32_t same(const char *name, const char *kept, const char *now, char *reason, size_t cap)
{
	size_t used = strlen(reason);

	if (kept[0] == '\0' || now[0] == '\0') {
		snprintf(reason + used, cap - used, "%s%s not compared", used > 0 ? ", " : "", name);
		return 1;
	}
	if (strcmp(kept, now) == 0)
		return 1;
	snprintf(reason, cap, "%s changed", name);
	return 0;
}

/* The same where one side may hold only the hash of a text. */
static int32_t same_or_hash(const char *name, const char *kept, const char *now, char *reason, size_t cap)
{
	char hash[24];

	if ((kept[0] == '#') == (now[0] == '#') || kept[0] == '\0' || now[0] == '\0')
		return same(name, kept, now, reason, cap);
	p2s_compact_hash(kept[0] == '#' ? now : kept, hash, sizeof hash);
	return same(name, kept[0] == '#' ? kept : hash, kept[0] == '#' ? hash : now, reason, cap);
}

/* Where its name cannot be read the clock tells at least what was made before this boot. */
static int32_t same_boot(const struct p2s_record *r, const struct p2s_host *host, char *reason, size_t cap)
{
	if ((r->boot_id[0] == '\0' || host->boot_id[0] == '\0') && r->created_unix < host->booted_unix) {
		snprintf(reason, cap, "boot changed");
		return 0;
	}
	return same("boot", r->boot_id, host->boot_id, reason, cap);
}

int32_t p2s_key_host_matches(const struct p2s_record *r, const struct p2s_model *m, const struct p2s_host *host,
							 const struct p2s_request *request, char *reason, size_t cap)
{
	const char *library = request->cuda_library != NULL ? request->cuda_library : "";

	reason[0] = '\0';
	if (r->simulated != m->simulated) {
		snprintf(reason, cap, "%s", r->simulated ? "record of a simulated host" : "record of a real host");
		return 0;
	}
	if (strcmp(r->cuda_library, library) != 0) {
		snprintf(reason, cap, "cuda_library changed");
		return 0;
	}
	if (r->level < request->level) {
		snprintf(reason, cap, "record of a lower level");
		return 0;
	}
	return same_boot(r, host, reason, cap) && same("kernel", r->kernel, m->kernel, reason, cap) &&
		   same("driver version", r->driver_version, m->driver_version, reason, cap) &&
		   same("driver flavour", r->driver_flavour, m->driver_flavour, reason, cap) &&
		   same_or_hash("driver parameters", r->driver_parameters, m->driver_parameters, reason, cap) &&
		   same("driver module", r->module, host->module, reason, cap) &&
		   same_or_hash("command line", r->cmdline, host->cmdline, reason, cap) &&
		   same("firmware", r->firmware, host->firmware, reason, cap) &&
		   same("virtual machine", r->virtualization, m->virtualization, reason, cap);
}

int32_t p2s_key_gpu_matches(const struct p2s_record_gpu *kept, const struct p2s_record_gpu *now, char *reason, size_t cap)
{
	char name[64];
	int32_t ok;

	snprintf(name, sizeof name, "%s ids", now->address);
	ok = same(name, kept->id, now->id, reason, cap);
	snprintf(name, sizeof name, "%s BARs", now->address);
	ok = ok && same_or_hash(name, kept->bars, now->bars, reason, cap);
	snprintf(name, sizeof name, "%s domain type", now->address);
	return ok && same(name, kept->domain_type, now->domain_type, reason, cap);
}

int32_t p2s_key_matches(const struct p2s_record *r, const struct p2s_model *m, const struct p2s_host *host,
						const struct p2s_request *request, char *reason, size_t cap)
{
	struct p2s_model one;
	struct p2s_record now;
	int32_t ok;

	if (!p2s_key_host_matches(r, m, host, request, reason, cap))
		return 0;
	/* The same writer makes both sides, so spelling cannot differ. */
	one = *m;
	one.pair_count = 0;
	one.staged_count = 0;
	if (!p2s_record_from_model(&now, &one, host, request->cuda_library)) {
		snprintf(reason, cap, "out of memory");
		return 0;
	}
	ok = 1;
	for (size_t i = 0; i < now.gpu_count && ok; i++) {
		int32_t k = p2s_record_gpu(r, now.gpus[i].address);

		if (!now.gpus[i].tested)
			continue;
		if (k < 0 || !r->gpus[k].tested) {
			snprintf(reason, cap, "%s was not tested", now.gpus[i].address);
			ok = 0;
			break;
		}
		ok = p2s_key_gpu_matches(&r->gpus[k], &now.gpus[i], reason, cap);
	}
	p2s_record_free(&now);
	return ok;
}

uint64_t p2s_key_marker(const struct p2s_model *m, const struct p2s_host *host)
{
	char text[8192];
	size_t used = 0;

	used += (size_t)snprintf(text, sizeof text, "%s|%s|%s|%.2000s|%s|", m->kernel, m->driver_version, host->firmware,
							 host->cmdline, m->virtualization);
	for (size_t i = 0; i < m->gpu_count && used < sizeof text - 64; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, "%s %04x %s|", m->gpus[i].address, m->gpus[i].device,
								 m->gpus[i].domain_type);
	return p2s_record_hash(text, used);
}
