/* A simulated host, a cache folder and a script for the fake helper: what every test of this folder needs. */
#ifndef P2S_TESTS_KEPT_H
#define P2S_TESTS_KEPT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include <cmocka.h>

#include "p2psafe/p2psafe.h"
#include "tmpdir.h"

struct kept {
	char base[64];   /* everything below is removed afterwards */
	char host[96];
	char cache[96];
	char script[96];
	char runs[96];   /* one byte per run of the helper */
	int gpus;
};

/* What a process learnt from one call. */
struct answer {
	int32_t rc;
	int32_t allowed;
	int32_t verdict;
	int32_t kept;
	int32_t exit_code;
	int32_t json_ok; /* the JSON could be made and says the same */
	uint64_t ms;
	char text[256];
};

int kept_setup(void **state);
int kept_teardown(void **state);
/* Writes the script; "count" is added. */
void kept_script(const struct kept *k, const char *words);
int kept_runs(const struct kept *k);
void kept_options(const struct kept *k, struct p2psafe_options *o);
typedef int32_t (*kept_call)(p2psafe_context *, const struct p2psafe_options *, p2psafe_report **, struct p2psafe_error *);
struct answer kept_ask(kept_call call, const struct p2psafe_options *o);
/* Of these GPUs, NULL all; level 0: the default. */
struct answer kept_decide(const struct kept *k, const char *gpus);
struct answer kept_test(const struct kept *k, const char *gpus, int32_t level);
/* The answer is whole, allows nothing, and has that verdict; kept: it was read. */
void kept_vetoed(struct answer a, int32_t verdict, int32_t kept);
/* A process that decides and leaves its answer in memory that it shares with its parent; and the wait for its orderly end. */
pid_t kept_rank(const struct kept *k, uint64_t deadline_ms, struct answer *shared);
void kept_wait(pid_t pid);
/* Number of files in the cache whose name ends so. */
int kept_files(const struct kept *k, const char *suffix);
/* Path of a file in the cache whose name ends so; the test fails without one. */
void kept_find(const struct kept *k, const char *suffix, char *path, size_t cap);
/* Replaces the first `from` of a record's text by `to` and writes the sum that fits. cap: of text. */
void kept_forge(char *text, size_t cap, const char *from, const char *to);
uint64_t kept_now_ms(void);
/* Open descriptors of this process, below 1024; needs neither /proc nor memory. */
int kept_descriptors(void);

#endif
