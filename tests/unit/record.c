#define _GNU_SOURCE
/* The decision part of a record. */
#include "unit.h"

#include "kept/compact.h"
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
		"key", "gpus", "verdicts", "pair", "nccl_p2p", "staged", "paths", "nothing_tested", "fabric", "torn_lines", "nccl_level"};
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

/* The most that there may be, with what many GPUs have: long lists of BARs, one GPU that is bad with all, one pair that is slow. */
static void sixty_four_gpus_fit(void **state)
{
	struct p2s_model m;
	struct p2s_host h;
	struct p2s_record r;
	struct p2s_record back;
	struct p2s_request any = {.level = P2PSAFE_LEVEL_STANDARD};
	char reason[200];
	char *text;

	(void)state;
	make(&r, &m, &h, P2S_MAX_GPUS, P2PSAFE_VERDICT_OK);
	p2s_record_free(&r);
	for (size_t i = 0; i < m.gpu_count; i++) {
		m.gpus[i].bar_start[0] = UINT64_C(0xe0000000) + (i << 24);
		m.gpus[i].bar_bytes[0] = UINT64_C(1) << 24;
		m.gpus[i].bar_start[4] = UINT64_C(0x300000000000) + (i << 40);
		m.gpus[i].bar_bytes[4] = UINT64_C(1) << 25;
		m.gpus[i].driver_order = (int32_t)(P2S_MAX_GPUS - 1 - i);
		m.gpus[i].cc_major = 10;
		m.gpus[i].cc_minor = 3;
	}
	for (int32_t i = 0; i < P2S_MAX_GPUS; i++)
		if (i != 5)
			unit_leg(&m, 5, i, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->verdict = P2PSAFE_VERDICT_CORRUPT;
	assert_int_equal(p2s_rules_judge(&m, NULL), 1);
	assert_int_equal(p2s_record_from_model(&r, &m, &h, NULL), 1);
	text = p2s_record_write(&r);
	assert_non_null(text);
	assert_true(strlen(text) <= P2S_RECORD_MAX * 9 / 10); /* room for long command lines */
	assert_int_equal(p2s_record_parse(&back, text, strlen(text)), 1);
	assert_int_equal(back.gpu_count, P2S_MAX_GPUS);
	assert_int_equal(back.gpus[0].order, P2S_MAX_GPUS - 1);
	assert_int_equal(back.gpus[0].cc, 103);
	assert_memory_equal(back.verdict, r.verdict, (size_t)P2S_MAX_GPUS * P2S_MAX_GPUS * P2S_CONSUMERS);
	assert_memory_equal(back.path, r.path, (size_t)P2S_MAX_GPUS * P2S_MAX_GPUS);
	assert_int_equal(p2s_key_matches(&back, &m, &h, &any, reason, sizeof reason), 1);
	/* a BAR that moved is noticed, though only its hash is kept */
	m.gpus[63].bar_start[4]++;
	assert_int_equal(p2s_key_matches(&back, &m, &h, &any, reason, sizeof reason), 0);
	assert_non_null(strstr(reason, "BARs changed"));
	free(text);
	p2s_record_free(&r);
	p2s_record_free(&back);
	p2s_model_free(&m);
}

/* Any few bad pairs anywhere: what is read is what was written. */
static void compact_and_back(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 40; seed++) {
		size_t n = 40 + seed % 25;
		size_t cells = n * n;
		struct p2s_record r = {.level = P2PSAFE_LEVEL_STANDARD, .gpu_count = n};
		struct p2s_record back;
		uint32_t x = seed;
		char *text;

		r.gpus = calloc(n, sizeof *r.gpus);
		r.verdict = calloc(cells, P2S_CONSUMERS);
		r.path = calloc(cells, 1);
		r.staged = calloc(cells, 1);
		assert_true(r.gpus != NULL && r.verdict != NULL && r.path != NULL && r.staged != NULL);
		memset(r.verdict, P2PSAFE_VERDICT_OK, cells * P2S_CONSUMERS);
		memset(r.staged, P2PSAFE_VERDICT_OK, cells);
		memset(r.path, P2PSAFE_PATH_NVL, cells);
		for (size_t i = 0; i < n; i++) {
			snprintf(r.gpus[i].address, sizeof r.gpus[i].address, "0000:%02x:00.0", (unsigned)i & 0xff);
			snprintf(r.gpus[i].bars, sizeof r.gpus[i].bars, "0:e0000000+1000000 2:300000000000+4000000000 4:310000000000+2000000");
		}
		for (int k = 0; k < 12; k++) {
			x = x * 1664525 + 1013904223;
			r.verdict[(x >> 8) % (cells * P2S_CONSUMERS)] = (unsigned char)(1 + (x >> 28) % 7);
			r.path[(x >> 4) % cells] = (unsigned char)((x >> 29) % 7);
			r.staged[(x >> 12) % cells] = P2PSAFE_VERDICT_CORRUPT;
		}
		/* what no record tells: a GPU with itself, and multicast */
		for (size_t i = 0; i < cells; i++) {
			if (i % (n + 1) == 0) {
				memset(r.verdict + i * P2S_CONSUMERS, P2PSAFE_VERDICT_UNTESTED, P2S_CONSUMERS);
				r.path[i] = 0;
				r.staged[i] = P2PSAFE_VERDICT_UNTESTED;
			}
			r.verdict[i * P2S_CONSUMERS + P2PSAFE_CONSUMER_MULTICAST] = P2PSAFE_VERDICT_UNTESTED;
		}
		text = p2s_record_write(&r);
		assert_non_null(text);
		assert_non_null(strchr(text, '*'));
		assert_int_equal(p2s_record_parse(&back, text, strlen(text)), 1);
		assert_memory_equal(back.verdict, r.verdict, cells * P2S_CONSUMERS);
		assert_memory_equal(back.path, r.path, cells);
		assert_memory_equal(back.staged, r.staged, cells);
		free(text);
		p2s_record_free(&r);
		p2s_record_free(&back);
	}
}

static void runs_of_letters(void **state)
{
	static const struct {
		const char *text;
		size_t n;
		const char *row; /* NULL: no row */
	} rows[] = {{"O*3,-,O*2", 6, "OOO-OO"}, {"OOO", 3, "OOO"}, {"O*3", 3, "OOO"},     {"", 0, ""},        {"OO", 3, NULL},
	            {"O*4", 3, NULL},           {"O*2", 3, NULL},  {"O*3,", 3, NULL},      {"O*,O", 3, NULL},  {",O*2", 3, NULL},
	            {"O*0,O*3", 3, NULL},       {"O*99999999999999999999", 3, NULL},       {"**3", 3, NULL},   {"O*2O", 3, NULL}};
	static const char *const not_again[] = {NULL, "", "O", "=", "=0", "=8", "=7x", "=-1", "=99999999999999999999"};
	char out[80];
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		int32_t ok = p2s_compact_expand(rows[i].text, out, rows[i].n);

		if (ok != (rows[i].row != NULL) || (ok && memcmp(out, rows[i].row, rows[i].n) != 0))
			fail_msg("row %zu", i);
	}
	assert_int_equal(p2s_compact_row("OOO-OO", out, sizeof out), 1);
	assert_string_equal(out, "O*3,-,O*2");
	assert_int_equal(p2s_compact_row("OCOCOC", out, 6), 0);
	assert_int_equal(p2s_compact_again("=7", 7, &n), 1);
	assert_int_equal(n, 7);
	for (size_t i = 0; i < COUNT(not_again); i++)
		assert_int_equal(p2s_compact_again(not_again[i], 7, &n), 0);
}

/* Any number of bad pairs among 64 GPUs of which some are the group, with long texts in the key. */
static void make_long(struct p2s_record *r, uint32_t seed, int bad, uint32_t every)
{
	size_t n = P2S_MAX_GPUS;
	size_t cells = n * n;
	uint32_t x = seed;

	memset(r, 0, sizeof *r);
	r->level = P2PSAFE_LEVEL_STANDARD;
	r->gpu_count = n;
	r->nccl_level = P2PSAFE_PATH_SYS;
	memset(r->cmdline, 'c', sizeof r->cmdline - 1);
	memset(r->driver_parameters, 'd', sizeof r->driver_parameters - 1);
	memset(r->cuda_library, 'l', 300);
	r->gpus = calloc(n, sizeof *r->gpus);
	r->verdict = calloc(cells, P2S_CONSUMERS);
	r->path = calloc(cells, 1);
	r->staged = calloc(cells, 1);
	assert_true(r->gpus != NULL && r->verdict != NULL && r->path != NULL && r->staged != NULL);
	for (size_t i = 0; i < n; i++) {
		struct p2s_record_gpu *g = &r->gpus[i];

		snprintf(g->address, sizeof g->address, "0000:%02x:00.0", (unsigned)i & 0xff);
		snprintf(g->id, sizeof g->id, "10de:2330 10de:16c1");
		snprintf(g->bars, sizeof g->bars, "0:e0000000+1000000 2:300000000000+4000000000 4:310000000000+2000000");
		snprintf(g->domain_type, sizeof g->domain_type, "identity");
		snprintf(g->uuid, sizeof g->uuid, "GPU-%08x-0000-0000-0000-000000000000", (unsigned)i);
		g->tested = i % every == 0;
	}
	memset(r->verdict, P2PSAFE_VERDICT_UNTESTED, cells * P2S_CONSUMERS);
	memset(r->staged, P2PSAFE_VERDICT_UNTESTED, cells);
	for (size_t i = 0; i < cells; i++) {
		if (i % (n + 1) == 0 || !r->gpus[i / n].tested || !r->gpus[i % n].tested)
			continue;
		memset(r->verdict + i * P2S_CONSUMERS, P2PSAFE_VERDICT_OK, P2S_CONSUMERS);
		r->staged[i] = P2PSAFE_VERDICT_OK;
		r->path[i] = i / n / 4 == i % n / 4 ? P2PSAFE_PATH_PIX : P2PSAFE_PATH_SYS;
	}
	for (int k = 0; k < bad; k++) {
		size_t i;

		x = x * 1664525 + 1013904223;
		i = (x >> 8) % cells;
		if (i % (n + 1) != 0)
			for (int c = 0; c < P2S_CONSUMERS; c++)
				r->verdict[i * P2S_CONSUMERS + (size_t)c] = (x >> 28) % 2 ? P2PSAFE_VERDICT_CORRUPT : P2PSAFE_VERDICT_HANG;
	}
}

/* Not better than it was, for anybody; a HANG of the pair itself stays one. */
static int never_better(const struct p2s_record *was, const struct p2s_record *is, int *more)
{
	size_t n = was->gpu_count;

	for (size_t i = 0; i < n * n; i++) {
		for (size_t c = 0; c < P2S_CONSUMERS; c++) {
			int32_t a = was->verdict[i * P2S_CONSUMERS + c];
			int32_t b = is->verdict[i * P2S_CONSUMERS + c];
			int32_t group = was->gpus[i / n].tested && was->gpus[i % n].tested;

			if (i % (n + 1) == 0 || c == P2PSAFE_CONSUMER_MULTICAST || (!group && !p2s_rules_is_bad(a)))
				continue;
			*more |= group && a != b;
			if (p2s_rules_is_bad(a) ? !p2s_rules_is_bad(b) || (c == 0 && a == P2PSAFE_VERDICT_HANG && b != a)
									: p2s_rules_worse(a, b) != b)
				return 0;
		}
	}
	return 1;
}

/* Whatever failed, there is a record, and it says no less. What works loses nothing. */
static void every_record_fits(void **state)
{
	static const int bad[] = {0, 1, 33, 200, 1000, 8000};
	struct p2s_model m = {.gpu_count = 0};
	struct p2s_host h = {0};
	struct p2s_request any = {.level = P2PSAFE_LEVEL_STANDARD};
	char reason[200];
	int collapsed = 0;

	(void)state;
	for (uint32_t every = 1; every <= 3; every++) {
		for (size_t i = 0; i < COUNT(bad); i++) {
			struct p2s_record r;
			struct p2s_record back;
			char library[301] = "";
			int more = 0;
			char *text;

			make_long(&r, every, bad[i], every);
			text = p2s_record_write(&r);
			if (text == NULL || strlen(text) > P2S_RECORD_MAX)
				fail_msg("%d bad pairs, each %u: no record", bad[i], (unsigned)every);
			assert_int_equal(p2s_record_parse(&back, text, strlen(text)), 1);
			if (!never_better(&r, &back, &more))
				fail_msg("%d bad pairs, each %u: better than it was", bad[i], (unsigned)every);
			if (bad[i] == 0)
				assert_int_equal(more, 0);
			assert_int_equal(back.nccl_level, more ? P2PSAFE_PATH_UNKNOWN : back.nccl_level);
			if (bad[i] == 0)
				assert_int_equal(back.nccl_level, P2PSAFE_PATH_SYS);
			collapsed += more;
			/* the long texts of the key are compared through their hash */
			memcpy(library, r.cuda_library, sizeof library);
			any.cuda_library = library;
			memcpy(h.cmdline, r.cmdline, sizeof h.cmdline);
			snprintf(m.driver_parameters, sizeof m.driver_parameters, "%s", r.driver_parameters);
			assert_int_equal(p2s_key_host_matches(&back, &m, &h, &any, reason, sizeof reason), 1);
			h.cmdline[9] = 'x';
			assert_int_equal(p2s_key_host_matches(&back, &m, &h, &any, reason, sizeof reason), 0);
			assert_string_equal(reason, "command line changed");
			h.cmdline[9] = 'c';
			m.driver_parameters[9] = 'x';
			assert_int_equal(p2s_key_host_matches(&back, &m, &h, &any, reason, sizeof reason), 0);
			assert_string_equal(reason, "driver parameters changed");
			free(text);
			p2s_record_free(&r);
			p2s_record_free(&back);
		}
	}
	assert_true(collapsed > 3);
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

/* A service that may not see /proc/sys (ProcSubset=pid, say) cannot read the boot's name. What was made before this boot is none of it. */
static void a_boot_without_a_name(void **state)
{
	static const struct {
		const char *kept, *now;
		int64_t created, booted;
		int32_t matches;
	} rows[] = {{"boot-1", "", 5000, 4000, 1}, {"boot-1", "", 5000, 5001, 0}, {"", "", 5000, 5001, 0},     {"", "", 5000, 5000, 1},
				{"", "boot-1", 5000, 5001, 0}, {"", "boot-1", 5000, 4000, 1}, {"boot-1", "", 5000, 0, 1},
				{"boot-1", "boot-1", 5000, 9000, 1} /* the clock was set; the name counts */};
	struct p2s_request q = {.level = P2PSAFE_LEVEL_STANDARD};
	struct p2s_model m;
	struct p2s_host h;
	struct p2s_record r;
	char why[200];

	(void)state;
	make(&r, &m, &h, 2, P2PSAFE_VERDICT_OK);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		snprintf(r.boot_id, sizeof r.boot_id, "%s", rows[i].kept);
		snprintf(h.boot_id, sizeof h.boot_id, "%s", rows[i].now);
		r.created_unix = rows[i].created;
		h.booted_unix = rows[i].booted;
		assert_int_equal(p2s_key_matches(&r, &m, &h, &q, why, sizeof why), rows[i].matches);
		assert_int_equal(strstr(why, "boot changed") != NULL, !rows[i].matches);
	}
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
									   cmocka_unit_test(sixty_four_gpus_fit),
									   cmocka_unit_test(compact_and_back),
									   cmocka_unit_test(every_record_fits),
									   cmocka_unit_test(runs_of_letters),
									   cmocka_unit_test(the_key_field_by_field),
									   cmocka_unit_test(a_boot_without_a_name)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
