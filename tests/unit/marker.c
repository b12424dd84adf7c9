/* No reboot loops. */
#define _GNU_SOURCE
#include "unit.h"

#include "kept/marker.h"
#include "kept/trust.h"
#include "trusted.h"

static enum p2s_marker_state look(struct p2s_marker *m, int dir, uint64_t key, const char *boot, const char *step)
{
	char what[160];
	enum p2s_marker_state s = p2s_marker_look(m, dir, key, boot, what, sizeof what);

	if (step != NULL)
		assert_string_equal(what, step);
	return s;
}

static void life_of_a_marker(void **state)
{
	char path[64];
	struct p2s_marker m;
	const char *why;
	int dir;

	(void)state;
	tmp_make(path, sizeof path);
	dir = p2s_trust_dir(path, &why);
	assert_int_equal(look(&m, dir, 5, "boot-a", ""), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&m, "a", "b", "sm_store"), 1);
	assert_int_equal(p2s_marker_write(&m, "c", "d", "mp_pull"), 1);
	/* the machine restarts here: another boot id finds the last step */
	{
		struct p2s_marker later;

		assert_int_equal(look(&later, dir, 5, "boot-b", "c>d mp_pull"), P2S_MARKER_EARLIER);
		assert_int_equal(look(&later, dir, 6, "boot-b", NULL), P2S_MARKER_NONE);
	}
	/* the run is gone, the machine is not: one more run, then none */
	p2s_marker_end(&m, 1);
	assert_int_equal(look(&m, dir, 5, "boot-a", "c>d mp_pull"), P2S_MARKER_ONE);
	assert_int_equal(p2s_marker_write(&m, "a", "b", "sm_store"), 1);
	p2s_marker_end(&m, 1);
	assert_int_equal(look(&m, dir, 5, "boot-a", "a>b sm_store"), P2S_MARKER_TWO);
	/* a run that was told to go on and ended well takes it away */
	assert_int_equal(p2s_marker_write(&m, "a", "b", "sm_store"), 1);
	p2s_marker_end(&m, 0);
	assert_int_equal(look(&m, dir, 5, "boot-a", ""), P2S_MARKER_NONE);
	tmp_write(path, "marker", "garbage");
	assert_int_equal(look(&m, dir, 5, "boot-a", NULL), P2S_MARKER_BROKEN);
	assert_int_equal(look(&m, -1, 5, "boot-a", ""), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&m, "a", "b", "c"), 0);
	close(dir);
	tmp_remove(path);
}

static enum p2s_marker_state as(struct p2s_marker *m, enum p2s_marker_kind kind, const struct place *p, const char *boot)
{
	char what[160];

	return p2s_marker_look_as(m, kind, p->dir, 5, boot, what, sizeof what);
}

static enum p2s_marker_state peek(const struct place *p, const char *boot)
{
	char what[160] = "";

	return p2s_marker_peek(P2S_MARKER_NONE, -1, p->dir, 5, boot, what, sizeof what);
}

/* A run beside a soak neither counts its marker nor takes it away. */
static void a_run_beside_a_soak(void **state)
{
	struct place *p = *state;
	struct p2s_marker soak, second, run, later;

	assert_int_equal(as(&soak, P2S_MARKER_SOAK, p, "boot-a"), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&soak, "a", "b", "sweep"), 1);
	assert_int_equal(as(&second, P2S_MARKER_SOAK, p, "boot-a"), P2S_MARKER_BUSY);
	assert_int_equal(p2s_marker_write(&second, "a", "b", "sweep"), 0);
	p2s_marker_end(&second, 0);
	assert_int_equal(as(&run, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_NONE);
	assert_int_equal(peek(p, "boot-a"), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&run, "a", "b", "sm_store"), 1);
	p2s_marker_end(&run, 0);
	/* the machine restarts here, and a run of either kind finds the marker of the soak */
	p2s_marker_end(&soak, 1); /* the lock goes with the process */
	assert_int_equal(as(&later, P2S_MARKER_RUN, p, "boot-b"), P2S_MARKER_EARLIER);
	assert_int_equal(as(&later, P2S_MARKER_SOAK, p, "boot-b"), P2S_MARKER_EARLIER);
	assert_int_equal(peek(p, "boot-b"), P2S_MARKER_EARLIER);
	/* in the same boot it counts like one of its own, and goes with the run that ends well */
	assert_int_equal(as(&run, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_ONE);
	assert_int_equal(p2s_marker_write(&run, "a", "b", "sm_store"), 1);
	assert_int_equal(as(&later, P2S_MARKER_SIMULATED, p, "boot-b"), P2S_MARKER_NONE);
	p2s_marker_end(&run, 1);
	assert_int_equal(as(&run, P2S_MARKER_SOAK, p, "boot-a"), P2S_MARKER_TWO);
	assert_int_equal(p2s_marker_write(&run, "a", "b", "sm_store"), 1);
	p2s_marker_end(&run, 0);
	assert_int_equal(as(&run, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_NONE);
}

/* One of each kind are two. */
static void one_of_each(void **state)
{
	struct place *p = *state;
	struct p2s_marker soak, run;

	assert_int_equal(as(&soak, P2S_MARKER_SOAK, p, "boot-a"), P2S_MARKER_NONE);
	assert_int_equal(as(&run, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&soak, "a", "b", "sweep"), 1);
	assert_int_equal(p2s_marker_write(&run, "c", "d", "sm_store"), 1);
	p2s_marker_end(&soak, 1);
	p2s_marker_end(&run, 1);
	assert_int_equal(peek(p, "boot-a"), P2S_MARKER_TWO);
	assert_int_equal(as(&run, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_TWO);
	tmp_write(p->path, "soak-marker", "garbage");
	assert_int_equal(as(&run, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_BROKEN);
	assert_int_equal(peek(p, "boot-a"), P2S_MARKER_BROKEN);
}

/* Each folder has one of a run of this boot: together they are two. The same folder under another name has one only. */
static void one_in_each_folder(void **state)
{
	struct place *p = *state;
	char what[160] = "a>b sm_store";
	struct p2s_marker run;
	char path[100];
	int again;

	assert_int_equal(as(&run, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_peek(P2S_MARKER_ONE, -1, p->dir, 5, "boot-a", what, sizeof what), P2S_MARKER_ONE);
	assert_int_equal(p2s_marker_write(&run, "c", "d", "sm_load"), 1);
	p2s_marker_end(&run, 1);
	assert_string_equal(what, "a>b sm_store");
	assert_int_equal(p2s_marker_peek(P2S_MARKER_ONE, -1, p->dir, 5, "boot-a", what, sizeof what), P2S_MARKER_TWO);
	assert_string_equal(what, "c>d sm_load");
	assert_int_equal(p2s_marker_peek(P2S_MARKER_NONE, -1, p->dir, 5, "boot-a", what, sizeof what), P2S_MARKER_ONE);
	assert_int_equal(p2s_marker_peek(P2S_MARKER_EARLIER, -1, p->dir, 5, "boot-a", what, sizeof what), P2S_MARKER_EARLIER);
	assert_int_equal(p2s_marker_peek(P2S_MARKER_ONE, -1, p->dir, 6, "boot-a", what, sizeof what),
					 P2S_MARKER_ONE); /* another host */
	snprintf(path, sizeof path, "%s/.", p->path);
	again = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(again >= 0);
	assert_int_equal(p2s_marker_peek(P2S_MARKER_ONE, again, p->dir, 5, "boot-a", what, sizeof what), P2S_MARKER_ONE);
	close(again);
}

/* A simulated test writes and removes a file of its own. */
static void simulated(void **state)
{
	struct place *p = *state;
	struct p2s_marker real, sim;

	assert_int_equal(as(&real, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&real, "a", "b", "sm_store"), 1);
	p2s_marker_end(&real, 1);
	assert_int_equal(as(&sim, P2S_MARKER_SIMULATED, p, "boot-b"), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&sim, "a", "b", "sm_store"), 1);
	p2s_marker_end(&sim, 0);
	assert_int_equal(as(&real, P2S_MARKER_RUN, p, "boot-b"), P2S_MARKER_EARLIER);
	assert_int_equal(as(&sim, P2S_MARKER_SIMULATED, p, "boot-b"), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&sim, "a", "b", "sm_store"), 1);
	p2s_marker_end(&sim, 1);
	assert_int_equal(as(&sim, P2S_MARKER_SIMULATED, p, "boot-c"), P2S_MARKER_EARLIER);
	assert_int_equal(as(&real, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_ONE);
}

/* Nobody knows which boot this is, or which it was. */
static void a_boot_without_a_name(void **state)
{
	static const char *const boots[][2] = {{"", ""}, {"boot-a", ""}, {"", "boot-a"}};
	struct place *p = *state;
	struct p2s_marker m;

	for (size_t i = 0; i < COUNT(boots); i++) {
		assert_int_equal(as(&m, P2S_MARKER_RUN, p, boots[i][0]), P2S_MARKER_NONE);
		assert_int_equal(p2s_marker_write(&m, "a", "b", "sm_store"), 1);
		p2s_marker_end(&m, 1);
		assert_int_equal(as(&m, P2S_MARKER_RUN, p, boots[i][1]), P2S_MARKER_EARLIER);
		assert_int_equal(p2s_marker_write(&m, "a", "b", "sm_store"), 1);
		p2s_marker_end(&m, 0);
	}
}

/* Somebody clears the folder, or puts another file there, while the test goes on: before the next step the marker is back,
 * and at the end nothing goes that is not ours. */
static void taken_away(void **state)
{
	struct place *p = *state;
	struct p2s_marker m, later;

	assert_int_equal(as(&m, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&m, "a", "b", "sm_store"), 1);
	assert_int_equal(unlinkat(p->dir, "marker", 0), 0);
	assert_int_equal(p2s_marker_write(&m, "a", "b", "mp_push"), 1);
	assert_int_equal(as(&later, P2S_MARKER_RUN, p, "boot-b"), P2S_MARKER_EARLIER);
	assert_int_equal(as(&later, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_ONE); /* it was one run all the time */
	assert_int_equal(unlinkat(p->dir, "marker", 0), 0);
	tmp_write(p->path, "marker", "somebody else's");
	p2s_marker_end(&m, 0);
	assert_int_equal(as(&later, P2S_MARKER_RUN, p, "boot-b"), P2S_MARKER_BROKEN);
}

/* Another user must be able to read what root left. */
static void under_any_mask(void **state)
{
	struct place *p = *state;
	struct p2s_marker m;
	struct stat st;
	mode_t old = umask(0777);

	assert_int_equal(as(&m, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_NONE);
	assert_int_equal(p2s_marker_write(&m, "a", "b", "sm_store"), 1);
	umask(old);
	p2s_marker_end(&m, 1);
	assert_int_equal(fstatat(p->dir, "marker", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(peek(p, "boot-b"), P2S_MARKER_EARLIER);
}

/* Whatever lies there instead of a marker forbids, and nobody waits for it. */
static void no_file(void **state)
{
	struct place *p = *state;
	struct p2s_marker m;
	char path[128];

	snprintf(path, sizeof path, "%s/marker", p->path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(as(&m, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_BROKEN);
	assert_int_equal(unlink(path), 0);
	tmp_link(p->path, "marker", "nowhere");
	assert_int_equal(as(&m, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_BROKEN);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(as(&m, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_BROKEN);
	assert_int_equal(p2s_marker_write(&m, "a", "b", "sm_store"), 0);
	assert_int_equal(rmdir(path), 0);
	tmp_write(p->path, "marker", "");
	assert_int_equal(truncate(path, (off_t)1 << 40), 0); /* sparse */
	assert_int_equal(as(&m, P2S_MARKER_RUN, p, "boot-a"), P2S_MARKER_BROKEN);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(life_of_a_marker),
									   T(a_run_beside_a_soak),
									   T(one_of_each),
									   T(one_in_each_folder),
									   T(simulated),
									   T(a_boot_without_a_name),
									   T(taken_away),
									   T(under_any_mask),
									   T(no_file)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
