/* Every getter of the public header, with every index in range and some that are not. */
#ifndef P2S_TESTS_FUZZ_GETTERS_H
#define P2S_TESTS_FUZZ_GETTERS_H

#include "p2psafe/p2psafe.h"

/* Aborts when a getter contradicts another one, or lends no string. */
void getters_all(const p2psafe_report *r);

#endif
