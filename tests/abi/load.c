/* The library as a plug-in of a long-lived process: loaded and unloaded a thousand times, and in two copies at once.
 *
 * usage: load many LIBRARY HOST_DIR CACHE_DIR
 *           (with GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.arena_max=1, for exact numbers)
 *        load two GOOD_LIBRARY OTHER_LIBRARY HOST_DIR CACHE_DIR (the second one's own helper is of no use) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "check.h"
#include "p2psafe/p2psafe.h"

#ifdef __SANITIZE_ADDRESS__
#define LOADS 250 /* each is ten times slower */
#else
#define LOADS 1000
#endif
#define SETTLED 100 /* by then the loader and the allocator have what they keep */

/* What this program calls, looked up in one copy. */
struct copy {
	void *handle;
	int32_t (*context_new)(p2psafe_context **, p2psafe_log_fn, void *, struct p2psafe_error *);
	void (*context_free)(p2psafe_context *);
	int32_t (*probe)(p2psafe_context *, const struct p2psafe_options *, p2psafe_report **, struct p2psafe_error *);
	int32_t (*decide)(p2psafe_context *, const struct p2psafe_options *, p2psafe_report **, struct p2psafe_error *);
	int32_t (*allows)(const p2psafe_report *, int32_t);
	int32_t (*is_kept)(const p2psafe_report *);
	int32_t (*json)(const p2psafe_report *, char **, struct p2psafe_error *);
	void (*string_free)(char *);
	void (*report_free)(p2psafe_report *);
	int32_t (*env)(const p2psafe_report *, int32_t, char **, struct p2psafe_error *);
};

static const char *host;
static const char *cache;

/* The name, which must be this copy's own and not that of one loaded before. */
static void find(const struct copy *copy, const char *library, const char *name, void *slot)
{
	void *symbol = dlsym(copy->handle, name);
	Dl_info info;

	CHECK(1, symbol != NULL);
	CHECK(1, symbol != NULL && dladdr(symbol, &info) != 0 && strcmp(info.dli_fname, library) == 0);
	if (symbol == NULL)
		exit(1);
	memcpy(slot, &symbol, sizeof symbol);
}

static void load(struct copy *copy, const char *library, int scope)
{
	copy->handle = dlopen(library, RTLD_NOW | scope);
	if (copy->handle == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	find(copy, library, "p2psafe_context_new", &copy->context_new);
	find(copy, library, "p2psafe_context_free", &copy->context_free);
	find(copy, library, "p2psafe_probe", &copy->probe);
	find(copy, library, "p2psafe_decide", &copy->decide);
	find(copy, library, "p2psafe_report_allows", &copy->allows);
	find(copy, library, "p2psafe_report_is_kept", &copy->is_kept);
	find(copy, library, "p2psafe_report_json", &copy->json);
	find(copy, library, "p2psafe_string_free", &copy->string_free);
	find(copy, library, "p2psafe_report_free", &copy->report_free);
	find(copy, library, "p2psafe_report_env", &copy->env);
}

struct answer {
	int32_t status;
	int32_t allowed;
	int32_t kept;
};

enum question { VETO, PROBE, DECIDE }; /* the first starts no process, and is a thousand times quicker */

static struct answer ask(const struct copy *copy, enum question question)
{
	struct answer answer = {0, 0, 0};
	struct p2psafe_options options;
	struct p2psafe_error err;
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	char *text = NULL;

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.host_dir = host;
	options.cache_dir = cache;
	options.level = P2PSAFE_LEVEL_QUICK;
	options.deadline_ms = 120000; /* a busy machine may take its time */
	memset(&err, 0, sizeof err);
	err.size = sizeof err;
	answer.status = copy->context_new(&ctx, NULL, NULL, &err);
	if (answer.status == 0 && question != VETO)
		answer.status = (question == DECIDE ? copy->decide : copy->probe)(ctx, &options, &report, &err);
	if (answer.status == 0)
		answer.status = question == VETO ? copy->env(NULL, P2PSAFE_FORMAT_JSON, &text, &err) : copy->json(report, &text, &err);
	if (answer.status != 0)
		fprintf(stderr, "%s\n", err.text);
	answer.allowed = copy->allows(report, P2PSAFE_CONSUMER_NCCL_P2P);
	answer.kept = copy->is_kept(report);
	copy->string_free(text);
	copy->report_free(report);
	copy->context_free(ctx);
	return answer;
}

/* A thread that asks, and ends only when the library is gone: nothing of it may be left for the thread's end. */
struct guest {
	const struct copy *copy;
	pthread_barrier_t asked;
	pthread_barrier_t gone;
	struct answer answer;
};

static void *guest_main(void *argument)
{
	struct guest *guest = argument;

	guest->answer = ask(guest->copy, PROBE);
	pthread_barrier_wait(&guest->asked);
	pthread_barrier_wait(&guest->gone);
	return NULL;
}

static void load_ask_unload(const char *library, enum question question, int in_thread)
{
	struct copy copy;
	struct guest guest = {.copy = &copy};
	struct answer answer;
	pthread_t thread;

	load(&copy, library, RTLD_LOCAL);
	if (in_thread) {
		pthread_barrier_init(&guest.asked, NULL, 2);
		pthread_barrier_init(&guest.gone, NULL, 2);
		CHECK(0, pthread_create(&thread, NULL, guest_main, &guest));
		pthread_barrier_wait(&guest.asked);
		answer = guest.answer;
	} else {
		answer = ask(&copy, question);
	}
	CHECK(P2PSAFE_OK, answer.status);
	CHECK(question == DECIDE, answer.allowed);
	CHECK(0, dlclose(copy.handle));
	CHECK(1, dlopen(library, RTLD_NOW | RTLD_NOLOAD) == NULL); /* really gone */
	if (in_thread) {
		pthread_barrier_wait(&guest.gone);
		CHECK(0, pthread_join(thread, NULL));
		pthread_barrier_destroy(&guest.asked);
		pthread_barrier_destroy(&guest.gone);
	}
}

struct held {
	size_t bytes;
	int maps;
	int descriptors;
};

static struct held held_now(void)
{
	struct held held = {0, 0, 0};
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[8192];

	while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
		held.maps += strchr(line, '\n') != NULL;
	if (maps != NULL)
		fclose(maps);
	for (int fd = 0; fd < 1024; fd++)
		held.descriptors += fcntl(fd, F_GETFD) >= 0;
	held.bytes = mallinfo2().uordblks; /* exact without the allocator's own stores: see GLIBC_TUNABLES of this test */
	return held;
}

static void many(const char *library)
{
	struct held settled = {0, 0, 0};
	struct held end;

	for (int i = 0; i < LOADS; i++) {
		if (i == SETTLED)
			settled = held_now();
		load_ask_unload(library, i % 240 == 0 ? DECIDE : i % 20 == 0 ? PROBE : VETO, i % 50 == 49);
	}
	end = held_now();
	CHECK(settled.descriptors, end.descriptors);
	CHECK(1, settled.maps > 0);
	CHECK(-1, waitpid(-1, NULL, WNOHANG));
#ifndef __SANITIZE_ADDRESS__ /* the sanitizer has its own, and looks for leaks itself */
	CHECK(settled.maps, end.maps);
	CHECK(settled.bytes, end.bytes);
#endif
}

struct asker {
	const struct copy *copy;
	struct answer answer;
};

static void *asker_main(void *argument)
{
	struct asker *asker = argument;

	asker->answer = ask(asker->copy, DECIDE);
	return NULL;
}

/* Both copies decide at the same moment. */
static void both(struct asker askers[2])
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		CHECK(0, pthread_create(&threads[i], NULL, asker_main, &askers[i]));
	for (int i = 0; i < 2; i++)
		CHECK(0, pthread_join(threads[i], NULL));
	for (int i = 0; i < 2; i++)
		CHECK(P2PSAFE_OK, askers[i].answer.status);
}

static void two(const char *good, const char *other)
{
	struct copy copies[2];
	struct asker askers[2] = {{.copy = &copies[0]}, {.copy = &copies[1]}};
	struct answer answer;

	load(&copies[0], good, RTLD_GLOBAL); /* what the other copy calls could be taken from this one */
	load(&copies[1], other, RTLD_LOCAL);
	CHECK(1, copies[0].decide != copies[1].decide);

	/* Each copy starts the helper of its own place: one of them can test, and one cannot. */
	answer = ask(&copies[1], DECIDE);
	CHECK(P2PSAFE_OK, answer.status);
	CHECK(0, answer.allowed);
	cache = getenv("SECOND_CACHE");
	CHECK(1, cache != NULL);
	answer = ask(&copies[0], DECIDE);
	CHECK(P2PSAFE_OK, answer.status);
	CHECK(1, answer.allowed);

	/* One record serves both, as it would serve two processes. */
	both(askers);
	for (int i = 0; i < 2; i++) {
		CHECK(1, askers[i].answer.allowed);
		CHECK(1, askers[i].answer.kept);
	}
	CHECK(0, dlclose(copies[0].handle));
	answer = ask(&copies[1], DECIDE);
	CHECK(1, answer.allowed);
	CHECK(0, dlclose(copies[1].handle));
}

int main(int argc, char **argv)
{
	if (argc != 5 && argc != 6)
		return 2;
	host = argv[argc - 2];
	cache = argv[argc - 1];
	if (strcmp(argv[1], "many") == 0)
		many(argv[2]);
	else if (strcmp(argv[1], "two") == 0 && argc == 6)
		two(argv[2], argv[3]);
	else
		return 2;
	return check_result();
}
