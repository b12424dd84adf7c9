/* Frames: what was sent arrives, and nothing else is taken for a message. */
#include "unit.h"

#include "ipc/proto.h"

static void every_message_survives_the_wire(void **state)
{
	static unsigned char in[8192];
	static unsigned char out[8192];
	unsigned char frame[P2S_FRAME_MAX];

	(void)state;
	for (size_t i = 0; i < p2s_lib_table.count; i++) {
		const struct p2s_message *m = &p2s_lib_table.messages[i];
		size_t n;

		assert_true(m->size <= sizeof in);
		/* Letters everywhere: numbers take any bytes, strings are cut at their capacity. */
		memset(in, 'q', sizeof in);
		n = p2s_codec_encode(&p2s_lib_table, m->id, in, frame);
		assert_true(n > 0);
		assert_int_equal(p2s_codec_decode(&p2s_lib_table, frame, n, out, sizeof out), m->id);
		/* Again from what was decoded: the same bytes. */
		memcpy(in, out, sizeof in);
		{
			unsigned char again[P2S_FRAME_MAX];

			assert_int_equal(p2s_codec_encode(&p2s_lib_table, m->id, in, again), n);
			assert_memory_equal(again, frame, n);
		}
	}
}

static void damaged_frames_are_refused(void **state)
{
	struct p2s_lib_leg leg = {.src = 1, .dst = 2, .leg = 3, .mapping = 1, .verdict = 1, .note = "note"};
	union p2s_lib_any any;
	unsigned char frame[P2S_FRAME_MAX];
	size_t n = p2s_codec_encode(&p2s_lib_table, p2s_id_lib_leg, &leg, frame);

	(void)state;
	assert_true(n > 8);
	for (size_t cut = 0; cut < n; cut++)
		assert_int_equal(p2s_codec_decode(&p2s_lib_table, frame, cut, &any, sizeof any), 0);
	assert_int_equal(p2s_codec_decode(&p2s_lib_table, frame, n, &any, 8), 0);
	frame[0] ^= 1;
	assert_int_equal(p2s_codec_decode(&p2s_lib_table, frame, n, &any, sizeof any), 0);
	frame[0] ^= 1;
	frame[4] = 250; /* no such id */
	assert_int_equal(p2s_codec_decode(&p2s_lib_table, frame, n, &any, sizeof any), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_message_survives_the_wire),
	                                   cmocka_unit_test(damaged_frames_are_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
