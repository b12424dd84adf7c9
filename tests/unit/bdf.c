/* The spellings of a PCI address. */
#include "unit.h"

static void spellings(void **state)
{
	static const struct {
		const char *in, *out;
	} good[] = {{"0000:81:00.0", "0000:81:00.0"}, {"00000000:81:00.0", "0000:81:00.0"}, {"81:00.0", "0000:81:00.0"},
				{"0000:E1:00.0", "0000:e1:00.0"}, {"10000:01:1f.7", "10000:01:1f.7"},   {"0000:81:00", "0000:81:00.0"}};
	static const char *const bad[] = {"",  "0000:81:00.8", "0000:81:20.0",  "0000:81:00.0 ",
									  "x", "0000:81",      "0000:181:00.0", "-1:00.0"};
	struct p2psafe_bdf b;
	char text[P2S_BDF_TEXT];

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		assert_int_equal(p2s_bdf_parse(good[i].in, &b), 1);
		p2s_bdf_format(&b, text);
		assert_string_equal(text, good[i].out);
	}
	memset(&b, 0x5a, sizeof b);
	for (size_t i = 0; i < COUNT(bad); i++) {
		if (p2s_bdf_parse(bad[i], &b))
			fail_msg("\"%s\" was taken for an address", bad[i]);
		assert_int_equal(b.bus, 0x5a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(spellings)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
