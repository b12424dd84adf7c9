/* Everything that can become of a folder of records: bits that flip, files that are cut, other things under their names,
 * records of other programs, other people's folders, clocks that are wrong. What is there is the old answer, or none; never
 * another one. */
#define _GNU_SOURCE
#include "kept.h"

#include <sys/socket.h>
#include <sys/un.h>

#define TEXT_MAX 65536

static time_t clock_moved; /* by so much is the wall clock wrong */

/* The library's clock: a program's own function comes before libc's. */
time_t time(time_t *to);
time_t time(time_t *to)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += clock_moved;
	if (to != NULL)
		*to = ts.tv_sec;
	return ts.tv_sec;
}

static int setup(void **state)
{
	struct kept *k;

	kept_setup(state);
	k = *state;
	tmp_remove(k->host);
	mkdir(k->host, 0755);
	k->gpus = 2; /* small files */
	tmp_host(k->host, k->gpus);
	clock_moved = 0;
	return 0;
}

static struct answer decide(const struct kept *k)
{
	struct p2psafe_options o;

	kept_options(k, &o);
	return kept_ask(p2psafe_decide, &o);
}

/* Only what is kept can allow anything here. */
static struct answer hit(const struct kept *k)
{
	struct p2psafe_options o;

	kept_options(k, &o);
	o.helper_path = "/nonexistent/helper";
	return kept_ask(p2psafe_decide, &o);
}

static size_t read_file(const char *path, char *text)
{
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, TEXT_MAX - 1, f);
	text[n] = '\0';
	fclose(f);
	return n;
}

/* A folder with nothing but this file in it. */
static void alone(const struct kept *k, const char *name, const char *text, size_t len)
{
	char path[400];
	FILE *f;

	tmp_remove(k->cache);
	assert_int_equal(mkdir(k->cache, 0700), 0);
	snprintf(path, sizeof path, "%s/%s", k->cache, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static char *record_of(const struct kept *k, size_t *len)
{
	char *text = malloc(TEXT_MAX);
	char path[400];

	assert_non_null(text);
	tmp_remove(k->cache);
	decide(k);
	kept_find(k, ".json", path, sizeof path);
	*len = read_file(path, text);
	return text;
}

/* All bits of all bytes are flipped in tests/unit/store.c; here a part of them goes through the whole library. */
static void flipped_and_cut(void **state)
{
	struct kept *k = *state;
	size_t len;
	char *text = record_of(k, &len);
	struct answer a;

	alone(k, "1.json", text, len);
	a = hit(k);
	assert_int_equal(a.allowed, 1);
	assert_int_equal(a.kept, 1);
	for (size_t i = 0; i < len; i += 13) {
		text[i] ^= (char)(1 << i % 8);
		alone(k, "1.json", text, len);
		text[i] ^= (char)(1 << i % 8);
		a = hit(k);
		if (a.rc != 0 || a.allowed || a.kept)
			fail_msg("byte %zu: %d, allowed %d, kept %d", i, a.rc, a.allowed, a.kept);
	}
	for (size_t i = 0; i < len; i += 23) {
		alone(k, "1.json", text, i);
		a = hit(k);
		if (a.rc != 0 || a.allowed || a.kept)
			fail_msg("%zu bytes: %d, allowed %d, kept %d", i, a.rc, a.allowed, a.kept);
	}
	free(text);
}

/* The full report may be damaged anywhere: the decision stands, and what is shown never says more than it. */
static void a_damaged_full_report(void **state)
{
	struct kept *k = *state;
	struct answer a;
	char *text = malloc(TEXT_MAX);
	char path[400];
	size_t len;

	assert_non_null(text);
	kept_script(k, "bad 0 1");
	decide(k);
	kept_find(k, ".full", path, sizeof path);
	len = read_file(path, text);
	for (size_t i = 0; i < len; i += 1 + len / 50) {
		FILE *f = fopen(path, "w");

		assert_non_null(f);
		text[i] ^= (char)(1 << i % 8);
		assert_int_equal(fwrite(text, 1, i % 2 ? len : i, f), i % 2 ? len : i);
		text[i] ^= (char)(1 << i % 8);
		assert_int_equal(fclose(f), 0);
		a = hit(k);
		if (a.allowed || !a.kept || a.verdict != P2PSAFE_VERDICT_CORRUPT || !a.json_ok)
			fail_msg("byte %zu: allowed %d, kept %d, verdict %d", i, a.allowed, a.kept, a.verdict);
	}
	free(text);
}

enum thing { LINK, FIFO, FOLDER, SOCKET, DEVICE, SPARSE, EMPTY, OTHERS_WRITE, THINGS, HARD_LINK = THINGS };

/* Puts a thing under a name in the cache; of links `copy` is the other end. Returns 0 where that is not possible. */
static int put(const struct kept *k, const char *path, enum thing thing, const char *copy)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd;

	(void)k;
	unlink(path);
	switch (thing) {
	case LINK:
		return symlink(copy, path) == 0;
	case HARD_LINK:
		return link(copy, path) == 0;
	case FIFO:
		return mkfifo(path, 0600) == 0;
	case FOLDER:
		return mkdir(path, 0700) == 0;
	case SOCKET:
		snprintf(at.sun_path, sizeof at.sun_path, "%.100s", path);
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
		return close(fd) == 0;
	case DEVICE:
		return mknod(path, S_IFCHR | 0600, (dev_t)0x105) == 0; /* /dev/zero: never ends */
	case SPARSE:
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(ftruncate(fd, (off_t)1 << 36), 0);
		return close(fd) == 0;
	case EMPTY:
	default:
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(fchmod(fd, thing == OTHERS_WRITE ? 0666 : 0600), 0);
		return close(fd) == 0;
	}
}

static void other_things_under_its_names(void **state)
{
	struct kept *k = *state;
	size_t len;
	char *text = record_of(k, &len);
	char copy[200];
	char path[300];
	struct answer a;

	tmp_write(k->base, "copy", text);
	snprintf(copy, sizeof copy, "%s/copy", k->base);
	for (int thing = 0; thing <= HARD_LINK; thing++) {
		static const char *const names[] = {
			"1.json", "lock", "simulated-marker", "1-0123456789abcdef.full", "tmp-simulated-marker", "2.json", "marker", "soak-marker"};

		for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
			int runs = kept_runs(k);
			int refused = strcmp(names[i], "simulated-marker") == 0; /* there, and nobody knows what it forbids */

			alone(k, "x", "", 0);
			snprintf(path, sizeof path, "%s/%s", k->cache, names[i]);
			if (!put(k, path, (enum thing)thing, copy))
				continue;
			a = decide(k);
			if (a.rc != 0 || a.ms > 9000)
				fail_msg("thing %d under %s: %d after %llu ms", thing, names[i], a.rc, (unsigned long long)a.ms);
			if (thing == HARD_LINK && strstr(names[i], ".json") != NULL) {
				assert_int_equal(a.kept, 1); /* a second name of what we may believe */
				continue;
			}
			if (a.kept || a.allowed == refused || kept_runs(k) != runs + 1)
				fail_msg("thing %d under %s: allowed %d, kept %d", thing, names[i], a.allowed, a.kept);
		}
	}
	/* nothing was written through a link */
	assert_int_equal(read_file(copy, text), len);
	free(text);
}

/* Records that another program wrote, or somebody who can make sums. kept: it counts; allowed: it says yes. */
static void forged(void **state)
{
	static const struct {
		const char *from, *to;
		int kept, allowed;
	} rows[] = {
		{"\"record\":1,", "\"record\":2,", 0, 0},
		{"\"record\":1,", "\"record\":1,\"record\":1,", 0, 0},
		{"\"record\":1,", "\"record\":1,\"new\":{\"deep\":[[[[]]]]},", 1, 1},
		{"\"suite\":1", "\"suite\":2", 0, 0},
		{"\"suite\":1", "\"suite\":1,\"suite\":1", 0, 0},
		{"\"version\":\"", "\"version\":\"99.", 1, 1},
		{"\"simulated\":true", "\"simulated\":false", 0, 0},
		{"\"created_unix\":", "\"created_unix\":-9223372036854775808,\"x\":", 1, 1},
		{"\"created_unix\":", "\"created_unix\":9223372036854775807,\"x\":", 1, 1},
		{"\"created_unix\":", "\"created_unix\":99999999999999999999999,\"x\":", 0, 0},
		{"\"passes\":0", "\"passes\":99999999", 1, 1},
		{"\"nccl_p2p\":[\"-O", "\"nccl_p2p\":[\"-Z", 1, 0},
		{"\"nccl_p2p\":[\"-O", "\"nccl_p2p\":[\"-?", 1, 0},
		{"\"nccl_p2p\":[\"-O", "\"nccl_p2p\":[\"-", 0, 0},
		{"\"nccl_p2p\":[\"-O", "\"nccl_p2p\":[\"-OO", 0, 0},
		{"\"nccl_p2p\":[", "\"nccl_p2p\":[\"-O\",", 0, 0},
		{"\"nothing_tested\":false", "\"nothing_tested\":0", 0, 0},
		{"\"nothing_tested\":false", "\"nothing_tested\":true", 1, 0},
		{"\"level\":\"standard\"", "\"level\":\"perfect\"", 0, 0},
		{"\"full\":\"", "\"full\":\"/etc/passwd\",\"x\":\"", 1, 1},
		{"\"full\":\"", "\"full\":\"../copy\",\"x\":\"", 1, 1},
	};
	struct kept *k = *state;
	size_t len;
	char *text = record_of(k, &len);
	char *copy = malloc(TEXT_MAX);
	struct answer a;

	assert_non_null(copy);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		memcpy(copy, text, len + 1);
		kept_forge(copy, TEXT_MAX, rows[i].from, rows[i].to);
		alone(k, "1.json", copy, strlen(copy));
		a = hit(k);
		if (a.rc != 0 || a.kept != rows[i].kept || a.allowed != rows[i].allowed || !a.json_ok)
			fail_msg("row %zu: %d, kept %d, allowed %d", i, a.rc, a.kept, a.allowed);
	}
	/* as deep as there is room */
	memcpy(copy, text, len + 1);
	{
		size_t depth = (16384 - len - 100) / 2;
		char *deep = malloc(2 * depth + 32);

		assert_non_null(deep);
		strcpy(deep, "{\"new\":");
		memset(deep + 7, '[', depth);
		memset(deep + 7 + depth, ']', depth);
		strcpy(deep + 7 + 2 * depth, ",\"record\":1,");
		kept_forge(copy, TEXT_MAX, "{\"record\":1,", deep);
		free(deep);
	}
	alone(k, "1.json", copy, strlen(copy));
	a = hit(k);
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.kept, 0);
	assert_int_equal(a.allowed, 0);
	free(copy);
	free(text);
}

/* A newer program's veto, or one whose file was damaged, is not undone by an older answer beside it. */
static void nothing_older_speaks_for_a_newer_one(void **state)
{
	static const char *const from[] = {"\"record\":1,", "\"suite\":1", "\"level\""};
	static const char *const to[] = {"\"record\":2,", "\"suite\":9", "\"evel\""};
	struct kept *k = *state;
	size_t len;
	char *good = record_of(k, &len);
	char *bad;
	size_t bad_len;
	char path[400];
	struct answer a;

	kept_script(k, "bad 0 1");
	bad = record_of(k, &bad_len);
	for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
		char *copy = malloc(TEXT_MAX);

		assert_non_null(copy);
		alone(k, "1.json", good, len);
		memcpy(copy, bad, bad_len + 1);
		kept_forge(copy, TEXT_MAX, from[i], to[i]);
		tmp_write(k->cache, "2.json", copy);
		free(copy);
		a = decide(k);
		assert_int_equal(a.kept, 0);
		assert_int_equal(a.allowed, 0);
	}
	/* the disk kept the name and lost the content, or a part of it */
	for (size_t i = 0; i < bad_len; i += 97) {
		alone(k, "1.json", good, len);
		snprintf(path, sizeof path, "%s/2.json", k->cache);
		tmp_write(k->cache, "2.json", bad);
		assert_int_equal(truncate(path, (off_t)i), 0);
		if (i % 2)
			assert_int_equal(truncate(path, (off_t)bad_len), 0); /* zeros */
		a = hit(k);
		assert_int_equal(a.kept, 0);
		assert_int_equal(a.allowed, 0);
	}
	/* it lost the name and kept the content: the old one is there, as if nothing had been tested */
	alone(k, "1.json", good, len);
	tmp_write(k->cache, "tmp-0123456789abcdef", bad);
	assert_int_equal(hit(k).kept, 1);
	free(good);
	free(bad);
}

/* Nothing but the age of what could not be tested is told by the wall clock. */
static void wrong_clocks(void **state)
{
	static const time_t moved[] = {-2000000000, -86400 * 365, -3601, 3601, 86400 * 365, 4000000000};
	struct kept *k = *state;
	struct answer a;

	for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
		int runs;

		tmp_remove(k->cache);
		kept_script(k, "");
		clock_moved = 0;
		decide(k);
		runs = kept_runs(k);
		clock_moved = moved[i];
		a = decide(k);
		assert_int_equal(a.kept, 1);
		assert_int_equal(a.allowed, 1);
		assert_int_equal(kept_runs(k), runs);
		/* made under the wrong clock, found under the right one */
		tmp_remove(k->cache);
		kept_script(k, "hang 0 1");
		a = decide(k);
		assert_int_equal(a.verdict, P2PSAFE_VERDICT_HANG);
		clock_moved = 0;
		kept_script(k, "");
		assert_int_equal(decide(k).verdict, P2PSAFE_VERDICT_HANG);
		assert_int_equal(kept_files(k, "marker"), 1);
		assert_int_equal(kept_runs(k), runs + 1);
		/* the machine comes back, and its clock was lost: the boot's name tells it */
		clock_moved = moved[i];
		tmp_write(k->host, "root/proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n");
		assert_int_equal(decide(k).verdict, P2PSAFE_VERDICT_UNTESTED);
		tmp_write(k->host, "root/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
		/* what could not be tested is tried again at most once more than under a right clock */
		tmp_remove(k->cache);
		kept_script(k, "missing mp_push");
		clock_moved = 0;
		decide(k);
		runs = kept_runs(k);
		clock_moved = moved[i];
		for (int n = 0; n < 3; n++)
			assert_int_equal(decide(k).allowed, 0);
		assert_in_range(kept_runs(k), runs, runs + 1);
	}
}

/* Whoever may write above the folder puts one of his own in its place: a record that allows, for a machine that does not. */
static void a_folder_of_somebody_else(void **state)
{
	struct kept *k = *state;
	char path[400];
	struct answer a;
	int runs;

	if (geteuid() != 0)
		skip(); /* only root can give files away */
	decide(k);
	runs = kept_runs(k);
	kept_script(k, "bad 0 1");
	assert_int_equal(chmod(k->base, 0777), 0);
	assert_int_equal(decide(k).allowed, 1); /* his own is there still */
	kept_find(k, ".json", path, sizeof path);
	assert_int_equal(chown(k->cache, 12345, 12345), 0); /* the folder only */
	a = decide(k);
	assert_int_equal(a.kept, 0);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(chown(path, 12345, 12345), 0);
	assert_int_equal(decide(k).allowed, 0);
	assert_int_equal(chown(k->cache, 0, 0), 0); /* the file only */
	a = decide(k);
	assert_int_equal(a.kept, 0);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(kept_runs(k), runs + 3);
	/* a link to a folder of ours */
	snprintf(path, sizeof path, "%s/elsewhere", k->base);
	assert_int_equal(rename(k->cache, path), 0);
	assert_int_equal(symlink(path, k->cache), 0);
	kept_script(k, "");
	assert_int_equal(decide(k).kept, 0);
	assert_int_equal(decide(k).kept, 0);
	assert_int_equal(unlink(k->cache), 0);
	/* the group may write it */
	assert_int_equal(rename(path, k->cache), 0);
	assert_int_equal(chmod(k->cache, 0775), 0);
	assert_int_equal(decide(k).kept, 0);
	assert_int_equal(chmod(k->cache, 0755), 0);
}

/* What a simulated host left says nothing about this machine, whatever GPUs it has. */
static void nothing_simulated_here(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	struct answer a;
	char path[400];
	char *before = malloc(TEXT_MAX);
	char *after = malloc(TEXT_MAX);

	assert_true(before != NULL && after != NULL);
	decide(k);
	kept_find(k, ".json", path, sizeof path);
	read_file(path, before);
	kept_options(k, &o);
	o.host_dir = NULL;
	o.helper_path = "/nonexistent/helper";
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.kept, 0);
	assert_int_not_equal(a.allowed, 1);
	o.cache_dir = NULL;
	o.result_file = path;
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.kept, 0);
	assert_int_not_equal(a.allowed, 1);
	/* and the other way round: what a machine left in a folder survives simulated tests there, and tells them nothing */
	kept_forge(before, TEXT_MAX, "\"simulated\":true", "\"simulated\":false");
	alone(k, "7.json", before, strlen(before));
	kept_script(k, "bad 0 1");
	for (int i = 0; i < 2; i++) {
		a = decide(k);
		assert_int_equal(a.kept, 0);
		assert_int_equal(a.allowed, 0);
		assert_int_equal(a.verdict, P2PSAFE_VERDICT_CORRUPT);
		kept_find(k, "7.json", path, sizeof path);
		read_file(path, after);
		assert_string_equal(before, after);
		assert_int_equal(kept_files(k, ".json"), 1);
	}
	free(before);
	free(after);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, kept_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(flipped_and_cut), T(a_damaged_full_report), T(other_things_under_its_names),
	                                   T(forged),          T(wrong_clocks),          T(nothing_older_speaks_for_a_newer_one),
	                                   T(a_folder_of_somebody_else),                 T(nothing_simulated_here)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
