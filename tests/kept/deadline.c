/* A helper that goes wrong before any message of a run, in every way: the call returns by its deadline plus one second, with
 * what was learnt until then and the rest UNTESTED, and leaves nothing behind: no child that could be reaped, no process of
 * the helper's, no descriptor. (Memory: the same test in the build with sanitizers.) */
#define _GNU_SOURCE
#include "kept.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "ipc/proto.h"

#define MESSAGES 400
#define AT_ONCE 6 /* they mostly wait */
#define DEADLINE_MS 250
#define HEALTHY_MS 20000

/* step: 1 tries every message, 5 every fifth; the first ten and the last three are tried always. waits: it lasts until the
 * deadline. */
static const struct mode {
	const char *name;
	int step;
	int waits;
} modes[] = {
    {"kill", 1, 0},  {"silent", 3, 1}, {"exit", 4, 0},       {"stop", 9, 1},    {"flood", 12, 1}, {"drip", 12, 1},
    {"noise", 8, 0}, {"half", 12, 1},  {"grandchild", 9, 1}, {"orphans", 12, 1}, {"deaf", 12, 1},
};

struct run {
	int messages;
	uint16_t id[MESSAGES + 1]; /* from 1 */
};

static void environment(int at, const char *mode)
{
	char text[64];

	snprintf(text, sizeof text, "%d %s", at, mode);
	if (at > 0)
		setenv("P2PSAFE_SIM_FAULT", text, 1);
	else
		unsetenv("P2PSAFE_SIM_FAULT");
}

static int legs_tested(const p2psafe_report *report)
{
	int n = 0;

	for (int32_t p = 0; p < p2psafe_report_pair_count(report); p++) {
		struct p2psafe_pair pair = {.size = sizeof pair};

		if (p2psafe_report_pair(report, p, &pair) != 0)
			return -1;
		for (int32_t l = 0; l < pair.leg_count; l++) {
			struct p2psafe_leg leg = {.size = sizeof leg};

			if (p2psafe_report_leg(report, p, l, &leg) != 0)
				return -1;
			n += leg.verdict == P2PSAFE_VERDICT_OK;
		}
	}
	return n;
}

/* How long this process was kept from running, beside what it asked for: on an overloaded machine that is not the library's
 * doing. */
static volatile int watching;

static void *starved(void *sum_ms)
{
	while (watching) {
		struct timespec nap = {.tv_nsec = 10000000};
		uint64_t start = kept_now_ms();

		nanosleep(&nap, NULL);
		*(uint64_t *)sum_ms += kept_now_ms() - start > 15 ? kept_now_ms() - start - 10 : 0;
	}
	return NULL;
}

/* 0, or the number of what was wrong. */
static int one(const struct kept *k, const struct run *whole, int at, const struct mode *mode)
{
	struct p2psafe_options o;
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	char cache[160];
	pthread_t watch;
	uint64_t starved_ms = 0;
	uint64_t start;
	uint64_t took;
	int before;
	int learnt = 0;
	int seen = 0;
	int allowed;
	int children = 0;
	int wrong = 0;

	/* Orphans of the helper come to us, so that we see them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	environment(at, mode->name);
	unsetenv("P2PSAFE_SIM_TRACE");
	kept_options(k, &o);
	/* lock and marker of its own, also with NO_CACHE */
	snprintf(cache, sizeof cache, "%s/cache-%d", k->base, (int)getpid());
	o.cache_dir = cache;
	o.flags = P2PSAFE_FLAG_NO_CACHE;
	/* what does not wait must not be cut short on a busy machine */
	o.deadline_ms = mode->waits ? DEADLINE_MS : HEALTHY_MS;
	before = kept_descriptors();
	watching = 1;
	if (pthread_create(&watch, NULL, starved, &starved_ms) != 0)
		return 9;
	start = kept_now_ms();
	if (p2psafe_context_new(&ctx, NULL, NULL, NULL) != 0 || p2psafe_test(ctx, &o, &report, NULL) != 0)
		return 10;
	took = kept_now_ms() - start;
	watching = 0;
	pthread_join(watch, NULL);
	for (int i = 1; i < at; i++)
		learnt += whole->id[i] == p2s_id_lib_leg;
	seen = legs_tested(report);
	allowed = p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	/* The margin that a run keeps of its second is a hundred milliseconds; starting and ending processes needs the machine,
	 * too. */
	if (took > o.deadline_ms + 1000 + 4 * starved_ms)
		wrong = 11;
	else if (seen > learnt && strcmp(mode->name, "deaf") != 0)
		wrong = 12; /* more than was ever said */
	else if (seen < learnt && !mode->waits && strcmp(mode->name, "noise") != 0)
		wrong = 13; /* what was said before it died is lost */
	else if (allowed && strcmp(mode->name, "deaf") != 0)
		wrong = 14; /* it never said that it is done, so nobody looked once more whether all GPUs are still there */
	else if (kept_descriptors() != before)
		wrong = 15;
	/* Whatever the helper left in its process group was killed: reap what was given to us. A process that runs stays unreaped. */
	for (int tries = 0; wrong == 0 && tries < 200; tries++) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);
		struct timespec pause = {.tv_nsec = 5000000};

		if (pid < 0)
			break;
		children += pid > 0;
		if (pid == 0)
			nanosleep(&pause, NULL);
	}
	if (wrong == 0 && waitpid(-1, NULL, WNOHANG) != -1)
		wrong = 16;
	if (wrong == 0 && children > 8)
		wrong = 17;
	if (wrong != 0)
		fprintf(stderr, "%s before message %d of %d: wrong %d (%d ms, starved %d ms, %d legs of %d, allowed %d)\n", mode->name, at,
		        whole->messages, wrong, (int)took, (int)starved_ms, seen, learnt, allowed);
	return wrong;
}

/* A healthy run tells what there is to interrupt. */
static void listen(struct kept *k, struct run *whole)
{
	char path[128];
	struct p2psafe_options o;
	unsigned id;
	FILE *f;

	snprintf(path, sizeof path, "%s/trace", k->base);
	setenv("P2PSAFE_SIM_TRACE", path, 1);
	environment(0, "");
	kept_options(k, &o);
	o.flags = P2PSAFE_FLAG_NO_CACHE;
	o.deadline_ms = HEALTHY_MS;
	assert_int_equal(kept_ask(p2psafe_test, &o).allowed, 1);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fscanf(f, "%u", &id) == 1 && whole->messages < MESSAGES)
		whole->id[++whole->messages] = (uint16_t)id;
	fclose(f);
	assert_in_range(whole->messages, 60, MESSAGES - 1);
	assert_int_equal(whole->id[1], p2s_id_lib_hello);
	assert_int_equal(whole->id[whole->messages], p2s_id_lib_done);
}

static int reap(int *running)
{
	int status;

	if (waitpid(-1, &status, 0) < 0)
		return 1;
	(*running)--;
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void at_every_message(void **state)
{
	struct kept *k = *state;
	static struct run whole;
	int running = 0;
	int failed = 0;
	int started = 0;
#ifdef __SANITIZE_ADDRESS__
	int spare = 4; /* each process looks for leaks when it ends */
#else
	int spare = 1;
#endif

	tmp_remove(k->host);
	mkdir(k->host, 0755);
	tmp_host(k->host, 2);
	listen(k, &whole);
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		for (int at = 1; at <= whole.messages; at++) {
			if (at > 10 && at < whole.messages - 2 && at % (modes[i].step * spare) != 0)
				continue;
			if (running == AT_ONCE)
				failed += reap(&running);
			if (fork() == 0)
				exit(one(k, &whole, at, &modes[i]));
			running++;
			started++;
		}
	}
	while (running > 0)
		failed += reap(&running);
	assert_int_equal(failed, 0);
	assert_in_range(started, 150, 2000);
}

#define T(name) cmocka_unit_test_setup_teardown(name, kept_setup, kept_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(at_every_message)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
