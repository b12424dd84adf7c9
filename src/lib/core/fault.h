/* Why a call failed, on its way to the caller's struct p2psafe_error. */
#ifndef P2S_CORE_FAULT_H
#define P2S_CORE_FAULT_H

#include <stdint.h>

#include "p2psafe/p2psafe.h"

struct p2s_fault {
	int32_t code; /* P2PSAFE_E_*; 0 none */
	int32_t os_error;
	struct p2psafe_bdf gpu;
	char text[256];
};

/* Fills *f (may be NULL) and returns code. Text: object, what was seen, what was expected. */
int32_t p2s_fault_set(struct p2s_fault *f, int32_t code, int os_error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
