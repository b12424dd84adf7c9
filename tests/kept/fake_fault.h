/* What can go wrong with a helper before any of its messages. */
#ifndef P2S_TESTS_FAKE_FAULT_H
#define P2S_TESTS_FAKE_FAULT_H

#include <stdint.h>

/* Called before each message. P2PSAFE_SIM_TRACE names a file that gets one line with the id of each message; P2PSAFE_SIM_FAULT
 * is "N MODE": before message N (from 1) it does what fake_fault.c says of MODE. */
void fault_before(int sock, uint16_t id);

#endif
