/* Asks every row of findings.def, in order. */
#include "rules/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/about.h"
#include "rules/from_log.h"

enum asked { HOST, GPU, PAIR, HOP, LOG, ELSEWHERE };
enum role { NOTE, REFUSAL, DAMAGE };
enum rule { LOW = P2PSAFE_CONFIDENCE_LOW, MEDIUM = P2PSAFE_CONFIDENCE_MEDIUM, HIGH = P2PSAFE_CONFIDENCE_HIGH, FACT, RESULT };

static const struct row {
	const char *code;
	enum role role;
	int32_t severity;
	enum rule confidence;
	enum asked asked;
	p2s_predicate holds;
	const char *source;
	const char *text;
} rows[] = {
#define P2S_FINDING(code, role, severity, confidence, asked, predicate, source, text, reference)                               \
	{#code, role, P2PSAFE_SEVERITY_##severity, confidence, asked, p2s_find_##predicate, source, text},
#define P2S_ELSEWHERE(code, role, made_by) {#code, role, 0, FACT, ELSEWHERE, NULL, NULL, NULL},
#include "rules/findings.def"
#undef P2S_FINDING
#undef P2S_ELSEWHERE
};

#define ROWS (sizeof rows / sizeof rows[0])
#define PAIRS_APART 12 /* more directions than this with the same finding are one finding about the host */
#define LINES_SHOWN 6  /* log lines and directions that one finding quotes */

static size_t place_of(const char *code)
{
	for (size_t i = 0; i < ROWS; i++)
		if (strcmp(rows[i].code, code) == 0)
			return i;
	return ROWS;
}

int32_t p2s_find_is_damage(const char *code)
{
	size_t i = place_of(code);

	return i < ROWS && rows[i].role == DAMAGE;
}

/* {0} to {3} of the text from the claim. */
static void render(const char *text, const struct p2s_claim *c, char *out, size_t cap)
{
	size_t used = 0;

	while (*text != '\0' && used + 1 < cap) {
		if (text[0] == '{' && text[1] >= '0' && text[1] < '0' + P2S_CLAIM_VALUES && text[2] == '}') {
			const char *v = c->value[text[1] - '0'];
			size_t n = strlen(v);

			n = n < cap - used - 1 ? n : cap - used - 1;
			memcpy(out + used, v, n);
			used += n;
			text += 3;
		} else {
			out[used++] = *text++;
		}
	}
	out[used] = '\0';
}

static int32_t confidence_of(const struct p2s_model *m, const struct row *r, const struct p2s_claim *c, int32_t src,
							 int32_t dst)
{
	if (c->confidence != 0)
		return c->confidence;
	if (r->confidence == FACT)
		return P2PSAFE_CONFIDENCE_HIGH;
	if (r->confidence != RESULT)
		return (int32_t)r->confidence;
	if (dst >= 0)
		return p2s_about_bad(p2s_model_pair_const(m, src, dst)) ? P2PSAFE_CONFIDENCE_MEDIUM : P2PSAFE_CONFIDENCE_LOW;
	return p2s_about_tally(m, src).bad > 0 ? P2PSAFE_CONFIDENCE_MEDIUM : P2PSAFE_CONFIDENCE_LOW;
}

static int32_t say(struct p2s_model *m, const struct row *r, const struct p2s_claim *c, int32_t src, int32_t dst,
				   const char *prefix)
{
	int32_t confidence = confidence_of(m, r, c, src, dst);
	int32_t severity = c->severity != 0 ? c->severity : r->severity;
	char text[400];
	size_t n = (size_t)snprintf(text, sizeof text, "%s", prefix);

	if (severity == P2PSAFE_SEVERITY_ERROR && confidence == P2PSAFE_CONFIDENCE_LOW)
		severity = P2PSAFE_SEVERITY_WARNING;
	render(r->text, c, text + n, sizeof text - n);
	return p2s_model_find(m, r->code, severity, confidence, src, dst, r->source[0] != '\0' ? r->source : c->source, text);
}

static int32_t ask(const struct row *r, const struct p2s_about *a, struct p2s_claim *c)
{
	memset(c, 0, sizeof *c);
	c->gpu = a->gpu;
	return r->holds(a, c);
}

static struct p2s_about about(const struct p2s_model *m, int32_t gpu)
{
	struct p2s_about a = {.m = m, .gpu = gpu, .peer = -1};

	return a;
}

static int32_t bound(const struct p2s_gpu *g)
{
	return strcmp(g->driver, "nvidia") == 0;
}

static int32_t ask_gpus(struct p2s_model *m, const struct row *r)
{
	int32_t ok = 1;

	for (int32_t g = 0; g < (int32_t)m->gpu_count && ok; g++) {
		struct p2s_about a = about(m, g);
		struct p2s_claim c;

		if ((bound(&m->gpus[g]) || p2s_about_looked_at(m, g)) && ask(r, &a, &c))
			ok = say(m, r, &c, g, -1, "");
	}
	return ok;
}

/* Bridges above a GPU; the last hop is the GPU itself. */
static int32_t ask_hops(struct p2s_model *m, const struct row *r)
{
	int32_t ok = 1;

	for (int32_t g = 0; g < (int32_t)m->gpu_count; g++) {
		size_t count = m->gpus[g].facts.hop_count;

		for (size_t h = 0; h + 1 < count && h < P2S_HOPS && ok; h++) {
			struct p2s_about a = about(m, g);
			struct p2s_claim c;

			a.hop = h;
			if (p2s_about_looked_at(m, g) && ask(r, &a, &c))
				ok = say(m, r, &c, g, -1, "");
		}
	}
	return ok;
}

static int32_t say_more(struct p2s_model *m, const struct row *r, int32_t gpu, size_t more, const char *what)
{
	char text[80];

	snprintf(text, sizeof text, "and %zu more %s", more, what);
	return p2s_model_find(m, r->code, 0, 0, gpu, -1, r->source, text);
}

static int32_t ask_log(struct p2s_model *m, const struct row *r)
{
	size_t shown[P2S_MAX_GPUS + 1] = {0}; /* [0] the host, [g + 1] GPU g */
	size_t more[P2S_MAX_GPUS + 1] = {0};
	int32_t ok = 1;

	for (size_t i = 0; i < m->facts.log_count && ok; i++) {
		struct p2s_about a = about(m, -1);
		struct p2s_claim c;
		int32_t gpu;

		a.event = &m->facts.log[i];
		if (!ask(r, &a, &c))
			continue;
		gpu = c.gpu >= 0 && c.gpu < (int32_t)m->gpu_count ? c.gpu : -1;
		more[gpu + 1] += a.event->repeats;
		if (shown[gpu + 1]++ < LINES_SHOWN)
			ok = say(m, r, &c, gpu, -1, "");
		else
			more[gpu + 1]++;
	}
	for (int32_t g = -1; g < (int32_t)m->gpu_count && ok; g++)
		if (more[g + 1] > 0)
			ok = say_more(m, r, g, more[g + 1], "lines like these, as far as the log tells");
	return ok;
}

/* All answers first: a finding must not change the answer about the next pair of the same row. */
static int32_t ask_pairs(struct p2s_model *m, const struct row *r)
{
	static const struct p2s_claim none = {0};
	struct p2s_claim c = none;
	struct {
		struct p2s_claim claim;
		int32_t src, dst;
	} *hits = malloc(PAIRS_APART * sizeof *hits);
	size_t count = 0;
	int32_t ok = hits != NULL;

	for (size_t i = 0; i < m->pair_count && ok; i++) {
		const struct p2s_pair *p = &m->pairs[i];
		struct p2s_about a = about(m, p->src);

		a.peer = p->dst;
		a.pair = p;
		if (!ask(r, &a, &c))
			continue;
		if (count < PAIRS_APART) {
			hits[count].claim = c;
			hits[count].src = p->src;
			hits[count].dst = p->dst;
		}
		count++;
	}
	for (size_t i = 0; i < count && i < PAIRS_APART && ok; i++) {
		char prefix[64];

		if (count <= PAIRS_APART) {
			ok = say(m, r, &hits[i].claim, hits[i].src, hits[i].dst, "");
		} else if (i < LINES_SHOWN) {
			snprintf(prefix, sizeof prefix, "%s>%s: ", m->gpus[hits[i].src].address, m->gpus[hits[i].dst].address);
			ok = say(m, r, &hits[i].claim, -1, -1, prefix);
		}
	}
	if (ok && count > PAIRS_APART)
		ok = say_more(m, r, -1, count - LINES_SHOWN, "directions");
	free(hits);
	return ok;
}

static int32_t ask_row(struct p2s_model *m, const struct row *r)
{
	struct p2s_about a = about(m, -1);
	struct p2s_claim c;

	switch (r->asked) {
	case HOST:
		return !ask(r, &a, &c) || say(m, r, &c, -1, -1, "");
	case GPU:
		return ask_gpus(m, r);
	case PAIR:
		return ask_pairs(m, r);
	case HOP:
		return ask_hops(m, r);
	case LOG:
		return ask_log(m, r);
	default:
		return 1;
	}
}

static int in_order(const void *x, const void *y)
{
	const struct p2s_finding *a = x;
	const struct p2s_finding *b = y;
	size_t pa = place_of(a->code);
	size_t pb = place_of(b->code);
	int by_code = strcmp(a->code, b->code);

	if (pa != pb)
		return pa < pb ? -1 : 1;
	if (by_code != 0)
		return by_code;
	if (a->src != b->src)
		return a->src < b->src ? -1 : 1;
	return a->dst < b->dst ? -1 : a->dst > b->dst;
}

int32_t p2s_rules_find(struct p2s_model *m)
{
	int32_t ok = 1;

	for (size_t i = 0; i < ROWS; i++)
		ok &= ask_row(m, &rows[i]);
	if (m->finding_count > 1)
		qsort(m->findings, m->finding_count, sizeof *m->findings, in_order);
	return ok;
}

/* The log may know of a failure that no test could see, because the driver shows no such GPU. */
static void mark_failed(struct p2s_model *m)
{
	for (size_t i = 0; i < m->finding_count; i++) {
		const struct p2s_finding *f = &m->findings[i];
		struct p2s_gpu *g;

		if (strcmp(f->code, "GPU_INIT_FAILED") != 0 || f->src < 0 || f->evidence_count == 0)
			continue;
		g = &m->gpus[f->src];
		if (g->state != P2PSAFE_GPU_STATE_UNKNOWN)
			continue;
		g->state = P2PSAFE_GPU_STATE_FAILED;
		snprintf(g->error, sizeof g->error, "%.*s", (int)sizeof g->error - 1, f->evidence[f->evidence_count - 1].text);
	}
}

static int32_t none_started(const struct p2s_model *m)
{
	size_t group = 0;
	size_t failed = 0;

	for (size_t i = 0; i < m->gpu_count; i++) {
		group += m->gpus[i].in_group != 0;
		failed += m->gpus[i].in_group && m->gpus[i].state == P2PSAFE_GPU_STATE_FAILED;
	}
	return group > 0 && failed == group;
}

int32_t p2s_rules_explain(struct p2s_model *m)
{
	int32_t ok = p2s_rules_take_log(m) && p2s_rules_find(m);

	mark_failed(m);
	if (none_started(m))
		m->nothing_tested = 1;
	return p2s_rules_remedy(m) && ok;
}
