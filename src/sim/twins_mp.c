/* Twins of p2s_mp and p2s_wide: message passing. How many warps store makes no difference here: a role is one thread. */
#include "core/word.h"
#include "sim/lock.h"
#include "sim/ring.h"
#include "sim/twins_wait.h"

#define MAX_WORDS (UINT64_C(1) << 20)
#define RUN 64
#define REORDER_NS UINT64_C(30000000) /* how far a flag overtakes its data: longer than a reader may be without a CPU */
#define MUTANT_NS UINT64_C(400000)   /* mutants: windows wide enough that a reader on a busy CPU looks into them */

enum { ARG_CTL, ARG_RES, ARG_DST, ARG_SRC, ARG_W_SEED, ARG_R_SEED, ARG_ROUNDS, ARG_WORDS, ARG_SLOT, ARG_FLAG, ARG_IDIOM,
	ARG_PACE, ARG_MAX_NS, ARG_MAX_ITERS };

static struct sim_ring *way(const struct sim_view *v)
{
	return &v->host->rings[sim_pair(v->host, v->accessor, v->owner)];
}

static struct sim_hit find(const struct sim_view *v, uint32_t op, uint64_t at, uint64_t bytes)
{
	struct sim_transfer t = sim_view_transfer(v, op, at, bytes);

	return sim_view_remote(v) ? sim_fault_find(v->host, &t) : (struct sim_hit){ NULL, 0, 8 };
}

/* Waits until the round may start. Far ahead it sleeps; a little ahead it goes on at once: CPUs are few. */
static void pace(const struct sim_role *r, uint64_t round, uint64_t pace_ns)
{
	uint64_t due = r->go_ns + round * pace_ns, now = sim_now();

	if (due > now + 100000)
		sim_sleep_ns(due - now - 50000);
}

static void write_payload(const struct sim_role *r, const struct sim_hit *hit, uint64_t slot, uint64_t seed, uint64_t late_ns)
{
	uint64_t j, count = r->kernel->args[ARG_WORDS], words[RUN];
	uint32_t n;

	for (j = 0; j < count; j += n) {
		for (n = 0; n < RUN && j + n < count; n++) {
			words[n] = p2s_word(seed, slot / 8 + j + n);
			if (late_ns)
				sim_view_post(&r->view, hit, slot + (j + n) * 8, words[n], sim_now() + late_ns);
		}
		if (!late_ns)
			sim_view_post_run(&r->view, hit, slot + j * 8, words, n);
	}
}

static void writer_round(struct sim_role *r, const struct sim_hit *data, uint64_t round)
{
	const uint64_t *a = r->kernel->args;
	struct sim_host *h = r->view.host;
	uint64_t slot = round * a[ARG_SLOT], flag_at = slot + a[ARG_FLAG];
	uint64_t seed = p2s_seed_epoch(a[ARG_W_SEED], (round + 1) & 2047);
	uint64_t flag = p2s_word(seed, flag_at / 8);
	struct sim_hit hit = find(&r->view, SIM_OP_FLAG, flag_at, 8);
	int src = r->view.accessor, dst = r->view.owner;

	if (sim_role_stopped(r, &hit))
		return;
	if (hit.fault && hit.fault->effect == SIM_REORDER && sim_hit_at(&hit, r->view.offset + flag_at)) {
		/* The flag lands at once, the payload is still on its way. */
		write_payload(r, data, slot, seed, REORDER_NS);
		sim_store_put(sim_view_store(&r->view), r->view.phys + flag_at, flag, 8);
		sim_ring_fence(h, src, dst);
		return;
	}
	if (h->config.mutant == SIM_MUTANT_FLAG_FIRST) {
		sim_view_post(&r->view, &hit, flag_at, flag, 0);
		sim_ring_fence(h, src, dst);
		write_payload(r, data, slot, seed, MUTANT_NS);
		sim_ring_fence(h, src, dst);
		return;
	}
	write_payload(r, data, slot, seed, h->config.mutant == SIM_MUTANT_NO_FENCE ? MUTANT_NS : 0);
	if (h->config.mutant != SIM_MUTANT_NO_FENCE && !(a[ARG_IDIOM] & P2S_WIDE_BARE) && sim_role_fence(r))
		return;
	sim_view_post(&r->view, &hit, flag_at, flag, 0);
	if (h->config.mutant != SIM_MUTANT_NO_FENCE)
		sim_ring_fence(h, src, dst);
}

static void writer(struct sim_role *r)
{
	const uint64_t *a = r->kernel->args;
	struct sim_hit data = find(&r->view, SIM_OP_SM_STORE, 0, a[ARG_ROUNDS] * a[ARG_SLOT]);
	struct sim_transfer flag = sim_view_transfer(&r->view, SIM_OP_FLAG, a[ARG_FLAG], 8);
	/* A wrong order must be there to be seen, however the CPUs are shared. */
	int wrong = r->view.host->config.mutant || (sim_view_remote(&r->view) && sim_fault_peek(r->view.host, &flag) == SIM_REORDER);
	uint64_t k;

	if (sim_role_stopped(r, &data))
		return;
	for (k = 0; k < a[ARG_ROUNDS] && !r->rc; k++) {
		uint32_t looks = wrong ? sim_role_await(r, k) : 0;

		pace(r, k, a[ARG_PACE]);
		if (sim_role_aborted(r))
			break;
		writer_round(r, &data, k);
		if (wrong)
			sim_role_meet(r, looks);
		r->result.rounds_done = k + 1;
		/* The bounded queues of a real link: a writer cannot run far ahead of what has landed. */
		if (__atomic_load_n(&way(&r->view)->count, __ATOMIC_RELAXED) > SIM_RING / 4)
			sim_sleep_ns(20000);
	}
}

static int wait_flag(struct sim_role *r, uint64_t flag_at, uint64_t flag, const struct sim_hit *hit)
{
	r->turns = 0;
	for (;;) {
		sim_ring_pump(r->view.host, r->view.owner);
		r->result.flag_found = sim_view_word(&r->view, hit, flag_at);
		if (r->result.flag_found == flag)
			return 1;
		if (!sim_role_turn(r))
			return 0;
	}
}

static void read_messages(struct sim_role *r)
{
	const uint64_t *a = r->kernel->args;
	struct sim_hit data = find(&r->view, SIM_OP_SM_LOAD, 0, a[ARG_ROUNDS] * a[ARG_SLOT]);
	struct sim_cache cache;
	uint64_t k, j;

	if (sim_role_stopped(r, &data))
		return;
	sim_cache_drop(&cache);
	for (k = 0; k < a[ARG_ROUNDS]; k++) {
		uint64_t slot = k * a[ARG_SLOT], flag_at = slot + a[ARG_FLAG];
		uint64_t seed = p2s_seed_epoch(a[ARG_R_SEED], (k + 1) & 2047);
		uint64_t idiom = (a[ARG_IDIOM] & 3) == 3 ? k % 3 : a[ARG_IDIOM] & 3;
		struct sim_hit hit = find(&r->view, SIM_OP_FLAG, flag_at, 8);
		int there;

		if (sim_role_stopped(r, &hit))
			return;
		for (j = 0; (a[ARG_IDIOM] & P2S_WIDE_WARM) && j < a[ARG_WORDS]; j++)
			r->result.seen_a ^= sim_view_cached(&r->view, &data, slot + j * 8, &cache);
		/* A reader that never has to wait looks for an abort, too. */
		there = (k % 32 != 31 || !sim_role_aborted(r)) && wait_flag(r, flag_at, p2s_word(seed, flag_at / 8), &hit);
		/* The reader's fence or acquire. */
		if (!(a[ARG_IDIOM] & P2S_WIDE_BARE))
			sim_cache_drop(&cache);
		for (j = 0; j < a[ARG_WORDS]; j++) {
			uint64_t at = slot + j * 8;
			uint64_t found = idiom ? sim_view_word(&r->view, &data, at) : sim_view_cached(&r->view, &data, at, &cache);
			int good = found == p2s_word(seed, at / 8);

			if (there && !good)
				sim_role_bad(r, at, found);
			else if (!there && good)
				r->result.payload_ok++;
			else if (!there)
				r->result.payload_bad++;
		}
		if (!there)
			return;
		r->result.rounds_done = k + 1;
	}
}

static void reader(struct sim_role *r)
{
	sim_role_looks(r, 1);
	read_messages(r);
	sim_role_looks(r, 0);
}

static void body(struct sim_role *r)
{
	if (r->block == 0)
		writer(r);
	else
		reader(r);
}

static int run(struct sim_kernel *k, uint64_t idioms)
{
	const uint64_t *a = k->args;
	struct sim_role roles[2];
	uint64_t bytes;
	int i, rc;

	if (a[ARG_WORDS] > MAX_WORDS || a[ARG_SLOT] % 8 || a[ARG_FLAG] % 8 || a[ARG_SLOT] > (UINT64_C(1) << 30) ||
	    a[ARG_ROUNDS] > (UINT64_C(1) << 24) || a[ARG_IDIOM] >= idioms)
		return CU_ILLEGAL_ADDRESS;
	bytes = a[ARG_ROUNDS] ? (a[ARG_ROUNDS] - 1) * a[ARG_SLOT] + a[ARG_FLAG] + 8 : 0;
	for (i = 0; i < 2; i++) {
		uint64_t ptr = a[ARG_DST + i];

		rc = sim_role_open(&roles[i], k, i, a[ARG_CTL], a[ARG_RES]);
		if (rc)
			return rc;
		roles[i].idle = !ptr;
		roles[i].max_ns = a[ARG_MAX_NS];
		roles[i].max_iters = a[ARG_MAX_ITERS];
		rc = ptr ? sim_kernel_view(k, ptr, bytes, &roles[i].view) : CU_OK;
		if (rc || ptr % 8)
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

int sim_twin_mp(struct sim_kernel *k)
{
	return run(k, 4);
}

int sim_twin_wide(struct sim_kernel *k)
{
	return run(k, 16);
}
