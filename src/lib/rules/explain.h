/* From facts and verdicts to findings and remedies. Pure: no I/O, no clock, same input, same answer. */
#ifndef P2S_RULES_EXPLAIN_H
#define P2S_RULES_EXPLAIN_H

#include <stdint.h>

#include "core/model.h"

/* Adds to the model what findings.def finds, brings all findings into the order of that table, then makes the list of remedies
 * from remedies.def. Call it after the pairs were judged (p2s_rules_judge). Calling it again changes nothing. Returns 1, 0 when
 * out of memory. */
int32_t p2s_rules_explain(struct p2s_model *m);

/* The two halves, for tests. */
int32_t p2s_rules_find(struct p2s_model *m);
int32_t p2s_rules_remedy(struct p2s_model *m);

/* Why this GPU must not be tested unless somebody insists, as far as facts tell: 1 with a sentence in text, else 0. */
int32_t p2s_rules_risky(const struct p2s_model *m, int32_t gpu, char *text, size_t cap);

#endif
