#define _GNU_SOURCE
#include "inventory/group.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/ascii.h"
#include "core/bdf.h"
#include "inventory/inventory.h"

struct nodes {
	size_t existing;
	size_t openable;
};

int32_t p2s_group_may_use(const struct p2s_fsroot *root, const struct p2s_seam *seam, int32_t minor)
{
	char path[32];

	if (minor < 0 || minor >= P2S_MINORS)
		return 0;
	snprintf(path, sizeof path, "/dev/nvidia%d", (int)minor);
	if (seam->simulated)
		return seam->access[minor] >= 0 ? seam->access[minor] : p2s_fsroot_exists(root, path);
	return faccessat(root->fd, path + 1, R_OK | W_OK, AT_EACCESS) == 0;
}

static void count_nodes(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct nodes *n)
{
	char **names;
	size_t count;

	memset(n, 0, sizeof *n);
	if (seam->simulated) {
		for (int32_t minor = 0; minor < P2S_MINORS; minor++) {
			char path[32];

			snprintf(path, sizeof path, "/dev/nvidia%d", (int)minor);
			n->existing += seam->access[minor] >= 0 || p2s_fsroot_exists(root, path);
			n->openable += p2s_group_may_use(root, seam, minor) != 0;
		}
		return;
	}
	if (p2s_fsroot_list(root, "/dev", &names, &count) != P2S_READ_OK)
		return;
	for (size_t i = 0; i < count; i++) {
		char *end;
		unsigned long minor;

		if (strncmp(names[i], "nvidia", 6) != 0 || !isdigit((unsigned char)names[i][6]))
			continue;
		minor = strtoul(names[i] + 6, &end, 10);
		if (*end != '\0' || minor >= P2S_MINORS)
			continue;
		n->existing++;
		n->openable += p2s_group_may_use(root, seam, (int32_t)minor) != 0;
	}
	p2s_fsroot_names_free(names, count);
}

int32_t p2s_group_nodes(const struct p2s_fsroot *root, const struct p2s_seam *seam)
{
	struct nodes n;

	count_nodes(root, seam, &n);
	return (int32_t)n.openable;
}

/* Nodes that can be opened and whose GPU nobody has named. While there is one, a GPU of unknown minor may own it, also when
 * the driver gave that GPU no ordinal: its context may have failed. */
static size_t without_owner(const struct p2s_fsroot *root, const struct p2s_seam *seam, const struct p2s_model *m,
                            const struct nodes *n, int32_t cuda_asked)
{
	char owned[P2S_MINORS] = {0}; /* of two that claim the same node one is wrong */
	size_t owners = 0;

	for (size_t i = 0; i < m->gpu_count; i++) {
		const struct p2s_gpu *g = &m->gpus[i];

		if (!p2s_inventory_bound(g))
			continue;
		if (g->minor < 0) {
			owners += cuda_asked && g->ordinal >= 0;
		} else if (p2s_group_may_use(root, seam, g->minor) && !owned[g->minor]) {
			owned[g->minor] = 1;
			owners++;
		}
	}
	return n->openable > owners ? n->openable - owners : 0;
}

size_t p2s_group_size(const struct p2s_model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->gpu_count; i++)
		n += m->gpus[i].in_group != 0;
	return n;
}

enum p2s_group p2s_group_judge(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m,
                               int32_t cuda_asked)
{
	struct nodes nodes = {0};
	size_t bound = 0;
	size_t unknown = 0;
	size_t left = 0;
	size_t ours;

	for (size_t i = 0; i < m->gpu_count; i++) {
		if (p2s_inventory_bound(&m->gpus[i])) {
			bound++;
			unknown += m->gpus[i].minor < 0;
		}
	}
	if (unknown > 0) {
		count_nodes(root, seam, &nodes);
		left = without_owner(root, seam, m, &nodes, cuda_asked);
	}
	for (size_t i = 0; i < m->gpu_count; i++) {
		struct p2s_gpu *g = &m->gpus[i];

		if (!p2s_inventory_bound(g))
			g->ours = 0;
		else if (g->minor >= 0)
			g->ours = p2s_group_may_use(root, seam, g->minor);
		else /* without any node: the driver's own helper makes them at first use */
			g->ours = nodes.existing == 0 || (cuda_asked && g->ordinal >= 0) || left > 0;
		g->in_group = g->ours;
		if (!g->ours)
			g->state = P2PSAFE_GPU_STATE_NOT_OURS;
		else if (g->state == P2PSAFE_GPU_STATE_NOT_OURS)
			g->state = P2PSAFE_GPU_STATE_UNKNOWN;
	}
	ours = p2s_group_size(m);
	if (ours == 0)
		return P2S_GROUP_NONE;
	/* Before the driver told the minors, one openable node among many GPUs may be any of them. */
	if (unknown > 0 && nodes.openable == 1 && bound > 1)
		return P2S_GROUP_INVISIBLE;
	if (ours == 1)
		return bound > 1 ? P2S_GROUP_INVISIBLE : P2S_GROUP_SINGLE;
	return P2S_GROUP_TESTABLE;
}

int32_t p2s_group_unsure(const struct p2s_fsroot *root, const struct p2s_seam *seam, const struct p2s_model *m)
{
	struct nodes nodes;
	size_t bound = 0;
	size_t unknown = 0;

	for (size_t i = 0; i < m->gpu_count; i++) {
		if (p2s_inventory_bound(&m->gpus[i])) {
			bound++;
			unknown += m->gpus[i].minor < 0;
		}
	}
	if (unknown == 0 || bound < 2)
		return 0;
	count_nodes(root, seam, &nodes);
	return nodes.openable > 0 && nodes.openable < bound;
}

/* Index of the GPU that word names; -1 unknown, -2 a UUID nobody can resolve yet, -3 a prefix of several. */
static int32_t find(const struct p2s_model *m, const char *word)
{
	struct p2psafe_bdf bdf;
	char *end;
	unsigned long n;
	int32_t found = -1;

	if (p2s_ascii_same_start(word, "GPU-", 4)) {
		int32_t known = 0;

		for (int32_t i = 0; i < (int32_t)m->gpu_count; i++) {
			known += m->gpus[i].uuid[0] != '\0';
			if (strlen(word) < 8 || !p2s_ascii_same_start(m->gpus[i].uuid, word, strlen(word)))
				continue;
			if (found >= 0)
				return -3;
			found = i;
		}
		return found < 0 && known == 0 ? -2 : found;
	}
	if (p2s_bdf_parse(word, &bdf)) {
		for (int32_t i = 0; i < (int32_t)m->gpu_count; i++)
			if (p2s_bdf_compare(&m->gpus[i].bdf, &bdf) == 0)
				return i;
		return -1;
	}
	if (!isdigit((unsigned char)word[0]))
		return -1;
	errno = 0;
	n = strtoul(word, &end, 10);
	if (errno != 0 || *end != '\0')
		return -1;
	for (int32_t i = 0; i < (int32_t)m->gpu_count; i++)
		if (m->gpus[i].ours && n-- == 0)
			return i;
	return -1;
}

int32_t p2s_group_narrow(struct p2s_model *m, const char *list, int32_t *pending, struct p2s_fault *fault)
{
	int32_t chosen[P2S_MAX_GPUS] = {0};
	size_t count = 0;
	const char *at = list;

	if (pending != NULL)
		*pending = 0;
	if (list == NULL)
		return 0;
	for (;;) {
		char word[64];
		const char *end = strchrnul(at, ',');
		size_t n;
		int32_t i;

		while (isspace((unsigned char)*at))
			at++;
		n = (size_t)(end - at);
		while (n > 0 && end >= at && isspace((unsigned char)at[n - 1]))
			n--;
		if (end < at || n == 0 || n >= sizeof word)
			return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "gpus \"%.150s\": %s", list,
			                     n == 0 || end < at ? "an empty name; expected addresses, UUIDs or ordinals" : "a name is too long");
		memcpy(word, at, n);
		word[n] = '\0';
		i = find(m, word);
		if (i == -2 && pending != NULL) {
			*pending = 1;
		} else if (i < 0) {
			return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "gpus: \"%s\" %s", word,
			                     i == -3   ? "fits several GPUs of this machine"
			                     : i == -2 ? "cannot be resolved: the driver named no UUID"
			                               : "is no GPU of this machine");
		} else if (chosen[i]) {
			return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "gpus: \"%s\" names %s a second time", word, m->gpus[i].address);
		} else if (!m->gpus[i].ours) {
			p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0,
			              "gpus: \"%s\" is bound to \"%s\" or may not be opened by this process; expected a usable GPU", word,
			              m->gpus[i].driver);
			if (fault != NULL)
				fault->gpu = m->gpus[i].bdf;
			return P2PSAFE_E_CONFIG;
		} else {
			chosen[i] = 1;
			count++;
		}
		if (*end == '\0')
			break;
		at = end + 1;
	}
	if (pending != NULL && *pending)
		return 0;
	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].in_group = chosen[i];
	return count > 0 ? 0 : p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "gpus: no GPU named");
}
