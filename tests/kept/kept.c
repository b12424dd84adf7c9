#define _GNU_SOURCE
#include "kept.h"

#include <sys/wait.h>
#include <unistd.h>

#ifndef FAKE_HELPER
#error "the build names the fake helper"
#endif

uint64_t kept_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int kept_setup(void **state)
{
	struct kept *k = calloc(1, sizeof *k);

	/* In memory where that is possible: these tests sync thousands of times, and a slow disk is not what they are about. */
	snprintf(k->base, sizeof k->base, "/dev/shm/p2psafe-test-XXXXXX");
	if (mkdtemp(k->base) == NULL)
		tmp_make(k->base, sizeof k->base);
	snprintf(k->host, sizeof k->host, "%s/host", k->base);
	snprintf(k->cache, sizeof k->cache, "%s/cache", k->base);
	snprintf(k->script, sizeof k->script, "%s/script", k->base);
	snprintf(k->runs, sizeof k->runs, "%s/runs", k->base);
	mkdir(k->host, 0755);
	k->gpus = 3;
	tmp_host(k->host, k->gpus);
	setenv("P2PSAFE_SIM_SCRIPT", k->script, 1);
	kept_script(k, "");
	*state = k;
	return 0;
}

int kept_teardown(void **state)
{
	struct kept *k = *state;

	tmp_remove(k->base);
	free(k);
	return 0;
}

void kept_script(const struct kept *k, const char *words)
{
	char text[1024];

	snprintf(text, sizeof text, "count %s\n%s\n", k->runs, words);
	tmp_write(k->base, "script", text);
}

int kept_runs(const struct kept *k)
{
	struct stat st;

	return stat(k->runs, &st) == 0 ? (int)st.st_size : 0;
}

void kept_options(const struct kept *k, struct p2psafe_options *o)
{
	p2psafe_options_init(o, sizeof *o);
	o->host_dir = k->host;
	o->cache_dir = k->cache;
	o->helper_path = FAKE_HELPER;
	o->deadline_ms = 8000;
}

struct answer kept_ask(kept_call call, const struct p2psafe_options *o)
{
	struct answer a = {0};
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_consumer_info info = {.size = sizeof info};
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	uint64_t start = kept_now_ms();
	char *json = NULL;

	a.rc = p2psafe_context_new(&ctx, NULL, NULL, &err);
	if (a.rc == 0)
		a.rc = call(ctx, o, &report, &err);
	a.ms = kept_now_ms() - start;
	snprintf(a.text, sizeof a.text, "%s", err.text);
	a.allowed = p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P);
	a.kept = p2psafe_report_is_kept(report);
	a.exit_code = p2psafe_report_exit_code(report);
	if (p2psafe_report_consumer(report, P2PSAFE_CONSUMER_NCCL_P2P, &info) == 0)
		a.verdict = info.verdict;
	if (p2psafe_report_json(report, &json, NULL) == 0)
		a.json_ok = (strstr(json, "\"nccl_p2p\": {\n        \"allowed\": true") != NULL) == a.allowed;
	p2psafe_string_free(json);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	return a;
}

int kept_files(const struct kept *k, const char *suffix)
{
	DIR *d = opendir(k->cache);
	struct dirent *e;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		size_t a = strlen(e->d_name);
		size_t b = strlen(suffix);

		n += a >= b && strcmp(e->d_name + a - b, suffix) == 0;
	}
	if (d != NULL)
		closedir(d);
	return n;
}

void kept_find(const struct kept *k, const char *suffix, char *path, size_t cap)
{
	DIR *d = opendir(k->cache);
	struct dirent *e;

	path[0] = '\0';
	while (d != NULL && (e = readdir(d)) != NULL) {
		size_t a = strlen(e->d_name);
		size_t b = strlen(suffix);

		if (a >= b && strcmp(e->d_name + a - b, suffix) == 0)
			snprintf(path, cap, "%s/%.200s", k->cache, e->d_name);
	}
	if (d != NULL)
		closedir(d);
	assert_int_not_equal(path[0], '\0');
}

/* A record ends with the FNV-1a sum of everything before. */
void kept_forge(char *text, size_t cap, const char *from, const char *to)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	char *at = strstr(text, from);
	char *rest;

	assert_non_null(at);
	rest = strdup(at + strlen(from));
	assert_non_null(rest);
	snprintf(at, cap - (size_t)(at - text), "%s%s", to, rest);
	free(rest);
	at = strstr(text, ",\"sum\":\"0x");
	assert_non_null(at);
	for (const char *p = text; p < at; p++)
		sum = (sum ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	assert_true((size_t)(at - text) + 64 < cap);
	snprintf(at, 64, ",\"sum\":\"0x%016llx\"}", (unsigned long long)sum);
}

int kept_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

pid_t kept_rank(const struct kept *k, uint64_t deadline_ms, struct answer *shared)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct p2psafe_options o;

		kept_options(k, &o);
		o.deadline_ms = deadline_ms;
		*shared = kept_ask(p2psafe_decide, &o);
		_exit(0);
	}
	return pid;
}

void kept_wait(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

struct answer kept_decide(const struct kept *k, const char *gpus)
{
	struct p2psafe_options o;

	kept_options(k, &o);
	o.gpus = gpus;
	return kept_ask(p2psafe_decide, &o);
}

struct answer kept_test(const struct kept *k, const char *gpus, int32_t level)
{
	struct p2psafe_options o;

	kept_options(k, &o);
	o.gpus = gpus;
	o.level = level;
	return kept_ask(p2psafe_test, &o);
}

void kept_vetoed(struct answer a, int32_t verdict, int32_t kept)
{
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(a.verdict, verdict);
	assert_int_equal(a.kept, kept);
	assert_int_equal(a.json_ok, 1);
}
