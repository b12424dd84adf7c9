/* What failed and how, pair by pair, and what OK rests on. Pairs with the same story are told once. */
#include <stdlib.h>
#include <string.h>

#include "show.h"

#define LEG_WORDS 16   /* above the largest P2PSAFE_LEG_* */
#define NAMES_SHOWN 12 /* pairs listed by name before "and N more" */

struct story {
	int32_t pair;
	int32_t verdict;
	char *text; /* one line per kind of failure, without the detail of one word */
	int told;
};

static int get_leg(const p2psafe_report *report, int32_t pair, int32_t i, struct p2psafe_leg *leg)
{
	memset(leg, 0, sizeof(*leg));
	leg->size = sizeof(*leg);
	return p2psafe_report_leg(report, pair, i, leg) == P2PSAFE_OK;
}

/* Mappings of the pair's legs that have the same leg, verdict and damage as leg i; 0 if an earlier leg told them. */
static int list_mappings(FILE *out, const p2psafe_report *report, const struct p2psafe_pair *pair, int32_t index, int32_t i)
{
	struct p2psafe_leg first, leg;
	int n = 0;
	if (!get_leg(report, index, i, &first))
		return 0;
	for (int32_t k = 0; k < pair->leg_count; k++) {
		if (!get_leg(report, index, k, &leg) || leg.leg != first.leg || leg.verdict != first.verdict ||
		    leg.damage != first.damage)
			continue;
		if (k < i)
			return 0;
		if (n++ == 0)
			fprintf(out, "%s over ", p2psafe_leg_name(first.leg));
		fprintf(out, "%s%s", n > 1 ? ", " : "", p2psafe_mapping_name(leg.mapping));
	}
	fprintf(out, ": %s", p2psafe_verdict_name(first.verdict));
	if (first.damage != P2PSAFE_DAMAGE_NONE)
		fprintf(out, ", %s", p2psafe_damage_name(first.damage));
	if (first.note[0] != '\0')
		fprintf(out, " (%s)", first.note);
	fputc('\n', out);
	return 1;
}

static void list_legs(FILE *out, const char *title, const int chosen[LEG_WORDS])
{
	int any = 0;
	for (int i = 1; i < LEG_WORDS; i++) {
		if (chosen[i])
			fprintf(out, "%s %s", any++ == 0 ? title : "", p2psafe_leg_name(i));
	}
	if (any)
		fputc('\n', out);
}

int cli_show_is_lost(const p2psafe_report *report, const struct p2psafe_pair *pair, int32_t index)
{
	struct p2psafe_leg leg;
	if (pair->leg_count == 0 || (pair->verdict != P2PSAFE_VERDICT_CORRUPT && pair->verdict != P2PSAFE_VERDICT_HANG &&
	                             pair->verdict != P2PSAFE_VERDICT_ERROR))
		return 0;
	for (int32_t i = 0; i < pair->leg_count; i++) {
		if (!get_leg(report, index, i, &leg) || leg.verdict == P2PSAFE_VERDICT_CORRUPT || leg.verdict == P2PSAFE_VERDICT_HANG ||
		    leg.verdict == P2PSAFE_VERDICT_ERROR)
			return 0;
	}
	return 1;
}

/* Whose end it was; else it is among the findings. */
static void tell_lost(FILE *out, const p2psafe_report *report, const struct p2psafe_pair *pair)
{
	const int32_t ends[] = {pair->src, pair->dst};
	int named = 0;
	for (int i = 0; i < 2; i++) {
		struct p2psafe_gpu gpu = {.size = sizeof(gpu)};
		if (p2psafe_report_gpu(report, ends[i], &gpu) != P2PSAFE_OK ||
		    (gpu.state != P2PSAFE_GPU_STATE_WEDGED && gpu.state != P2PSAFE_GPU_STATE_FAILED && gpu.state != P2PSAFE_GPU_STATE_RISKY))
			continue;
		fprintf(out, "%s%s is %s", named++ > 0 ? ", and " : "no leg failed, but ", gpu.address, p2psafe_gpu_state_name(gpu.state));
	}
	fputs(named > 0 ? " since the test: what passed before counts no more\n"
	                : "no leg failed, but the machine reported a failure of this way during the test: see the findings\n",
	      out);
}

/* What is told of a pair that is not OK: every failure, what passed, and which of the legs that decide were not run. */
static char *tell(const p2psafe_report *report, const struct p2psafe_pair *pair, int32_t index)
{
	char *text = NULL;
	size_t len = 0;
	int passed[LEG_WORDS] = {0}, failed[LEG_WORDS] = {0}, absent[LEG_WORDS] = {0};
	int any = 0;
	struct p2psafe_leg leg;
	FILE *out = open_memstream(&text, &len);
	if (out == NULL)
		return NULL;
	for (int32_t i = 0; i < pair->leg_count; i++) {
		if (!get_leg(report, index, i, &leg) || leg.leg <= 0 || leg.leg >= LEG_WORDS)
			continue;
		if (leg.verdict == P2PSAFE_VERDICT_OK) {
			passed[leg.leg] = any = 1;
		} else if (leg.verdict != P2PSAFE_VERDICT_UNTESTED) {
			(void)list_mappings(out, report, pair, index, i);
			failed[leg.leg] = any = 1;
		} else if (leg.note[0] != '\0') {
			(void)list_mappings(out, report, pair, index, i);
		}
	}
	if (cli_show_is_lost(report, pair, index))
		tell_lost(out, report, pair);
	for (int i = 1; i <= P2PSAFE_LEG_STALE; i++)
		absent[i] = !passed[i] && !failed[i];
	list_legs(out, "passed:", passed);
	if (any)
		list_legs(out, "not run:", absent);
	else
		fputs("nothing was run\n", out);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* The first wrong word of the pair. */
static void show_detail(const struct cli_style *style, const p2psafe_report *report, const struct story *story,
                        const struct p2psafe_pair *pair)
{
	struct p2psafe_leg leg;
	for (int32_t i = 0; i < pair->leg_count; i++) {
		if (!get_leg(report, story->pair, i, &leg) || !leg.has_detail || leg.verdict == P2PSAFE_VERDICT_OK)
			continue;
		fprintf(style->out, "      %d>%d %s: first wrong word at offset 0x%llx: expected 0x%016llx, found 0x%016llx\n",
		        pair->src, pair->dst, p2psafe_leg_name(leg.leg), (unsigned long long)leg.offset,
		        (unsigned long long)leg.expected, (unsigned long long)leg.found);
		return;
	}
}

static void show_story(const struct cli_style *style, const p2psafe_report *report, struct story *stories, int32_t count,
                       int32_t first)
{
	char names[NAMES_SHOWN * 16 + 32];
	size_t len = 0;
	int32_t same = 0;
	struct p2psafe_pair pair = {.size = sizeof(pair)};
	struct p2psafe_pair shown = {.size = sizeof(shown)};
	for (int32_t i = first; i < count; i++) {
		struct story *s = &stories[i];
		if (s->told || s->verdict != stories[first].verdict || strcmp(s->text, stories[first].text) != 0 ||
		    p2psafe_report_pair(report, s->pair, &pair) != P2PSAFE_OK)
			continue;
		s->told = 1;
		if (same++ == 0)
			shown = pair;
		if (same <= NAMES_SHOWN)
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%d>%d", same > 1 ? " " : "", pair.src, pair.dst);
	}
	if (same > NAMES_SHOWN)
		snprintf(names + len, sizeof(names) - len, " and %d more", same - NAMES_SHOWN);
	fputs("  ", style->out);
	cli_style_cell(style, cli_style_verdict(stories[first].verdict), -12, p2psafe_verdict_name(stories[first].verdict));
	cli_style_wrap(style, 14, 14, names);
	for (const char *line = stories[first].text; *line != '\0';) {
		size_t n = strcspn(line, "\n");
		char *copy = strndup(line, n);
		fputs("      ", style->out);
		cli_style_wrap(style, 6, 8, copy != NULL ? copy : "out of memory");
		free(copy);
		line += n + (line[n] == '\n');
	}
	show_detail(style, report, &stories[first], &shown);
}

static void show_failures(const struct cli_style *style, const p2psafe_report *report)
{
	int32_t pairs = p2psafe_report_pair_count(report);
	struct story *stories = calloc((size_t)(pairs > 0 ? pairs : 0) + 1, sizeof(*stories));
	int32_t count = 0;
	for (int32_t i = 0; stories != NULL && i < pairs; i++) {
		struct p2psafe_pair pair = {.size = sizeof(pair)};
		if (p2psafe_report_pair(report, i, &pair) != P2PSAFE_OK || pair.verdict == P2PSAFE_VERDICT_OK)
			continue;
		stories[count].pair = i;
		stories[count].verdict = pair.verdict;
		stories[count].text = tell(report, &pair, i);
		if (stories[count].text != NULL)
			count++;
	}
	for (int32_t i = 0; i < count; i++) {
		if (i == 0)
			cli_style_head(style, "What is not OK");
		if (!stories[i].told)
			show_story(style, report, stories, count, i);
	}
	for (int32_t i = 0; i < count; i++)
		free(stories[i].text);
	free(stories);
}

/* What the pairs that are OK have in common: the least of each number, and every leg that one of them lacks. */
struct reach {
	int32_t pairs;
	uint64_t bytes, rounds;
	uint64_t coverage, memory;     /* bytes of the owner's memory that one handle of a leg touched, and all it has; 0 unknown */
	uint64_t bound_ppb[LEG_WORDS]; /* the worst 95% bound of each leg */
	int missing[LEG_WORDS];
};

static void add_pair(struct reach *r, const p2psafe_report *report, const struct p2psafe_pair *pair, int32_t index)
{
	struct p2psafe_leg leg;
	struct p2psafe_gpu owner = {.size = sizeof(owner)};
	uint64_t bytes = 0, rounds = 0, coverage = 0;
	int seen[LEG_WORDS] = {0};
	for (int32_t i = 0; i < pair->leg_count; i++) {
		if (!get_leg(report, index, i, &leg) || leg.verdict != P2PSAFE_VERDICT_OK)
			continue;
		bytes += leg.bytes;
		rounds += leg.rounds;
		coverage = leg.coverage_bytes > coverage ? leg.coverage_bytes : coverage;
		if (leg.leg <= 0 || leg.leg >= LEG_WORDS)
			continue;
		seen[leg.leg] = 1;
		if (leg.error_bound_ppb > r->bound_ppb[leg.leg])
			r->bound_ppb[leg.leg] = leg.error_bound_ppb;
	}
	for (int i = 1; i < LEG_WORDS; i++)
		r->missing[i] |= !seen[i];
	if (r->pairs++ == 0 || bytes < r->bytes)
		r->bytes = bytes;
	if (r->pairs == 1 || rounds < r->rounds)
		r->rounds = rounds;
	if (r->pairs == 1 || coverage < r->coverage) {
		r->coverage = coverage;
		r->memory = p2psafe_report_gpu(report, pair->dst, &owner) == P2PSAFE_OK ? owner.memory_bytes : 0;
	}
}

/* The tightest bound: the leg whose rounds say most. */
static void show_bound(const struct cli_style *style, const struct reach *r)
{
	int best = 0;
	for (int i = 1; i < LEG_WORDS; i++) {
		if (r->bound_ppb[i] != 0 && !r->missing[i] && (best == 0 || r->bound_ppb[i] < r->bound_ppb[best]))
			best = i;
	}
	if (best != 0)
		fprintf(style->out, "  %s: with 95%% confidence fewer than %llu wrong rounds in a million\n", p2psafe_leg_name(best),
		        (unsigned long long)(r->bound_ppb[best] / 1000 + 1));
}

static void show_reach(const struct cli_style *style, const p2psafe_report *report)
{
	struct reach r = {0};
	char bytes[32], coverage[32], of[32], level[32], line[512];
	int32_t pairs = p2psafe_report_pair_count(report);
	for (int32_t i = 0; i < pairs; i++) {
		struct p2psafe_pair pair = {.size = sizeof(pair)};
		if (p2psafe_report_pair(report, i, &pair) == P2PSAFE_OK && pair.verdict == P2PSAFE_VERDICT_OK)
			add_pair(&r, report, &pair, i);
	}
	if (r.pairs == 0)
		return;
	cli_style_head(style, "What OK rests on");
	cli_show_level(report, level, sizeof(level));
	snprintf(
		line, sizeof(line), "%d of %d directions are OK at level %s: each moved at least %s in %llu rounds and touched %s%s%s",
		r.pairs, pairs, level, cli_style_bytes(bytes, sizeof(bytes), r.bytes), (unsigned long long)r.rounds,
		cli_style_bytes(coverage, sizeof(coverage), r.coverage), r.memory > 0 ? " of its owner's " : " of its owner's memory",
		r.memory > 0 ? cli_style_bytes(of, sizeof(of), r.memory) : "");
	fputs("  ", style->out);
	cli_style_wrap(style, 2, 2, line);
	show_bound(style, &r);
	size_t len = (size_t)snprintf(line, sizeof(line), "not tested:");
	for (int i = 1; i < LEG_WORDS; i++) {
		if (r.missing[i] && i != P2PSAFE_LEG_STAGED && len < sizeof(line))
			len += (size_t)snprintf(line + len, sizeof(line) - len, " %s,", p2psafe_leg_name(i));
	}
	if (len < sizeof(line))
		snprintf(line + len, sizeof(line) - len,
		         " fabric handles, memory pools, multicast, and the memory that was not touched");
	fputs("  ", style->out);
	cli_style_wrap(style, 2, 2, line);
}

void cli_show_evidence(const struct cli_style *style, const p2psafe_report *report)
{
	show_failures(style, report);
	show_reach(style, report);
}
