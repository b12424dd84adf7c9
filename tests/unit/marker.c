/* No reboot loops. */
#define _GNU_SOURCE
#include "unit.h"

#include "kept/marker.h"
#include "kept/trust.h"
#include "tmpdir.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(life_of_a_marker)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
