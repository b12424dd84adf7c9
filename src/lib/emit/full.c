/* The full report as it is kept beside a record: read at every start that asks for evidence, so it must be read fast. One line
 * of JSON without what is long, then a JSON array per line for each leg and each row of a size table. jansson takes tens of
 * milliseconds for the legs of eight GPUs; these lines take less than one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "emit/emit.h"

enum tag { LEG = 1, PAIR_SIZE = 2, STAGED_SIZE = 3 };

#define LEG_NUMBERS 18
#define SIZE_NUMBERS 7
#define ROWS_MAX 256

/* A note is one line of plain text; whatever else came from outside does not get into the file. */
static void add_note(struct p2s_buf *b, const char *note)
{
	p2s_buf_str(b, ",\"");
	for (; *note != '\0'; note++) {
		char c = *note >= 0x20 && *note < 0x7f && *note != '"' && *note != '\\' ? *note : '?';

		p2s_buf_add(b, &c, 1);
	}
	p2s_buf_str(b, "\"]\n");
}

static void add_leg(struct p2s_buf *b, const struct p2s_pair *p, const struct p2s_leg *l)
{
	p2s_buf_printf(b,
				   "[%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
				   ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64,
				   LEG, (int)p->src, (int)p->dst, (int)l->leg, (int)l->mapping, (int)l->initiator, (int)l->verdict,
				   (int)l->damage, (int)l->cuda_error, l->has_detail != 0, l->bytes, l->rounds, l->error_bound_ppb,
				   l->coverage_bytes, l->coverage_of_bytes, l->max_handle_bytes, l->offset, l->expected, l->found,
				   l->verified_bytes_per_s);
	add_note(b, l->note);
}

static void add_sizes(struct p2s_buf *b, enum tag tag, int32_t x, int32_t y, const struct p2s_size_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		p2s_buf_printf(b, "[%d,%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]\n", (int)tag, (int)x, (int)y,
					   rows[i].bytes, rows[i].p2p_bytes_per_s, rows[i].p2p_ns, rows[i].staged_bytes_per_s, rows[i].staged_ns);
}

/* What is long, and what is made anew from the rest. */
static void shorten(json_t *top)
{
	json_t *few = json_object();
	json_t *o;
	size_t i;

	json_object_set(few, "gpus", json_object_get(json_object_get(top, "decision"), "gpus"));
	p2s_emit_set(top, "decision", few);
	json_array_foreach(json_object_get(top, "pairs"), i, o)
	{
		json_array_clear(json_object_get(o, "legs"));
		json_array_clear(json_object_get(o, "sizes"));
	}
	json_array_foreach(json_object_get(top, "staged"), i, o) json_array_clear(json_object_get(o, "sizes"));
}

char *p2s_emit_full(const struct p2s_model *m)
{
	json_t *top = p2s_emit_report(m, 0);
	struct p2s_buf b = {0};
	char *head = NULL;

	if (top != NULL) {
		shorten(top);
		head = p2s_emit_dump(top, JSON_COMPACT);
	}
	json_decref(top);
	if (head == NULL)
		return NULL;
	p2s_buf_str(&b, head);
	p2s_buf_str(&b, "\n");
	free(head);
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];

		for (size_t k = 0; k < p->leg_count; k++)
			add_leg(&b, p, &p->legs[k]);
		add_sizes(&b, PAIR_SIZE, p->src, p->dst, p->sizes, p->size_count);
	}
	for (size_t i = 0; i < m->staged_count; i++)
		add_sizes(&b, STAGED_SIZE, m->staged[i].a, m->staged[i].b, m->staged[i].sizes, m->staged[i].size_count);
	return p2s_buf_take(&b);
}

/* count numbers with commas between them. Returns what follows, NULL for anything else. */
static const char *read_numbers(const char *at, const char *end, uint64_t *out, int count)
{
	for (int i = 0; i < count; i++) {
		uint64_t v = 0;
		const char *start;

		if (i > 0 && (at == end || *at++ != ','))
			return NULL;
		for (start = at; at < end && *at >= '0' && *at <= '9'; at++) {
			if (v > (UINT64_MAX - (uint64_t)(*at - '0')) / 10)
				return NULL;
			v = v * 10 + (uint64_t)(*at - '0');
		}
		if (at == start)
			return NULL;
		out[i] = v;
	}
	return at;
}

/* Lines of one pair stand together: look where the last one was. */
static struct p2s_pair *pair_at(struct p2s_model *m, const uint64_t *v, size_t *hint)
{
	if (*hint >= m->pair_count || (uint64_t)m->pairs[*hint].src != v[0] || (uint64_t)m->pairs[*hint].dst != v[1]) {
		for (*hint = 0; *hint < m->pair_count; ++*hint)
			if ((uint64_t)m->pairs[*hint].src == v[0] && (uint64_t)m->pairs[*hint].dst == v[1])
				break;
	}
	return *hint < m->pair_count ? &m->pairs[*hint] : NULL;
}

static int32_t small(uint64_t v, int32_t max, int32_t else_is)
{
	return v <= (uint64_t)max ? (int32_t)v : else_is;
}

/* v: src, dst, leg, mapping, initiator, verdict, damage, cuda_error, has_detail, then the 64-bit members in their order. */
static int32_t take_leg(const struct p2s_model *m, struct p2s_pair *p, const uint64_t *v, const char *note, size_t note_length)
{
	struct p2s_leg *l;

	if (p == NULL)
		return -1;
	if (v[2] == 0 || v[2] > P2PSAFE_LEG_STAGED || v[3] == 0 || v[3] > P2PSAFE_MAPPING_HOST)
		return 1; /* a leg of a newer version */
	l = p2s_model_leg(p, (int32_t)v[2], (int32_t)v[3]);
	if (l == NULL)
		return 0;
	l->initiator = v[4] < m->gpu_count ? (int32_t)v[4] : p->src;
	l->verdict = v[5] == 0 ? P2PSAFE_VERDICT_UNTESTED : small(v[5], P2PSAFE_VERDICT_UNTESTED, P2PSAFE_VERDICT_UNTESTED);
	l->damage = small(v[6], P2PSAFE_DAMAGE_UNKNOWN, P2PSAFE_DAMAGE_UNKNOWN);
	l->cuda_error = small(v[7], 99999, 0);
	l->has_detail = v[8] != 0;
	l->bytes = v[9];
	l->rounds = v[10];
	l->error_bound_ppb = v[11];
	l->coverage_bytes = v[12];
	l->coverage_of_bytes = v[13];
	l->max_handle_bytes = v[14];
	l->offset = v[15];
	l->expected = v[16];
	l->found = v[17];
	l->verified_bytes_per_s = v[18];
	if (note_length >= sizeof l->note)
		note_length = sizeof l->note - 1;
	memcpy(l->note, note, note_length);
	l->note[note_length] = '\0';
	return 1;
}

static int32_t take_size(struct p2s_size_row **rows, size_t *count, const uint64_t *v)
{
	struct p2s_size_row *more;

	if (*count >= ROWS_MAX)
		return -1;
	more = realloc(*rows, (*count + 1) * sizeof *more);
	if (more == NULL)
		return 0;
	*rows = more;
	more[(*count)++] = (struct p2s_size_row){v[0], v[1], v[2], v[3], v[4]};
	return 1;
}

/* One line without its end. */
static int32_t take(struct p2s_model *m, size_t *hint, const char *at, const char *end)
{
	uint64_t tag;
	uint64_t v[LEG_NUMBERS + 1] = {0};
	struct p2s_pair *p;
	struct p2s_staged *s;

	if (at == end || *at++ != '[' || end[-1] != ']')
		return -1;
	end--;
	at = read_numbers(at, end, &tag, 1);
	if (at == NULL || at == end || *at++ != ',')
		return -1;
	if (tag == LEG) {
		at = read_numbers(at, end, v, LEG_NUMBERS);
		/* The rate, which earlier versions did not tell. */
		if (at != NULL && end - at > 1 && at[0] == ',' && at[1] != '"')
			at = read_numbers(at + 1, end, v + LEG_NUMBERS, 1);
		if (at == NULL || end - at < 3 || at[0] != ',' || at[1] != '"' || end[-1] != '"' ||
			memchr(at + 2, '"', (size_t)(end - at - 3)) != NULL)
			return -1;
		return take_leg(m, pair_at(m, v, hint), v, at + 2, (size_t)(end - at - 3));
	}
	if (tag != PAIR_SIZE && tag != STAGED_SIZE)
		return 1; /* a newer version's */
	if (read_numbers(at, end, v, SIZE_NUMBERS) != end)
		return -1;
	if (tag == PAIR_SIZE) {
		p = pair_at(m, v, hint);
		return p != NULL ? take_size(&p->sizes, &p->size_count, v + 2) : -1;
	}
	s = p2s_model_staged(m, small(v[0], P2S_MAX_GPUS, -1), small(v[1], P2S_MAX_GPUS, -1));
	return s != NULL ? take_size(&s->sizes, &s->size_count, v + 2) : -1;
}

int32_t p2s_emit_parse_full(const char *text, size_t len, struct p2s_model *m)
{
	const char *end = text + len;
	const char *line = memchr(text, '\n', len);
	size_t hint = 0;
	json_t *top = json_loadb(text, line != NULL ? (size_t)(line - text) : len, 0, NULL);
	int32_t r = top != NULL ? p2s_emit_parse(top, m) : -1;

	json_decref(top);
	while (r == 1 && line != NULL && ++line < end) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));

		if (stop == NULL)
			return -1; /* cut */
		r = take(m, &hint, line, stop);
		line = stop;
	}
	return r;
}
