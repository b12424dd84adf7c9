/* Any bytes as the full report beside a kept record. What can be read is judged like any other evidence, and says the same when it
 * is written and read again. */
#include "choose/choose.h"
#include "emit/emit.h"
#include "fuzz.h"
#include "second.h"

static int read_and_judge(const char *text, size_t size, struct p2s_model *m)
{
	p2s_model_init(m);
	if (p2s_emit_parse_full(text, size, m) != 1)
		return 0;
	FUZZ_ASSERT(p2s_rules_judge(m, NULL) == 1 && p2s_choose(m) == 1 && p2s_emit_settings(m, 0) == 1);
	second_opinion(m);
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct p2s_model m, again;
	char *text;

	if (read_and_judge((const char *)bytes, size, &m)) {
		text = p2s_emit_full(&m);
		FUZZ_ASSERT(text != NULL && read_and_judge(text, strlen(text), &again));
		FUZZ_ASSERT(again.gpu_count == m.gpu_count && again.pair_count == m.pair_count && again.transport == m.transport);
		for (int32_t c = 1; c < P2S_CONSUMERS; c++)
			FUZZ_ASSERT(again.consumers[c].allowed == m.consumers[c].allowed && again.consumers[c].verdict == m.consumers[c].verdict);
		for (size_t i = 0; i < m.pair_count; i++)
			FUZZ_ASSERT(again.pairs[i].verdict == m.pairs[i].verdict && again.pairs[i].leg_count == m.pairs[i].leg_count);
		free(text);
		p2s_model_free(&again);
	}
	p2s_model_free(&m);
	return 0;
}
