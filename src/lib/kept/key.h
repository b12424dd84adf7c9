/* Does a record speak of this machine? Compared field by field, so that the answer can name the field. */
#ifndef P2S_KEPT_KEY_H
#define P2S_KEPT_KEY_H

#include <stdint.h>

#include "core/model.h"
#include "core/request.h"
#include "inventory/host.h"
#include "kept/record.h"

/* 1 if driver, kernel, boot, firmware, view and every GPU of the model's group are the same in the record, and the record's
 * level serves the request. *reason (cap bytes) names what differs, or what could not be compared. A field that cannot be read
 * on either side neither matches nor fails; for the boot's name the clock stands in. */
int32_t p2s_key_matches(const struct p2s_record *r, const struct p2s_model *m, const struct p2s_host *host,
						const struct p2s_request *request, char *reason, size_t cap);
/* The host part only: what must be equal before a GPU is looked at. */
int32_t p2s_key_host_matches(const struct p2s_record *r, const struct p2s_model *m, const struct p2s_host *host,
							 const struct p2s_request *request, char *reason, size_t cap);
/* Is it the same card in the same place, under the same kind of translation? */
int32_t p2s_key_gpu_matches(const struct p2s_record_gpu *kept, const struct p2s_record_gpu *now, char *reason, size_t cap);
/* A number for the marker: the host without its boot id. */
uint64_t p2s_key_marker(const struct p2s_model *m, const struct p2s_host *host);

#endif
