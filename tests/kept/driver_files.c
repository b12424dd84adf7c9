/* The files of the driver about single GPUs: reading one asks the resource manager, which wakes a sleeping GPU and can wait for
 * ever behind a wedged one. So the caller's process never opens them, whatever it asks; and what stands in them, or that
 * nothing does, is no part of what a kept answer depends on. */
#define _GNU_SOURCE
#include "kept.h"

#include <fcntl.h>
#include <sys/inotify.h>

#define FILES 3 /* one per GPU of the host */

enum state_of { WHOLE, PIPE, NAMELESS, EMPTY, ABSENT, STATES };

static const char *const words[STATES] = {
	[WHOLE] = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 52\nGPU UUID: \t GPU-11111111-2222-3333-4444-555555555555\n"
              "Video BIOS: \t 96.00.a8.00.01\nDevice Minor: \t 0\n",
	/* what the driver prints for a GPU that it cannot ask */
	[NAMELESS] = "Model: \t\t Unknown\nIRQ:   \t\t 52\n"
                 "GPU UUID: \t GPU-\?\?\?\?\?\?\?\?-\?\?\?\?-\?\?\?\?-\?\?\?\?-\?\?\?\?\?\?\?\?\?\?\?\?\n"
                 "Video BIOS: \t \?\?.\?\?.\?\?.\?\?.\?\?\nDevice Minor: \t 0\n",
	[EMPTY] = ""};

static void name_of(char name[128], int gpu)
{
	snprintf(name, 128, "root/proc/driver/nvidia/gpus/0000:%02x:00.0/information", gpu + 1);
}

static void make(const struct kept *k, enum state_of state)
{
	for (int i = 0; i < FILES; i++) {
		char path[256];
		char name[128];

		name_of(name, i);
		snprintf(path, sizeof path, "%s/%s", k->host, name);
		unlink(path); /* a pipe would wait for its reader */
		tmp_write(k->host, name, ""); /* the folders */
		assert_int_equal(unlink(path), 0);
		if (state == PIPE)
			assert_int_equal(mkfifo(path, 0644), 0);
		else if (state != ABSENT)
			tmp_write(k->host, name, words[state]);
	}
}

/* Watches the folder of all GPUs, each GPU's and each file. */
static int watch(const struct kept *k)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	assert_true(fd >= 0);
	for (int i = 0; i < FILES; i++) {
		char path[256];
		char name[128];

		name_of(name, i);
		for (int up = 0; up < 3; up++) {
			snprintf(path, sizeof path, "%s/%s", k->host, name);
			if (access(path, F_OK) == 0)
				assert_true(inotify_add_watch(fd, path, IN_OPEN | IN_ACCESS) >= 0);
			*strrchr(name, '/') = '\0';
		}
	}
	return fd;
}

static int opened(int fd)
{
	char events[4096] __attribute__((aligned(8)));
	ssize_t n = read(fd, events, sizeof events);

	return n > 0;
}

static void ask_everything(const struct kept *k, int first)
{
	struct p2psafe_options o;
	struct answer a;

	kept_options(k, &o);
	a = kept_ask(p2psafe_probe, &o);
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.allowed, 0);
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.allowed, 1);
	assert_int_equal(a.kept, !first);
	assert_int_equal(a.json_ok, 1);
	o.flags |= P2PSAFE_FLAG_RECHECK;
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.allowed, 1);
}

static void change_nothing(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;

	for (int s = 0; s < STATES; s++) {
		int fd;

		make(k, (enum state_of)s);
		fd = watch(k);
		ask_everything(k, s == 0);
		assert_false(opened(fd));
		close(fd);
	}
	assert_int_equal(kept_runs(k), 1);
	kept_options(k, &o);
	make(k, PIPE);
	assert_int_equal(kept_ask(p2psafe_test, &o).allowed, 1);
}

/* The watch itself. */
static void an_open_is_noticed(void **state)
{
	struct kept *k = *state;
	char path[256];
	char name[128];
	int fd;
	int file;

	for (int s = 0; s < STATES; s++) {
		if (s == ABSENT)
			continue;
		make(k, (enum state_of)s);
		fd = watch(k);
		assert_false(opened(fd));
		name_of(name, 1);
		snprintf(path, sizeof path, "%s/%s", k->host, name);
		file = open(path, O_RDONLY | O_NONBLOCK);
		assert_true(file >= 0);
		close(file);
		assert_true(opened(fd));
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(change_nothing, kept_setup, kept_teardown),
	                                   cmocka_unit_test_setup_teardown(an_open_is_noticed, kept_setup, kept_teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
