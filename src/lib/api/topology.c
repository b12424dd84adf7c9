#define _GNU_SOURCE
#include "api/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/answer.h"
#include "api/placement.h"
#include "choose/choose.h"
#include "choose/groups.h"
#include "emit/emit.h"
#include "emit/topology.h"
#include "kept/place.h"
#include "kept/trust.h"
#include "rules/rules.h"

#define FILE_NAME "nccl-topology.xml"

struct making {
	struct p2s_session *s;
	const struct p2s_model *m;
	int32_t node[P2S_MAX_GPUS]; /* NUMA node of each GPU of the model; -1 unknown */
	struct p2s_topology t;
	char path[1024];
};

/* Nothing else may stand between the quotes of an attribute. */
static void attribute(const struct making *k, const char *address, const char *name, char *out, size_t cap)
{
	char path[128];

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", address, name);
	if (p2s_fsroot_line(&k->s->root, path, out, cap) != P2S_READ_OK ||
	    strspn(out, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ./,_-") != strlen(out))
		out[0] = '\0';
}

#define ATTRIBUTE(k, g, name, to) attribute(k, (g)->address, name, to, sizeof(to))

static void read_gpu(const struct making *k, struct p2s_topology_gpu *g)
{
	ATTRIBUTE(k, g, "class", g->class_code);
	ATTRIBUTE(k, g, "vendor", g->vendor);
	ATTRIBUTE(k, g, "device", g->device);
	ATTRIBUTE(k, g, "subsystem_vendor", g->subsystem_vendor);
	ATTRIBUTE(k, g, "subsystem_device", g->subsystem_device);
	ATTRIBUTE(k, g, "max_link_speed", g->speed);
	ATTRIBUTE(k, g, "max_link_width", g->width);
}

/* "0-31,64" as groups of 32 bits, highest first, as the kernel's cpumap and NCCL write them. */
static void affinity_of(const struct making *k, int32_t node, char *out, size_t cap)
{
	char path[80];
	char list[4096];
	uint32_t bits[64] = {0};
	int top = 0;
	size_t used = 0;

	snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", (int)node);
	out[0] = '\0';
	if (p2s_fsroot_line(&k->s->root, path, list, sizeof list) != P2S_READ_OK &&
	    p2s_fsroot_line(&k->s->root, "/sys/devices/system/cpu/online", list, sizeof list) != P2S_READ_OK)
		return;
	for (const char *at = list; *at != '\0';) {
		unsigned a, b;
		int n = 0;

		if (sscanf(at, "%u%n", &a, &n) != 1)
			return;
		b = a;
		at += n;
		if (*at == '-' && sscanf(at, "-%u%n", &b, &n) == 1)
			at += n;
		if (b < a || b >= 64 * 32 || (*at != ',' && *at != '\0'))
			return;
		for (unsigned c = a; c <= b; c++)
			bits[c / 32] |= UINT32_C(1) << c % 32;
		top = (int)(b / 32) > top ? (int)(b / 32) : top;
		at += *at == ',';
	}
	for (int i = top; i >= 0; i--)
		used += (size_t)snprintf(out + used, cap - used, "%s%08x", i < top ? "," : "", bits[i]);
}

static void cpu_word(const char *text, const char *key, char *out, size_t cap)
{
	const char *at = strstr(text, key);
	size_t n;

	out[0] = '\0';
	if (at == NULL)
		return;
	at += strlen(key);
	at += strspn(at, "\t: ");
	n = strcspn(at, "\n");
	if (n < cap && strspn(at, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") >= n)
		snprintf(out, cap, "%.*s", (int)n, at);
}

/* NCCL knows more of x86 than this; elsewhere it fills in what is left out. */
static void read_cpu(struct making *k)
{
	char text[8192];

	if (p2s_fsroot_head(&k->s->root, "/proc/cpuinfo", text, sizeof text) != P2S_READ_OK || strstr(text, "\nvendor_id") == NULL)
		return;
	snprintf(k->t.arch, sizeof k->t.arch, "x86_64");
	cpu_word(text, "\nvendor_id", k->t.vendor, sizeof k->t.vendor);
	cpu_word(text, "\ncpu family", k->t.family, sizeof k->t.family);
	cpu_word(text, "\nmodel\t", k->t.model, sizeof k->t.model);
}

/* A domain without any device. 0 if there is none, or the devices cannot be listed. */
static uint32_t free_domain(const struct making *k)
{
	char **names;
	size_t count;
	uint32_t found = 0;

	if (p2s_fsroot_list(&k->s->root, "/sys/bus/pci/devices", &names, &count) != P2S_READ_OK)
		return 0;
	for (uint32_t domain = 0xffff; domain > 0xff00 && found == 0; domain--) {
		char prefix[16];

		snprintf(prefix, sizeof prefix, "%04x:", domain);
		found = domain;
		for (size_t i = 0; i < count; i++)
			if (strncmp(names[i], prefix, strlen(prefix)) == 0)
				found = 0;
	}
	p2s_fsroot_names_free(names, count);
	return found;
}

static int32_t node_index(struct making *k, int32_t id)
{
	struct p2s_topology *t = &k->t;

	for (int32_t i = 0; i < t->node_count; i++)
		if (t->nodes[i].id == id)
			return i;
	if (t->node_count == P2S_TOPOLOGY_NODES)
		return -1;
	t->nodes[t->node_count].id = id;
	affinity_of(k, id, t->nodes[t->node_count].affinity, sizeof t->nodes[0].affinity);
	return t->node_count++;
}

static int32_t keep_faster(const void *user, int32_t a, int32_t b)
{
	const struct p2s_model *m = user;
	const struct p2s_pair *p = p2s_model_pair_const(m, a, b);

	return p != NULL && p->permits[P2PSAFE_CONSUMER_NCCL_P2P] == P2PSAFE_VERDICT_OK && p2s_choose_faster(m, p);
}

/* Island of each GPU of the model, -1 alone; returns how many islands of two or more there are. */
static int32_t find_islands(const struct p2s_model *m, int32_t island[P2S_MAX_GPUS])
{
	struct p2s_bonds *b = malloc(sizeof *b);
	uint64_t sets[P2S_MAX_GPUS];
	int32_t exact;
	int32_t found = 0;
	int32_t n;

	if (b == NULL)
		return 0;
	p2s_groups_bonds(m, P2PSAFE_CONSUMER_NCCL_P2P, b);
	p2s_groups_filter(b, keep_faster, m);
	n = p2s_groups_partition(b, sets, &exact);
	free(b);
	for (int32_t i = 0; i < P2S_MAX_GPUS; i++)
		island[i] = -1;
	for (int32_t k = 0; k < n; k++) {
		if (__builtin_popcountll(sets[k]) < 2)
			continue;
		for (int32_t i = 0; i < P2S_MAX_GPUS; i++)
			if (sets[k] >> i & 1)
				island[i] = found;
		found++;
	}
	return found;
}

/* 0 when the machine cannot be described so. */
static int32_t describe(struct making *k, const int32_t *island)
{
	struct p2s_topology *t = &k->t;

	read_cpu(k);
	t->free_domain = free_domain(k);
	for (size_t i = 0; i < k->m->gpu_count; i++) {
		struct p2s_topology_gpu *g = &t->gpus[t->gpu_count];

		if (!k->m->gpus[i].in_group)
			continue;
		if (k->m->gpus[i].bdf.domain > 0xffff)
			return 0; /* NCCL writes four digits */
		memcpy(g->address, k->m->gpus[i].address, sizeof g->address);
		g->island = island != NULL ? island[i] : -1;
		g->node = node_index(k, k->node[i]);
		read_gpu(k, g);
		if (g->node < 0 || g->class_code[0] == '\0')
			return 0;
		t->gpu_count++;
	}
	return island == NULL || t->free_domain != 0;
}

/* Where the file goes: where the caller says, else beside the record. */
static int32_t find_path(struct making *k)
{
	struct p2s_places places;

	if (k->s->request.topology_file != NULL) {
		snprintf(k->path, sizeof k->path, "%s", k->s->request.topology_file);
		return 1;
	}
	p2s_places_open(&places, &k->s->request, 1);
	if (places.write >= 0)
		snprintf(k->path, sizeof k->path, "%s/" FILE_NAME, places.place[places.write].dir);
	p2s_places_close(&places);
	return k->path[0] != '\0' && strlen(k->path) < sizeof ((struct p2s_setting *)0)->value;
}

/* 1 if nothing is there, or a file of ours. *same: it holds this text already. */
static int32_t may_replace(const char *path, const char *text, int32_t *same)
{
	size_t len = strlen(text);
	char *old;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	ssize_t n = -1;

	*same = 0;
	if (fd < 0)
		return errno == ENOENT;
	old = calloc(1, len + 2);
	if (old != NULL && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		n = read(fd, old, len + 1);
	close(fd);
	*same = n == (ssize_t)len && memcmp(old, text, len) == 0;
	n = n > 0 && strstr(old, "name=\"" P2S_TOPOLOGY_MARK) != NULL;
	free(old);
	return (int32_t)n;
}

/* The file appears whole or not at all. Returns 0 or an errno value. */
static int write_file(const char *path, const char *text)
{
	char temporary[1100];
	size_t len = strlen(text);
	size_t done = 0;
	int32_t same;
	int fd;
	int why = 0;

	if (!may_replace(path, text, &same))
		return EEXIST;
	if (same)
		return 0;
	if (!p2s_trust_may_grow(len))
		return EFBIG;
	snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return errno;
	while (done < len) {
		ssize_t n = write(fd, text + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			why = n < 0 ? errno : EIO;
			break;
		}
		done += (size_t)n;
	}
	/* every rank must be able to read it, whoever it runs as */
	if (why == 0 && (fchmod(fd, 0644) != 0 || fsync(fd) != 0))
		why = errno;
	if (close(fd) != 0 && why == 0)
		why = errno;
	if (why == 0 && rename(temporary, path) != 0)
		why = errno;
	if (why != 0)
		unlink(temporary);
	return why;
}

static int32_t name_file(struct p2s_model *m, const char *path, const char *why, int32_t gives)
{
	if (!p2s_model_add_setting(m, P2PSAFE_CONSUMER_NCCL_P2P, P2PSAFE_SETTING_ENV, 1, "NCCL_TOPO_FILE", path, why))
		return 0;
	m->settings[m->setting_count - 1].scope = P2PSAFE_SCOPE_NODE;
	m->settings[m->setting_count - 1].gives = gives;
	return 1;
}

/* Off, or a level, becomes the level that the islands were made for. */
static int32_t use_islands(struct p2s_model *m, const char *path)
{
	for (size_t i = 0; i < m->setting_count; i++) {
		struct p2s_setting *s = &m->settings[i];

		if (strcmp(s->name, "NCCL_P2P_DISABLE") != 0 && strcmp(s->name, "NCCL_P2P_LEVEL") != 0)
			continue;
		snprintf(s->name, sizeof s->name, "NCCL_P2P_LEVEL");
		snprintf(s->value, sizeof s->value, "PXB");
		snprintf(s->why, sizeof s->why, "peer transfers only inside the islands of NCCL_TOPO_FILE, whose pairs are proven and faster");
		snprintf(m->consumers[P2PSAFE_CONSUMER_NCCL_P2P].enforced_by[0], sizeof m->consumers[0].enforced_by[0], "NCCL_P2P_LEVEL");
		return name_file(m, path, "one invented switch for each island of GPUs that may use peer transfers", 0);
	}
	return 1;
}

static int32_t publish(struct making *k, p2psafe_report *report, int32_t islands)
{
	char *text = p2s_emit_topology(&k->t);
	struct p2s_model *both[] = {&report->decision.m, report->evidence != NULL ? &report->evidence->m : NULL};
	int32_t ok = text != NULL;
	int why = ok ? write_file(k->path, text) : 0;

	free(text);
	if (why != 0) {
		if (why == EEXIST)
			p2s_log(k->s->log, P2PSAFE_LOG_WARNING, "topology file %s: there is a file that is not ours; NCCL is given none", k->path);
		else
			p2s_log(k->s->log, P2PSAFE_LOG_WARNING, "topology file %s: cannot be written (errno %d); NCCL is given none", k->path, why);
		return 0;
	}
	for (int i = 0; i < 2 && ok; i++)
		if (both[i] != NULL)
			ok = islands ? use_islands(both[i], k->path)
			             : name_file(both[i], k->path, "the NUMA placement of GPUs that this machine does not show", 1);
	return ok ? 0 : p2s_answer_oom(k->s);
}

int32_t p2s_topology(struct p2s_session *s, p2psafe_report *report)
{
	struct making *k = calloc(1, sizeof *k);
	int32_t island[P2S_MAX_GPUS];
	int32_t islands = 0;
	int32_t rc = 0;

	if (k == NULL)
		return p2s_answer_oom(s);
	k->s = s;
	k->m = &p2s_report_evidence(report)->m;
	for (size_t i = 0; i < k->m->gpu_count; i++)
		k->node[i] = k->m->gpus[i].numa_node;
	if (s->request.placement_file != NULL)
		rc = p2s_placement_read(s, k->m, k->node);
	if (rc == 0 && s->request.flags & P2PSAFE_FLAG_PROMOTE && report->decision.m.own_topology &&
	    p2s_rules_vetoed(&report->decision.m, P2PSAFE_CONSUMER_NCCL_P2P, report->pass_untested) && p2s_choose_bad_is_far(k->m))
		islands = find_islands(k->m, island);
	if (rc == 0 && (islands > 0 || s->request.placement_file != NULL) && k->m->pair_count > 0) {
		k->t.name = islands > 0 ? "islands" : "placement";
		if (s->request.topology_set)
			p2s_log(s->log, P2PSAFE_LOG_WARNING, "NCCL_TOPO_FILE is set: the user's own topology stays, none is written");
		else if (!find_path(k))
			p2s_log(s->log, P2PSAFE_LOG_WARNING, "topology file: no place for it, none is written");
		else if (!describe(k, islands > 0 ? island : NULL))
			p2s_log(s->log, P2PSAFE_LOG_WARNING, "topology file: this machine cannot be described to NCCL, none is written");
		else
			rc = publish(k, report, islands > 0);
	}
	free(k);
	return rc;
}
