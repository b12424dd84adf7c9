/* The only code that touches a caller's struct. Every struct of the interface starts with size_t size. */
#ifndef P2S_CORE_SIZED_H
#define P2S_CORE_SIZED_H

#include <stddef.h>
#include <stdint.h>

#define P2S_SIZED_MAX 65536

/* Copies a caller's input struct into *own (zeroed by the caller, own_size bytes). theirs NULL: all defaults. Returns 0,
 * E_SIZE for an absurd size, or E_NEWER when a member this build does not know is set. */
int32_t p2s_sized_in(void *own, size_t own_size, const void *theirs);
/* Copies *own behind the caller's size word, at most as much as both know, and zeroes what only the caller knows.
 * Returns 0, E_INVALID for NULL, or E_SIZE. */
int32_t p2s_sized_out(void *theirs, const void *own, size_t own_size);

#endif
