/* A run that did not measure uses what was measured before on the same machine. */
#ifndef P2S_API_MEASURED_H
#define P2S_API_MEASURED_H

#include "api/internal.h"

/* Notes in a model that was just tested when its numbers were measured: now, if it has any. */
void p2s_measured_now(struct p2s_model *m);
/* Copies the numbers of the record in dir into a model that was just tested and has none, if the record's key fits this machine
 * (its level does not matter) and nothing that the run has read speaks against it. Call it before the model is judged. */
void p2s_measured_recall(struct p2s_session *s, int dir, struct p2s_model *m);

#endif
