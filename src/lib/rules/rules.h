/* From legs to verdicts and permissions. Pure: no I/O, no clock, same input, same answer. */
#ifndef P2S_RULES_RULES_H
#define P2S_RULES_RULES_H

#include <stdint.h>

#include "core/model.h"

/* The worse of two verdicts: CORRUPT, HANG, ERROR, UNTESTED (and anything unknown), UNSUPPORTED, DEGRADED, OK. */
int32_t p2s_rules_worse(int32_t a, int32_t b);
/* Verdict of one directed pair for one consumer; its failed legs are appended to *failed if that is not NULL. *oom is set to 1
 * when memory ran out (the verdict stands). UNTESTED for consumers without a row. */
int32_t p2s_rules_consumer(const struct p2s_pair *pair, int32_t consumer, struct p2s_consumer *failed, int32_t *oom);
/* 1 if the pair has a judged leg whose verdict proves damage: CORRUPT, HANG or ERROR in a leg that moves data. */
int32_t p2s_rules_is_bad(int32_t verdict);
/* Verdict of a directed pair: the worse of nccl_p2p and peer_copies, DEGRADED if measured no faster than staging. */
int32_t p2s_rules_pair(const struct p2s_pair *pair, const struct p2s_staged *staged);

/* Judges the whole model: pairs[].verdict, then consumers[] over the group. permissions of a pair come from the matrix when
 * that is given (a kept record), else from the legs. Returns 1, 0 when out of memory. */
struct p2s_matrix {
	size_t gpus; /* order of the model's gpus[] */
	/* [(src * gpus + dst) * P2S_CONSUMERS + consumer]; index 0: the pair's verdict */
	const unsigned char *verdict;
};
int32_t p2s_rules_judge(struct p2s_model *m, const struct p2s_matrix *kept);

/* What the program exits with: 0, 1 or 3. */
int32_t p2s_rules_exit_code(const struct p2s_model *m);
/* 1 if the settings deny this consumer. */
int32_t p2s_rules_vetoed(const struct p2s_model *m, int32_t consumer, int32_t pass_untested);

#endif
