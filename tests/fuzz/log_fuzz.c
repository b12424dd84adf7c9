/* Any bytes as a kernel log: records, lines, joining, redaction, attribution. What must hold whatever comes in is checked here;
 * the sanitizers see the rest. */
#include "fuzz.h"

#include <string.h>

#include "evidence/log.h"

static const struct p2s_log_gpu gpus[] = {
	{.bdf = {.bus = 1}, .bar_start = {[1] = UINT64_C(0x20000000000)}, .bar_bytes = {[1] = UINT64_C(1) << 37}},
	{.bdf = {.domain = 0x10000, .bus = 1}, .bar_start = {[0] = UINT64_MAX - 15}, .bar_bytes = {[0] = 16}},
};

static void check(const struct p2s_log_found *f)
{
	struct p2s_log_event e = f->event;
	char text[64];

	FUZZ_ASSERT(e.kind > 0 && e.kind < P2S_LOG_KINDS);
	FUZZ_ASSERT(p2s_log_class(e.kind) != P2S_LOG_CLASS_NONE);
	FUZZ_ASSERT(memchr(e.text, '\0', sizeof e.text) != NULL && memchr(e.device, '\0', sizeof e.device) != NULL);
	FUZZ_ASSERT(memchr(f->process, '\0', sizeof f->process) != NULL);
	FUZZ_ASSERT(f->family >= 0 && f->family < P2S_LOG_KINDS);
	FUZZ_ASSERT(e.recovery >= P2S_RECOVERY_UNREAD && e.recovery <= P2S_RECOVERY_DRAIN_RESET);
	for (const char *c = e.text; *c != '\0'; c++)
		FUZZ_ASSERT(*c >= ' ' && *c < 127); /* nothing that a terminal obeys */
	p2s_log_attribute(&e, gpus, 2);
	FUZZ_ASSERT(e.gpu >= -1 && e.gpu < 2 && e.owner >= -1 && e.owner < 2 && e.owner_bar >= -1 && e.owner_bar < P2S_BARS);
	FUZZ_ASSERT((e.owner < 0) == (e.owner_bar < 0));
	if (e.owner >= 0)
		FUZZ_ASSERT(e.owner_offset < gpus[e.owner].bar_bytes[e.owner_bar]);
	p2s_log_flags_text(&e, text, sizeof text);
	FUZZ_ASSERT(memchr(text, '\0', sizeof text) != NULL);
	p2s_log_is_grave(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *data = (const char *)bytes;
	struct p2s_log_joiner joiner;
	struct p2s_log_record record;
	struct p2s_log_found found[2];
	char text[240];
	size_t at = 0;

	memset(&joiner, 0, sizeof joiner);
	for (;;) {
		size_t used;
		enum p2s_log_next what = p2s_log_next(data + at, size - at, 1, &record, &used);

		FUZZ_ASSERT(used <= size - at);
		if (what == P2S_LOG_NEXT_SHORT)
			break;
		FUZZ_ASSERT(used > 0); /* else a reader would never come to an end */
		at += used;
		if (what != P2S_LOG_NEXT_RECORD)
			continue;
		FUZZ_ASSERT(strlen(record.text) < sizeof record.text && record.level <= 7);
		p2s_log_redact(record.text, text, sizeof text);
		FUZZ_ASSERT(strlen(text) < sizeof text);
		for (size_t n = p2s_log_feed(&joiner, &record, found); n > 0; n--)
			check(&found[n - 1]);
	}
	FUZZ_ASSERT(at == size);
	if (p2s_log_flush(&joiner, found))
		check(found);
	return 0;
}
