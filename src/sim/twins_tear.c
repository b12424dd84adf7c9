/* Twins of p2s_tear and p2s_atomic. */
#include "core/word.h"
#include "sim/lock.h"
#include "sim/ring.h"
#include "sim/twins_wait.h"

#define MAX_WORDS (UINT64_C(1) << 16)
#define RUN 64
#define NAP_TURNS 64
#define MEET_TURNS 64               /* first stores of the tearing writer wait for the reader to look */

enum { ARG_CTL, ARG_RES, ARG_DST, ARG_SRC, ARG_WORDS, ARG_SEED_A, ARG_SEED_B, ARG_ITERS, ARG_MAX_NS, ARG_MAX_ITERS };
enum { ATOMIC_CTL, ATOMIC_RES, ATOMIC_PTR, ATOMIC_COUNT, ATOMIC_TRIES };

static struct sim_hit find(const struct sim_view *v, uint32_t op, uint64_t at, uint64_t bytes)
{
	struct sim_transfer t = sim_view_transfer(v, op, at, bytes);

	return sim_view_remote(v) ? sim_fault_find(v->host, &t) : (struct sim_hit){ NULL, 0, 8 };
}

/* Once more where a plan waits for others to be active: they come and go while these words are stored and looked at. */
static void find_again(const struct sim_view *v, uint32_t op, uint64_t bytes, struct sim_hit *hit)
{
	struct sim_transfer t = sim_view_transfer(v, op, 0, bytes);

	if (!hit->fault && sim_view_remote(v) && sim_fault_by_load(v->host, &t))
		*hit = sim_fault_find(v->host, &t);
}

static void tear_writer(struct sim_role *r)
{
	const uint64_t *a = r->kernel->args;
	const struct sim_view *v = &r->view;
	struct sim_hit data = find(v, SIM_OP_SM_STORE, 0, a[ARG_WORDS] * 8), mark;
	uint64_t i, j, words[RUN];
	uint32_t n;

	if (sim_role_stopped(r, &data))
		return;
	mark = find(v, SIM_OP_FLAG, a[ARG_WORDS] * 8, 8);
	if (sim_role_stopped(r, &mark))
		return;
	for (i = 0; i < a[ARG_ITERS] && !sim_role_aborted(r); i++) {
		uint32_t looks = i < MEET_TURNS ? sim_role_await(r, i) : 0;

		find_again(v, SIM_OP_SM_STORE, a[ARG_WORDS] * 8, &data);
		for (j = 0; j < a[ARG_WORDS]; j += n) {
			for (n = 0; n < RUN && j + n < a[ARG_WORDS]; n++)
				words[n] = p2s_word(i % 2 ? a[ARG_SEED_B] : a[ARG_SEED_A], j + n);
			sim_view_post_run(v, &data, j * 8, words, n);
		}
		r->result.rounds_done = i + 1;
		if (i < MEET_TURNS)
			sim_role_meet(r, looks);
	}
	if (sim_role_fence(r))
		return;
	sim_view_post(v, &mark, a[ARG_WORDS] * 8, p2s_word(a[ARG_SEED_A], a[ARG_WORDS]), 0);
}

static void tear_pass(struct sim_role *r, const struct sim_hit *data)
{
	const uint64_t *a = r->kernel->args;
	uint64_t poison = a[ARG_SEED_A] ^ a[ARG_SEED_B] ^ P2S_TEAR_POISON, j;

	for (j = 0; j < a[ARG_WORDS]; j++) {
		uint64_t w = sim_view_word(&r->view, data, j * 8);

		if (w == p2s_word(a[ARG_SEED_A], j))
			r->result.seen_a++;
		else if (w == p2s_word(a[ARG_SEED_B], j))
			r->result.seen_b++;
		else if (w != p2s_word(poison, j))
			sim_role_bad(r, j * 8, w);
		if (j % 8 == 7)
			sim_ring_pump(r->view.host, r->view.owner);
	}
}

static void tear_reader(struct sim_role *r)
{
	const uint64_t *a = r->kernel->args;
	const struct sim_view *v = &r->view;
	struct sim_hit data = find(v, SIM_OP_SM_LOAD, 0, a[ARG_WORDS] * 8), mark;
	uint64_t end = p2s_word(a[ARG_SEED_A], a[ARG_WORDS]);

	if (sim_role_stopped(r, &data))
		return;
	mark = find(v, SIM_OP_FLAG, a[ARG_WORDS] * 8, 8);
	if (sim_role_stopped(r, &mark))
		return;
	sim_role_looks(r, 1);
	for (;;) {
		sim_ring_pump(v->host, v->owner);
		find_again(v, SIM_OP_SM_LOAD, a[ARG_WORDS] * 8, &data);
		tear_pass(r, &data);
		r->result.rounds_done++;
		r->result.flag_found = sim_view_word(v, &mark, a[ARG_WORDS] * 8);
		if (r->result.flag_found == end)
			break;
		if (!sim_role_turn(r))
			break;
		/* Short naps while there is something to see: CPUs are few. */
		if (r->active && r->turns > NAP_TURNS)
			r->turns = NAP_TURNS;
	}
	sim_role_looks(r, 0);
}

static void tear_body(struct sim_role *r)
{
	if (r->block == 0)
		tear_writer(r);
	else
		tear_reader(r);
}

int sim_twin_tear(struct sim_kernel *k)
{
	const uint64_t *a = k->args;
	struct sim_role roles[2];
	int i, rc;

	if (a[ARG_WORDS] > MAX_WORDS)
		return CU_ILLEGAL_ADDRESS;
	for (i = 0; i < 2; i++) {
		uint64_t ptr = a[ARG_DST + i];

		rc = sim_role_open(&roles[i], k, i, a[ARG_CTL], a[ARG_RES]);
		if (rc)
			return rc;
		roles[i].idle = !ptr;
		roles[i].max_ns = a[ARG_MAX_NS];
		roles[i].max_iters = a[ARG_MAX_ITERS];
		rc = ptr ? sim_kernel_view(k, ptr, a[ARG_WORDS] * 8 + 8, &roles[i].view) : CU_OK;
		if (rc || ptr % 8)
			return CU_ILLEGAL_ADDRESS;
	}
	if (!roles[0].idle)
		sim_ring_enter(roles[0].view.host, roles[0].view.accessor, roles[0].view.owner);
	rc = sim_roles_run(roles, 2, tear_body);
	if (!roles[0].idle && !rc)
		sim_ring_drain(roles[0].view.host, roles[0].view.accessor, roles[0].view.owner);
	if (!roles[0].idle)
		sim_ring_leave(roles[0].view.host, roles[0].view.accessor, roles[0].view.owner);
	k->ns += roles[0].result.elapsed_ns > roles[1].result.elapsed_ns ? roles[0].result.elapsed_ns : roles[1].result.elapsed_ns;
	return rc;
}

/* Where the atomics of this kernel act. NULL: nowhere (they return what was expected, and nothing changes). */
static uint64_t *atomic_words(const struct sim_view *v, const struct sim_fault *f)
{
	struct sim_store *s = sim_view_store(v);
	uint64_t phys = v->phys;

	switch (f ? f->effect : SIM_NONE) {
	case SIM_DROP:
	case SIM_HANG:
	case SIM_STALE:
		return NULL;
	case SIM_MIRROR:
		s = &v->host->mirrors[sim_pair(v->host, v->accessor, v->owner)];
		break;
	case SIM_MISDIRECT:
		s = &v->host->memory[f->target];
		phys += (uint64_t)f->shift;
		break;
	case SIM_SHIFT:
		phys += (uint64_t)f->shift;
		break;
	default:
		break;
	}
	return phys < s->bytes && phys + 16 <= s->bytes ? sim_store_word(s, phys) : NULL;
}

/* One fetch-add. A link without native atomics reads, adds and writes back: others may come in between. */
static void add_one(uint64_t *word, const struct sim_fault *f, int native)
{
	uint64_t was;

	if (!word)
		return;
	if (native && !f) {
		__atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL);
		return;
	}
	was = __atomic_load_n(word, __ATOMIC_ACQUIRE) + 1;
	if (f && f->effect == SIM_ZEROS)
		was = 0;
	if (f && f->effect == SIM_ONES)
		was = ~UINT64_C(0);
	if (f && f->effect == SIM_NAN)
		was = UINT64_C(0x7fc000007fc00000);
	if (f && f->effect == SIM_BIT_FLIP)
		was ^= f->bits;
	__atomic_store_n(word, was, __ATOMIC_RELEASE);
}

static int swap_one(uint64_t *word, const struct sim_fault *f, int native)
{
	uint64_t was;

	if (!word)
		return 1;
	if (!native || f) {
		add_one(word, f, native);
		return 1;
	}
	was = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	return __atomic_compare_exchange_n(word, &was, was + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void atomic_body(struct sim_role *r)
{
	const uint64_t *a = r->kernel->args;
	const struct sim_view *v = &r->view;
	struct sim_hit hit = find(v, SIM_OP_ATOMIC, 0, 16);
	int native = !sim_view_remote(v) || v->host->config.links[v->accessor][v->owner].native_atomics;
	uint64_t i, tries, total = a[ATOMIC_COUNT] * 32;

	if (sim_role_stopped(r, &hit))
		return;
	sim_ring_settle(v->host, v->owner);
	for (i = 0; i < total; i++) {
		const struct sim_fault *f = hit.fault && sim_hit_at(&hit, v->offset) ? hit.fault : NULL;

		if ((i & 1023) == 0 && sim_role_aborted(r))
			return;
		add_one(atomic_words(v, f), f, native);
		r->result.rounds_done++;
	}
	for (tries = 0; tries < a[ATOMIC_TRIES] && r->result.cas_done < a[ATOMIC_COUNT]; tries++) {
		const struct sim_fault *f = hit.fault && sim_hit_at(&hit, v->offset + 8) ? hit.fault : NULL;
		uint64_t *words = atomic_words(v, f);

		r->result.cas_done += (uint64_t)swap_one(words ? words + 1 : NULL, f, native);
	}
}

int sim_twin_atomic(struct sim_kernel *k)
{
	const uint64_t *a = k->args;
	struct sim_role role;
	int rc = sim_role_open(&role, k, 0, a[ATOMIC_CTL], a[ATOMIC_RES]);

	if (rc)
		return rc;
	if (a[ATOMIC_COUNT] > (UINT64_C(1) << 24) || a[ATOMIC_PTR] % 8)
		return CU_ILLEGAL_ADDRESS;
	role.idle = !a[ATOMIC_PTR];
	rc = role.idle ? CU_OK : sim_kernel_view(k, a[ATOMIC_PTR], 16, &role.view);
	if (rc)
		return rc;
	rc = sim_roles_run(&role, 1, atomic_body);
	k->ns += role.result.elapsed_ns;
	return rc;
}
