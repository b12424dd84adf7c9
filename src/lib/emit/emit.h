/* Settings that carry a veto to programs, and the report's text forms. No I/O. */
#ifndef P2S_EMIT_EMIT_H
#define P2S_EMIT_EMIT_H

#include <jansson.h>
#include <stdint.h>

#include "core/model.h"

/* Writes settings[] and consumers[].enforced_by for what is vetoed. Returns 1, 0 when out of memory. */
int32_t p2s_emit_settings(struct p2s_model *m, int32_t pass_untested);
/* Takes over from the findings what settings depend on, so that a record can keep it. */
void p2s_emit_note(struct p2s_model *m);
/* The settings of a veto of everything, as when there is no report. Returns 1, 0 when out of memory. */
int32_t p2s_emit_full_veto(struct p2s_model *m);
/* settings[] as text in a P2PSAFE_FORMAT_*; malloc'd, NULL when out of memory or for an unknown format. */
char *p2s_emit_text(const struct p2s_model *m, int32_t format);

/* The report as a JSON tree, NULL when out of memory. */
json_t *p2s_emit_report(const struct p2s_model *m, int32_t pass_untested);
/* Adds value, which is taken over, to a list or an object. What could not be added, for want of memory, is remembered, and the next
 * p2s_emit_dump() of this thread gives nothing: a text with a hole is no text. */
void p2s_emit_append(json_t *list, json_t *value);
void p2s_emit_set(json_t *object, const char *key, json_t *value);
/* A tree as text of our own allocator: the application may have given jansson another one. NULL when out of memory. */
char *p2s_emit_dump(const json_t *tree, size_t flags);
/* Parts of it that the kept record's decision shares. */
json_t *p2s_emit_settings_json(const struct p2s_model *m);
/* A text that may be no UTF-8, which JSON must be: then "?" stands for what is no ASCII. "" is null, or stays "". */
json_t *p2s_emit_text_or_null(const char *text);
json_t *p2s_emit_text_json(const char *text);
/* groups_json.c: adds partition, best_groups and orders. Returns 1, 0 when out of memory. */
int32_t p2s_emit_groups(json_t *decision, const struct p2s_model *m);
/* full.c: the report as it is kept beside a record (malloc'd, NULL when out of memory), and back as p2s_emit_parse(). */
char *p2s_emit_full(const struct p2s_model *m);
int32_t p2s_emit_parse_full(const char *text, size_t len, struct p2s_model *m);
/* measure_json.c: measured numbers, and back. */
json_t *p2s_emit_bandwidth(const struct p2s_bandwidth *b);
json_t *p2s_emit_latency(const struct p2s_latency *l);
json_t *p2s_emit_sizes(const struct p2s_size_row *rows, size_t count);
void p2s_emit_pair_numbers(json_t *pair, const struct p2s_pair *p);
void p2s_emit_gpu_numbers(json_t *gpu, const struct p2s_gpu_facts *f);
void p2s_emit_parse_bandwidth(const json_t *o, struct p2s_bandwidth *b);
void p2s_emit_parse_latency(const json_t *o, struct p2s_latency *l);
int32_t p2s_emit_parse_sizes(const json_t *list, struct p2s_size_row **rows, size_t *count);
void p2s_emit_parse_gpu_numbers(const json_t *gpu, struct p2s_gpu_facts *f);
/* facts_json.c: the way to a GPU and its own link, and back. */
json_t *p2s_emit_path(const struct p2s_gpu_facts *f);
json_t *p2s_emit_link(const struct p2s_gpu_facts *f);
void p2s_emit_parse_path(const json_t *gpu, struct p2s_gpu_facts *f);
/* "src>dst leg mapping" */
void p2s_emit_failed_leg(const struct p2s_model *m, const struct p2s_failed_leg *f, char *out, size_t cap);
/* "host", "<bdf>" or "<bdf>><bdf>" */
void p2s_emit_subject(const struct p2s_model *m, const struct p2s_finding *f, char *out, size_t cap);

/* Reads a report written by p2s_emit_report() into an empty model: GPUs, pairs, legs, staged, findings, remedies, host and
 * IOMMU. The decision is not read: it is made again from the legs. Returns 1, 0 when out of memory, -1 when the tree is not a
 * report. */
int32_t p2s_emit_parse(const json_t *report, struct p2s_model *m);

#endif
