/* Whose folders are looked into, and which one is written. */
#define _GNU_SOURCE
#include "unit.h"

#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "kept/place.h"
#include "tmpdir.h"

#define SOMEBODY 12345
#define NOBODY 65534

struct place {
	char path[64];
	char below[96]; /* the folder that would be used */
};

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof *p);

	tmp_make(p->path, sizeof p->path);
	snprintf(p->below, sizeof p->below, "%s/p2psafe", p->path);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;

	tmp_remove(p->path);
	free(p);
	return 0;
}

/* What the user's own place, the second, is worth; the system's is the first. */
static int32_t usable(const struct p2s_request *r, const char **why)
{
	static struct p2s_places p;
	int32_t fd;

	p2s_places_open(&p, r, 0);
	fd = p.count > 1 ? p.place[1].fd : -2;
	*why = p.count > 1 ? p.place[1].why : "";
	p2s_places_close(&p);
	return fd >= 0 ? 1 : fd + 1; /* 0 not usable, -1 not even looked at */
}

static void environment(void **state)
{
	static const char *const no_folders[] = {"", "relative/cache", "./x"};
	const struct place *p = *state;
	struct p2s_request r = {.xdg_cache = (char *)(uintptr_t)p->path};
	struct p2s_places places;
	const char *why;

	assert_int_equal(usable(&r, &why), 0);
	assert_string_equal(why, "absent");
	assert_int_equal(mkdir(p->below, 0700), 0);
	assert_int_equal(usable(&r, &why), 1);
	assert_int_equal(chmod(p->below, 0770), 0);
	assert_int_equal(usable(&r, &why), 0);
	assert_string_equal(why, "others may write it");
	assert_int_equal(chmod(p->below, 0707), 0);
	assert_int_equal(usable(&r, &why), 0);
	assert_int_equal(rmdir(p->below), 0);
	tmp_link(p->path, "p2psafe", "/");
	assert_int_equal(usable(&r, &why), 0);
	assert_string_equal(why, "a link or no folder");
	assert_int_equal(unlink(p->below), 0);
	tmp_write(p->path, "p2psafe", "");
	assert_int_equal(usable(&r, &why), 0);
	/* a relative one is as good as none, and there is no home */
	for (size_t i = 0; i < COUNT(no_folders); i++) {
		r.xdg_cache = (char *)(uintptr_t)no_folders[i];
		assert_int_equal(usable(&r, &why), -1);
	}
	/* a simulated host has no place but the one it is given */
	r.simulated = 1;
	p2s_places_open(&places, &r, 1);
	assert_int_equal(places.count, 0);
	assert_int_equal(places.write, -1);
	p2s_places_close(&places);
}

/* XDG_CACHE_HOME or HOME of another user, as `sudo` leaves them: neither read nor written, also by root. */
static void of_another_user(void **state)
{
	const struct place *p = *state;
	struct p2s_request r = {.xdg_cache = (char *)(uintptr_t)p->path};
	const char *why;

	if (geteuid() != 0)
		skip(); /* only root can give a folder away */
	assert_int_equal(mkdir(p->below, 0700), 0);
	assert_int_equal(chown(p->below, SOMEBODY, SOMEBODY), 0);
	assert_int_equal(usable(&r, &why), 0);
	assert_string_equal(why, "belongs to somebody else");
	/* what others may do above it makes it no better and no worse */
	assert_int_equal(chmod(p->path, 0777), 0);
	assert_int_equal(usable(&r, &why), 0);
	assert_int_equal(chown(p->below, 0, 0), 0);
	assert_int_equal(usable(&r, &why), 1);
}

/* A user reads what root left in the user's own path, and cannot write there; what belongs to a third one is not read. */
static int as_nobody(const struct place *p)
{
	struct p2s_request r = {.xdg_cache = (char *)(uintptr_t)p->path};
	struct p2s_places places;
	int bad;

	if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
		return 9;
	p2s_places_open(&places, &r, 1);
	bad = places.count != 2 || places.place[1].fd < 0 || places.write != -1 || places.why[0] == '\0';
	p2s_places_close(&places);
	return bad;
}

static void of_root(void **state)
{
	const struct place *p = *state;
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(p->below, 0755), 0);
	assert_int_equal(chmod(p->path, 0755), 0);
	pid = fork();
	if (pid == 0)
		_exit(as_nobody(p));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Root's folders are for all, also where its mask is narrow (027 and 077 are what hardening guides ask for); a user's are the user's. */
static void whatever_the_mask(void **state)
{
	const struct place *p = *state;
	char dir[128];
	struct p2s_request r = {.cache_dir = dir};
	struct p2s_places places;
	mode_t wanted = geteuid() == 0 ? 0755 : 0700;
	struct stat st;
	mode_t old;

	snprintf(dir, sizeof dir, "%s/below", p->below);
	old = umask(077);
	p2s_places_open(&places, &r, 1);
	umask(old);
	assert_int_equal(places.write, 0);
	p2s_places_close(&places);
	assert_int_equal(stat(p->below, &st), 0);
	assert_int_equal(st.st_mode & 0777, wanted);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, wanted);
}

static long kind; /* of every file system; 0 as it is */

int statfs(const char *path, struct statfs *out)
{
	int rc = (int)syscall(SYS_statfs, path, out);

	if (rc == 0 && kind != 0)
		out->f_type = kind;
	return rc;
}

/* What other machines may see is divided, whether the folder is there yet or not; the folder above counts as well. */
static void of_several_machines(void **state)
{
	static const struct {
		long kind;
		int divided;
	} rows[] = {{0xEF53, 0}, {0x01021994, 0}, {0x6969 /* NFS */, 1}, {0x0BD00BD0 /* Lustre */, 1}, {0x65735546 /* FUSE */, 1}, {0x1234567, 1}};
	const struct place *p = *state;
	struct p2s_request r = {.cache_dir = (char *)(uintptr_t)p->below};
	struct p2s_places places;
	struct utsname u;
	char on[200];

	assert_int_equal(uname(&u), 0);
	snprintf(on, sizeof on, "%s/on-%s", p->below, u.nodename);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const char *want = rows[i].divided ? on : p->below;

		kind = rows[i].kind;
		for (int make = 0; make < 2; make++) {
			p2s_places_open(&places, &r, make);
			assert_int_equal(places.write, 0);
			assert_string_equal(places.place[0].dir, want);
			assert_int_equal(places.place[0].fd >= 0, make);
			p2s_places_close(&places);
		}
		p2s_places_open(&places, &r, 0);
		assert_true(places.place[0].fd >= 0);
		p2s_places_close(&places);
		tmp_remove(p->below);
	}
	/* others may write above it */
	assert_int_equal(mkdir(p->below, 0700), 0);
	assert_int_equal(mkdir(on, 0700), 0);
	assert_int_equal(chmod(p->below, 0777), 0);
	p2s_places_open(&places, &r, 1);
	assert_int_equal(places.place[0].fd, -1);
	assert_int_equal(places.write, -1);
	assert_string_equal(places.place[0].why, "others may write it");
	p2s_places_close(&places);
	kind = 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(environment), T(of_another_user), T(of_root), T(whatever_the_mask), T(of_several_machines)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
