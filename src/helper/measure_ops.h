/* What the operations of the measuring share between conductor and workers: see P2S_OP_SPEED_INIT and on in ops.h. */
#ifndef P2S_HELPER_MEASURE_OPS_H
#define P2S_HELPER_MEASURE_OPS_H

#include <stdint.h>

#define P2S_SAMPLES_MAX 7

/* SPEED: what moves. */
enum {
	P2S_SPEED_COPY = 0,      /* copy engine: buf2 to buf */
	P2S_SPEED_PUMP = 1,      /* p2s_pump: buf2 to buf */
	P2S_SPEED_TO_HOST = 2,   /* buf (device) to buf2 (host) */
	P2S_SPEED_FROM_HOST = 3, /* buf2 (host) to buf (device) */
	P2S_SPEED_HOST_BOTH = 4  /* both at once: the device's upper half of len to the host, the lower from there */
};

enum { P2S_LATENCY_CHASE = 0, P2S_LATENCY_ISSUE = 1 };

/* The sizes of the size tables: powers of two, and 12 KiB, which is no power of two and what small all-reduces send. */
#define P2S_ROWS 18
static inline uint64_t p2s_row_bytes(unsigned row)
{
	return row == 2 ? UINT64_C(12288) : UINT64_C(4096) << (row < 2 ? row : row - 1);
}

/* ROWS: one per row; 0 not measured. */
struct p2s_row {
	uint64_t alone_ns; /* one transfer, nothing before or behind it */
	uint64_t each_ns;  /* one of many in a row */
};

/* STAGE: one per row. wall_*: by the CPU's clock, from the sender's start to the receiver's having all of it (receiver only; 0
 * not measured). device_*: of this side's copies alone, by its stream. */
struct p2s_stage_row {
	uint64_t wall_alone_ns;
	uint64_t wall_each_ns;
	uint64_t device_alone_ns;
	uint64_t device_each_ns;
};

/* The ring of a staged transfer in shared host memory. Sender and receiver are two processes that only poll. */
#define P2S_STAGE_DEPTH 4
#define P2S_STAGE_SLOT (UINT64_C(2) << 20)
#define P2S_STAGE_HEAD 4096
#define P2S_STAGE_BYTES (P2S_STAGE_HEAD + P2S_STAGE_DEPTH * P2S_STAGE_SLOT)

struct p2s_stage_line {
	volatile uint64_t word;
	uint64_t unused[15];
};

struct p2s_stage_head {
	struct p2s_stage_line party;    /* written by the receiver: it is there; the sender waits for that */
	struct p2s_stage_line produced; /* by the sender: chunks put into the ring since it was made */
	struct p2s_stage_line consumed; /* by the receiver: chunks taken out of it */
	struct p2s_stage_line start_ns; /* by the sender, CLOCK_BOOTTIME: when it began the transfer */
	struct p2s_stage_line stop;     /* not 0: one side gave up */
};

/* A transfer travels in chunks, so that both halves of the way overlap: small ones whole, large ones in slots. */
static inline uint64_t p2s_stage_chunk(uint64_t bytes)
{
	uint64_t quarter = bytes / 4;

	if (bytes <= UINT64_C(256) << 10)
		return bytes;
	return quarter < UINT64_C(256) << 10 ? UINT64_C(256) << 10 : quarter > P2S_STAGE_SLOT ? P2S_STAGE_SLOT : quarter;
}

_Static_assert(sizeof(struct p2s_stage_head) <= P2S_STAGE_HEAD, "the head is a page");
_Static_assert(P2S_ROWS * sizeof(struct p2s_stage_row) <= 1024, "rows travel in answer.samples");

#endif
