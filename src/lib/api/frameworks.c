#define _GNU_SOURCE
/* Caches of frameworks as the interface offers them. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "choose/choose.h"
#include "core/sized.h"
#include "emit/emit.h"
#include "frameworks/caches.h"
#include "rules/rules.h"

#define KNOWN_FLAGS (P2PSAFE_CACHES_FORCE | P2PSAFE_CACHES_ENVIRONMENT | P2PSAFE_CACHES_PROMOTE)

/* Every pair is proven for the frameworks' kernels, and measured faster than staging: the file is for every mask. */
static int32_t all_faster(const struct p2s_model *m)
{
	return m->consumers[P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE].allowed == 1 && p2s_choose_all_faster(m);
}

/* One pair of the group decides for every mask: a rank that sees only good pairs would wait for ever for one that does not. */
static enum p2s_cache_answer answer_of(const p2psafe_report *report, uint64_t flags)
{
	if (report == NULL || p2s_rules_vetoed(&report->decision.m, P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE, report->pass_untested))
		return P2S_CACHE_FALSE;
	if (flags & P2PSAFE_CACHES_PROMOTE && all_faster(&p2s_report_evidence(report)->m))
		return P2S_CACHE_TRUE;
	return P2S_CACHE_ABSENT;
}

/* How many devices CUDA has where there is no mask; 0 not known: it may count a GPU that did not come up or not, and of several with
 * MIG it counts parts. */
static size_t gpus_of(const p2psafe_report *report)
{
	const struct p2s_model *m = report != NULL ? &p2s_report_evidence(report)->m : NULL;
	int32_t open = 0;
	size_t n = 0;

	for (size_t i = 0; m != NULL && i < m->gpu_count; i++) {
		if (!m->gpus[i].ours)
			continue;
		open |= m->gpus[i].state == P2PSAFE_GPU_STATE_FAILED || m->gpus[i].facts.mig == P2S_YES;
		n++;
	}
	return open && n > 1 ? 0 : n; /* one is fewer than two in any case */
}

/* Set and empty is set, as the frameworks take it. A home that the caller names is the only place: the answer of a simulated
 * machine must not reach the caller's own. */
static void read_environment(struct p2s_cache_environment *env)
{
	if (env->visible == NULL)
		env->visible = secure_getenv("CUDA_VISIBLE_DEVICES");
	if (env->home != NULL)
		return;
	for (int f = 0; f < P2S_FRAMEWORKS; f++)
		env->root[f] = secure_getenv(p2s_framework_variable((enum p2s_framework)f));
	env->xdg_cache_home = secure_getenv("XDG_CACHE_HOME");
	env->home = secure_getenv("HOME");
}

static int32_t check(const p2psafe_report *report, const struct p2psafe_caches *own, int32_t rc, struct p2s_fault *fault)
{
	if (rc == P2PSAFE_E_SIZE)
		return p2s_fault_set(fault, rc, 0, "caches.size: 0 or absurd; expected sizeof(struct p2psafe_caches)");
	if (rc == P2PSAFE_E_NEWER)
		return p2s_fault_set(fault, rc, 0, "caches: a member newer than version %s is set", p2psafe_version_string());
	if (own->flags & ~KNOWN_FLAGS)
		return p2s_fault_set(fault, P2PSAFE_E_NEWER, 0, "caches.flags: bits 0x%llx are unknown to version %s",
		                     (unsigned long long)(own->flags & ~KNOWN_FLAGS), p2psafe_version_string());
	if (p2psafe_report_is_simulated(report) && own->home == NULL)
		return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "a simulated report is written only below a home that the caller names");
	return 0;
}

static json_t *result_json(enum p2s_framework f, const struct p2s_cache_result *r)
{
	return json_pack("{ss so ss so}", "framework", p2s_framework_name(f), "path", p2s_emit_text_or_null(r->path), "state",
	                 p2s_cache_state_name(r->state), "why", p2s_emit_text_json(r->why));
}

P2PSAFE_API int32_t p2psafe_report_write_caches(const p2psafe_report *report, const struct p2psafe_caches *caches, char **out,
                                                struct p2psafe_error *err)
{
	struct p2s_fault fault = {0};
	struct p2psafe_caches own = {0};
	struct p2s_cache_environment env = {0};
	json_t *list = NULL;
	int32_t unheard = 0;
	int32_t rc = p2s_sized_in(&own, sizeof own, caches);

	if (out != NULL)
		*out = NULL;
	if (check(report, &own, rc, &fault) != 0 || p2s_jansson_check(&fault) != P2PSAFE_OK)
		return p2s_error_out(err, &fault);
	env.visible = own.visible;
	env.home = own.home;
	if (own.flags & P2PSAFE_CACHES_ENVIRONMENT)
		read_environment(&env);
	list = json_array();
	for (int f = 0; f < P2S_FRAMEWORKS && list != NULL; f++) {
		struct p2s_cache_result r;

		p2s_cache_put((enum p2s_framework)f, &env, env.visible == NULL ? gpus_of(report) : 0, answer_of(report, own.flags),
		              (own.flags & P2PSAFE_CACHES_FORCE) != 0, &r);
		unheard += p2s_cache_unheard(r.state);
		if (json_array_append_new(list, result_json((enum p2s_framework)f, &r)) != 0) {
			json_decref(list);
			list = NULL;
		}
	}
	if (out != NULL)
		*out = p2s_emit_dump(list, JSON_INDENT(2));
	if (list == NULL || (out != NULL && *out == NULL)) {
		json_decref(list);
		p2s_fault_set(&fault, P2PSAFE_E_NOMEM, 0, "out of memory");
		return p2s_error_out(err, &fault);
	}
	json_decref(list);
	return unheard;
}
