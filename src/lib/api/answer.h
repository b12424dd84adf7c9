/* The steps that probe, test and decide are made of. Each returns 0 or a P2PSAFE_E_* with the session's fault filled. */
#ifndef P2S_API_ANSWER_H
#define P2S_API_ANSWER_H

#include "api/internal.h"
#include "inventory/group.h"
#include "inventory/inventory.h"
#include "ipc/run.h"

/* Reads inventory and host into an empty model; with SCOPE_ALL also IOMMU and what only a full report shows. */
int32_t p2s_answer_look(struct p2s_session *s, struct p2s_model *m, enum p2s_scope scope);
/* Whose GPUs are these, and which are judged together: group, flags and findings. */
int32_t p2s_answer_group(struct p2s_session *s, struct p2s_model *m, int32_t cuda_asked, enum p2s_group *group);
/* The same, after the helper was asked for the minor numbers if nothing else tells whose device nodes these are. No GPU is
 * touched for that. */
int32_t p2s_answer_group_sure(struct p2s_session *s, struct p2s_model *m, enum p2s_group *group);
/* Makes the pairs and runs the helper over them. */
int32_t p2s_answer_run(struct p2s_session *s, struct p2s_model *m, int32_t mode, p2s_risk_fn risk, void *user,
                       struct p2s_run_result *result);
/* Judges, chooses, emits. kept NULL: from the legs. */
struct p2s_matrix;
int32_t p2s_answer_finish(struct p2s_session *s, struct p2s_model *m, const struct p2s_matrix *kept);
int32_t p2s_answer_oom(struct p2s_session *s);

#endif
