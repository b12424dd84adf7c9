/* What may replace what, and when an untested answer is tried again. Pure. */
#ifndef P2S_KEPT_POLICY_H
#define P2S_KEPT_POLICY_H

#include <stdint.h>

#include "kept/record.h"

enum p2s_policy {
	P2S_POLICY_REPLACE,   /* publish the new record */
	P2S_POLICY_KEEP,      /* the old one is better: publish nothing */
	P2S_POLICY_COUNT_PASS /* the old one is bad and stays, with one more passing run noted */
};

/* valid: the old record's key matches this machine (its level may be lower). */
enum p2s_policy p2s_policy_replace(const struct p2s_record *old, int32_t valid, const struct p2s_record *now);
/* 1 if a valid but untested record is old enough to be tried again: after 1, 5, 30, then 60 minutes. */
int32_t p2s_policy_retry(const struct p2s_record *r, int64_t now_unix);

#endif
