/* Twins of the kernels that measure (helper/kernels_measure.h). What they time is the model: links of cuda.json, shared by
 * those whom a gate let go together; never the CPU's time. */
#include "helper/kernels_measure.h"
#include "sim/flow.h"
#include "sim/lock.h"
#include "sim/ring.h"
#include "sim/twins_wait.h"

#define LAUNCH_NS 3000
#define LOCAL_NS 600 /* a dependent load of the GPU's own memory */
#define ISSUE_NS 4   /* a posted store, where the link keeps up */
#define UNIT 16

static struct sim_hit find(const struct sim_view *v, uint32_t op, uint64_t bytes)
{
	struct sim_transfer t = sim_view_transfer(v, op, 0, bytes);

	return sim_view_remote(v) ? sim_fault_find(v->host, &t) : (struct sim_hit){ NULL, 0, 8 };
}

static uint64_t under_plan(const struct sim_view *v, uint32_t op, uint64_t bytes, uint64_t ns)
{
	struct sim_transfer t = sim_view_transfer(v, op, 0, bytes);

	return sim_view_remote(v) ? sim_fault_time(v->host, &t, ns) : ns;
}

static const struct sim_link *link_of(const struct sim_view *v)
{
	return &v->host->config.links[v->accessor][v->owner];
}

static int open_result(struct sim_kernel *k, uint64_t at, struct sim_view *v, struct p2s_role_result *r)
{
	int rc = sim_kernel_view(k, at, sizeof(*r), v);

	if (!rc)
		sim_store_read(sim_view_store(v), v->phys, r, sizeof(*r));
	r->status = P2S_ROLE_DONE;
	return rc;
}

static void keep(const struct sim_view *v, const struct p2s_role_result *r)
{
	sim_store_write(sim_view_store(v), v->phys, r, sizeof(*r));
}

int sim_twin_gate(struct sim_kernel *k)
{
	struct sim_role r;
	uint64_t start = sim_now();
	uint32_t turns = 0;
	int rc = sim_role_open(&r, k, 0, k->args[0], k->args[1]);

	if (rc)
		return rc;
	__atomic_store_n(&r.ctl->ready[0].word, 1, __ATOMIC_RELEASE);
	do {
		r.result.polls++;
		r.result.status = __atomic_load_n(&r.ctl->go.word, __ATOMIC_ACQUIRE) ? P2S_ROLE_DONE : P2S_ROLE_NOT_RUN;
		if (r.result.status == P2S_ROLE_NOT_RUN && !sim_role_aborted(&r)) {
			if (sim_now() - start > k->args[3])
				r.result.status = P2S_ROLE_NO_GO;
			else
				sim_relax(&turns);
		}
	} while (r.result.status == P2S_ROLE_NOT_RUN);
	r.result.seen_a = k->args[2];
	sim_role_end(&r);
	return CU_OK;
}

int sim_twin_pump(struct sim_kernel *k)
{
	uint64_t bytes = k->args[2], loops = k->args[3], share;
	const struct sim_view *far;
	struct sim_view to, from;
	enum sim_outcome outcome;
	struct sim_hit hit;
	int error = 0, rc;
	uint32_t op;

	if (!bytes || !loops)
		return CU_OK;
	if (bytes % UNIT || k->args[0] % UNIT || k->args[1] % UNIT)
		return CU_ILLEGAL_ADDRESS;
	rc = sim_kernel_view(k, k->args[0], bytes, &to);
	if (!rc)
		rc = sim_kernel_view(k, k->args[1], bytes, &from);
	if (rc)
		return rc;
	op = sim_view_remote(&to) ? SIM_OP_SM_STORE : SIM_OP_SM_LOAD;
	far = sim_view_remote(&to) ? &to : &from;
	hit = find(far, op, bytes);
	outcome = sim_view_copy(&to, &from, bytes, &hit, &error);
	k->ns = sim_kernel_ns(far, op, 0, bytes) - LAUNCH_NS;
	share = sim_flow_share(far->host, k->party, far->accessor, far->owner, from.owner, to.owner);
	k->ns = LAUNCH_NS + k->ns * loops * share / 1000;
	if (outcome == SIM_OK && sim_view_remote(&to))
		rc = sim_fault_fence(to.host, to.accessor, to.owner, to.mapping);
	return rc ? rc : sim_kernel_outcome(outcome, error);
}

int sim_twin_chase(struct sim_kernel *k)
{
	uint64_t region = k->args[2], stride = k->args[3], count = k->args[4];
	struct p2s_role_result r;
	struct sim_view v, res;
	struct sim_hit hit;
	int rc;

	if (!region || (region & (region - 1)))
		return CU_ILLEGAL_ADDRESS;
	rc = sim_kernel_view(k, k->args[0], region, &v);
	if (!rc)
		rc = open_result(k, k->args[1], &res, &r);
	if (rc)
		return rc;
	hit = find(&v, SIM_OP_SM_LOAD, region);
	rc = sim_fault_stop(v.host, hit.fault, v.accessor);
	if (rc)
		return rc == SIM_FAULT_WEDGED ? SIM_TWIN_WEDGED : rc;
	r.rounds_done = count;
	r.elapsed_ns = count * (sim_view_remote(&v) ? (uint64_t)link_of(&v)->latency_ns : LOCAL_NS);
	r.elapsed_ns = under_plan(&v, SIM_OP_SM_LOAD, region, r.elapsed_ns);
	r.seen_a = (P2S_CHASE_WARM + count) * stride & (region - 1);
	keep(&res, &r);
	k->ns = LAUNCH_NS + r.elapsed_ns;
	return CU_OK;
}

int sim_twin_issue(struct sim_kernel *k)
{
	uint64_t count = k->args[2], rounds = k->args[3], words[512], i, n, each;
	struct p2s_role_result r;
	struct sim_view v, res;
	struct sim_hit hit;
	int error = 0, rc = CU_OK;

	if (count > (1 << 20) || k->args[0] % UNIT)
		return CU_ILLEGAL_ADDRESS;
	if (count)
		rc = sim_kernel_view(k, k->args[0], count * UNIT, &v);
	if (!rc)
		rc = open_result(k, k->args[1], &res, &r);
	if (rc)
		return rc;
	hit = count && rounds ? find(&v, SIM_OP_SM_STORE, count * UNIT) : (struct sim_hit){ NULL, 0, 8 };
	for (i = 0; i < count && rounds; i += n) {
		const struct sim_view from = { .host_bytes = (unsigned char *)words };
		struct sim_view to = v;
		enum sim_outcome outcome;

		to.phys += i * UNIT;
		to.offset += i * UNIT;
		to.bytes -= i * UNIT;
		for (n = 0; n < 256 && i + n < count; n++) {
			words[2 * n] = count - i - n;
			words[2 * n + 1] = rounds - 1;
		}
		outcome = sim_view_copy(&to, &from, n * UNIT, &hit, &error);
		if (outcome != SIM_OK)
			return sim_kernel_outcome(outcome, error);
	}
	each = count && sim_view_remote(&v) ? UNIT * UINT64_C(1000000000) / (uint64_t)link_of(&v)->bytes_per_s : 0;
	r.rounds_done = rounds;
	r.elapsed_ns = count * rounds * (each > ISSUE_NS ? each : ISSUE_NS);
	if (count)
		r.elapsed_ns = under_plan(&v, SIM_OP_SM_STORE, count * UNIT, r.elapsed_ns);
	keep(&res, &r);
	k->ns = LAUNCH_NS + r.elapsed_ns;
	return CU_OK;
}

enum { PONG_CTL, PONG_RES, PONG_DST, PONG_SRC, PONG_SEED, PONG_ROUNDS, PONG_WARM, PONG_FIRST, PONG_MAX_NS, PONG_MAX_ITERS };

static void send(struct sim_role *r, const struct sim_view *to, const struct sim_hit *hit, uint64_t round)
{
	sim_view_post(to, hit, 128, round ^ r->kernel->args[PONG_SEED], 0);
	sim_ring_fence(to->host, to->accessor, to->owner);
	r->rc = sim_fault_fence(to->host, to->accessor, to->owner, to->mapping);
	sim_view_post(to, hit, 0, round, 0);
	sim_ring_fence(to->host, to->accessor, to->owner);
}

/* Waits for message `round` in the own memory. 1 it is there. */
static int receive(struct sim_role *r, uint64_t round)
{
	struct sim_hit none = { NULL, 0, 8 };

	r->turns = 0;
	for (;;) {
		sim_ring_pump(r->view.host, r->view.owner);
		r->result.flag_found = sim_view_word(&r->view, &none, 0);
		if (r->result.flag_found == round)
			break;
		if (!sim_role_turn(r))
			return 0;
	}
	if ((sim_view_word(&r->view, &none, 128) ^ r->kernel->args[PONG_SEED]) != round)
		r->result.bad_words++;
	return 1;
}

static void play(struct sim_role *r, const struct sim_view *to)
{
	struct sim_hit hit = find(to, SIM_OP_SM_STORE, 256);
	uint64_t round;

	r->rc = sim_fault_stop(to->host, hit.fault, to->accessor);
	for (round = 1; round <= r->kernel->args[PONG_ROUNDS] && !r->rc; round++) {
		if (r->kernel->args[PONG_FIRST])
			send(r, to, &hit, round);
		if (r->rc || !receive(r, round))
			return;
		if (!r->kernel->args[PONG_FIRST])
			send(r, to, &hit, round);
		r->result.rounds_done = round;
	}
}

int sim_twin_pong(struct sim_kernel *k)
{
	const uint64_t *a = k->args;
	const struct sim_config *c;
	struct sim_view to;
	struct sim_role r;
	uint64_t trips, ns;
	int rc = sim_role_open(&r, k, 0, a[PONG_CTL], a[PONG_RES]);

	if (!rc)
		rc = sim_kernel_view(k, a[PONG_DST], 256, &to);
	if (!rc)
		rc = sim_kernel_view(k, a[PONG_SRC], 256, &r.view);
	if (rc || a[PONG_DST] % 128 || a[PONG_SRC] % 128)
		return CU_ILLEGAL_ADDRESS;
	r.max_ns = a[PONG_MAX_NS];
	r.max_iters = a[PONG_MAX_ITERS];
	if (!sim_role_go(&r)) {
		sim_role_end(&r);
		return CU_OK;
	}
	r.result.status = P2S_ROLE_DONE;
	sim_ring_enter(to.host, to.accessor, to.owner);
	play(&r, &to);
	sim_ring_drain(to.host, to.accessor, to.owner);
	sim_ring_leave(to.host, to.accessor, to.owner);
	if (r.rc)
		return r.rc == SIM_FAULT_WEDGED ? SIM_TWIN_WEDGED : r.rc;
	c = &to.host->config;
	trips = r.result.rounds_done > a[PONG_WARM] ? r.result.rounds_done - a[PONG_WARM] : 0;
	ns = trips * (uint64_t)(c->links[to.accessor][to.owner].latency_ns + c->links[to.owner][to.accessor].latency_ns);
	r.go_ns = 0;
	sim_role_end(&r);
	r.result.elapsed_ns = under_plan(&to, SIM_OP_SM_STORE, 256, to.accessor == to.owner ? trips * 2 * LOCAL_NS : ns);
	keep(&r.res, &r.result);
	k->ns = LAUNCH_NS + r.result.elapsed_ns;
	return CU_OK;
}
