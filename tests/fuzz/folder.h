/* A folder of this process in TMPDIR, gone when it ends; targets whose reader wants files put their bytes there. */
#ifndef P2S_TESTS_FUZZ_FOLDER_H
#define P2S_TESTS_FUZZ_FOLDER_H

#include <stddef.h>

/* Its path; made at the first call. */
const char *folder_path(void);
/* Writes a file below it, folders on the way included. */
void folder_write(const char *name, const void *bytes, size_t size);
/* A symbolic link below it. */
void folder_link(const char *name, const char *to);
/* The file's bytes with a NUL behind them (malloc'd), NULL if there is none. */
char *folder_read(const char *name, size_t *size);
/* Removes one file or link, if it is there. */
void folder_remove(const char *name);

#endif
