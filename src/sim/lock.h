/* Locks in memory shared by processes that may be killed at any moment. The word holds the thread id of the holder; who
 * waits long asks whether that thread still lives, and takes the lock over if not. Data under such a lock is written so
 * that a half-done change is at worst lost bytes of the dead process's own transfer. */
#ifndef P2S_SIM_LOCK_H
#define P2S_SIM_LOCK_H

#include <stdint.h>

void sim_lock(uint32_t *word);
/* 1 if taken. */
int sim_trylock(uint32_t *word);
void sim_unlock(uint32_t *word);
/* 1 if the thread or process exists and is no zombie. */
int sim_alive(uint32_t id);

/* CLOCK_MONOTONIC in ns. */
uint64_t sim_now(void);
void sim_sleep_ns(uint64_t ns);
/* Waits a little in a polling loop, longer the longer it lasts: many waiting kernels share few CPUs. */
void sim_relax(uint32_t *turns);

#endif
