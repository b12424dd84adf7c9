/* `explain`: the cause in one sentence, what it rests on, what can be done, what could not be read. */
#include <stdlib.h>
#include <string.h>

#include "show.h"

enum { BAD = 1, REFUSED = 2, SLOW = 4, OPEN = 8, LOST = 16 };

static const struct {
	const char *code;
	int when;
	const char *words; /* of the evidence; NULL any */
	const char *sentence;
} causes[] = {
#define P2S_EXPLAIN(code, when, sentence) {code, when, NULL, sentence},
#define P2S_EXPLAIN_SEEN(code, when, words, sentence) {code, when, words, sentence},
#include "explain.def"
#undef P2S_EXPLAIN_SEEN
#undef P2S_EXPLAIN
};

#define CAUSES ((int)(sizeof(causes) / sizeof(causes[0])))
#define NAMES_SHOWN 6
#define VERDICTS 8

static int kind_of(const p2psafe_report *report, const struct p2psafe_pair *pair, int32_t index)
{
	switch (pair->verdict) {
	case P2PSAFE_VERDICT_CORRUPT:
	case P2PSAFE_VERDICT_HANG:
	case P2PSAFE_VERDICT_ERROR:
		return cli_show_is_lost(report, pair, index) ? LOST : BAD;
	case P2PSAFE_VERDICT_UNSUPPORTED:
		return REFUSED;
	case P2PSAFE_VERDICT_DEGRADED:
		return SLOW;
	case P2PSAFE_VERDICT_OK:
		return 0;
	default:
		return OPEN;
	}
}

/* "host", an address of the pair, or "src>dst". */
static int is_about(const char *subject, const char *src, const char *dst)
{
	size_t n = strlen(src);
	if (strcmp(subject, "host") == 0 || strcmp(subject, src) == 0 || strcmp(subject, dst) == 0)
		return 1;
	return strncmp(subject, src, n) == 0 && subject[n] == '>' && strcmp(subject + n + 1, dst) == 0;
}

static int has_words(const p2psafe_report *report, int32_t finding, int32_t pieces, const char *words)
{
	for (int32_t k = 0; words != NULL && k < pieces; k++) {
		const char *text = p2psafe_report_evidence_text(report, finding, k);
		if (text != NULL && strstr(text, words) != NULL)
			return 1;
	}
	return words == NULL;
}

/* Over NVLink neither an IOMMU nor a bridge nor BAR1 is met, and over PCIe no NVLink. */
static int is_on_its_way(const char *code, int32_t path)
{
	int wire = path == P2PSAFE_PATH_NVL || path == P2PSAFE_PATH_C2C;
	if (path == P2PSAFE_PATH_UNKNOWN)
		return 1;
	if (strncmp(code, "NVLINK_", 7) == 0)
		return wire;
	return !wire || (strncmp(code, "IOMMU_", 6) != 0 && strncmp(code, "ACS_", 4) != 0 && strncmp(code, "BAR1_", 5) != 0);
}

/* Index of the cause of a pair, CAUSES when none is known; *confidence is the finding's, and subject whom it is about. */
static int cause_of(const p2psafe_report *report, const struct p2psafe_pair *pair, int kind, int32_t *confidence, char *subject,
					size_t cap)
{
	struct p2psafe_gpu src = {.size = sizeof(src)}, dst = {.size = sizeof(dst)};
	int32_t findings = p2psafe_report_finding_count(report);
	*confidence = P2PSAFE_CONFIDENCE_UNKNOWN;
	if (p2psafe_report_gpu(report, pair->src, &src) != P2PSAFE_OK || p2psafe_report_gpu(report, pair->dst, &dst) != P2PSAFE_OK)
		return CAUSES;
	for (int c = 0; c < CAUSES; c++) {
		if ((causes[c].when & kind) == 0 || (kind == BAD && !is_on_its_way(causes[c].code, pair->path)))
			continue;
		for (int32_t i = 0; i < findings; i++) {
			struct p2psafe_finding f = {.size = sizeof(f)};
			if (p2psafe_report_finding(report, i, &f) != P2PSAFE_OK || f.severity < (kind == LOST ? P2PSAFE_SEVERITY_ERROR : P2PSAFE_SEVERITY_WARNING) ||
				strcmp(f.code, causes[c].code) != 0 || !is_about(f.subject, src.address, dst.address) ||
				!has_words(report, i, f.evidence_count, causes[c].words))
				continue;
			*confidence = f.confidence;
			snprintf(subject, cap, "%s", kind == LOST ? f.subject : "");
			return c;
		}
	}
	return CAUSES;
}

/* The directions that share verdict and cause. */
struct group {
	int32_t count;
	int32_t confidence;
	char names[NAMES_SHOWN * 8 + 32];
	char subjects[128]; /* of what ended them: ": 0000:41:00.0, 0000:61:00.0" */
};

static void add_subject(struct group *g, const char *subject)
{
	size_t len = strlen(g->subjects);
	if (subject[0] != '\0' && strcmp(subject, "host") != 0 && strstr(g->subjects, subject) == NULL &&
		len + strlen(subject) + 3 < sizeof(g->subjects))
		snprintf(g->subjects + len, sizeof(g->subjects) - len, "%s%s", len > 0 ? ", " : ": ", subject);
}

static void add_direction(struct group *g, const struct p2psafe_pair *pair, int32_t confidence)
{
	size_t len = strlen(g->names);
	if (g->count < NAMES_SHOWN)
		snprintf(g->names + len, sizeof(g->names) - len, "%s%d>%d", g->count > 0 ? " " : "", pair->src, pair->dst);
	else if (g->count == NAMES_SHOWN)
		snprintf(g->names + len, sizeof(g->names) - len, " ...");
	g->count++;
	if (g->confidence == 0 || confidence < g->confidence)
		g->confidence = confidence;
}

static void tell_group(const struct cli_style *style, const struct group *g, int32_t verdict, int cause, int32_t pairs)
{
	static const char *const surely[] = {"because", "perhaps because", "probably because", "because"};
	char line[512], names[128] = "";
	const char *word = verdict == P2PSAFE_VERDICT_UNTESTED ? "not tested" : p2psafe_verdict_name(verdict);
	if (g->count < pairs)
		snprintf(names, sizeof(names), " (%s)", g->names);
	if (cause < CAUSES && verdict == P2PSAFE_VERDICT_UNTESTED)
		snprintf(line, sizeof(line), "%d of %d directions are not tested%s, and %s %s.", g->count, pairs, names,
				 g->confidence >= P2PSAFE_CONFIDENCE_HIGH ? "what stands against them:" : "what may stand against them:",
				 causes[cause].sentence);
	else if (cause < CAUSES)
		snprintf(line, sizeof(line), "%d of %d directions are %s%s, %s %s%s.", g->count, pairs, word, names,
				 surely[g->confidence >= 0 && g->confidence <= P2PSAFE_CONFIDENCE_HIGH ? g->confidence : 1],
				 causes[cause].sentence, g->subjects);
	else if (verdict == P2PSAFE_VERDICT_UNTESTED)
		snprintf(line, sizeof(line), "%d of %d directions are not tested%s; nothing that was read stands against them.",
				 g->count, pairs, names);
	else
		snprintf(line, sizeof(line), "%d of %d directions are %s%s; nothing that was read says why.", g->count, pairs, word,
				 names);
	fputs("  ", style->out);
	cli_style_wrap(style, 2, 4, line);
}

/* Worst first. */
static void show_causes(const struct cli_style *style, const p2psafe_report *report)
{
	static const int32_t order[] = {P2PSAFE_VERDICT_CORRUPT,     P2PSAFE_VERDICT_HANG,     P2PSAFE_VERDICT_ERROR,
									P2PSAFE_VERDICT_UNSUPPORTED, P2PSAFE_VERDICT_DEGRADED, P2PSAFE_VERDICT_UNTESTED};
	struct group(*groups)[CAUSES + 1] = calloc(VERDICTS, sizeof(*groups));
	int32_t pairs = p2psafe_report_pair_count(report);
	int told = 0;
	for (int32_t i = 0; groups != NULL && i < pairs; i++) {
		struct p2psafe_pair pair = {.size = sizeof(pair)};
		int32_t confidence;
		char subject[64] = "";
		if (p2psafe_report_pair(report, i, &pair) != P2PSAFE_OK)
			continue;
		int kind = kind_of(report, &pair, i);
		if (kind == 0)
			continue;
		if (pair.verdict <= 0 || pair.verdict >= VERDICTS)
			pair.verdict = P2PSAFE_VERDICT_UNTESTED;
		int cause = cause_of(report, &pair, kind, &confidence, subject, sizeof(subject));
		add_direction(&groups[pair.verdict][cause], &pair, confidence);
		add_subject(&groups[pair.verdict][cause], subject);
	}
	cli_style_head(style, "Cause");
	for (size_t v = 0; groups != NULL && v < sizeof(order) / sizeof(order[0]); v++) {
		for (int c = 0; c <= CAUSES; c++) {
			if (groups[order[v]][c].count == 0)
				continue;
			tell_group(style, &groups[order[v]][c], order[v], c, pairs);
			told++;
		}
	}
	free(groups);
	if (told > 0)
		return;
	fputs("  ", style->out);
	if (p2psafe_report_exit_code(report) == 3)
		cli_style_wrap(style, 2, 4, cli_show_nothing_tested(report));
	else
		cli_style_wrap(style, 2, 4,
					   pairs == 0 ? "there is one GPU and no pair of them." : "nothing is broken: every direction was proven.");
}

static void show_basis(const struct cli_style *style, const p2psafe_report *report)
{
	cli_style_wrap(style, 0, 2,
				   p2psafe_report_is_kept(report)
					   ? "What follows comes from the kept test of this machine."
					   : "There is no kept test of this machine: what follows is only what can be read without one. "
						 "'p2psafe test' tests.");
}

static const char *text_at(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s != NULL ? s : "";
}

static void tell(const struct cli_style *style, const char *label, const char *text)
{
	if (text[0] == '\0')
		return;
	fprintf(style->out, "      %s: ", label);
	cli_style_wrap(style, 8 + (int)strlen(label), 8, text);
}

static void show_remedy(const struct cli_style *style, const json_t *r, int number)
{
	char needs[128] = "";
	size_t len = 0, i;
	const json_t *need;
	json_array_foreach(json_object_get(r, "needs"), i, need)
	{
		if (len < sizeof(needs))
			len += (size_t)snprintf(needs + len, sizeof(needs) - len, "%s%s", len > 0 ? ", " : "", json_string_value(need));
	}
	const char *effect = text_at(r, "effect");
	fputs("  ", style->out);
	if (number > 0)
		fprintf(style->out, "%2d. ", number);
	else
		cli_style_cell(style, strcmp(effect, "forbidden") == 0 ? CLI_BAD : CLI_UNSURE, -11,
					   strcmp(effect, "forbidden") == 0    ? "FORBIDDEN"
					   : strcmp(effect, "already_on") == 0 ? "already on"
														   : "no effect");
	fprintf(style->out, "%s: ", text_at(r, "code"));
	cli_style_wrap(style, (number > 0 ? 6 : 13) + 2 + (int)strlen(text_at(r, "code")), 6, text_at(r, "what"));
	tell(style, "why", text_at(r, "why"));
	if (number > 0) {
		tell(style, "needs", needs);
		tell(style, "breaks", text_at(r, "risk"));
	}
}

static void show_remedies(const struct cli_style *style, const json_t *remedies, int applies)
{
	size_t i;
	const json_t *r;
	int number = 0;
	json_array_foreach(remedies, i, r)
	{
		if ((strcmp(text_at(r, "effect"), "applies") == 0) != applies)
			continue;
		if (number++ == 0)
			cli_style_head(style, applies ? "What you can do, in this order (nothing is done by this program)"
										  : "What does not help here");
		show_remedy(style, r, applies ? number : 0);
	}
}

/* Bridges whose ACS words are not known: "acs_ctl" is null. */
static size_t unread_bridges(const json_t *json)
{
	size_t i, k, count = 0;
	const json_t *gpu, *hop;
	json_array_foreach(json_object_get(json, "gpus"), i, gpu)
	{
		const json_t *path = json_object_get(gpu, "path");
		json_array_foreach(path, k, hop)
		{
			const json_t *acs = json_object_get(hop, "acs_ctl");
			count += k + 1 < json_array_size(path) && acs != NULL && json_is_null(acs);
		}
	}
	return count;
}

static void unread(const struct cli_style *style, int *count, const char *text)
{
	if ((*count)++ == 0)
		cli_style_head(style, "What could not be read");
	fputs("  ", style->out);
	cli_style_wrap(style, 2, 4, text);
}

static void show_unread(const struct cli_style *style, const json_t *json)
{
	const json_t *host = json_object_get(json, "host");
	const char *log = text_at(host, "log_state");
	const char *machine = text_at(host, "virtualization");
	int guest = machine[0] != '\0' && strcmp(machine, "none") != 0;
	int root = json_is_true(json_object_get(host, "privileged"));
	int count = 0;
	if (strcmp(log, "readable") != 0)
		unread(style, &count,
			   strcmp(log, "denied") == 0
				   ? "the kernel log: no permission, so whether an IOMMU stopped transfers is not known (not: it "
					 "did not); root can read it"
			   : strcmp(log, "absent") == 0 ? "the kernel log: there is none here (a container?); the host has it"
											: "the kernel log");
	if (!root || (!guest && unread_bridges(json) > 0))
		unread(style, &count,
			   guest ? "configuration space beyond 64 bytes: whether the hypervisor granted peers; root can read it"
					 : "configuration space beyond 64 bytes: which bridges redirect (ACS), and whether the window can grow; "
					   "root can "
					   "read it");
	if (strcmp(text_at(json_object_get(json, "iommu"), "state"), "unknown") == 0)
		unread(style, &count, "the state of the IOMMU: /sys does not tell it here");
	if (text_at(json_object_get(host, "driver"), "version")[0] == '\0')
		unread(style, &count, "the NVIDIA driver: no version is told here");
	else if (json_object_size(json_object_get(json_object_get(host, "driver"), "parameters")) == 0)
		unread(style, &count, "the parameters of the NVIDIA driver (/proc/driver/nvidia/params)");
	if (machine[0] == '\0')
		unread(style, &count, "whether this is a virtual machine");
	if (guest)
		unread(style, &count, "everything about the host: its IOMMU, its bridges, its log");
}

void cli_show_explain(const struct cli_style *style, const p2psafe_report *report, const struct cli_args *args)
{
	json_t *json = cli_show_json(report);
	cli_show_header(style, report, args);
	show_basis(style, report);
	cli_show_gpus(style, report);
	show_causes(style, report);
	cli_show_findings(style, report);
	show_remedies(style, json_object_get(json, "remedies"), 1);
	show_remedies(style, json_object_get(json, "remedies"), 0);
	show_unread(style, json);
	json_decref(json);
}
