/* Joins the reports of a job's nodes. Every one is judged again from its legs, and nothing in it makes an answer better than it says
 * itself: what cannot be read, or says less than it should, vetoes the whole job. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "api/joined.h"
#include "choose/choose.h"
#include "core/names.h"
#include "emit/emit.h"
#include "rules/rules.h"

#define NODES_MAX 65536
#define DAMAGED 4 /* exit code of a text that is no whole report */

static json_t *decision_of(const json_t *report)
{
	return json_object_get(report, "decision");
}

/* A permission that the node itself did not have is not given here. */
static void take_denials(struct p2s_model *m, const json_t *report)
{
	const json_t *consumers = json_object_get(decision_of(report), "consumers");

	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		const json_t *allowed = json_object_get(json_object_get(consumers, p2s_word_name(P2S_GROUP_CONSUMER, c)), "allowed");

		if (json_is_true(allowed) || (m->consumers[c].allowed == -1 && json_is_null(allowed)))
			continue;
		if (m->consumers[c].allowed == 1)
			m->consumers[c].verdict = P2PSAFE_VERDICT_UNTESTED;
		m->consumers[c].allowed = 0;
	}
}

/* Does the node itself take something away from its NCCL by this variable? */
static int32_t restricts(const json_t *report, const char *variable)
{
	const json_t *setting;
	size_t i;

	json_array_foreach(json_object_get(decision_of(report), "settings"), i, setting) {
		const char *name = json_string_value(json_object_get(setting, "name"));

		if (name != NULL && strcmp(name, variable) == 0 && json_is_false(json_object_get(setting, "gives_permission")))
			return 1;
	}
	return 0;
}

/* An empty list; one that is missing may have had anything in it. */
static int32_t is_empty(const json_t *list)
{
	return json_is_array(list) && json_array_size(list) == 0;
}

/* A node of one GPU has nothing to take away, and nobody whom it allows anything. */
static int32_t says_single(const json_t *report, const struct p2s_model *m)
{
	const json_t *decision = decision_of(report);
	const json_t *code = json_object_get(decision, "exit_code");
	const json_t *consumers = json_object_get(decision, "consumers");

	if (!json_is_integer(code) || json_integer_value(code) != 0 || m->pair_count > 0 || m->gpu_count == 0 ||
	    !is_empty(json_object_get(decision, "vetoes")) || !is_empty(json_object_get(decision, "settings")))
		return 0;
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		if (!json_is_false(json_object_get(json_object_get(consumers, p2s_word_name(P2S_GROUP_CONSUMER, c)), "allowed")))
			return 0;
	return 1;
}

/* Judges a node again from its legs. Returns 1, 0 when out of memory. */
static int32_t judge_node(const json_t *report, struct p2s_model *m)
{
	const json_t *code = json_object_get(decision_of(report), "exit_code");

	m->single_gpu = says_single(report, m);
	/* A report of a version without this key cannot tell why there is no pair: then nothing was tested. */
	m->nothing_tested = json_is_integer(code) ? json_integer_value(code) == 3 : m->pair_count == 0;
	if (!p2s_rules_judge(m, NULL) || !p2s_choose(m))
		return 0;
	m->own_topology = restricts(report, "NCCL_P2P_LEVEL"); /* it found that its NCCL sees the paths that we see */
	m->torn_lines = restricts(report, "NCCL_PROTO");
	take_denials(m, report);
	p2s_emit_note(m);
	return 1;
}

/* One node, or the nodes of a report that was joined before, as a judged model. Returns the exit code, DAMAGED, or -1 when out of
 * memory. */
static int32_t read_node(const char *text, struct p2s_model *m)
{
	json_t *report = text != NULL ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	int32_t read = report != NULL ? p2s_emit_parse(report, m) : -1;

	if (read == 1 && !json_is_object(json_object_get(decision_of(report), "consumers")))
		read = -1;
	if (read == 1)
		read = p2s_joined_is(report) ? p2s_joined_read(report, m) : judge_node(report, m);
	json_decref(report);
	if (read != 1)
		return read == 0 ? -1 : DAMAGED;
	return p2s_rules_exit_code(m);
}

static int32_t worst_transport(int32_t a, int32_t b)
{
	return a > b ? a : b; /* the constants are in order, best first */
}

static void start(struct p2s_model *all)
{
	all->single_gpu = 1;
	all->transport = P2PSAFE_TRANSPORT_UNKNOWN;
	all->nccl_level = P2PSAFE_PATH_PXB;
	all->own_topology = 1;
	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		all->consumers[c].verdict = P2PSAFE_VERDICT_OK;
		all->consumers[c].allowed = c == P2PSAFE_CONSUMER_MULTICAST ? -1 : 1;
	}
	all->consumers[P2PSAFE_CONSUMER_MULTICAST].verdict = P2PSAFE_VERDICT_UNTESTED;
}

static void veto_all(struct p2s_model *all)
{
	all->single_gpu = 0;
	all->nothing_tested = 1;
	all->own_topology = 0;
	all->transport = P2PSAFE_TRANSPORT_NONE;
	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		all->consumers[c].verdict = p2s_rules_worse(all->consumers[c].verdict, P2PSAFE_VERDICT_UNTESTED);
		all->consumers[c].allowed = 0;
	}
}

static void join(struct p2s_model *all, const struct p2s_model *node)
{
	all->simulated |= node->simulated;
	all->deadline_hit |= node->deadline_hit;
	if (all->level == 0 || node->level < all->level)
		all->level = node->level;
	if (all->created_unix == 0 || node->created_unix < all->created_unix)
		all->created_unix = node->created_unix;
	if (node->single_gpu && !node->nothing_tested)
		return; /* a node of one GPU takes nothing away */
	all->single_gpu = 0;
	all->nothing_tested |= node->nothing_tested;
	all->fabric |= node->fabric;
	all->torn_lines |= node->torn_lines;
	all->transport = worst_transport(all->transport, node->transport);
	if (p2s_rules_vetoed(node, P2PSAFE_CONSUMER_NCCL_P2P, 0)) {
		/* where all pairs are good any level will do */
		all->own_topology &= node->own_topology;
		if (node->nccl_level < all->nccl_level)
			all->nccl_level = node->nccl_level;
	}
	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		all->consumers[c].verdict = p2s_rules_worse(all->consumers[c].verdict, node->consumers[c].verdict);
		if (node->consumers[c].allowed != 1 && all->consumers[c].allowed != 0)
			all->consumers[c].allowed = node->consumers[c].allowed;
	}
}

/* One GPU everywhere: nobody is allowed what nobody tested, and nothing is taken away. */
static void finish(struct p2s_model *all)
{
	for (int32_t c = 1; c < P2S_CONSUMERS && all->single_gpu; c++) {
		all->consumers[c].verdict = P2PSAFE_VERDICT_UNTESTED;
		all->consumers[c].allowed = 0;
	}
	if (all->transport == P2PSAFE_TRANSPORT_UNKNOWN)
		all->transport = P2PSAFE_TRANSPORT_NET;
}

static int32_t merge(struct p2s_model *all, const char *const *reports, int32_t count, int32_t *codes)
{
	start(all);
	all->joined = count;
	for (int32_t i = 0; i < count; i++) {
		struct p2s_model node;
		int32_t code;

		p2s_model_init(&node);
		code = read_node(reports[i], &node);
		if (code == DAMAGED)
			veto_all(all);
		else if (code >= 0)
			join(all, &node);
		p2s_model_free(&node);
		if (code < 0)
			return 0;
		if (codes != NULL)
			codes[i] = code;
	}
	finish(all);
	return p2s_emit_settings(all, 0);
}

P2PSAFE_API int32_t p2psafe_merge(const char *const *reports, int32_t count, int32_t *exit_codes, p2psafe_report **out,
                                  struct p2psafe_error *err)
{
	struct p2s_fault fault = {0};
	p2psafe_report *r;

	if (out != NULL)
		*out = NULL;
	if (out == NULL || reports == NULL || count < 1 || count > NODES_MAX) {
		p2s_fault_set(&fault, P2PSAFE_E_INVALID, 0, "merge: %d reports; expected 1 to %d, and where to put the result", (int)count,
		              NODES_MAX);
		return p2s_error_out(err, &fault);
	}
	if (p2s_jansson_check(&fault) != P2PSAFE_OK)
		return p2s_error_out(err, &fault);
	r = p2s_report_new(0);
	if (r != NULL && merge(&r->decision.m, reports, count, exit_codes) && p2s_view_index(&r->decision)) {
		*out = r;
		return P2PSAFE_OK;
	}
	p2psafe_report_free(r);
	p2s_fault_set(&fault, P2PSAFE_E_NOMEM, 0, "out of memory");
	return p2s_error_out(err, &fault);
}
