#include "api/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/nccl_topology.h"
#include "choose/choose.h"
#include "emit/emit.h"
#include "iommu/iommu.h"
#include "ipc/codec.h"
#include "ipc/proto.h"
#include "rules/explain.h"
#include "rules/rules.h"

int32_t p2s_answer_oom(struct p2s_session *s)
{
	return p2s_fault_set(&s->fault, P2PSAFE_E_NOMEM, 0, "out of memory");
}

int32_t p2s_answer_look(struct p2s_session *s, struct p2s_model *m, enum p2s_scope scope)
{
	m->level = s->request.level;
	m->simulated = s->request.simulated;
	m->created_unix = (int64_t)time(NULL);
	p2s_host_read(&s->root, &s->seam, m, &s->host);
	if (!p2s_inventory_read(&s->root, m, scope))
		return p2s_answer_oom(s);
	if (scope == P2S_SCOPE_BOUND)
		return 0;
	p2s_host_read_more(&s->root, &s->seam, m);
	return p2s_iommu_judge(&s->root, m) ? 0 : p2s_answer_oom(s);
}

static int32_t say_nothing(struct p2s_session *s, struct p2s_model *m, const char *code, int32_t severity, const char *source,
                           const char *text)
{
	m->nothing_tested = 1;
	return p2s_model_find(m, code, severity, P2PSAFE_CONFIDENCE_HIGH, -1, -1, source, text) ? 0 : p2s_answer_oom(s);
}

static int32_t nothing(struct p2s_session *s, struct p2s_model *m, const char *code, const char *source, const char *text)
{
	return say_nothing(s, m, code, P2PSAFE_SEVERITY_ERROR, source, text);
}

/* In WSL2 that is as it always is: a finding of its own says why. */
static int32_t no_gpu(struct p2s_session *s, struct p2s_model *m)
{
	return say_nothing(s, m, "NO_GPU", m->facts.host.wsl == P2S_YES ? P2PSAFE_SEVERITY_INFO : P2PSAFE_SEVERITY_ERROR,
	                   "/sys/bus/pci/devices", "no NVIDIA display function");
}

static int32_t no_group(struct p2s_session *s, struct p2s_model *m)
{
	size_t bound = 0;
	char text[160];

	for (size_t i = 0; i < m->gpu_count; i++)
		bound += p2s_inventory_bound(&m->gpus[i]) != 0;
	if (m->gpu_count == 0)
		return no_gpu(s, m);
	if (bound == 0) {
		snprintf(text, sizeof text, "%zu NVIDIA GPUs, none bound to the nvidia driver", m->gpu_count);
		return nothing(s, m, "NO_DRIVER", "/sys/bus/pci/devices", text);
	}
	snprintf(text, sizeof text, "%zu GPUs bound to nvidia, no device node that this process may open", bound);
	return nothing(s, m, "NO_DEVICE_ACCESS", "/dev", text);
}

/* Unreadable is not absent: what may be a peer can neither be tested nor left out. */
static int32_t unsure(struct p2s_session *s, struct p2s_model *m)
{
	char text[160];

	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].in_group = 0;
	snprintf(text, sizeof text, "vendor, class or driver of %d PCI functions cannot be read: there may be more GPUs", (int)m->unsure_gpus);
	return nothing(s, m, "PEER_INVISIBLE", "/sys/bus/pci/devices", text);
}

static int32_t invisible(struct p2s_session *s, struct p2s_model *m)
{
	size_t bound = 0;
	size_t sure = 0;
	char text[160];

	for (size_t i = 0; i < m->gpu_count; i++) {
		bound += p2s_inventory_bound(&m->gpus[i]) != 0;
		sure += m->gpus[i].in_group != 0;
	}
	/* While minors are unknown nobody can say which one is ours: then none is named. */
	for (size_t i = 0; i < m->gpu_count && sure != 1; i++)
		m->gpus[i].in_group = 0;
	snprintf(text, sizeof text, "one device node can be opened; the driver holds %zu GPUs", bound);
	if (nothing(s, m, "PEER_INVISIBLE", "/dev", text) != 0)
		return s->fault.code;
	if (s->request.nvidia_visible == NULL)
		return 0;
	/* What a container runtime was asked for. It says nothing about what the process got, so it decides nothing. */
	snprintf(text, sizeof text, "\"%.100s\" was asked for", s->request.nvidia_visible);
	return nothing(s, m, "PEER_INVISIBLE", "NVIDIA_VISIBLE_DEVICES", text);
}

/* A list that names no GPU of this machine is the caller's mistake, whatever else is wrong here. */
static int32_t check_list(struct p2s_session *s, struct p2s_model *m)
{
	struct p2s_gpu *saved = malloc((m->gpu_count + 1) * sizeof *saved);
	int32_t pending;
	int32_t rc;

	if (saved == NULL)
		return p2s_answer_oom(s);
	if (m->gpu_count > 0)
		memcpy(saved, m->gpus, m->gpu_count * sizeof *saved);
	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].ours = 1;
	rc = p2s_group_narrow(m, s->request.gpus, &pending, &s->fault);
	if (m->gpu_count > 0)
		memcpy(m->gpus, saved, m->gpu_count * sizeof *saved);
	free(saved);
	return rc;
}

int32_t p2s_answer_group(struct p2s_session *s, struct p2s_model *m, int32_t cuda_asked, enum p2s_group *group)
{
	int32_t pending = 0;
	int32_t rc;

	*group = p2s_group_judge(&s->root, &s->seam, m, cuda_asked);
	if (m->unsure_gpus > 0) {
		*group = P2S_GROUP_INVISIBLE;
		rc = check_list(s, m);
		return rc != 0 ? rc : unsure(s, m);
	}
	if (*group == P2S_GROUP_NONE || *group == P2S_GROUP_INVISIBLE) {
		rc = check_list(s, m);
		if (rc != 0)
			return rc;
		return *group == P2S_GROUP_NONE ? no_group(s, m) : invisible(s, m);
	}
	rc = p2s_group_narrow(m, s->request.gpus, cuda_asked ? NULL : &pending, &s->fault);
	if (rc != 0)
		return rc;
	if (*group == P2S_GROUP_TESTABLE && !pending && p2s_group_size(m) == 1)
		*group = P2S_GROUP_SINGLE;
	m->single_gpu = *group == P2S_GROUP_SINGLE;
	if (m->single_gpu && !p2s_model_find(m, "SINGLE_GPU", P2PSAFE_SEVERITY_INFO, P2PSAFE_CONFIDENCE_HIGH, -1, -1,
	                                     "/sys/bus/pci/devices", "one GPU: there is no peer to test"))
		return p2s_answer_oom(s);
	return 0;
}

static int32_t minors_known(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		if (m->gpus[i].minor >= 0)
			return 1;
	return 0;
}

static struct p2s_run_args run_args(const struct p2s_session *s, const struct p2s_model *m, int32_t mode)
{
	struct p2s_run_args args = {.request = &s->request,
	                            .seam = &s->seam,
	                            .log = s->log,
	                            .mode = mode,
	                            .deadline_ns = p2s_session_deadline(s, m->gpu_count)};

	return args;
}

int32_t p2s_answer_group_sure(struct p2s_session *s, struct p2s_model *m, enum p2s_group *group)
{
	struct p2s_run_args args = run_args(s, m, P2S_MODE_MINORS);
	struct p2s_run_result result;
	struct p2s_model asked;
	int32_t ok;

	if (!p2s_group_unsure(&s->root, &s->seam, m))
		return p2s_answer_group(s, m, 0, group);
	/* A model of its own: what this run finds will be found again, and its failure is no failure of the test. */
	p2s_model_init(&asked);
	ok = 1;
	for (size_t i = 0; i < m->gpu_count && ok; i++) {
		struct p2s_gpu *g = p2s_model_add_gpu(&asked);

		ok = g != NULL;
		if (ok) {
			g->bdf = m->gpus[i].bdf;
			memcpy(g->address, m->gpus[i].address, sizeof g->address);
		}
	}
	ok = ok && p2s_run(&asked, &args, &result);
	for (size_t i = 0; i < m->gpu_count && ok; i++)
		m->gpus[i].minor = asked.gpus[i].minor;
	p2s_model_free(&asked);
	return ok ? p2s_answer_group(s, m, 0, group) : p2s_answer_oom(s);
}

/* A look at a machine whose GPUs have no nvidia driver still says what lies between them. They stay outside the group. */
static int32_t make_pairs(struct p2s_model *m, int32_t mode)
{
	int32_t made;

	for (size_t i = 0; i < m->gpu_count; i++)
		if (mode != P2S_MODE_PROBE || p2s_inventory_bound(&m->gpus[i]))
			return p2s_model_make_pairs(m);
	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].in_group = 1;
	made = p2s_model_make_pairs(m);
	for (size_t i = 0; i < m->gpu_count; i++)
		m->gpus[i].in_group = 0;
	return made;
}

int32_t p2s_answer_run(struct p2s_session *s, struct p2s_model *m, int32_t mode, p2s_risk_fn risk, void *user,
                       struct p2s_run_result *result)
{
	struct p2s_run_args args = run_args(s, m, mode);
	enum p2s_group group;
	int32_t rc;

	args.risk = risk;
	args.user = user;
	memset(result, 0, sizeof *result);
	if (!make_pairs(m, mode) || !p2s_run(m, &args, result))
		return p2s_answer_oom(s);
	/* The driver named minors and UUIDs: now it can be said whose GPUs these are. One that only became ours meanwhile, as its node
	 * was made or opened to us, was not tested, and the pairs that it brings say so. */
	if (result->cuda_asked || minors_known(m)) {
		rc = p2s_answer_group(s, m, result->cuda_asked, &group);
		if (rc != 0)
			return rc;
		p2s_model_drop_outsiders(m);
		if (!p2s_model_make_pairs(m))
			return p2s_answer_oom(s);
	}
	return 0;
}

int32_t p2s_answer_finish(struct p2s_session *s, struct p2s_model *m, const struct p2s_matrix *kept)
{
	int32_t pass = (s->request.flags & P2PSAFE_FLAG_PASS_UNTESTED) != 0;

	m->own_topology = p2s_nccl_own_topology(s);
	m->promote = (s->request.flags & P2PSAFE_FLAG_PROMOTE) != 0;
	if (!p2s_rules_judge(m, kept) || !p2s_choose(m))
		return p2s_answer_oom(s);
	/* A kept answer reads its findings back: what is missing here was looked at then. */
	if (kept == NULL && !p2s_rules_explain(m))
		return p2s_answer_oom(s);
	p2s_choose_ordinals(m, s->request.visible, s->request.device_order);
	if (!p2s_emit_settings(m, pass) || !p2s_model_add_timing(m, "total", (p2s_now_ns() - s->start_ns) / 1000000))
		return p2s_answer_oom(s);
	return 0;
}
