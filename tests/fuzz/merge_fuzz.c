/* Any bytes as the JSON reports of one to three nodes (a zero byte between them): each is read, shown through every getter, written and
 * read again; then they are joined. Nothing is allowed that a report does not allow itself and that its legs do not prove. */
#include "api/internal.h"
#include "api/joined.h"
#include "choose/choose.h"
#include "emit/emit.h"
#include "fuzz.h"
#include "getters.h"
#include "second.h"

#define NODES 3

/* What the report says itself. */
static int says_allowed(const char *text, int32_t consumer)
{
	json_t *top = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	const json_t *consumers = json_object_get(json_object_get(top, "decision"), "consumers");
	int yes = json_is_true(json_object_get(json_object_get(consumers, p2psafe_consumer_name(consumer)), "allowed"));

	json_decref(top);
	return yes;
}

/* A report that was joined before is counted as it says. */
static int is_joined(const char *text)
{
	json_t *top = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	int yes = p2s_joined_is(top);

	json_decref(top);
	return yes;
}

/* The report as an object of the interface, or NULL. */
static p2psafe_report *open_report(const char *text)
{
	json_t *top = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	p2psafe_report *r = p2s_report_new(0);
	struct p2s_model *m = &r->decision.m;
	int read = top != NULL && p2s_emit_parse(top, m) == 1;

	json_decref(top);
	if (read) {
		FUZZ_ASSERT(p2s_rules_judge(m, NULL) == 1 && p2s_choose(m) == 1 && p2s_emit_settings(m, 0) == 1);
		second_opinion(m);
		FUZZ_ASSERT(p2s_view_index(&r->decision) == 1);
		return r;
	}
	p2psafe_report_free(r);
	return NULL;
}

static void one(const p2psafe_report *r)
{
	p2psafe_report *again;
	char *json = NULL;

	getters_all(r);
	FUZZ_ASSERT(p2psafe_report_json(r, &json, NULL) == P2PSAFE_OK);
	again = open_report(json);
	FUZZ_ASSERT(again != NULL && p2psafe_report_gpu_count(again) == p2psafe_report_gpu_count(r) &&
	            p2psafe_report_pair_count(again) == p2psafe_report_pair_count(r) &&
	            p2psafe_report_transport(again) == p2psafe_report_transport(r));
	for (int32_t c = -1; c <= P2S_CONSUMERS; c++)
		FUZZ_ASSERT(p2psafe_report_allows(again, c) == p2psafe_report_allows(r, c));
	p2psafe_string_free(json);
	p2psafe_report_free(again);
}

/* What is allowed by all of them is allowed by each that has pairs or was joined (a node of one GPU takes nothing away, nor do many of
 * these), and one allows it. */
static void check(const p2psafe_report *all, const char *const *text, p2psafe_report *const *node, const int32_t *codes, int32_t count)
{
	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		int32_t proofs = 0;

		for (int32_t i = 0; i < count && p2psafe_report_allows(all, c); i++) {
			FUZZ_ASSERT(node[i] != NULL && codes[i] != 3 && codes[i] != 4);
			if (p2psafe_report_pair_count(node[i]) > 0)
				FUZZ_ASSERT(p2psafe_report_allows(node[i], c) && says_allowed(text[i], c) && !is_joined(text[i]));
			proofs += p2psafe_report_pair_count(node[i]) > 0 || (is_joined(text[i]) && says_allowed(text[i], c));
		}
		FUZZ_ASSERT(proofs > 0 || !p2psafe_report_allows(all, c));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text = fuzz_text(bytes, size);
	const char *node[NODES];
	p2psafe_report *opened[NODES];
	int32_t codes[NODES];
	int32_t count = 0;
	p2psafe_report *r = NULL;

	for (size_t at = 0; at <= size && count < NODES; at += strlen(text + at) + 1)
		node[count++] = text + at;
	for (int32_t i = 0; i < count; i++) {
		opened[i] = open_report(node[i]);
		if (opened[i] != NULL && size % 4 == 0) /* every getter of a whole report takes long */
			one(opened[i]);
	}
	FUZZ_ASSERT(p2psafe_merge(node, count, codes, &r, NULL) == P2PSAFE_OK && r != NULL);
	check(r, node, opened, codes, count);
	getters_all(r);
	p2psafe_report_free(r);
	for (int32_t i = 0; i < count; i++)
		p2psafe_report_free(opened[i]);
	free(text);
	return 0;
}
