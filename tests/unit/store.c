/* The folder of records: generations, trust, first writer wins. */
#define _GNU_SOURCE
#include "unit.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/owner.h"
#include "ipc/codec.h"
#include "kept/lock.h"
#include "kept/marker.h"
#include "kept/store.h"
#include "kept/trust.h"
#include "rules/rules.h"
#include "trusted.h"

static void make(struct p2s_record *r, int32_t verdict)
{
	struct p2s_model m;
	struct p2s_host h = {0};

	unit_model(&m, 2, verdict);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(p2s_record_from_model(r, &m, &h, NULL), 1);
	p2s_model_free(&m);
}

static int64_t highest(int dir)
{
	uint64_t n;

	assert_int_equal(p2s_store_highest(dir, &n), 1);
	return (int64_t)n;
}

static void first_writer_wins(void **state)
{
	struct place *p = *state;
	struct p2s_record a;
	struct p2s_record b;
	struct p2s_record got;
	const char *why;
	size_t len;
	char *full;

	assert_int_equal(p2s_store_newest(p->dir, &got, &why), 0);
	make(&a, P2PSAFE_VERDICT_OK);
	make(&b, P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(p2s_store_publish(p->dir, &a, 1, "{\"full\":1}"), 1);
	assert_int_equal(p2s_store_publish(p->dir, &b, 1, "{\"full\":2}"), 0);
	assert_int_equal(p2s_store_newest(p->dir, &got, &why), 1);
	assert_int_equal(got.generation, 1);
	assert_int_equal(p2s_record_worst(&got), P2PSAFE_VERDICT_OK);
	full = p2s_store_full(p->dir, &got, &len);
	assert_string_equal(full, "{\"full\":1}");
	free(full);
	p2s_record_free(&got);
	assert_int_equal(p2s_store_publish(p->dir, &b, 2, NULL), 1);
	assert_int_equal(highest(p->dir), 2);
	p2s_store_clean(p->dir, 2);
	assert_int_equal(p2s_store_newest(p->dir, &got, &why), 1);
	assert_int_equal(got.generation, 2);
	p2s_record_free(&got);
	/* one decision is left, and no file of the older generation */
	assert_int_equal(p2s_store_clear(p->dir), 1);
	assert_int_equal(p2s_store_clear(p->dir), 0);
	p2s_record_free(&a);
	p2s_record_free(&b);
}

/* A record is for everybody who may look into its folder, whatever the mask of who wrote it. */
static void a_mask_hides_no_record(void **state)
{
	struct place *p = *state;
	struct p2s_record a;
	struct stat st;
	mode_t old;

	make(&a, P2PSAFE_VERDICT_OK);
	old = umask(0777);
	assert_int_equal(p2s_store_publish(p->dir, &a, 1, "{\"full\":1}"), 1);
	umask(old);
	assert_int_equal(fstatat(p->dir, "1.json", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(fstatat(p->dir, a.full_name, &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	p2s_record_free(&a);
}

/* What is broken may have taken a permission back: the older one is no answer, but whoever replaces it still knows it. */
static void a_broken_newest_one_is_no_answer(void **state)
{
	struct place *p = *state;
	struct p2s_record a;
	struct p2s_record got;
	const char *why;

	make(&a, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_store_publish(p->dir, &a, 3, NULL), 1);
	tmp_write(p->path, "4.json", "{\"record\":1,");
	tmp_write(p->path, "0005.json", "x");
	tmp_write(p->path, "99999999999999999999.json", "x");
	assert_int_equal(p2s_store_newest(p->dir, &got, &why), 0);
	assert_string_equal(why, "a record that is cut, damaged or of another schema");
	assert_int_equal(p2s_store_last_whole(p->dir, &got), 1);
	assert_int_equal(got.generation, 3);
	p2s_record_free(&got);
	/* the next writer goes above the broken one */
	assert_int_equal(highest(p->dir), 4);
	p2s_record_free(&a);
}

static void a_full_report_that_was_changed_is_not_believed(void **state)
{
	struct place *p = *state;
	struct p2s_record a;
	struct p2s_record got;
	const char *why;
	size_t len;

	make(&a, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_store_publish(p->dir, &a, 1, "{\"full\":1}"), 1);
	assert_int_equal(p2s_store_newest(p->dir, &got, &why), 1);
	tmp_write(p->path, got.full_name, "{\"full\":9}");
	assert_null(p2s_store_full(p->dir, &got, &len));
	p2s_record_free(&got);
	p2s_record_free(&a);
}

/* Within a user namespace that names nobody, every owner looks like the caller: what is the caller's own is believed, what is
 * another's is not. */
static void an_owner_without_a_name_is_not_us(void **state)
{
	enum { RIGHT, REFUSED, BELIEVED, NOT_HERE };
	struct place *p = *state;
	char foreign[720];
	int foreigners; /* a file of another user's can be made: we are root */
	int dir;
	struct p2s_lock lock;
	const char *why;
	size_t len;
	int status;
	pid_t pid;

	assert_int_equal(p2s_owner_is_one(1000, 65534, NULL), 1);
	assert_int_equal(p2s_owner_is_one(65534, 65534, "         0          0 4294967295\n"), 1);
	assert_int_equal(p2s_owner_is_one(65534, 65534, "         0       1000          1\n"), 0);
	assert_int_equal(p2s_owner_is_one(65534, 65534, "         0          0      65536\n"), 0);
	assert_int_equal(p2s_owner_is_one(65534, 65534, ""), 0);
	assert_int_equal(p2s_owner_is_one(65534, 65534, NULL), 0);
	assert_int_equal(p2s_owner_is_one(0, 0, "         0       1000          1\n"), 0);
	tmp_write(p->path, "f", "text");
	tmp_write(p->path, "foreign/f", "text");
	snprintf(foreign, sizeof foreign, "%.700s/foreign", p->path);
	dir = open(foreign, O_RDONLY | O_DIRECTORY);
	assert_true(dir >= 0);
	foreigners = fchownat(dir, "f", 4711, (gid_t)-1, 0) == 0 && fchown(dir, 4711, (gid_t)-1) == 0;
	pid = fork();
	if (pid == 0) {
		struct stat st;

		if (unshare(CLONE_NEWUSER) != 0 || fstat(dir, &st) != 0 || st.st_uid != geteuid())
			_exit(NOT_HERE);
		if (foreigners && (p2s_trust_dir(foreign, &why) >= 0 || p2s_trust_read(dir, "f", 16, 1, &len, &why) != NULL))
			_exit(BELIEVED);
		if (p2s_trust_dir(p->path, &why) < 0 || p2s_trust_read(p->dir, "f", 16, 1, &len, &why) == NULL)
			_exit(REFUSED);
		_exit(p2s_lock_take(&lock, p->dir, "boot", p2s_now_ns(), p2s_now_ns()) == P2S_LOCK_HELD ? RIGHT : REFUSED);
	}
	close(dir);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NOT_HERE)
		print_message("no user namespace of our own here\n");
	else
		assert_int_equal(WEXITSTATUS(status), RIGHT);
}

static void only_what_nobody_else_can_write_is_believed(void **state)
{
	struct place *p = *state;
	const char *why;
	size_t len;
	char path[128];
	char *text;

	tmp_write(p->path, "f", "text");
	text = p2s_trust_read(p->dir, "f", 16, 1, &len, &why);
	assert_string_equal(text, "text");
	free(text);
	assert_null(p2s_trust_read(p->dir, "f", 3, 1, &len, &why));
	assert_string_equal(why, "too long");
	snprintf(path, sizeof path, "%s/f", p->path);
	chmod(path, 0666);
	assert_null(p2s_trust_read(p->dir, "f", 16, 1, &len, &why));
	assert_string_equal(why, "others may write it");
	chmod(path, 0644);
	tmp_link(p->path, "l", "f");
	assert_null(p2s_trust_read(p->dir, "l", 16, 1, &len, &why));
	assert_string_equal(why, "a link");
	snprintf(path, sizeof path, "%s/fifo", p->path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_null(p2s_trust_read(p->dir, "fifo", 16, 1, &len, &why)); /* and does not wait for a writer */
	if (geteuid() == 0) {
		snprintf(path, sizeof path, "%s/f", p->path);
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_null(p2s_trust_read(p->dir, "f", 16, 1, &len, &why));
		assert_string_equal(why, "belongs to somebody else");
		text = p2s_trust_read(p->dir, "f", 16, 0, &len, &why);
		assert_string_equal(text, "text");
		free(text);
	}
	chmod(p->path, 0777);
	assert_int_equal(p2s_trust_dir(p->path, &why), -1);
	chmod(p->path, 0700);
	snprintf(path, sizeof path, "%s/l2", p->path);
	assert_int_equal(symlink(p->path, path), 0);
	assert_int_equal(p2s_trust_dir(path, &why), -1);
}

/* Changes one byte of a file in place. */
static void poke(int fd, size_t at, unsigned char byte)
{
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
}

/* Every bit of both files, on disk: the record is there as it was, or not at all. */
static void no_flipped_bit_on_disk_is_believed(void **state)
{
	struct place *p = *state;
	struct p2s_record a;
	struct p2s_record got;
	const char *why;
	char full[1500];
	size_t len;
	char *text;
	int fd;

	for (size_t i = 0; i < sizeof full; i++)
		full[i] = (char)(' ' + i * i % 90);
	full[sizeof full - 1] = '\0';
	make(&a, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(p2s_store_publish(p->dir, &a, 1, full), 1);
	text = p2s_trust_read(p->dir, "1.json", P2S_RECORD_MAX, 1, &len, &why);
	assert_non_null(text);
	fd = openat(p->dir, "1.json", O_WRONLY | O_CLOEXEC);
	for (size_t i = 0; i < 8 * len; i++) {
		poke(fd, i / 8, (unsigned char)text[i / 8] ^ (unsigned char)(1 << i % 8));
		if (p2s_store_newest(p->dir, &got, &why) || p2s_store_last_whole(p->dir, &got))
			fail_msg("bit %zu", i);
		poke(fd, i / 8, (unsigned char)text[i / 8]);
	}
	close(fd);
	free(text);
	assert_int_equal(p2s_store_newest(p->dir, &got, &why), 1);
	fd = openat(p->dir, got.full_name, O_WRONLY | O_CLOEXEC);
	for (size_t i = 0; i < 8 * (sizeof full - 1); i++) {
		poke(fd, i / 8, (unsigned char)full[i / 8] ^ (unsigned char)(1 << i % 8));
		text = p2s_store_full(p->dir, &got, &len);
		if (text != NULL)
			fail_msg("bit %zu of the full report", i);
		poke(fd, i / 8, (unsigned char)full[i / 8]);
	}
	text = p2s_store_full(p->dir, &got, &len);
	assert_string_equal(text, full);
	free(text);
	for (size_t i = sizeof full - 1; i-- > 0;) {
		assert_int_equal(ftruncate(fd, (off_t)i), 0);
		assert_null(p2s_store_full(p->dir, &got, &len));
	}
	close(fd);
	p2s_record_free(&got);
	p2s_record_free(&a);
}

/* A folder of which no list can be had has no highest number: a low one would be below what others read. */
static void no_list_no_number(void **state)
{
	struct place *p = *state;
	struct rlimit limit;
	struct rlimit none;
	struct p2s_record a;
	struct p2s_record got;
	const char *why;
	uint64_t n;

	make(&a, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_store_publish(p->dir, &a, 5, NULL), 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(p2s_store_highest(p->dir, &n), 0);
	assert_int_equal(p2s_store_newest(p->dir, &got, &why), 0);
	assert_int_equal(p2s_store_last_whole(p->dir, &got), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_string_equal(why, "the folder cannot be read");
	assert_int_equal(highest(p->dir), 5);
	p2s_record_free(&a);
}

/* A limit of file sizes costs the record, not the process. */
static void a_file_size_limit_is_no_signal(void **state)
{
	struct place *p = *state;
	struct p2s_lock lock;
	struct p2s_marker marker;
	struct p2s_record a;
	struct rlimit limit;
	struct rlimit none;
	char what[160];

	make(&a, P2PSAFE_VERDICT_OK);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(p2s_lock_take(&lock, p->dir, "boot", 0, 0), P2S_LOCK_HELD);
	assert_int_equal(p2s_marker_look(&marker, p->dir, 1, "boot", what, sizeof what), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&marker, "a", "b", "sm_store"), 0);
	assert_int_equal(p2s_store_publish(p->dir, &a, 1, "{\"full\":1}"), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(highest(p->dir), 0);
	assert_int_equal(p2s_marker_write(&marker, "a", "b", "sm_store"), 1);
	assert_int_equal(p2s_store_publish(p->dir, &a, 1, "{\"full\":1}"), 1);
	p2s_marker_end(&marker, 0);
	p2s_lock_release(&lock);
	p2s_record_free(&a);
}

/* An empty record: nothing older answers, and whoever publishes next still finds what is behind. */
static void stopped(void **state)
{
	struct place *p = *state;
	struct p2s_record a;
	struct p2s_record got;
	const char *why;

	make(&a, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_store_publish(p->dir, &a, 1, "{\"full\":1}"), 1);
	assert_int_equal(p2s_store_stop(p->dir, 2, 0), 1);
	assert_int_equal(p2s_store_newest(p->dir, &got, &why), 0);
	assert_int_equal(highest(p->dir), 2);
	assert_int_equal(p2s_store_last_whole(p->dir, &got), 1);
	assert_int_equal(got.generation, 1);
	p2s_record_free(&got);
	assert_int_equal(p2s_store_stop(p->dir, 2, 1), 1); /* somebody was first: nothing is taken away */
	assert_int_equal(highest(p->dir), 2);
	assert_int_equal(p2s_store_publish(p->dir, &a, 2, NULL), 0);
	assert_int_equal(p2s_store_publish(p->dir, &a, 3, NULL), 1);
	assert_int_equal(p2s_store_newest(p->dir, &got, &why), 1);
	p2s_record_free(&got);
	p2s_record_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_mask_hides_no_record, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(first_writer_wins, setup, teardown),
		cmocka_unit_test_setup_teardown(stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(a_broken_newest_one_is_no_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_report_that_was_changed_is_not_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(no_flipped_bit_on_disk_is_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(no_list_no_number, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_size_limit_is_no_signal, setup, teardown),
		cmocka_unit_test_setup_teardown(only_what_nobody_else_can_write_is_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(an_owner_without_a_name_is_not_us, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
