/* Every allocation, file call, message and start of a process or thread of the helper fails once, in the conductor and in each
 * of its workers, at each place in turn. Whatever fails: no process crashes, the call returns by its deadline with a report, no
 * process and no descriptor is left, nothing is allowed that the machine does not bear, and nothing is called whole that is
 * not.
 *
 * usage: fails HELPER HOSTS [--all | --places N | --place I HOST]
 * HELPER is linked with fails_calls.c. N places (12) are taken by chance from each machine; the seed is printed, and can be set
 * by P2PSAFE_SEED. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fails_control.h"
#include "p2psafe/p2psafe.h"

#define DEADLINE_MS 8000
#define CONSUMERS (P2PSAFE_CONSUMER_MULTICAST + 1)

/* What was OK of what a consumer needs: bit by leg and mapping, per pair. */
#define PAIRS 2
#define LEGS 32
#define MAPPINGS 4

struct result {
	int32_t rc;
	int allowed[CONSUMERS];
	int ok[PAIRS][LEGS][MAPPINGS];
	int legs_ok;
	uint64_t ms;
	char text[256];
};

/* legs and mappings of each consumer, by bit */
#define LEG(x) (UINT32_C(1) << P2PSAFE_LEG_##x)
#define MAP(x) (UINT32_C(1) << P2PSAFE_MAPPING_##x)
#define P2S_NEEDS(consumer, legs, mappings) [P2PSAFE_CONSUMER_##consumer] = {legs, mappings},
static const uint32_t needs[CONSUMERS][2] = {
#include "rules/consumers.def"
};

static struct fails_control *control;
static const char *helper;

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void take_legs(const p2psafe_report *report, struct result *r)
{
	for (int32_t p = 0; p < p2psafe_report_pair_count(report) && p < PAIRS; p++) {
		struct p2psafe_pair pair = {.size = sizeof pair};

		if (p2psafe_report_pair(report, p, &pair) != 0)
			continue;
		for (int32_t l = 0; l < pair.leg_count; l++) {
			struct p2psafe_leg leg = {.size = sizeof leg};

			if (p2psafe_report_leg(report, p, l, &leg) != 0 || leg.verdict != P2PSAFE_VERDICT_OK || leg.leg >= LEGS ||
			    leg.mapping >= MAPPINGS)
				continue;
			r->ok[p][leg.leg][leg.mapping] = 1;
			r->legs_ok++;
		}
	}
}

/* Is everything that a consumer needs, and that was OK when nothing failed, still there? */
static int whole(const struct result *was, const struct result *r, int32_t consumer)
{
	for (int p = 0; p < PAIRS; p++)
		for (unsigned l = 0; l < LEGS; l++)
			for (unsigned m = 0; m < MAPPINGS; m++)
				if (needs[consumer][0] >> l & 1 && needs[consumer][1] >> m & 1 && was->ok[p][l][m] && !r->ok[p][l][m])
					return 0;
	return 1;
}

static struct result run(const char *host)
{
	struct result r = {0};
	struct p2psafe_options o;
	struct p2psafe_error err = {.size = sizeof err};
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	uint64_t start = now_ms();

	p2psafe_options_init(&o, sizeof o);
	o.host_dir = host;
	o.helper_path = helper;
	o.flags = P2PSAFE_FLAG_NO_CACHE;
	o.level = P2PSAFE_LEVEL_QUICK;
	o.deadline_ms = DEADLINE_MS;
	r.rc = p2psafe_context_new(&ctx, NULL, NULL, &err);
	if (r.rc == 0)
		r.rc = p2psafe_test(ctx, &o, &report, &err);
	r.ms = now_ms() - start;
	for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c < CONSUMERS; c++)
		r.allowed[c] = p2psafe_report_allows(report, c);
	take_legs(report, &r);
	snprintf(r.text, sizeof r.text, "%s", err.text);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	return r;
}

static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Processes of this helper that still exist. */
static int left_over(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		char link[300];
		char exe[4096];
		ssize_t len;

		snprintf(link, sizeof link, "/proc/%.200s/exe", e->d_name);
		len = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? readlink(link, exe, sizeof exe - 1) : -1;
		if (len > 0) {
			exe[len] = '\0';
			n += strcmp(exe, helper) == 0;
		}
	}
	if (d != NULL)
		closedir(d);
	return n;
}

/* Children of a conductor that was killed die with it, a moment later. */
static int left_over_after_a_moment(void)
{
	uint64_t until = now_ms() + 5000;

	while (left_over() > 0) {
		struct timespec ts = {.tv_nsec = 5000000};

		if (now_ms() >= until)
			return 1;
		nanosleep(&ts, NULL);
	}
	return 0;
}

/* NULL, or what is wrong. */
static const char *wrong(const struct fails_place *place, const struct result *was, const struct result *r, int fds)
{
	/* What libpci does without memory is not ours to repair (SECURITY.md): it may end the host worker, and nothing else. */
	if (atomic_load(&control->crashes) != 0 && !(place->in_pci && strcmp(control->crashed, "host") == 0))
		return "a process crashed";
	if (r->ms > DEADLINE_MS + 1000)
		return "the call came late";
	if (r->rc != 0)
		return "no report";
	for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c < CONSUMERS; c++) {
		if (r->allowed[c] && !was->allowed[c])
			return "allowed what the machine does not bear";
		if (r->allowed[c] && !whole(was, r, c))
			return "allowed without all that was to be tested";
	}
	if (left_over_after_a_moment())
		return "a process is left";
	if (descriptors() != fds)
		return "a descriptor is lost";
	return NULL;
}

static void set(enum fails_mode mode, int target)
{
	atomic_store(&control->mode, FAILS_OFF);
	atomic_store(&control->target, target);
	atomic_store(&control->met, 0);
	atomic_store(&control->crashes, 0);
	atomic_store(&control->mode, mode);
}

static int by_hash(const void *a, const void *b)
{
	uint64_t x = ((const struct fails_place *)a)->hash;
	uint64_t y = ((const struct fails_place *)b)->hash;

	return (x > y) - (x < y);
}

static struct result learn(const char *host)
{
	struct result r;

	memset(control->place, 0, sizeof control->place);
	atomic_store(&control->places, 0);
	run(host); /* what is only done the first time */
	set(FAILS_LEARN, 0);
	r = run(host);
	set(FAILS_OFF, 0);
	left_over_after_a_moment();
	/* Processes learn at the same time: in an order that is the same the next time, but for places that depend on timing. */
	qsort(control->place, (size_t)atomic_load(&control->places), sizeof control->place[0], by_hash);
	return r;
}

/* 1 if the place was met. */
static int try(const char *host, const struct result *was, int place, int *bad)
{
	const struct fails_place *p = &control->place[place];
	int fds = descriptors();
	struct result r;
	const char *why;

	set(FAILS_ONCE, place);
	r = run(host);
	why = wrong(p, was, &r, fds);
	if (why != NULL) {
		int crashes = atomic_load(&control->crashes);

		printf("%s: place %d of %d, %s of the %s: %s%s%s (%d ms, rc %d, %d legs of %d, %s)\n", host, place,
		       atomic_load(&control->places), p->call, p->role, why, crashes ? ": " : "", crashes ? control->crashed : "",
		       (int)r.ms, (int)r.rc, r.legs_ok, was->legs_ok, r.text);
		*bad = 1;
	}
	return atomic_load(&control->met);
}

/* Takes count places by chance, or all (0). */
static int try_host(const char *hosts, const char *name, int healthy, int count, int only)
{
	static const char *const roles[] = {"conductor", "host", "nvml", "worker"};
	char host[4096];
	struct result was;
	int places;
	int tried = 0;
	int met = 0;
	int bad = 0;

	snprintf(host, sizeof host, "%s/%s", hosts, name);
	was = learn(host);
	places = atomic_load(&control->places);
	if (was.rc != 0 || was.allowed[P2PSAFE_CONSUMER_NCCL_P2P] != healthy || places < 100 || places >= FAILS_PLACES) {
		printf("%s: not as it should be when nothing fails: rc %d, %d places, %s\n", name, (int)was.rc, places, was.text);
		return 0;
	}
	for (size_t r = 0; r < sizeof roles / sizeof roles[0]; r++) {
		int n = 0;

		for (int i = 0; i < places; i++)
			n += strcmp(control->place[i].role, roles[r]) == 0;
		printf("%s: %d places in the %s\n", name, n, roles[r]);
		if (n < 5)
			return 0;
	}
	for (int i = 0; i < places; i++) {
		if (only >= 0 ? i != only : count != 0 && rand() % places >= count)
			continue;
		tried++;
		met += try(host, &was, i, &bad);
	}
	printf("%s: %d places, %d tried, %d met\n", name, places, tried, met);
	fflush(stdout);
	/* Some places depend on timing, such as a wait that is not needed when the other side is fast. */
	return !bad && (tried < 10 || met >= tried / 2);
}

int main(int argc, char **argv)
{
	const char *seed = getenv("P2PSAFE_SEED");
	unsigned chosen = seed != NULL ? (unsigned)atoi(seed) : (unsigned)time(NULL);
	int count = 12;
	int only = -1;
	char path[4096];
	int fd;
	int ok;

	if (argc < 3)
		return 2;
	if (argc > 3 && strcmp(argv[3], "--all") == 0)
		count = 0;
	else if (argc == 5 && strcmp(argv[3], "--places") == 0)
		count = atoi(argv[4]);
	else if (argc == 6 && strcmp(argv[3], "--place") == 0)
		only = atoi(argv[4]);
	helper = realpath(argv[1], NULL);
	if (helper == NULL || strrchr(helper, '/') == NULL)
		return 2;
	snprintf(path, sizeof path, "%.*s/" FAILS_FILE, (int)(strrchr(helper, '/') - helper), helper);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof *control) != 0)
		return 2;
	control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED)
		return 2;
	close(fd);
	printf("seed %u\n", chosen);
	srand(chosen);
	if (only >= 0)
		return !try_host(argv[2], argv[5], strncmp(argv[5], "ok-", 3) == 0, 0, only);
	ok = try_host(argv[2], "ok-2xh200-nvlink", 1, count, -1);
	ok &= try_host(argv[2], "x-stale", 0, count, -1);
	return !ok;
}
