/* What measured speeds show: bytes that did not travel, names that are not true, ways that are no use, links that lost lanes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/link.h"
#include "rules/about.h"
#include "score/score.h"

/* What a guest sees of links is what its hypervisor draws. Unread is not "no guest". */
static int32_t real_links(const struct p2s_model *m)
{
	return m->facts.host.hypervisor == P2S_NO;
}

static uint64_t most_of(const uint64_t *all, size_t count)
{
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++)
		most = all[i] > most ? all[i] : most;
	return most;
}

/* The fastest thing that was measured between the two in one direction. */
static uint64_t fastest(const struct p2s_pair *p)
{
	const uint64_t all[] = {p->bandwidth.ce_write, p->bandwidth.ce_read, p->bandwidth.sm_store, p->bandwidth.sm_load,
							p->bandwidth.loaded};
	uint64_t most = most_of(all, sizeof all / sizeof all[0]);

	for (size_t i = 0; i < p->size_count; i++)
		most = p->sizes[i].p2p_bytes_per_s > most ? p->sizes[i].p2p_bytes_per_s : most;
	return most;
}

static const struct p2s_staged *staged_of(const struct p2s_model *m, const struct p2s_pair *p)
{
	for (size_t i = 0; i < m->staged_count; i++)
		if ((m->staged[i].a == p->src && m->staged[i].b == p->dst) || (m->staged[i].a == p->dst && m->staged[i].b == p->src))
			return &m->staged[i];
	return NULL;
}

static void megabytes(uint64_t bytes_per_s, char *out, size_t cap)
{
	snprintf(out, cap, "%" PRIu64, bytes_per_s / 1000000);
}

/* A judged leg of this direction in which bytes were compared and did not match. */
static int32_t compared_wrong(const struct p2s_pair *p)
{
	for (size_t i = 0; i < p->leg_count; i++)
		if (p->legs[i].verdict == P2PSAFE_VERDICT_CORRUPT && p->legs[i].leg != P2PSAFE_LEG_TEARING_128)
			return 1;
	return 0;
}

/* Above what the narrowest hop moves at its maximum, headers included. One in fifty for two clocks that differ. */
static int32_t above(const struct p2s_about *a, struct p2s_claim *c)
{
	struct p2s_limit limit;
	uint64_t seen = fastest(a->pair);

	p2s_score_limit(a->m, a->pair, &limit);
	if (!real_links(a->m) || limit.most == 0 || seen / 51 * 50 <= limit.most)
		return 0;
	megabytes(seen, c->value[0], sizeof c->value[0]);
	megabytes(limit.most, c->value[1], sizeof c->value[1]);
	return 1;
}

int32_t p2s_find_above_link_wrong(const struct p2s_about *a, struct p2s_claim *c)
{
	return compared_wrong(a->pair) && above(a, c);
}

/* Every compared byte was right: then it may be the limit that was misread. */
int32_t p2s_find_above_link(const struct p2s_about *a, struct p2s_claim *c)
{
	return !compared_wrong(a->pair) && above(a, c);
}

static int32_t speeds(const struct p2s_about *a, uint64_t *peer, uint64_t *staged, struct p2s_claim *c)
{
	*peer = p2s_score_writes(a->pair);
	*staged = p2s_score_staged(a->pair, staged_of(a->m, a->pair));
	megabytes(*peer, c->value[0], sizeof c->value[0]);
	megabytes(*staged, c->value[1], sizeof c->value[1]);
	return *peer != 0 && *staged != 0;
}

int32_t p2s_find_slower(const struct p2s_about *a, struct p2s_claim *c)
{
	uint64_t peer;
	uint64_t staged;

	return a->pair->verdict == P2PSAFE_VERDICT_DEGRADED && speeds(a, &peer, &staged, c);
}

/* Not more than a tenth faster. */
int32_t p2s_find_path_unproven(const struct p2s_about *a, struct p2s_claim *c)
{
	uint64_t peer;
	uint64_t staged;

	if ((a->pair->verdict != P2PSAFE_VERDICT_DEGRADED && a->pair->verdict != P2PSAFE_VERDICT_OK) ||
		!speeds(a, &peer, &staged, c))
		return 0;
	return peer <= staged || peer - staged <= staged / 10;
}

/* The rules have taken the name back (p2s_rules_judge); NCCL's word for the path still is NVML's. */
int32_t p2s_find_not_nvlink(const struct p2s_about *a, struct p2s_claim *c)
{
	uint64_t src = p2s_score_own_link(&a->m->gpus[a->gpu].facts);
	uint64_t dst = p2s_score_own_link(&a->m->gpus[a->peer].facts);
	uint64_t seen = p2s_score_writes(a->pair);

	if (a->pair->path != P2PSAFE_PATH_UNKNOWN || a->pair->nccl_path != P2PSAFE_PATH_NVL || seen == 0 || src == 0 || dst == 0)
		return 0;
	megabytes(seen, c->value[0], sizeof c->value[0]);
	megabytes(src < dst ? src : dst, c->value[1], sizeof c->value[1]);
	return 1;
}

/* Pairs that write at once in a round; if all of them shared one link, this many shares would be left of it. */
static uint64_t pairs_at_once(const struct p2s_model *m)
{
	uint64_t group = 0;

	for (size_t i = 0; i < m->gpu_count; i++)
		group += m->gpus[i].in_group != 0;
	return group < 2 ? 1 : group / 2;
}

/* Less than half of the smallest fair share. */
int32_t p2s_find_load_collapse(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_bandwidth *b = &a->pair->bandwidth;
	uint64_t shares = pairs_at_once(a->m);

	if (b->loaded == 0 || b->ce_write == 0 || b->loaded >= b->ce_write / (2 * shares))
		return 0;
	P2S_SAY(c->value[0], "while %" PRIu64 " pair%s wrote both ways, %" PRIu64 " MB/s were left of %" PRIu64, shares,
			shares == 1 ? "" : "s", b->loaded / 1000000, b->ce_write / 1000000);
	return 1;
}

/* The fastest single writer into GPU g (into = 1), or from it. */
static uint64_t best_alone(const struct p2s_model *m, int32_t g, int into)
{
	uint64_t best = 0;

	for (size_t i = 0; i < m->pair_count; i++)
		if ((into ? m->pairs[i].dst : m->pairs[i].src) == g && m->pairs[i].bandwidth.ce_write > best)
			best = m->pairs[i].bandwidth.ce_write;
	return best;
}

/* All together reach less than half of what one alone does. */
int32_t p2s_find_many_collapse(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu_facts *f = &a->m->gpus[a->gpu].facts;
	uint64_t in = best_alone(a->m, a->gpu, 1);
	uint64_t out = best_alone(a->m, a->gpu, 0);
	int32_t many_in = f->all_to_one != 0 && f->all_to_one < in / 2;
	int32_t many_out = f->one_to_all != 0 && f->one_to_all < out / 2;

	if (many_in)
		P2S_SAY(c->value[0], "all others together write %" PRIu64 " MB/s into this GPU, one alone %" PRIu64,
				f->all_to_one / 1000000, in / 1000000);
	else if (many_out)
		P2S_SAY(c->value[0], "this GPU writes %" PRIu64 " MB/s to all others together, %" PRIu64 " to one alone",
				f->one_to_all / 1000000, out / 1000000);
	return many_in || many_out;
}

/* A bridge on a's way that also stands above a GPU which is neither of the two, and not above both. */
static const struct p2s_hop *uplink_of(const struct p2s_model *m, int32_t a, int32_t b)
{
	const struct p2s_gpu_facts *f = &m->gpus[a].facts;
	int32_t from = p2s_about_shared(m, a, b);

	for (size_t g = 0; from >= 0 && g < m->gpu_count; g++) {
		int32_t with = (int32_t)g != a && (int32_t)g != b && m->gpus[g].in_group ? p2s_about_shared(m, a, (int32_t)g) : 0;

		if (with > from && (size_t)from < f->hop_count)
			return &f->hops[from];
	}
	return NULL;
}

int32_t p2s_find_uplink_shared(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_bandwidth *b = &a->pair->bandwidth;
	const struct p2s_hop *up;

	if (b->loaded == 0 || b->ce_write == 0 || b->loaded >= b->ce_write / 4 * 3 || a->pair->path == P2PSAFE_PATH_NVL)
		return 0;
	up = uplink_of(a->m, a->gpu, a->peer);
	if (up == NULL)
		up = uplink_of(a->m, a->peer, a->gpu);
	if (up == NULL)
		return 0;
	P2S_SAY(c->value[0], "%s", up->address);
	megabytes(b->loaded, c->value[1], sizeof c->value[1]);
	megabytes(b->ce_write, c->value[2], sizeof c->value[2]);
	return 1;
}

/* Between sockets less than half of what the fastest pair within one reaches. */
int32_t p2s_find_far_narrow(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_model *m = a->m;
	uint64_t far = p2s_score_writes(a->pair);
	uint64_t near = 0;

	if (a->pair->path != P2PSAFE_PATH_SYS || far == 0 || m->gpus[a->gpu].numa_node == m->gpus[a->peer].numa_node)
		return 0;
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];
		uint64_t one = p2s_score_writes(p);

		if (p->path >= P2PSAFE_PATH_PIX && p->path <= P2PSAFE_PATH_NODE && one > near)
			near = one;
	}
	if (far >= near / 2)
		return 0;
	if (a->pair->verdict == P2PSAFE_VERDICT_DEGRADED)
		c->severity = P2PSAFE_SEVERITY_WARNING;
	megabytes(far, c->value[0], sizeof c->value[0]);
	megabytes(near, c->value[1], sizeof c->value[1]);
	return 1;
}

/* The way to host memory at less than a quarter of what its narrowest hop moves: many machines reach no more than a third. */
int32_t p2s_find_host_slow(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu_facts *f = &a->m->gpus[a->gpu].facts;
	uint64_t limit = p2s_score_host_limit(f);
	uint64_t least = f->to_host < f->from_host ? f->to_host : f->from_host;

	if (!real_links(a->m) || limit == 0 || least == 0 || least >= limit / 4)
		return 0;
	megabytes(f->to_host, c->value[0], sizeof c->value[0]);
	megabytes(f->from_host, c->value[1], sizeof c->value[1]);
	megabytes(limit, c->value[2], sizeof c->value[2]);
	return 1;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* A link has two ends; between the two halves of a switch there is none. */
static int32_t is_link(const struct p2s_hop *up, const struct p2s_hop *down)
{
	return (up->kind == P2S_HOP_ROOT_PORT || up->kind == P2S_HOP_SWITCH_DOWN) && down->kind != P2S_HOP_SWITCH_DOWN;
}

/* Fewer lanes than both ends have (the width does not change when idle), or slower under load than both ends can. */
int32_t p2s_find_link_degraded(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu_facts *f = &a->m->gpus[a->gpu].facts;

	if (!real_links(a->m) || f->hop_count > P2S_HOPS)
		return 0;
	for (size_t i = 1; i < f->hop_count; i++) {
		const struct p2s_hop *up = &f->hops[i - 1];
		const struct p2s_hop *down = &f->hops[i];
		uint32_t width = lesser(up->width_max, down->width_max);
		uint32_t speed = lesser(up->speed_max_mts, down->speed_max_mts);
		uint32_t width_is = down->width_loaded != 0 ? down->width_loaded : down->width_now;
		uint32_t speed_is = down->speed_loaded_mts;

		if (!is_link(up, down))
			continue;
		if (width_is != 0 && width != 0 && width_is < width)
			P2S_SAY(c->value[1], "%" PRIu32 " of %" PRIu32 " lanes", width_is, width);
		else if (speed_is != 0 && speed != 0 && speed_is < speed)
			P2S_SAY(c->value[1], "%" PRIu32 " of %" PRIu32 " MT/s while transfers ran", speed_is, speed);
		else
			continue;
		P2S_SAY(c->source, "/sys/bus/pci/devices/%s", down->address);
		P2S_SAY(c->value[0], "%s", down->address);
		return 1;
	}
	return 0;
}

/* Bytes per second of a hop at the width it has: the speed drops when idle, the width does not. */
static uint64_t as_wired(const struct p2s_hop *h)
{
	uint32_t width = h->width_now != 0 && (h->width_max == 0 || h->width_now < h->width_max) ? h->width_now : h->width_max;

	return p2s_link_limit(h->speed_max_mts, width, 0);
}

int32_t p2s_find_bottleneck(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu_facts *f = &a->m->gpus[a->gpu].facts;
	const struct p2s_hop *worst = NULL;
	uint64_t own = p2s_score_own_link(f);
	uint64_t least = 0;

	if (f->hop_count < 2 || f->hop_count > P2S_HOPS)
		return 0;
	for (size_t i = 0; i < f->hop_count; i++) {
		uint64_t one = as_wired(&f->hops[i]);

		if (one != 0 && (worst == NULL || one < least)) {
			worst = &f->hops[i];
			least = one;
		}
	}
	if (worst == NULL || own == 0 || least >= own / 4 * 3)
		return 0;
	P2S_SAY(c->source, "/sys/bus/pci/devices/%s", worst->address);
	P2S_SAY(c->value[0], "%s", worst->address);
	megabytes(least, c->value[1], sizeof c->value[1]);
	megabytes(own, c->value[2], sizeof c->value[2]);
	return 1;
}
