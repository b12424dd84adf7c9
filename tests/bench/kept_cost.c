/* What a kept answer costs.
 *
 *   kept_cost call N CACHE [HOST]     N calls of p2psafe_decide() in this process, all from the record in CACHE
 *   kept_cost process N COMMAND...    N processes, from their start to their end, their output thrown away
 *
 * Prints one line: "median_us U low_us U high_us U n N" (low and high: the 5th and the 95th of a hundred). Exit 1 when an
 * answer did not come from the record, or a process failed; 2 for wrong arguments. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "p2psafe/p2psafe.h"

#define MOST 100000

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void tell(uint64_t *ns, size_t n)
{
	qsort(ns, n, sizeof *ns, by_size);
	printf("median_us %.1f low_us %.1f high_us %.1f n %zu\n", (double)ns[n / 2] / 1000, (double)ns[n / 20] / 1000,
		   (double)ns[n - 1 - n / 20] / 1000, n);
}

/* Why it was tested: the findings say which record was not good enough, and what was not as it was. */
static void tell_tested(const p2psafe_report *report, size_t call, int32_t allowed)
{
	fprintf(stderr, "call %zu: not from the record (tested, allowed %d):", call, (int)allowed);
	for (int32_t i = 0; i < p2psafe_report_finding_count(report); i++) {
		struct p2psafe_finding f = {.size = sizeof f};
		const char *text;

		if (p2psafe_report_finding(report, i, &f) != P2PSAFE_OK)
			continue;
		text = p2psafe_report_evidence_text(report, i, 0);
		fprintf(stderr, " %s (%s)", f.code, text != NULL ? text : "");
	}
	fputc('\n', stderr);
}

static int calls(uint64_t *ns, size_t n, const char *cache, const char *host)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options options;
	p2psafe_context *ctx = NULL;

	p2psafe_options_init(&options, sizeof options);
	options.cache_dir = cache;
	options.host_dir = host;
	if (p2psafe_context_new(&ctx, NULL, NULL, &err) != P2PSAFE_OK)
		return 0;
	for (size_t i = 0; i < n; i++) {
		p2psafe_report *report = NULL;
		uint64_t start = now_ns();
		int32_t rc = p2psafe_decide(ctx, &options, &report, &err);
		int32_t allowed = p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P);

		ns[i] = now_ns() - start;
		if (rc != P2PSAFE_OK || !p2psafe_report_is_kept(report)) {
			if (rc == P2PSAFE_OK)
				tell_tested(report, i, allowed);
			else
				fprintf(stderr, "call %zu: %s\n", i, err.text);
			p2psafe_report_free(report);
			p2psafe_context_free(ctx);
			return 0;
		}
		p2psafe_report_free(report);
	}
	p2psafe_context_free(ctx);
	return 1;
}

static int processes(uint64_t *ns, size_t n, char **command)
{
	extern char **environ;
	posix_spawn_file_actions_t quiet;
	int ok = 1;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	for (size_t i = 0; i < n && ok; i++) {
		uint64_t start = now_ns();
		int status = 0;
		pid_t pid;

		ok = posix_spawn(&pid, command[0], &quiet, NULL, command, environ) == 0 && waitpid(pid, &status, 0) == pid;
		ns[i] = now_ns() - start;
		ok = ok && WIFEXITED(status) && WEXITSTATUS(status) <= 1; /* 1: an answer that denies something */
	}
	posix_spawn_file_actions_destroy(&quiet);
	return ok;
}

int main(int argc, char **argv)
{
	uint64_t *ns;
	unsigned long n = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;
	int is_call = argc > 1 && strcmp(argv[1], "call") == 0;
	int ok;

	if (n == 0 || n > MOST || (!is_call && strcmp(argv[1], "process") != 0)) {
		fprintf(stderr, "usage: kept_cost call N CACHE [HOST] | kept_cost process N COMMAND...\n");
		return 2;
	}
	ns = calloc(n, sizeof *ns);
	ok = ns != NULL && (is_call ? calls(ns, n, argv[3], argc > 4 ? argv[4] : NULL) : processes(ns, n, argv + 3));
	if (ok)
		tell(ns, n);
	free(ns);
	return ok ? 0 : 1;
}
