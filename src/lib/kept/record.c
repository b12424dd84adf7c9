#include "kept/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "emit/emit.h"
#include "ipc/proto.h"
#include "kept/compact.h"
#include "kept/shrink.h"
#include "rules/rules.h"

/* One letter per verdict, one string per accessor: 64 GPUs fit where objects per pair would not. */
static const char letters[] = "?ODCHEUT"; /* index = P2PSAFE_VERDICT_* */

uint64_t p2s_record_hash(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h;
}

void p2s_record_free(struct p2s_record *r)
{
	free(r->gpus);
	free(r->verdict);
	free(r->path);
	free(r->staged);
	memset(r, 0, sizeof *r);
}

int32_t p2s_record_gpu(const struct p2s_record *r, const char *address)
{
	for (size_t i = 0; i < r->gpu_count; i++)
		if (strcmp(r->gpus[i].address, address) == 0)
			return (int32_t)i;
	return -1;
}

static int32_t allocate(struct p2s_record *r, size_t gpus)
{
	size_t cells = gpus * gpus;

	r->gpus = calloc(gpus + 1, sizeof *r->gpus);
	r->verdict = calloc(cells * P2S_CONSUMERS + 1, 1);
	r->path = calloc(cells + 1, 1);
	r->staged = calloc(cells + 1, 1);
	if (r->gpus == NULL || r->verdict == NULL || r->path == NULL || r->staged == NULL)
		return 0;
	r->gpu_count = gpus;
	memset(r->verdict, P2PSAFE_VERDICT_UNTESTED, cells * P2S_CONSUMERS);
	memset(r->staged, P2PSAFE_VERDICT_UNTESTED, cells);
	return 1;
}

static void gpu_from_model(struct p2s_record_gpu *to, const struct p2s_gpu *g)
{
	size_t used = 0;

	snprintf(to->address, sizeof to->address, "%s", g->address);
	if (g->device != 0)
		snprintf(to->id, sizeof to->id, "%04x:%04x %04x:%04x", g->vendor, g->device, g->subsystem_vendor, g->subsystem_device);
	for (int i = 0; i < P2S_BARS; i++)
		if (g->bar_bytes[i] != 0)
			used += (size_t)snprintf(to->bars + used, sizeof to->bars - used, "%s%d:%" PRIx64 "+%" PRIx64, used > 0 ? " " : "",
									 i, g->bar_start[i], g->bar_bytes[i]);
	snprintf(to->domain_type, sizeof to->domain_type, "%s", g->domain_type[0] != '\0' ? g->domain_type : "-");
	snprintf(to->uuid, sizeof to->uuid, "%s", g->uuid);
	to->minor = g->minor;
	to->order = g->driver_order;
	to->cc = 10 * g->cc_major + g->cc_minor;
	to->tested = g->in_group;
}

#define COPY(to, from) snprintf(to, sizeof(to), "%s", from)

static int32_t measured(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->pair_count; i++)
		if (m->pairs[i].bandwidth.ce_write == 0 && m->pairs[i].bandwidth.sm_store == 0)
			return 0;
	return m->pair_count > 0;
}

int32_t p2s_record_from_model(struct p2s_record *r, const struct p2s_model *m, const struct p2s_host *host,
							  const char *cuda_library)
{
	int32_t map[P2S_MAX_GPUS];
	size_t n = 0;

	memset(r, 0, sizeof *r);
	for (size_t i = 0; i < m->gpu_count; i++)
		map[i] = strcmp(m->gpus[i].driver, "nvidia") == 0 ? (int32_t)n++ : -1;
	if (!allocate(r, n)) {
		p2s_record_free(r);
		return 0;
	}
	for (size_t i = 0; i < m->gpu_count; i++)
		if (map[i] >= 0)
			gpu_from_model(&r->gpus[map[i]], &m->gpus[i]);
	r->level = m->level;
	r->simulated = m->simulated;
	r->nothing_tested = m->nothing_tested;
	r->deadline_hit = m->deadline_hit;
	r->created_unix = m->created_unix;
	r->measured = measured(m);
	r->fabric = m->fabric;
	r->torn_lines = m->torn_lines;
	r->nccl_level = m->nccl_level;
	COPY(r->kernel, m->kernel);
	COPY(r->boot_id, host->boot_id);
	COPY(r->cmdline, host->cmdline);
	COPY(r->firmware, host->firmware);
	COPY(r->module, host->module);
	COPY(r->driver_version, m->driver_version);
	COPY(r->driver_flavour, m->driver_flavour);
	COPY(r->driver_parameters, m->driver_parameters);
	COPY(r->virtualization, m->virtualization);
	COPY(r->cuda_library, cuda_library != NULL ? cuda_library : "");
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];
		size_t cell;

		if (map[p->src] < 0 || map[p->dst] < 0)
			continue;
		cell = (size_t)map[p->src] * n + (size_t)map[p->dst];
		r->path[cell] = (unsigned char)p->path;
		r->verdict[cell * P2S_CONSUMERS] = (unsigned char)p->verdict;
		/* as it was judged, what measuring took away included */
		for (int32_t c = 1; c < P2S_CONSUMERS; c++)
			if (c != P2PSAFE_CONSUMER_MULTICAST)
				r->verdict[cell * P2S_CONSUMERS + (size_t)c] = p->permits[c];
	}
	for (size_t i = 0; i < m->staged_count; i++) {
		const struct p2s_staged *s = &m->staged[i];

		if (map[s->a] >= 0 && map[s->b] >= 0) {
			r->staged[(size_t)map[s->a] * n + (size_t)map[s->b]] = (unsigned char)s->verdict;
			r->staged[(size_t)map[s->b] * n + (size_t)map[s->a]] = (unsigned char)s->verdict;
		}
	}
	return 1;
}

int32_t p2s_record_worst(const struct p2s_record *r)
{
	int32_t worst = P2PSAFE_VERDICT_OK;
	size_t pairs = 0;

	for (size_t a = 0; a < r->gpu_count; a++) {
		for (size_t b = 0; b < r->gpu_count; b++) {
			const unsigned char *cell = &r->verdict[(a * r->gpu_count + b) * P2S_CONSUMERS];

			if (a == b || !r->gpus[a].tested || !r->gpus[b].tested)
				continue;
			pairs++;
			for (int32_t c = 0; c < P2S_CONSUMERS; c++)
				if (c != P2PSAFE_CONSUMER_MULTICAST && (c == 0 || p2s_rules_is_bad(cell[c])))
					worst = p2s_rules_worse(worst, cell[c]);
		}
	}
	return pairs == 0 || r->nothing_tested ? p2s_rules_worse(worst, P2PSAFE_VERDICT_UNTESTED) : worst;
}

/* One row of a matrix as letters; step: bytes between cells. */
static void row_text(const unsigned char *cells, size_t n, size_t step, size_t a, int32_t digits, char *line)
{
	for (size_t b = 0; b < n; b++) {
		unsigned v = cells[(a * n + b) * step];

		line[b] = a == b ? '-' : digits ? (char)('0' + v % 10) : letters[v < sizeof letters - 1 ? v : 0];
	}
	line[n] = '\0';
}

/* Rows of one matrix. Compact: runs of letters, the diagonal as its neighbour, and "=<n>" for so many more rows like the one before. */
static json_t *rows(const unsigned char *cells, size_t n, size_t step, int32_t digits, int32_t compact)
{
	json_t *list = json_array();
	char last[4 * P2S_MAX_GPUS] = "";
	size_t repeats = 0;

	for (size_t a = 0; a < n; a++) {
		char line[P2S_MAX_GPUS + 1];
		char runs[4 * P2S_MAX_GPUS] = "";
		char again[16];

		row_text(cells, n, step, a, digits, line);
		if (!compact) {
			p2s_emit_append(list, json_string(line));
			continue;
		}
		if (n > 1)
			line[a] = a > 0 ? line[a - 1] : line[1];
		(void)p2s_compact_row(line, runs, sizeof runs); /* at worst a letter and a comma for each */
		repeats += a > 0 && strcmp(runs, last) == 0;
		snprintf(again, sizeof again, "=%zu", repeats);
		if (repeats > 0 && (strcmp(runs, last) != 0 || a + 1 == n)) {
			p2s_emit_append(list, json_string(again));
			repeats = 0;
		}
		if (a == 0 || strcmp(runs, last) != 0)
			p2s_emit_append(list, json_string(runs));
		memcpy(last, runs, sizeof last);
	}
	return list;
}

static json_t *text_json(const char *text)
{
	json_t *s = json_string(text);

	return s != NULL ? s : json_string(""); /* no UTF-8: as good as not readable */
}

/* compact: a long text that is only compared becomes its hash. */
static json_t *compared(const char *text, int32_t compact)
{
	char hash[24];

	if (!compact || text[0] == '#' || strlen(text) < 2 * sizeof hash)
		return text_json(text);
	p2s_compact_hash(text, hash, sizeof hash);
	return json_string(hash);
}

static json_t *hex(uint64_t v)
{
	char text[24];

	snprintf(text, sizeof text, "0x%016" PRIx64, v);
	return json_string(text);
}

#define SUM ",\"sum\":\"0x"
#define SUM_LENGTH (sizeof SUM - 1 + 16 + 2) /* 16 digits, a quote and the brace */

/* The hash of everything before it becomes the last member. Frees text when it returns NULL. */
static char *seal(char *text)
{
	size_t len = strlen(text) - 1; /* without the brace */
	char *sealed = realloc(text, len + SUM_LENGTH + 1);

	if (sealed == NULL) {
		free(text);
		return NULL;
	}
	snprintf(sealed + len, SUM_LENGTH + 1, SUM "%016" PRIx64 "\"}", p2s_record_hash(sealed, len));
	return sealed;
}

/* Damage of the medium must not turn a veto into a pass, nor another boot into this one. */
static int32_t is_whole(const char *text, size_t len)
{
	char want[SUM_LENGTH + 1];

	while (len > 0 && text[len - 1] == '\n')
		len--; /* a copy that an editor made */
	if (len < SUM_LENGTH)
		return 0;
	len -= SUM_LENGTH;
	snprintf(want, sizeof want, SUM "%016" PRIx64 "\"}", p2s_record_hash(text, len));
	return memcmp(text + len, want, SUM_LENGTH) == 0;
}

/* compact: what is only compared becomes a hash, and rows of letters become runs. *too_long says why there is no text. */
static char *write_record(const struct p2s_record *r, int32_t compact, int32_t *too_long)
{
	json_t *gpus = json_array();
	json_t *verdicts = json_object();
	json_t *key;
	json_t *top;
	char *text;

	for (size_t i = 0; i < r->gpu_count; i++) {
		const struct p2s_record_gpu *g = &r->gpus[i];
		char hash[24];

		if (compact && g->bars[0] != '\0' && g->bars[0] != '#')
			p2s_compact_hash(g->bars, hash, sizeof hash);
		else
			hash[0] = '\0';
		p2s_emit_append(gpus, json_pack("{s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:i, s:b}", "bdf", g->address, "id", g->id, "bars",
											  hash[0] != '\0' ? hash : g->bars, "domain_type", text_json(g->domain_type), "uuid", text_json(g->uuid),
											  "minor", (int)g->minor, "order", (int)g->order, "cc", (int)g->cc, "tested", g->tested != 0));
	}
	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		if (c != P2PSAFE_CONSUMER_MULTICAST)
			p2s_emit_set(verdicts, c == 0 ? "pair" : p2s_word_name(P2S_GROUP_CONSUMER, c),
								rows(r->verdict + c, r->gpu_count, P2S_CONSUMERS, 0, compact));
	key =
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i}", "kernel", text_json(r->kernel), "boot_id",
				  text_json(r->boot_id), "cmdline", compared(r->cmdline, compact), "firmware", text_json(r->firmware), "module",
				  text_json(r->module), "driver_version", text_json(r->driver_version), "driver_flavour",
				  text_json(r->driver_flavour), "driver_parameters", compared(r->driver_parameters, compact), "virtualization",
				  text_json(r->virtualization), "cuda_library", text_json(r->cuda_library), "suite", P2S_RECORD_SUITE);
	top = json_pack(
		"{s:i, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:i, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:s, s:s, s:o}",
		"record", P2S_RECORD_SCHEMA, "version", P2S_VERSION_TEXT, "level", p2s_word_name(P2S_GROUP_LEVEL, r->level),
		"simulated", r->simulated != 0, "nothing_tested", r->nothing_tested != 0, "gpu_ended", r->gpu_ended != 0,
		"deadline_hit", r->deadline_hit != 0, "measured", r->measured != 0, "passes", (int)r->passes, "retries",
		(int)r->retries, "created_unix", (json_int_t)r->created_unix, "generation", (json_int_t)r->generation, "key", key,
		"gpus", gpus, "verdicts", verdicts, "paths", rows(r->path, r->gpu_count, 1, 1, compact), "staged",
		rows(r->staged, r->gpu_count, 1, 0, compact), "fabric", r->fabric != 0, "torn_lines", r->torn_lines != 0, "nccl_level",
		p2s_word_name(P2S_GROUP_PATH, r->nccl_level), "full", r->full_name, "full_hash", hex(r->full_hash));
	text = p2s_emit_dump(top, JSON_COMPACT);
	json_decref(top);
	if (text != NULL)
		text = seal(text);
	*too_long = text != NULL && strlen(text) > P2S_RECORD_MAX;
	if (*too_long) {
		free(text);
		return NULL;
	}
	return text;
}

char *p2s_record_write(const struct p2s_record *r)
{
	int32_t too_long = 0;
	char *text = write_record(r, 0, &too_long);

	if (too_long)
		text = write_record(r, 1, &too_long);
	for (int how = P2S_SHRINK_FILL; too_long && how < P2S_SHRINK_STEPS; how++) {
		struct p2s_record less;

		if (!p2s_shrink(&less, r, (enum p2s_shrink)how))
			return NULL;
		text = write_record(&less, 1, &too_long);
		p2s_shrink_free(&less);
	}
	return text;
}

/* "" is what could not be read when the record was made. A member that is not there says nothing at all: returns 0. */
static int32_t read_text(const json_t *o, const char *name, char *out, size_t cap)
{
	const char *s = json_string_value(json_object_get(o, name));

	snprintf(out, cap, "%s", s != NULL ? s : "");
	return s != NULL;
}

#define TEXT(o, name, to) read_text(o, name, to, sizeof(to))

/* Exactly n rows of n letters, or nothing is believed. */
static int32_t read_rows(const json_t *list, unsigned char *cells, size_t n, size_t step, int32_t digits)
{
	char line[P2S_MAX_GPUS];
	size_t repeats = 0;
	size_t next = 0;

	for (size_t a = 0; a < n; a++) {
		const char *text = repeats == 0 ? json_string_value(json_array_get(list, next++)) : NULL;

		if (repeats == 0 && a > 0 && p2s_compact_again(text, n - a, &repeats))
			text = NULL;
		if (repeats > 0)
			repeats--;
		else if (text == NULL || !p2s_compact_expand(text, line, n))
			return 0;
		for (size_t b = 0; b < n; b++) {
			char c = a == b ? '-' : line[b];
			const char *at = digits || c == '\0' ? NULL : strchr(letters + 1, c);
			unsigned char v = digits ? (unsigned char)(c >= '0' && c <= '7' ? c - '0' : 0)
									 : (unsigned char)(at != NULL ? at - letters : P2PSAFE_VERDICT_UNTESTED);

			cells[(a * n + b) * step] = v;
		}
	}
	return repeats == 0 && json_array_size(list) == next;
}

/* Below `most`, or -1: unknown. */
static int32_t small(const json_t *v, json_int_t most)
{
	return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < most ? (int32_t)json_integer_value(v) : -1;
}

static int32_t read_gpus(struct p2s_record *r, const json_t *list)
{
	for (size_t i = 0; i < r->gpu_count; i++) {
		const json_t *o = json_array_get(list, i);
		struct p2s_record_gpu *g = &r->gpus[i];

		if (!TEXT(o, "bdf", g->address) || !TEXT(o, "id", g->id) || !TEXT(o, "bars", g->bars) ||
			!TEXT(o, "domain_type", g->domain_type) || !TEXT(o, "uuid", g->uuid) ||
			!json_is_boolean(json_object_get(o, "tested")))
			return 0;
		g->minor = small(json_object_get(o, "minor"), 256);
		g->order = small(json_object_get(o, "order"), P2S_MAX_GPUS);
		g->cc = small(json_object_get(o, "cc"), 1000);
		g->cc = g->cc < 0 ? 0 : g->cc;
		g->tested = json_is_true(json_object_get(o, "tested"));
		if (g->address[0] == '\0' || p2s_record_gpu(r, g->address) != (int32_t)i)
			return 0;
	}
	return 1;
}

static int32_t read_found(struct p2s_record *r, const json_t *top)
{
	const json_t *verdicts = json_object_get(top, "verdicts");

	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		if (c != P2PSAFE_CONSUMER_MULTICAST &&
			!read_rows(json_object_get(verdicts, c == 0 ? "pair" : p2s_word_name(P2S_GROUP_CONSUMER, c)), r->verdict + c,
					   r->gpu_count, P2S_CONSUMERS, 0))
			return 0;
	return read_rows(json_object_get(top, "paths"), r->path, r->gpu_count, 1, 1) &&
		   read_rows(json_object_get(top, "staged"), r->staged, r->gpu_count, 1, 0);
}

static int32_t count_of(const json_t *top, const char *name)
{
	json_int_t v = json_integer_value(json_object_get(top, name));

	return v > 0 && v < 1000000 ? (int32_t)v : 0;
}

static int32_t read_key(struct p2s_record *r, const json_t *key)
{
	return TEXT(key, "kernel", r->kernel) && TEXT(key, "boot_id", r->boot_id) && TEXT(key, "cmdline", r->cmdline) &&
		   TEXT(key, "firmware", r->firmware) && TEXT(key, "module", r->module) &&
		   TEXT(key, "driver_version", r->driver_version) && TEXT(key, "driver_flavour", r->driver_flavour) &&
		   TEXT(key, "driver_parameters", r->driver_parameters) && TEXT(key, "virtualization", r->virtualization) &&
		   TEXT(key, "cuda_library", r->cuda_library);
}

static int32_t read_top(struct p2s_record *r, const json_t *top)
{
	const json_t *key = json_object_get(top, "key");
	const json_t *gpus = json_object_get(top, "gpus");
	json_int_t created = json_integer_value(json_object_get(top, "created_unix"));
	const char *hash = json_string_value(json_object_get(top, "full_hash"));

	if (json_integer_value(json_object_get(top, "record")) != P2S_RECORD_SCHEMA || !json_is_object(key) ||
		!json_is_array(gpus) || json_array_size(gpus) == 0 || json_array_size(gpus) > P2S_MAX_GPUS ||
		json_integer_value(json_object_get(key, "suite")) != P2S_RECORD_SUITE)
		return 0;
	if (!allocate(r, json_array_size(gpus)))
		return 0;
	r->level = p2s_word_value(P2S_GROUP_LEVEL, json_string_value(json_object_get(top, "level")));
	r->simulated = !json_is_false(json_object_get(top, "simulated"));
	r->nothing_tested = json_is_true(json_object_get(top, "nothing_tested"));
	r->deadline_hit = json_is_true(json_object_get(top, "deadline_hit"));
	r->gpu_ended = json_is_true(json_object_get(top, "gpu_ended"));
	r->measured = json_is_true(json_object_get(top, "measured"));
	/* the absence of these would say that nothing has to be taken away */
	if (!json_is_boolean(json_object_get(top, "nothing_tested")) || !json_is_boolean(json_object_get(top, "fabric")) ||
		!json_is_boolean(json_object_get(top, "torn_lines")) || !json_is_string(json_object_get(top, "nccl_level")))
		return 0;
	r->fabric = json_is_true(json_object_get(top, "fabric"));
	r->torn_lines = json_is_true(json_object_get(top, "torn_lines"));
	r->nccl_level = p2s_word_value(P2S_GROUP_PATH, json_string_value(json_object_get(top, "nccl_level")));
	r->passes = count_of(top, "passes");
	r->retries = count_of(top, "retries");
	r->created_unix = created;
	TEXT(top, "full", r->full_name);
	if (strchr(r->full_name, '/') != NULL)
		r->full_name[0] = '\0';
	r->full_hash = hash != NULL ? strtoull(hash, NULL, 16) : 0;
	return r->level != 0 && read_key(r, key) && read_gpus(r, gpus) && read_found(r, top);
}

int32_t p2s_record_parse(struct p2s_record *r, const char *text, size_t len)
{
	json_t *top = is_whole(text, len) ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
	int32_t ok;

	memset(r, 0, sizeof *r);
	ok = json_is_object(top) && read_top(r, top);
	json_decref(top);
	if (!ok)
		p2s_record_free(r);
	return ok;
}
