/* Any bytes as frames of the two protocols: library and conductor, conductor and worker. What is accepted is one whole message, and
 * says the same when it is written again; what is not leaves nothing behind. */
#include "fuzz.h"
#include "helper/ops.h"
#include "ipc/proto.h"

union any {
	union p2s_lib_any lib;
	union p2s_op_any op;
	unsigned char bytes[sizeof(union p2s_lib_any) > sizeof(union p2s_op_any) ? sizeof(union p2s_lib_any) : sizeof(union p2s_op_any)];
};

/* Every string ends inside its array: encode() of a struct whose strings did not would be cut differently. */
static void check(const struct p2s_table *table, const unsigned char *frame, size_t len)
{
	static const union any none;
	static unsigned char again[P2S_FRAME_MAX];
	static union any first, second;
	const struct p2s_message *m;
	uint16_t id;
	size_t n;

	memset(&first, 0xa5, sizeof first);
	id = p2s_codec_decode(table, frame, len, &first, sizeof first);
	if (id == 0) {
		FUZZ_ASSERT(memcmp(&first, &none, sizeof first) == 0);
		return;
	}
	m = p2s_codec_find(table, id);
	FUZZ_ASSERT(m != NULL && m->id == id && m->size <= sizeof first);
	n = p2s_codec_encode(table, id, &first, again);
	FUZZ_ASSERT(n == len && memcmp(again, frame, n) == 0);
	FUZZ_ASSERT(p2s_codec_decode(table, again, n, &second, sizeof second) == id && memcmp(&first, &second, sizeof first) == 0);
	/* no room, no message */
	FUZZ_ASSERT(p2s_codec_decode(table, frame, len, &second, m->size - 1) == 0);
	FUZZ_ASSERT(p2s_codec_decode(table, frame, len - 1, &second, sizeof second) == 0);
}

/* First byte: which table, and whether the frame's header is put right so that its fields are reached. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static unsigned char frame[P2S_FRAME_MAX + 16];
	struct fuzz_in in = {bytes, size};
	uint32_t how = fuzz_number(&in, 1);
	const struct p2s_table *table = how & 1 ? &p2s_op_table : &p2s_lib_table;
	const struct p2s_message *m = &table->messages[(how >> 2) % table->count];
	size_t len;
	const uint8_t *rest = fuzz_bytes(&in, sizeof frame - 8, &len);

	if (how & 2) {
		frame[0] = 'P', frame[1] = '2', frame[2] = 'P', frame[3] = 'S';
		frame[4] = (unsigned char)m->id;
		frame[5] = (unsigned char)(m->id >> 8);
		frame[6] = (unsigned char)(len + 8);
		frame[7] = (unsigned char)((len + 8) >> 8);
		memcpy(frame + 8, rest, len);
		check(table, frame, len + 8);
	} else {
		check(&p2s_lib_table, rest, len);
		check(&p2s_op_table, rest, len);
	}
	return 0;
}
