/* What a power loss leaves. A disk is played on which nothing is safe before it was synced: the content of a file from its
 * own sync on, a name from the sync of its folder on. After each step of a write the power goes, and the disk keeps as much
 * or as little of what was not synced as it likes. What is found then is the old answer, the new one, or none; and the marker
 * is there before anything risky may start. */
#define _GNU_SOURCE
#include "unit.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kept/marker.h"
#include "kept/store.h"
#include "kept/trust.h"
#include "rules/rules.h"
#include "trusted.h"

/* What became of a file or a name that was not synced. */
enum loss { KEPT, LOST, HALF, LOSSES }; /* HALF: the name stays, the content is cut in the middle */

#define FILES 16

static struct {
	int on;
	int dir; /* of the played disk */
	int steps; /* calls so far */
	int stop;  /* the power goes before this one; -1 never */
	enum loss content, names;
	struct {
		char name[64];
		ino_t ino;
		int content_safe, name_safe;
	} files[FILES];
	int count;
} disk;

static int find_ino(ino_t ino)
{
	for (int i = disk.count - 1; i >= 0; i--)
		if (disk.files[i].ino == ino)
			return i;
	return -1;
}

static ino_t ino_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static ino_t ino_at(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_ino : 0;
}

static void note(const char *name, ino_t ino)
{
	int same = find_ino(ino);

	if (disk.count == FILES)
		_exit(9);
	snprintf(disk.files[disk.count].name, sizeof disk.files[0].name, "%.63s", name);
	disk.files[disk.count].ino = ino;
	disk.files[disk.count++].content_safe = same >= 0 && disk.files[same].content_safe;
}

/* The machine stops here: what is not safe is lost, in the way that was chosen. */
static void power_goes(void)
{
	disk.on = 0;
	for (int i = 0; i < disk.count; i++) {
		struct stat st;

		if (ino_at(disk.dir, disk.files[i].name) != disk.files[i].ino)
			continue;
		if (!disk.files[i].name_safe && disk.names == LOST) {
			unlinkat(disk.dir, disk.files[i].name, 0);
		} else if (!disk.files[i].content_safe && disk.content != KEPT) {
			int fd = openat(disk.dir, disk.files[i].name, O_WRONLY | O_CLOEXEC);

			if (fd < 0 || fstat(fd, &st) != 0 || ftruncate(fd, disk.content == LOST ? 0 : st.st_size / 2) != 0)
				_exit(9);
			close(fd);
		}
	}
	_exit(0);
}

static void step(void)
{
	if (disk.on && disk.steps++ == disk.stop)
		power_goes();
}

#define REAL(name) \
	static __typeof__(&name) libc; \
	if (libc == NULL) \
	*(void **)&libc = dlsym(RTLD_NEXT, #name)

static void written(int fd)
{
	ino_t ino = disk.on ? ino_of(fd) : 0;

	for (int i = 0; i < disk.count && ino != 0; i++)
		if (disk.files[i].ino == ino)
			disk.files[i].content_safe = 0;
}

ssize_t write(int fd, const void *from, size_t size)
{
	REAL(write);
	step();
	written(fd);
	return libc(fd, from, size);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{
	REAL(pwrite);
	step();
	written(fd);
	return libc(fd, from, size, at);
}

int openat(int dir, const char *path, int flags, ...)
{
	REAL(openat);
	va_list more;
	mode_t bits = 0;
	int fd;

	va_start(more, flags);
	if (flags & O_CREAT)
		bits = (mode_t)va_arg(more, int);
	va_end(more);
	if (flags & O_CREAT)
		step();
	fd = libc(dir, path, flags, bits);
	if (disk.on && fd >= 0 && flags & O_CREAT)
		note(path, ino_of(fd));
	return fd;
}

int fsync(int fd)
{
	ino_t ino = ino_of(fd);

	step();
	for (int i = 0; disk.on && i < disk.count; i++) {
		if (disk.files[i].ino == ino)
			disk.files[i].content_safe = 1;
		if (ino == ino_of(disk.dir))
			disk.files[i].name_safe = 1;
	}
	return 0;
}

int linkat(int from, const char *old, int to, const char *name, int flags)
{
	REAL(linkat);
	int rc;

	step();
	rc = libc(from, old, to, name, flags);
	if (disk.on && rc == 0)
		note(name, ino_at(to, name));
	return rc;
}

int renameat(int from, const char *old, int to, const char *name)
{
	REAL(renameat);
	int rc;

	step();
	rc = libc(from, old, to, name);
	if (disk.on && rc == 0)
		note(name, ino_at(to, name));
	return rc;
}

int unlinkat(int dir, const char *name, int flags)
{
	REAL(unlinkat);
	step();
	return libc(dir, name, flags);
}

static void make(struct p2s_record *r, int32_t verdict)
{
	struct p2s_model m;
	struct p2s_host h = {0};

	unit_model(&m, 2, verdict);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(p2s_record_from_model(r, &m, &h, NULL), 1);
	p2s_model_free(&m);
}

static void start(const struct place *p, int stop, enum loss content, enum loss names)
{
	memset(&disk, 0, sizeof disk);
	disk.dir = p->dir;
	disk.stop = stop;
	disk.content = content;
	disk.names = names;
	disk.on = 1;
}

/* Publishes a veto over a permission. Exit status: 1 when it came through. */
static void replace(const struct place *p)
{
	struct p2s_record r;
	int32_t rc;

	disk.on = 0;
	make(&r, P2PSAFE_VERDICT_CORRUPT);
	disk.on = 1;
	rc = p2s_store_publish(p->dir, &r, 2, "{\"full\":2}");
	if (rc == 1)
		p2s_store_clean(p->dir, 2);
	p2s_record_free(&r);
	if (rc == 1 && disk.stop == disk.steps)
		power_goes(); /* right after it said that the record is there */
	_exit(rc == 1 ? 1 : 8);
}

static int in_child(void (*what)(const struct place *), const struct place *p)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		what(p);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_in_range(WEXITSTATUS(status), 0, 1);
	return WEXITSTATUS(status);
}

static void old_record(const struct place *p)
{
	struct p2s_record r;

	p2s_store_clear(p->dir);
	make(&r, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_store_publish(p->dir, &r, 1, "{\"full\":1}"), 1);
	p2s_record_free(&r);
}

static void a_record(void **state)
{
	struct place *p = *state;
	int found[3] = {0}; /* none, old, new */

	for (int loss = 0; loss < LOSSES * 2; loss++) {
		int came_through = 0;
		int stop;

		for (stop = 0; !came_through; stop++) {
			struct p2s_record r;
			const char *why;
			int named;

			old_record(p);
			start(p, stop, (enum loss)(loss % LOSSES), loss / LOSSES ? LOST : KEPT);
			came_through = in_child(replace, p);
			disk.on = 0;
			named = ino_at(p->dir, "2.json") != 0;
			if (!p2s_store_newest(p->dir, &r, &why)) {
				/* Only a name that stayed while its content went makes an answer absent, and that is synced before. */
				fail_msg("step %d, loss %d: %s", stop, loss, why);
			}
			assert_int_equal(p2s_record_worst(&r), named ? P2PSAFE_VERDICT_CORRUPT : P2PSAFE_VERDICT_OK);
			if (named) {
				size_t len;
				char *full = p2s_store_full(p->dir, &r, &len);

				assert_non_null(full);
				free(full);
			}
			assert_true(named || !came_through);
			found[named ? 2 : 1]++;
			p2s_record_free(&r);
		}
		assert_in_range(stop, 9, 20);
	}
	assert_true(found[1] > 20 && found[2] > 10);
}

/* Exit status 1: the first risky step may start now. */
static void mark(const struct place *p)
{
	struct p2s_marker m;
	char what[160];

	if (p2s_marker_look(&m, p->dir, 5, "boot-a", what, sizeof what) != P2S_MARKER_NONE ||
	    !p2s_marker_write(&m, "a", "b", "sm_store"))
		_exit(8);
	/* and the machine goes down in the middle of it */
	if (disk.stop >= disk.steps) {
		disk.stop = disk.steps;
		for (int i = 0; i < disk.count; i++)
			if (strcmp(disk.files[i].name, "marker") == 0 && disk.files[i].content_safe && disk.files[i].name_safe)
				_exit(1);
	}
	_exit(8);
}

static void a_marker(void **state)
{
	struct place *p = *state;

	for (int loss = 0; loss < LOSSES * 2; loss++) {
		int started = 0;
		int stop;

		for (stop = 0; !started; stop++) {
			struct p2s_marker m;
			char what[160];
			enum p2s_marker_state found;

			p2s_store_clear(p->dir);
			start(p, stop, (enum loss)(loss % LOSSES), loss / LOSSES ? LOST : KEPT);
			started = in_child(mark, p);
			disk.on = 0;
			found = p2s_marker_look(&m, p->dir, 5, "boot-b", what, sizeof what);
			/* Before, it may be there or not; whole or nothing. After, it is there. */
			assert_true(found == P2S_MARKER_EARLIER || (found == P2S_MARKER_NONE && !started));
		}
		assert_in_range(stop, 5, 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(a_record, setup, teardown),
	                                   cmocka_unit_test_setup_teardown(a_marker, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
