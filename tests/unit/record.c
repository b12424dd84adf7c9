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

/* Any one byte changed: refused, or no pair became better than it was, unless the byte is a verdict's own letter. */
static void no_byte_makes_a_pass_out_of_nothing(void **state)
{
	struct p2s_model m;
	struct p2s_host h;
	struct p2s_record r;
	char *text;

	(void)state;
	make(&r, &m, &h, 2, P2PSAFE_VERDICT_CORRUPT);
	text = p2s_record_write(&r);
	for (size_t i = 0; i < strlen(text); i++) {
		struct p2s_record back;
		char was = text[i];

		text[i] = was == 'x' ? 'y' : 'x';
		if (p2s_record_parse(&back, text, strlen(text))) {
			assert_int_not_equal(p2s_record_worst(&back), P2PSAFE_VERDICT_OK);
			p2s_record_free(&back);
		}
		text[i] = was;
	}
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
	                                   cmocka_unit_test(no_byte_makes_a_pass_out_of_nothing),
	                                   cmocka_unit_test(hostile_records),
	                                   cmocka_unit_test(sixteen_gpus_fit),
	                                   cmocka_unit_test(the_key_field_by_field)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
