/* Framed messages: a header of 8 bytes (magic, id, length) and the fields in the order of the .def file, little-endian,
 * strings and bytes with a 16-bit length. One packet of a SOCK_SEQPACKET socket is one frame. The decoder trusts
 * nothing: a frame that is short, long, of unknown id or with an over-long string is refused whole.
 *
 * A .def file is expanded by
 *     #define P2S_PROTO_FILE "ipc/proto.def"
 *     #define P2S_PROTO_NAME lib
 *     #include "ipc/codec_struct.h"    (structs p2s_<PROTO>_<message>, ids, in a header)
 *     #include "ipc/codec_table.h"     (the table p2s_<PROTO>_table, in one .c file)
 */
#ifndef P2S_IPC_CODEC_H
#define P2S_IPC_CODEC_H

#include <stddef.h>
#include <stdint.h>

#define P2S_FRAME_MAX 16384
#define P2S_FRAME_MAGIC UINT32_C(0x53503250) /* "P2PS" */
#define P2S_FRAME_FDS 1                      /* at most one descriptor travels with a frame */

enum p2s_field_kind { P2S_KIND_U32, P2S_KIND_I32, P2S_KIND_U64, P2S_KIND_STR, P2S_KIND_BYTES };

/* Offsets are not stored: the codec walks the struct with C's own layout rule (each member at the next multiple of
 * its alignment). A test compares the end of that walk with sizeof. */
struct p2s_field {
	uint16_t kind;
	uint16_t cap; /* STR, BYTES: capacity of the array */
};

struct p2s_message {
	uint16_t id;
	uint16_t field_count;
	uint32_t size; /* of the struct */
	const char *name;
	const struct p2s_field *fields;
};

struct p2s_table {
	const struct p2s_message *messages;
	size_t count;
};

const struct p2s_message *p2s_codec_find(const struct p2s_table *table, uint16_t id);
/* Writes the frame of message id with the fields of *in to out (P2S_FRAME_MAX bytes). Returns its length, 0 if the id
 * is unknown or it does not fit. Strings are cut at their capacity. */
size_t p2s_codec_encode(const struct p2s_table *table, uint16_t id, const void *in, unsigned char *out);
/* Reads a frame into *out (capacity cap bytes; zeroed first). Returns the id, or 0 if the frame is not exactly one
 * valid message or the struct does not fit. */
uint16_t p2s_codec_decode(const struct p2s_table *table, const unsigned char *frame, size_t len, void *out, size_t cap);

enum p2s_io { P2S_IO_OK = 0, P2S_IO_TIMEOUT, P2S_IO_EOF, P2S_IO_BAD, P2S_IO_ERROR };

/* Sends one message with an optional descriptor (fd -1: none), with MSG_NOSIGNAL, waiting at most until deadline_ns
 * (CLOCK_BOOTTIME, absolute; 0: not at all). */
enum p2s_io p2s_codec_send(int sock, const struct p2s_table *table, uint16_t id, const void *in, int fd, uint64_t deadline_ns);
/* Receives one message into *out. *id gets the message id. *fd (may be NULL) gets a descriptor with close-on-exec, or
 * -1; without an fd argument descriptors are closed. */
enum p2s_io p2s_codec_recv(int sock, const struct p2s_table *table, uint16_t *id, void *out, size_t cap, int *fd,
                           uint64_t deadline_ns);
/* CLOCK_BOOTTIME in ns: goes on while the machine sleeps, never set back. */
uint64_t p2s_now_ns(void);

#endif
