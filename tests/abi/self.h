/* What a process can see of itself, as text, so that a difference can be shown: everything that a library could disturb. */
#ifndef P2S_TESTS_ABI_SELF_H
#define P2S_TESTS_ABI_SELF_H

#include <stddef.h>

#define SELF_BYTES 65536

/* In the order of self_names. */
enum self_part { SELF_MAPS, SELF_FDS, SELF_TASKS, SELF_SIGNALS, SELF_ENVIRONMENT, SELF_LIMITS, SELF_PLACE, SELF_PARTS };

struct self {
	char text[SELF_PARTS][SELF_BYTES];
};

extern const char *const self_names[SELF_PARTS];

/* Without /proc what stands there is left out; all the same it must be left out both times. */
void self_look(struct self *self);

#endif
