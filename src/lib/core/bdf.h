/* PCI addresses in the four spellings that this field uses. */
#ifndef P2S_CORE_BDF_H
#define P2S_CORE_BDF_H

#include <stdint.h>

#include "p2psafe/p2psafe.h"

#define P2S_BDF_TEXT 20 /* "dddddddd:bb:dd.f" and the end */

/* Parses "0000:81:00.0", NVML's "00000000:81:00.0", "81:00.0" (domain 0) and an Xid's "0000:81:00" (function 0),
 * in either case. Returns 1, or 0 with *out untouched. The whole string must be consumed. */
int32_t p2s_bdf_parse(const char *text, struct p2psafe_bdf *out);
/* "dddd:bb:dd.f", lower case, at least four domain digits. */
void p2s_bdf_format(const struct p2psafe_bdf *bdf, char out[P2S_BDF_TEXT]);
/* Order by domain, bus, device, function: <0, 0, >0. */
int32_t p2s_bdf_compare(const struct p2psafe_bdf *a, const struct p2psafe_bdf *b);

#endif
