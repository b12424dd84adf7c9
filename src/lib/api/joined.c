/* Reads a joined report back. It has no GPUs and no pairs of its own: what it denies and sets is all that is left of its nodes, and
 * none of it may be lost on the way into a larger job. */
#include "api/joined.h"

#include <string.h>

#include "core/names.h"
#include "emit/emit.h"
#include "rules/rules.h"

static const json_t *decision_of(const json_t *report)
{
	return json_object_get(report, "decision");
}

int32_t p2s_joined_is(const json_t *report)
{
	return json_object_get(decision_of(report), "joined") != NULL;
}

static const char *string_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL ? s : "";
}

/* Every known consumer is there in every report: one that is missing was taken out. */
static int32_t names_all(const json_t *decision)
{
	const json_t *consumers = json_object_get(decision, "consumers");

	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		const json_t *o = json_object_get(consumers, p2s_word_name(P2S_GROUP_CONSUMER, c));

		if (json_object_get(o, "allowed") == NULL || !json_is_string(json_object_get(o, "verdict")))
			return 0;
	}
	return 1;
}

static void read_consumers(const json_t *decision, struct p2s_model *m)
{
	const json_t *consumers = json_object_get(decision, "consumers");

	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		const json_t *o = json_object_get(consumers, p2s_word_name(P2S_GROUP_CONSUMER, c));
		const json_t *allowed = json_object_get(o, "allowed");
		struct p2s_consumer *k = &m->consumers[c];

		k->verdict = p2s_word_value(P2S_GROUP_VERDICT, string_of(o, "verdict"));
		if (k->verdict == P2PSAFE_VERDICT_UNKNOWN)
			k->verdict = P2PSAFE_VERDICT_UNTESTED;
		k->allowed = 0;
		if (c == P2PSAFE_CONSUMER_MULTICAST)
			k->allowed = json_is_null(allowed) && m->consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed == 1 &&
			                             m->consumers[P2PSAFE_CONSUMER_SYMMETRIC_MEMORY].allowed == 1
			                     ? -1
			                     : 0;
		else if (json_is_true(allowed) && k->verdict == P2PSAFE_VERDICT_OK)
			k->allowed = 1;
	}
}

/* What NCCL is told is all that is left of how far it may go, and of torn lines. */
static void read_nccl(const json_t *settings, struct p2s_model *m)
{
	const json_t *s;
	size_t i;

	json_array_foreach(settings, i, s) {
		if (!json_is_false(json_object_get(s, "gives_permission")))
			continue;
		if (strcmp(string_of(s, "name"), "NCCL_PROTO") == 0)
			m->torn_lines = 1;
		if (strcmp(string_of(s, "name"), "NCCL_P2P_LEVEL") != 0)
			continue;
		m->own_topology = 1;
		m->nccl_level = p2s_word_value(P2S_GROUP_PATH, string_of(s, "value"));
	}
}

static int32_t sets(const struct p2s_model *m, const char *name, const char *value)
{
	for (size_t i = 0; i < m->setting_count; i++)
		if (strcmp(m->settings[i].name, name) == 0 && strcmp(m->settings[i].value, value) == 0)
			return 1;
	return 0;
}

/* Does m take away whatever the report takes away? Nothing is handed on as text: who writes a report must not write a job's settings. */
static int32_t sets_all(const struct p2s_model *m, const json_t *settings)
{
	const json_t *s;
	size_t i;

	json_array_foreach(settings, i, s)
		if (!json_is_true(json_object_get(s, "gives_permission")) && !sets(m, string_of(s, "name"), string_of(s, "value")))
			return 0;
	return 1;
}

/* Is everybody denied whom the report says to be vetoed? A name that is no consumer's may be anyone's. */
static int32_t denies_all(const struct p2s_model *m, const json_t *vetoes)
{
	const json_t *veto;
	size_t i;

	json_array_foreach(vetoes, i, veto) {
		int32_t c = p2s_word_value(P2S_GROUP_CONSUMER, json_string_value(veto));

		if (c <= 0 || c >= P2S_CONSUMERS || m->consumers[c].allowed != 0)
			return 0;
	}
	return 1;
}

int32_t p2s_joined_read(const json_t *report, struct p2s_model *m)
{
	const json_t *decision = decision_of(report);
	const json_t *settings = json_object_get(decision, "settings");
	const json_t *vetoes = json_object_get(decision, "vetoes");
	const json_t *code = json_object_get(decision, "exit_code");

	if (json_integer_value(json_object_get(decision, "joined")) < 1 || !json_is_array(settings) || !json_is_array(vetoes) ||
	    !json_is_integer(code) || !names_all(decision) || json_array_size(json_object_get(report, "gpus")) > 0 ||
	    json_array_size(json_object_get(report, "pairs")) > 0)
		return -1;
	read_consumers(decision, m);
	read_nccl(settings, m);
	m->transport = p2s_word_value(P2S_GROUP_TRANSPORT, string_of(decision, "transport"));
	if (m->transport == P2PSAFE_TRANSPORT_UNKNOWN)
		m->transport = P2PSAFE_TRANSPORT_NONE;
	m->nothing_tested = json_integer_value(code) == 3;
	/* one GPU in every node: nobody is allowed, and nothing is taken away */
	m->single_gpu = json_integer_value(code) == 0 && json_array_size(vetoes) == 0 && json_array_size(settings) == 0;
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		m->single_gpu &= m->consumers[c].allowed == 0 && m->consumers[c].verdict == P2PSAFE_VERDICT_UNTESTED;
	if (json_integer_value(code) != p2s_rules_exit_code(m) || !denies_all(m, vetoes))
		return -1;
	if (!p2s_emit_settings(m, 0))
		return 0;
	return sets_all(m, settings) ? 1 : -1;
}
