#define _GNU_SOURCE
/* The decision part of a record. */
#include "unit.h"

#include "kept/key.h"
#include "kept/record.h"
#include "rules/rules.h"

static void make(struct p2s_record *r, struct p2s_model *m, struct p2s_host *h, int32_t n, int32_t verdict)
{
	unit_model(m, n, verdict);
	p2s_rules_judge(m, NULL);
	memset(h, 0, sizeof *h);
	snprintf(h->boot_id, sizeof h->boot_id, "boot-1");
	snprintf(h->cmdline, sizeof h->cmdline, "iommu=pt");
	snprintf(m->kernel, sizeof m->kernel, "6.1");
	snprintf(m->driver_version, sizeof m->driver_version, "580.1");
	assert_int_equal(p2s_record_from_model(r, m, h, NULL), 1);
}

static void there_and_back(void **state)
{
	struct p2s_model m;
	struct p2s_host h;
	struct p2s_record r;
	struct p2s_record back;
	char *text;
	char *again;

	(void)state;
	make(&r, &m, &h, 8, P2PSAFE_VERDICT_OK);
	r.verdict[(1 * 8 + 2) * P2S_CONSUMERS] = P2PSAFE_VERDICT_CORRUPT;
	r.generation = 7;
	r.passes = 2;
	text = p2s_record_write(&r);
	assert_non_null(text);
	assert_int_equal(p2s_record_parse(&back, text, strlen(text)), 1);
	back.generation = 7;
	again = p2s_record_write(&back);
	assert_string_equal(text, again);
	assert_int_equal(p2s_record_worst(&back), P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(back.passes, 2);
	free(text);
	free(again);
	p2s_record_free(&r);
	p2s_record_free(&back);
	p2s_model_free(&m);
}

static void every_cut_is_refused(void **state)
{
	struct p2s_model m;
	struct p2s_host h;
	struct p2s_record r;
	struct p2s_record back;
	char *text;

	(void)state;
	make(&r, &m, &h, 3, P2PSAFE_VERDICT_OK);
	text = p2s_record_write(&r);
	for (size_t n = 0; n < strlen(text); n++)
		assert_int_equal(p2s_record_parse(&back, text, n), 0);
	free(text);
	p2s_record_free(&r);
	p2s_model_free(&m);
}

/* A disk or a memory that flips a bit makes no pass, no other boot and no other machine out of what was written. */
static void no_flipped_bit_is_believed(void **state)
{
	struct p2s_model m;
	struct p2s_host h;
	struct p2s_record r;
	struct p2s_record back;
	char *text;
	size_t len;

	(void)state;
	make(&r, &m, &h, 2, P2PSAFE_VERDICT_CORRUPT);
	text = p2s_record_write(&r);
	len = strlen(text);
	for (size_t i = 0; i < 8 * len; i++) {
		text[i / 8] ^= (char)(1 << i % 8);
		assert_int_equal(p2s_record_parse(&back, text, len), 0);
		text[i / 8] ^= (char)(1 << i % 8);
	}
	assert_int_equal(p2s_record_parse(&back, text, len), 1);
	p2s_record_free(&back);
	free(text);
	p2s_record_free(&r);
	p2s_model_free(&m);
}

/* The same text under another name of one member, with a sum that fits. */
static void rename_member(const char *text, const char *name, char *out, size_t cap)
{
	const char *sum = strstr(text, ",\"sum\"");
	char quoted[64];
	const char *at;

	snprintf(quoted, sizeof quoted, "\"%s\":", name);
	at = strstr(text, quoted);
	assert_non_null(at);
	assert_non_null(sum);
	snprintf(out, cap, "%.*s\"_%s", (int)(at - text), text, at + 2);
	*strstr(out, ",\"sum\"") = '\0';
	snprintf(out + strlen(out), cap - strlen(out), ",\"sum\":\"0x%016llx\"}",
	         (unsigned long long)p2s_record_hash(out, strlen(out)));
}

/* Unreadable is written as such; a member that is not there at all is no record. */
static void a_missing_member_is_not_unreadable(void **state)
{
	static const char *const names[] = {
		"kernel", "boot_id", "cmdline", "firmware", "module", "driver_version", "driver_flavour", "driver_parameters",
		"virtualization", "cuda_library", "suite", "bdf", "id", "bars", "domain_type", "uuid", "tested", "record", "level",
		"key", "gpus", "verdicts", "pair", "nccl_p2p", "staged", "paths"};
	struct p2s_model m;
	struct p2s_host h;
	struct p2s_record r;
	struct p2s_record back;
	char out[P2S_RECORD_MAX];
	char *text;

	(void)state;
	make(&r, &m, &h, 2, P2PSAFE_VERDICT_OK);
	text = p2s_record_write(&r);
	for (size_t i = 0; i < COUNT(names); i++) {
		rename_member(text, names[i], out, sizeof out);
		assert_int_equal(p2s_record_parse(&back, out, strlen(out)), 0);
	}
	/* of unknown members a newer program may have more */
	rename_member(text, "version", out, sizeof out);
	assert_int_equal(p2s_record_parse(&back, out, strlen(out)), 1);
	p2s_record_free(&back);
	free(text);
	p2s_record_free(&r);
	p2s_model_free(&m);
}

static void hostile_records(void **state)
{
	static const char *const texts[] = {"", "{}", "[]", "{\"record\":2}", "{\"record\":1,\"key\":{\"suite\":1},\"gpus\":[{}]}",
	                                    "{\"record\":1,\"level\":\"standard\",\"key\":{\"suite\":1},\"gpus\":[],\"verdicts\":{}}",
	                                    "{\"record\":1,\"level\":\"standard\",\"key\":{\"suite\":9},\"gpus\":[]}"};
	struct p2s_record r;

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++)
		assert_int_equal(p2s_record_parse(&r, texts[i], strlen(texts[i])), 0);
}

static void sixteen_gpus_fit(void **state)
{
	struct p2s_model m;
	struct p2s_host h;
	struct p2s_record r;
	char *text;

	(void)state;
	make(&r, &m, &h, 16, P2PSAFE_VERDICT_OK);
	text = p2s_record_write(&r);
	assert_non_null(text);
	assert_true(strlen(text) <= P2S_RECORD_MAX);
	free(text);
	p2s_record_free(&r);
	p2s_model_free(&m);
}

static void the_key_field_by_field(void **state)
{
	struct p2s_model m;
	struct p2s_host h;
	struct p2s_record r;
	struct p2s_request q = {.level = P2PSAFE_LEVEL_STANDARD};
	char why[200];

	(void)state;
	make(&r, &m, &h, 2, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 1);
	/* unreadable on one side: named, not judged */
	h.firmware[0] = '\0';
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 1);
	assert_non_null(strstr(why, "firmware not compared"));
	q.level = P2PSAFE_LEVEL_QUICK;
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 1);
	q.level = P2PSAFE_LEVEL_THOROUGH;
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 0);
	q.level = P2PSAFE_LEVEL_STANDARD;
	q.cuda_library = strdup("/lib/other.so");
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 0);
	free(q.cuda_library);
	q.cuda_library = NULL;
#define DIFFERS(field, value)                                                        \
	do {                                                                             \
		char saved[sizeof(field)];                                                   \
		memcpy(saved, field, sizeof saved);                                          \
		snprintf(field, sizeof(field), "%s", value);                                 \
		assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 0);       \
		assert_non_null(strstr(why, "changed"));                                     \
		memcpy(field, saved, sizeof saved);                                          \
	} while (0)
	DIFFERS(h.boot_id, "boot-2");
	DIFFERS(h.cmdline, "iommu=off");
	DIFFERS(m.kernel, "6.2");
	DIFFERS(m.driver_version, "590.1");
	DIFFERS(m.gpus[1].domain_type, "DMA-FQ");
	m.gpus[0].bar_start[2]++;
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 0);
	m.gpus[0].bar_start[2]--;
	m.gpus[0].device++;
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 0);
	m.gpus[0].device--;
	m.simulated = 1;
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 0);
	m.simulated = 0;
	/* a GPU that was not tested */
	r.gpus[1].tested = 0;
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 0);
	/* unless it is not in our group either */
	m.gpus[1].in_group = 0;
	assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), 1);
	p2s_record_free(&r);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back),
	                                   cmocka_unit_test(every_cut_is_refused),
	                                   cmocka_unit_test(no_flipped_bit_is_believed),
	                                   cmocka_unit_test(a_missing_member_is_not_unreadable),
	                                   cmocka_unit_test(hostile_records),
	                                   cmocka_unit_test(sixteen_gpus_fit),
	                                   cmocka_unit_test(the_key_field_by_field)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
