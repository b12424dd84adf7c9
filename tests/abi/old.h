/* What the generated functions of the older library (gen_old.py) have in common. */
#ifndef P2S_TESTS_ABI_OLD_H
#define P2S_TESTS_ABI_OLD_H

#include <stdint.h>

struct p2psafe_error;

/* A function of today's library; ends the program when that cannot be loaded. */
void *old_today(const char *name);
/* Says that an input struct was refused, and why. Returns status. */
int32_t old_refuse(struct p2psafe_error *err, int32_t status);

#endif
