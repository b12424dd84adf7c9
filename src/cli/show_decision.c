/* Permission per consumer, transport, settings, findings. */
#include <stdlib.h>
#include <string.h>

#include "show.h"

#define LEG_WORDS 16
#define SUBJECTS_SHOWN 4

static const struct p2psafe_consumer_info no_consumer = {.size = sizeof(no_consumer)};

static int32_t index_of(const p2psafe_report *report, const char *address, size_t len)
{
	int32_t count = p2psafe_report_gpu_count(report);
	for (int32_t i = 0; i < count; i++) {
		struct p2psafe_gpu gpu = {.size = sizeof(gpu)};
		if (p2psafe_report_gpu(report, i, &gpu) == P2PSAFE_OK && strlen(gpu.address) == len &&
		    memcmp(gpu.address, address, len) == 0)
			return i;
	}
	return -1;
}

/* The failed legs of a consumer, "src>dst leg mapping" each, told as "sm_store: 12 directions (cumem, ipc)". */
struct failed {
	char leg[32];
	char mappings[64];
	char directions[SUBJECTS_SHOWN * 24];
	int direction_count;
	char last_subject[64]; /* legs of one pair come together: a new subject is a new direction */
};

static void add_failed(const p2psafe_report *report, struct failed *list, int *count, const char *text)
{
	char subject[64], leg[32], mapping[16];
	if (sscanf(text, "%63s %31s %15s", subject, leg, mapping) != 3)
		return;
	struct failed *f = NULL;
	for (int i = 0; i < *count; i++) {
		if (strcmp(list[i].leg, leg) == 0)
			f = &list[i];
	}
	if (f == NULL) {
		if (*count == LEG_WORDS)
			return;
		f = &list[(*count)++];
		snprintf(f->leg, sizeof(f->leg), "%s", leg);
	}
	if (strstr(f->mappings, mapping) == NULL) {
		size_t len = strlen(f->mappings);
		snprintf(f->mappings + len, sizeof(f->mappings) - len, "%s%s", len > 0 ? ", " : "", mapping);
	}
	if (strcmp(f->last_subject, subject) == 0)
		return;
	snprintf(f->last_subject, sizeof(f->last_subject), "%s", subject);
	const char *arrow = strchr(subject, '>');
	if (arrow != NULL && ++f->direction_count <= SUBJECTS_SHOWN) {
		size_t len = strlen(f->directions);
		snprintf(f->directions + len, sizeof(f->directions) - len, "%s%d>%d", len > 0 ? " " : "",
		         index_of(report, subject, (size_t)(arrow - subject)), index_of(report, arrow + 1, strlen(arrow + 1)));
	}
}

/* Legs that fail in the same directions over the same mappings are one line. */
static int same_reach(const struct failed *a, const struct failed *b)
{
	return a->direction_count == b->direction_count && strcmp(a->mappings, b->mappings) == 0 &&
	       strcmp(a->directions, b->directions) == 0;
}

static void show_failed(const struct cli_style *style, const p2psafe_report *report, const struct p2psafe_consumer_info *info)
{
	struct failed list[LEG_WORDS];
	int count = 0;
	memset(list, 0, sizeof(list));
	for (int32_t i = 0; i < info->failed_leg_count; i++) {
		const char *text = p2psafe_report_failed_leg(report, info->consumer, i);
		if (text != NULL)
			add_failed(report, list, &count, text);
	}
	for (int i = 0; i < count; i++) {
		char line[1024];
		size_t len = 0;
		if (list[i].leg[0] == '\0')
			continue; /* told with an earlier one */
		for (int k = i; k < count; k++) {
			if (!same_reach(&list[i], &list[k]))
				continue;
			len += (size_t)snprintf(line + len, sizeof(line) - len, "%s%.31s", len > 0 ? ", " : "", list[k].leg);
			list[k].leg[0] = '\0';
		}
		if (list[i].direction_count > SUBJECTS_SHOWN)
			snprintf(line + len, sizeof(line) - len, " over %s: %d directions", list[i].mappings, list[i].direction_count);
		else
			snprintf(line + len, sizeof(line) - len, " over %s: %s", list[i].mappings, list[i].directions);
		fputs("      ", style->out);
		cli_style_wrap(style, 6, 8, line);
	}
}

void cli_show_permission(const struct cli_style *style, const p2psafe_report *report)
{
	struct p2psafe_consumer_info info;
	cli_style_head(style, "Permission");
	for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c <= P2PSAFE_CONSUMER_MULTICAST; c++) {
		info = no_consumer;
		if (p2psafe_report_consumer(report, c, &info) != P2PSAFE_OK)
			continue;
		fputs("  ", style->out);
		cli_style_cell(style, CLI_PLAIN, -20, p2psafe_consumer_name(c));
		cli_style_cell(style,
		               info.allowed == 1   ? CLI_GOOD
		               : info.allowed == 0 ? CLI_BAD
		                                   : CLI_UNSURE,
		               -12,
		               info.allowed == 1   ? "allowed"
		               : info.allowed == 0 ? "NOT ALLOWED"
		                                   : "left as is");
		fprintf(style->out, " %s\n", p2psafe_verdict_name(info.verdict));
		show_failed(style, report, &info);
	}
	fprintf(style->out, "  transport           ");
	cli_style_cell(style, CLI_HEAD, 0, p2psafe_transport_name(p2psafe_report_transport(report)));
	fputc('\n', style->out);
}

static void show_setting(const struct cli_style *style, const struct p2psafe_setting *s)
{
	char head[512], why[512];
	if (s->kind == P2PSAFE_SETTING_ENV)
		snprintf(head, sizeof(head), "%s=%s", s->name, s->value);
	else if (s->kind == P2PSAFE_SETTING_UNSET)
		snprintf(head, sizeof(head), "unset %s", s->name);
	else if (s->kind == P2PSAFE_SETTING_ADVICE)
		head[0] = '\0'; /* its sentence says all */
	else
		snprintf(head, sizeof(head), "%s %s%s%s", p2psafe_setting_kind_name(s->kind), s->name, s->value[0] != '\0' ? " " : "",
		         s->value);
	snprintf(why, sizeof(why), "%s: %s", p2psafe_consumer_name(s->consumer), s->why);
	fputs("  ", style->out);
	cli_style_cell(style, CLI_HEAD, 0, head);
	if (head[0] != '\0')
		fputs("  ", style->out);
	cli_style_wrap(style, head[0] != '\0' ? 4 + (int)strlen(head) : 2, 6, why);
}

static void show_settings(const struct cli_style *style, const p2psafe_report *report, int32_t applied, const char *title)
{
	int32_t count = p2psafe_report_setting_count(report);
	int shown = 0;
	for (int32_t i = 0; i < count; i++) {
		struct p2psafe_setting s = {.size = sizeof(s)};
		if (p2psafe_report_setting(report, i, &s) != P2PSAFE_OK || (s.applied != 0) != applied)
			continue;
		if (shown++ == 0)
			cli_style_head(style, title);
		show_setting(style, &s);
	}
}

void cli_show_settings(const struct cli_style *style, const p2psafe_report *report)
{
	show_settings(style, report, 1, "Settings ('p2psafe run' and 'p2psafe env' carry them)");
	show_settings(style, report, 0, "Settings that a person must make");
}

void cli_show_findings(const struct cli_style *style, const p2psafe_report *report)
{
	int32_t count = p2psafe_report_finding_count(report);
	char line[1024];
	for (int32_t i = 0; i < count; i++) {
		struct p2psafe_finding f = {.size = sizeof(f)};
		if (i == 0)
			cli_style_head(style, "Findings");
		if (p2psafe_report_finding(report, i, &f) != P2PSAFE_OK)
			continue;
		fputs("  ", style->out);
		cli_style_cell(style,
		               f.severity >= P2PSAFE_SEVERITY_ERROR     ? CLI_BAD
		               : f.severity == P2PSAFE_SEVERITY_WARNING ? CLI_UNSURE
		                                                        : CLI_PLAIN,
		               -8, p2psafe_severity_name(f.severity));
		fprintf(style->out, " %s (%s, confidence %s)\n", f.code, f.subject, p2psafe_confidence_name(f.confidence));
		for (int32_t k = 0; k < f.evidence_count; k++) {
			const char *source = p2psafe_report_evidence_source(report, i, k);
			const char *text = p2psafe_report_evidence_text(report, i, k);
			snprintf(line, sizeof(line), "%s%s%s", source != NULL ? source : "",
			         source != NULL && source[0] != '\0' ? ": " : "", text != NULL ? text : "");
			fputs("      ", style->out);
			cli_style_wrap(style, 6, 8, line);
		}
	}
}
