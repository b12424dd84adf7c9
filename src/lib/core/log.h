/* The caller's log callback, handed down to every part that has something to say. */
#ifndef P2S_CORE_LOG_H
#define P2S_CORE_LOG_H

#include <stdint.h>

#include "p2psafe/p2psafe.h"

struct p2s_log {
	p2psafe_log_fn fn; /* NULL: silent */
	void *user;
};

/* One line, cut at 500 bytes, line ends replaced. log may be NULL. */
void p2s_log(const struct p2s_log *log, int32_t level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
