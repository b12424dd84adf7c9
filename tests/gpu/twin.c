#include "twin.h"

#include <stdio.h>
#include <string.h>

static const char *const side[TWIN_SIDES] = {"real", "simulated"};

int twin_expect(struct twin *t, int ok, const char *what, uint64_t detail)
{
	t->done++;
	if (ok)
		return 1;
	t->failed++;
	printf("FAIL %s (%llu)\n", what, (unsigned long long)detail);
	return 0;
}

static int judge_rc(struct twin *t, int s, int rc, int want, const char *what)
{
	char line[200];

	if (rc == want)
		return 1;
	snprintf(line, sizeof line, "%s: %s: rc %d, error %d at %s", what, side[s], rc, t->answer[s].cuda_error,
			 t->answer[s].where);
	return twin_expect(t, 0, line, 0);
}

int twin_ask(struct twin *t, const struct p2s_op_request *q, int want, const char *what)
{
	int good = 1;

	for (int s = 0; s < TWIN_SIDES; s++) {
		struct p2s_op_request copy = *q;

		good &= judge_rc(t, s, drive_ask(&t->drive[s], 0, &copy, -1, NULL, &t->answer[s]), want, what);
	}
	return good;
}

int twin_ask_go(struct twin *t, const struct p2s_op_request *q, int roles, const char *what)
{
	int good = 1;

	for (int s = 0; s < TWIN_SIDES; s++) {
		struct p2s_op_request copy = *q;

		drive_clear(&t->drive[s], 0);
		if (!drive_send(&t->drive[s], 0, &copy, -1) || (roles > 0 && !drive_go(&t->drive[s], 0, roles)))
			return twin_expect(t, 0, what, 0);
		good &= judge_rc(t, s, drive_receive(&t->drive[s], 0, NULL, &t->answer[s]), P2S_RC_OK, what);
	}
	return good;
}

void twin_fill(struct twin *t, uint32_t buf, uint64_t off, uint64_t len, uint64_t seed)
{
	struct p2s_op_request q = {.op = P2S_OP_FILL, .buf = buf, .off = off, .len = len, .seed = seed};

	twin_ask(t, &q, P2S_RC_OK, "fill");
}

static void whole(struct twin *t, uint32_t buf, uint32_t mode)
{
	struct p2s_op_request q = {.op = P2S_OP_HOST_COPY, .buf = buf, .buf2 = TWIN_HOST, .len = TWIN_BYTES, .mode = mode};

	twin_ask(t, &q, P2S_RC_OK, "host copy");
}

void twin_down(struct twin *t, uint32_t buf)
{
	whole(t, buf, 0);
}

void twin_up(struct twin *t, uint32_t buf)
{
	whole(t, buf, 1);
}

void twin_same_bytes(struct twin *t, const char *what)
{
	uint64_t i = 0;

	while (i < TWIN_BYTES && t->host[TWIN_REAL][i] == t->host[TWIN_SIM][i])
		i++;
	twin_expect(t, i == TWIN_BYTES, what, i);
}
