/* Facts about the host that only its log tells. Pure. */
#ifndef P2S_RULES_FROM_LOG_H
#define P2S_RULES_FROM_LOG_H

#include "core/model.h"

/* Completes the facts about SEV-SNP, memory encryption and confidential guests, and the IOMMU's state where no file shows it.
 * Before findings are made. Calling it again changes nothing. Returns 1, 0 when out of memory. */
int32_t p2s_rules_take_log(struct p2s_model *m);

#endif
