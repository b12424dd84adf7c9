/* What ends the proof of a pair though its legs passed. Pure. */
#ifndef P2S_RULES_LOST_H
#define P2S_RULES_LOST_H

#include "core/model.h"

/* Sets lost of every pair: HANG or ERROR where one of its GPUs did not live to the end of the test, or where the machine itself
 * reported during the test that this way fails: an IOMMU fault, a fatal error of its NVLink or PCIe link. UNTESTED where the
 * helper did not come to the end of the test: it died, or was cut off at the deadline. What a report that was read back says of
 * a pair counts too, for it rests on a log that is not kept. 0 elsewhere, and where no leg of the pair ran: that is UNTESTED
 * already. */
void p2s_rules_lose(struct p2s_model *m);
/* A pair that is lost, and of which no leg failed. */
int32_t p2s_rules_only_lost(const struct p2s_pair *pair);
/* Is the line about this GPU's link, or about a bridge above it? */
int32_t p2s_rules_link_of(const struct p2s_model *m, int32_t gpu, const struct p2s_log_event *e);

#endif
