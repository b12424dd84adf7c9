/* test: always fresh. decide: the kept record, else one test per start, however many processes ask. */
#ifndef P2S_API_DECIDE_H
#define P2S_API_DECIDE_H

#include "api/internal.h"

int32_t p2s_decide_test(struct p2s_session *s, p2psafe_report *report);
int32_t p2s_decide_kept(struct p2s_session *s, p2psafe_report *report);

#endif
