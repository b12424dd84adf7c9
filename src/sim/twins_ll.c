/* Twin of p2s_ll: messages that carry their flags. */
#include "core/word.h"
#include "sim/lock.h"
#include "sim/ring.h"
#include "sim/twins_wait.h"

#define MAX_WORDS (UINT64_C(1) << 16)
#define LINE_WORDS 16
#define CHUNK 64 /* words that the threads of a warp look at together */

enum { ARG_CTL, ARG_RES, ARG_DST, ARG_SRC, ARG_W_SEED, ARG_R_SEED, ARG_ROUNDS, ARG_WORDS, ARG_SLOT, ARG_MODE, ARG_PACE, ARG_MAX_NS,
	ARG_MAX_ITERS };

static struct sim_hit find(const struct sim_view *v, uint32_t op, uint64_t bytes)
{
	struct sim_transfer t = sim_view_transfer(v, op, 0, bytes);

	return sim_view_remote(v) ? sim_fault_find(v->host, &t) : (struct sim_hit){ NULL, 0, 8 };
}

static uint64_t word_of(const struct sim_kernel *k, uint64_t seed, uint64_t slot, uint64_t j)
{
	uint64_t w = p2s_word(seed, slot / 8 + j);

	return k->args[ARG_MODE] == P2S_LL_LINE ? w : (w & UINT32_MAX) | p2s_word(seed, slot / 8) >> 32 << 32;
}

static void pace(const struct sim_role *r, uint64_t round)
{
	uint64_t due = r->go_ns + round * r->kernel->args[ARG_PACE], now = sim_now();

	if (due > now + 100000)
		sim_sleep_ns(due - now - 50000);
}

static void writer(struct sim_role *r)
{
	const uint64_t *a = r->kernel->args;
	const struct sim_view *v = &r->view;
	struct sim_hit data = find(v, SIM_OP_SM_STORE, a[ARG_ROUNDS] * a[ARG_SLOT]);
	uint64_t k, j, words[LINE_WORDS];
	uint32_t n;

	if (sim_role_stopped(r, &data))
		return;
	for (k = 0; k < a[ARG_ROUNDS] && !sim_role_aborted(r); k++) {
		uint64_t slot = k * a[ARG_SLOT], seed = p2s_seed_epoch(a[ARG_W_SEED], (k + 1) & 2047);

		pace(r, k);
		for (j = 0; j < a[ARG_WORDS]; j += n) {
			for (n = 0; n < LINE_WORDS && j + n < a[ARG_WORDS]; n++)
				words[n] = word_of(r->kernel, seed, slot, j + n);
			sim_view_post_run(v, &data, slot + j * 8, words, n);
		}
		r->result.rounds_done = k + 1;
		if (__atomic_load_n(&v->host->rings[sim_pair(v->host, v->accessor, v->owner)].count, __ATOMIC_RELAXED) > SIM_RING / 4)
			sim_sleep_ns(20000);
	}
}

static void compare(struct sim_role *r, uint64_t at, uint64_t found, uint64_t want)
{
	if (found == want)
		r->result.payload_ok++;
	else
		sim_role_bad(r, at, found);
}

/* Looks once at words [j, j + n) of a slot: whole lines, or single words. seen[]: what was compared already. Returns how many
 * are still to come. */
static uint64_t look(struct sim_role *r, const struct sim_hit *data, uint64_t slot, uint64_t seed, uint64_t j, uint64_t n,
                     unsigned char *seen)
{
	uint64_t left = 0, i, o, step = r->kernel->args[ARG_MODE] == P2S_LL_LINE ? LINE_WORDS : 1;

	for (i = 0; i < n; i += step) {
		uint64_t last = j + i + step - 1, want = word_of(r->kernel, seed, slot, last), found;

		if (seen[i])
			continue;
		/* Pieces land from their first word to their last: who has seen the flag of a whole line may look at the rest. */
		found = sim_view_word(&r->view, data, slot + last * 8);
		if (step == 1 ? found >> 32 != want >> 32 : found != want) {
			left += step;
			continue;
		}
		seen[i] = 1;
		for (o = j + i; o < last; o++)
			compare(r, slot + o * 8, sim_view_word(&r->view, data, slot + o * 8), word_of(r->kernel, seed, slot, o));
		compare(r, slot + last * 8, found, want);
	}
	return left;
}

/* One round. 0: a bound was met. */
static int read_round(struct sim_role *r, const struct sim_hit *data, uint64_t k)
{
	const uint64_t *a = r->kernel->args;
	uint64_t slot = k * a[ARG_SLOT], seed = p2s_seed_epoch(a[ARG_R_SEED], (k + 1) & 2047), j, n, left;

	r->result.payload_ok = 0;
	for (j = 0; j < a[ARG_WORDS]; j += CHUNK) {
		unsigned char seen[CHUNK] = { 0 };

		n = a[ARG_WORDS] - j < CHUNK ? a[ARG_WORDS] - j : CHUNK;
		r->turns = 0;
		for (;;) {
			sim_ring_pump(r->view.host, r->view.owner);
			left = look(r, data, slot, seed, j, n, seen);
			if (!left)
				break;
			if (!sim_role_turn(r)) {
				r->result.flag_found = sim_view_word(&r->view, data, slot + j * 8);
				r->result.payload_bad = left;
				return 0;
			}
		}
	}
	r->result.payload_ok = 0;
	return 1;
}

static void reader(struct sim_role *r)
{
	const uint64_t *a = r->kernel->args;
	struct sim_hit data = find(&r->view, SIM_OP_SM_LOAD, a[ARG_ROUNDS] * a[ARG_SLOT]);
	uint64_t k;

	if (sim_role_stopped(r, &data))
		return;
	sim_role_looks(r, 1);
	for (k = 0; k < a[ARG_ROUNDS] && read_round(r, &data, k); k++)
		r->result.rounds_done = k + 1;
	sim_role_looks(r, 0);
}

static void body(struct sim_role *r)
{
	if (r->block == 0)
		writer(r);
	else
		reader(r);
}

int sim_twin_ll(struct sim_kernel *k)
{
	const uint64_t *a = k->args;
	uint64_t unit = a[ARG_MODE] == P2S_LL_LINE ? LINE_WORDS : 2;
	struct sim_role roles[2];
	uint64_t bytes;
	int i, rc;

	if (a[ARG_WORDS] > MAX_WORDS || a[ARG_WORDS] % unit || a[ARG_SLOT] % (unit * 8) || a[ARG_SLOT] > (UINT64_C(1) << 30) ||
	    a[ARG_ROUNDS] > (UINT64_C(1) << 24) || a[ARG_MODE] > P2S_LL_LINE)
		return CU_ILLEGAL_ADDRESS;
	bytes = a[ARG_ROUNDS] ? (a[ARG_ROUNDS] - 1) * a[ARG_SLOT] + a[ARG_WORDS] * 8 : 0;
	for (i = 0; i < 2; i++) {
		uint64_t ptr = a[ARG_DST + i];

		rc = sim_role_open(&roles[i], k, i, a[ARG_CTL], a[ARG_RES]);
		if (rc)
			return rc;
		roles[i].idle = !ptr;
		roles[i].max_ns = a[ARG_MAX_NS];
		roles[i].max_iters = a[ARG_MAX_ITERS];
		rc = ptr ? sim_kernel_view(k, ptr, bytes, &roles[i].view) : CU_OK;
		if (rc || ptr % (unit * 8))
			return CU_ILLEGAL_ADDRESS;
	}
	if (!roles[0].idle)
		sim_ring_enter(roles[0].view.host, roles[0].view.accessor, roles[0].view.owner);
	rc = sim_roles_run(roles, 2, body);
	if (!roles[0].idle && !rc)
		sim_ring_drain(roles[0].view.host, roles[0].view.accessor, roles[0].view.owner);
	if (!roles[0].idle)
		sim_ring_leave(roles[0].view.host, roles[0].view.accessor, roles[0].view.owner);
	k->ns += roles[0].result.elapsed_ns > roles[1].result.elapsed_ns ? roles[0].result.elapsed_ns : roles[1].result.elapsed_ns;
	return rc;
}
