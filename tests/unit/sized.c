/* Structs of older and newer callers. */
#include "unit.h"

#include "core/sized.h"

struct own {
	size_t size;
	uint64_t a;
	uint64_t b;
};

struct newer {
	size_t size;
	uint64_t a;
	uint64_t b;
	uint64_t c;
};

static void in_takes_what_an_older_caller_knows(void **state)
{
	struct {
		size_t size;
		uint64_t a;
	} old = {sizeof old, 7};
	struct own o = {0};

	(void)state;
	assert_int_equal(p2s_sized_in(&o, sizeof o, &old), 0);
	assert_int_equal(o.a, 7);
	assert_int_equal(o.b, 0);
	assert_int_equal(o.size, sizeof o);
}

static void in_refuses_what_only_a_newer_caller_knows(void **state)
{
	struct newer n = {sizeof n, 1, 2, 0};
	struct own o = {0};

	(void)state;
	assert_int_equal(p2s_sized_in(&o, sizeof o, &n), 0);
	n.c = 1;
	assert_int_equal(p2s_sized_in(&o, sizeof o, &n), P2PSAFE_E_NEWER);
}

static void absurd_sizes_are_refused(void **state)
{
	struct newer n = {0, 1, 2, 3};
	struct own o = {0};

	(void)state;
	assert_int_equal(p2s_sized_in(&o, sizeof o, &n), P2PSAFE_E_SIZE);
	assert_int_equal(p2s_sized_out(&n, &o, sizeof o), P2PSAFE_E_SIZE);
	n.size = 7;
	assert_int_equal(p2s_sized_in(&o, sizeof o, &n), P2PSAFE_E_SIZE);
	n.size = P2S_SIZED_MAX + 1;
	assert_int_equal(p2s_sized_in(&o, sizeof o, &n), P2PSAFE_E_SIZE);
	assert_int_equal(p2s_sized_in(&o, sizeof o, NULL), 0);
	assert_int_equal(p2s_sized_out(NULL, &o, sizeof o), P2PSAFE_E_INVALID);
}

static void out_fills_and_zeroes(void **state)
{
	struct newer n = {sizeof n, 1, 2, 3};
	struct own o = {99, 10, 20};
	struct {
		size_t size;
		uint64_t a;
		uint64_t guard;
	} old = {sizeof old - 8, 1, 77};

	(void)state;
	assert_int_equal(p2s_sized_out(&n, &o, sizeof o), 0);
	assert_int_equal(n.size, sizeof n);
	assert_int_equal(n.a, 10);
	assert_int_equal(n.b, 20);
	assert_int_equal(n.c, 0);
	assert_int_equal(p2s_sized_out(&old, &o, sizeof o), 0);
	assert_int_equal(old.a, 10);
	assert_int_equal(old.guard, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(in_takes_what_an_older_caller_knows),
	                                   cmocka_unit_test(in_refuses_what_only_a_newer_caller_knows),
	                                   cmocka_unit_test(absurd_sizes_are_refused), cmocka_unit_test(out_fills_and_zeroes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
