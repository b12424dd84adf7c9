/* Shorter spellings for the records of machines with many GPUs, which would not fit otherwise. Pure. */
#ifndef P2S_KEPT_COMPACT_H
#define P2S_KEPT_COMPACT_H

#include <stddef.h>
#include <stdint.h>

/* A row of letters as runs: "OOO-OO" is "O*3,-,O*2". Returns 1, 0 when it does not fit. */
int32_t p2s_compact_row(const char *row, char *out, size_t cap);
/* Back to exactly n letters; a row that was never compacted stays as it is. Returns 1, 0 when it is no row of n letters. */
int32_t p2s_compact_expand(const char *text, char *out, size_t n);
/* "=<count>": the row before again, so many times (1 to most). Returns 1 with *count set, 0 when the text is something else. */
int32_t p2s_compact_again(const char *text, size_t most, size_t *count);
/* A text that is only compared, as the hash of itself: "#" and 16 digits. */
void p2s_compact_hash(const char *text, char *out, size_t cap);

#endif
