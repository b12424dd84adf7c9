/* Two workers that get the same requests: one on a real GPU, one on the simulated driver. */
#ifndef P2S_TESTS_TWIN_H
#define P2S_TESTS_TWIN_H

#include "worker_drive.h"

#define TWIN_BYTES (UINT64_C(4) << 20)
#define TWIN_A P2S_BUF(0, 1)
#define TWIN_B P2S_BUF(0, 2)
#define TWIN_HOST P2S_BUF(0, 3)

enum { TWIN_REAL, TWIN_SIM, TWIN_SIDES };

struct twin {
	struct drive drive[TWIN_SIDES];
	unsigned char *host[TWIN_SIDES]; /* TWIN_HOST of each side */
	struct p2s_op_answer answer[TWIN_SIDES];
	int failed; /* how many comparisons failed */
	int done;
};

/* Asks both sides and keeps the answers. Complains unless both rc are want. */
int twin_ask(struct twin *t, const struct p2s_op_request *q, int want, const char *what);
/* The same for operations with the handshake: raises go on both sides. */
int twin_ask_go(struct twin *t, const struct p2s_op_request *q, int roles, const char *what);
void twin_fill(struct twin *t, uint32_t buf, uint64_t off, uint64_t len, uint64_t seed);
/* Brings a buffer into host[] on both sides, or the other way. */
void twin_down(struct twin *t, uint32_t buf);
void twin_up(struct twin *t, uint32_t buf);
/* Complains when ok is 0. Returns ok. */
int twin_expect(struct twin *t, int ok, const char *what, uint64_t detail);
/* Both sides have the same bytes (after twin_down). */
void twin_same_bytes(struct twin *t, const char *what);

/* What one role (0 writer, 1 reader) of a side answered; both sides' compared, but for what is the machine's own. */
struct p2s_role_result twin_role(const struct twin *t, int s, int which);
void twin_compare_role(struct twin *t, int which, const char *what);

void twin_fill_cases(struct twin *t);
void twin_check_cases(struct twin *t);
void twin_load_cases(struct twin *t);
void twin_mp_cases(struct twin *t);
void twin_tear_cases(struct twin *t);
void twin_atomic_cases(struct twin *t);
void twin_wide_cases(struct twin *t);
void twin_ll_cases(struct twin *t);
void twin_measure_begin(struct twin *t); /* before: */
void twin_gate_cases(struct twin *t);
void twin_pump_cases(struct twin *t);
void twin_chase_cases(struct twin *t);
void twin_issue_cases(struct twin *t);
void twin_pong_cases(struct twin *t);

#endif
