/* The report for people, part by part. Every part prints nothing when it has nothing to say. */
#ifndef P2S_CLI_SHOW_H
#define P2S_CLI_SHOW_H

#include <jansson.h>

#include "cli.h"
#include "style.h"

/* The whole report. command names what was asked. */
void cli_show_report(const struct cli_style *style, const p2psafe_report *report, const struct cli_args *args);
/* The report as JSON on standard output. Returns 0, or the exit code after one line on stderr. */
int cli_show_print_json(const p2psafe_report *report);
/* show_explain.c: what `explain` prints. */
void cli_show_explain(const struct cli_style *style, const p2psafe_report *report, const struct cli_args *args);

/* show_header.c: the report's JSON form, NULL when it cannot be had (jansson's getters take that). json_decref() it. */
json_t *cli_show_json(const p2psafe_report *report);
/* What was looked at: host, driver, IOMMU, level, SIMULATED. */
void cli_show_header(const struct cli_style *style, const p2psafe_report *report, const struct cli_args *args);
/* The level of the report, "unknown" if it has none. */
void cli_show_level(const p2psafe_report *report, char *out, size_t cap);
/* Where the answer is kept. */
void cli_show_kept(const struct cli_style *style, const p2psafe_report *report);

/* show_gpus.c */
void cli_show_gpus(const struct cli_style *style, const p2psafe_report *report);
/* show_matrix.c: directed verdicts; rows access, columns own the memory. */
void cli_show_matrix(const struct cli_style *style, const p2psafe_report *report);
/* show_measure.c: bandwidths, latencies, sizes, staging, host links. */
void cli_show_measured(const struct cli_style *style, const p2psafe_report *report);
/* show_evidence.c: what failed and how, pair by pair, and what OK rests on. */
void cli_show_evidence(const struct cli_style *style, const p2psafe_report *report);
/* The verdict is bad, and no leg is: a GPU or the way between did not last. */
int cli_show_is_lost(const p2psafe_report *report, const struct p2psafe_pair *pair, int32_t index);
/* show_decision.c: per consumer, what carries it to programs, and what was found. */
void cli_show_permission(const struct cli_style *style, const p2psafe_report *report);
void cli_show_settings(const struct cli_style *style, const p2psafe_report *report);
void cli_show_findings(const struct cli_style *style, const p2psafe_report *report);

/* show_conclusion.c: the answer in one sentence. */
void cli_show_conclusion(const struct cli_style *style, const p2psafe_report *report);
/* Why nothing could be tested, as far as the report says. */
const char *cli_show_nothing_tested(const p2psafe_report *report);

#endif
