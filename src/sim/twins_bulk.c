/* Twins of p2s_fill, p2s_check and p2s_load. */
#include <string.h>

#include "core/word.h"
#include "sim/ring.h"
#include "sim/twins.h"

int sim_twin_fill(struct sim_kernel *k)
{
	uint64_t dst = k->args[0], begin = k->args[1], end = k->args[2], seed = k->args[3];
	struct sim_view v;
	enum sim_outcome outcome;
	int error = 0, rc;

	if (end <= begin)
		return CU_OK;
	rc = sim_kernel_view(k, dst, end, &v);
	if (rc)
		return rc;
	k->ns = sim_kernel_ns(&v, SIM_OP_SM_STORE, begin, end - begin);
	outcome = sim_view_fill(&v, begin, end, seed, &error);
	if (outcome == SIM_OK)
		rc = sim_fault_fence(v.host, v.accessor, v.owner, v.mapping);
	return rc ? rc : sim_kernel_outcome(outcome, error);
}

int sim_twin_load(struct sim_kernel *k)
{
	uint64_t begin = k->args[2], end = k->args[3], mode = k->args[4];
	struct sim_view to, from;
	enum sim_outcome outcome;
	int error = 0, rc;

	if (end <= begin)
		return CU_OK;
	if (mode > 2 || (mode && (begin % 8 || end % 8)))
		return CU_ILLEGAL_ADDRESS;
	rc = sim_kernel_view(k, k->args[0], end, &to);
	if (!rc)
		rc = sim_kernel_view(k, k->args[1], end, &from);
	if (rc)
		return rc;
	k->ns = sim_kernel_ns(&from, SIM_OP_SM_LOAD, begin, end - begin);
	outcome = sim_view_load(&to, &from, begin, end, &error);
	return sim_kernel_outcome(outcome, error);
}

/* One check in progress. */
struct judge {
	const struct sim_view *view;
	uint64_t in_begin;
	uint64_t in_end;
	uint64_t seed;
	uint64_t seed_out;
	struct p2s_check_result result;
};

static uint64_t expected_word(const struct judge *j, uint64_t o)
{
	uint64_t word = 0;
	int i;

	if (o >= j->in_begin && o + 8 <= j->in_end)
		return p2s_word(j->seed, o / 8);
	if (o + 8 <= j->in_begin || o >= j->in_end)
		return p2s_word(j->seed_out, o / 8);
	for (i = 7; i >= 0; i--) {
		uint64_t b = o + (uint64_t)i;
		uint64_t s = b >= j->in_begin && b < j->in_end ? j->seed : j->seed_out;

		word = word << 8 | p2s_word_byte(s, b);
	}
	return word;
}

static void bad_word(struct judge *j, uint64_t o, uint64_t found)
{
	struct p2s_check_result *r = &j->result;

	r->bad_words++;
	if (o < r->first_bad)
		r->first_bad = o;
	if (r->samples < P2S_SAMPLES)
		r->sample[r->samples] = (struct p2s_sample){ o, found };
	r->samples++;
}

static void judge_words(struct judge *j, const struct sim_store *s, uint64_t begin, uint64_t end)
{
	uint64_t words[512];
	uint64_t o, i, n;

	for (o = begin; o < end; o += n * 8) {
		n = (end - o) / 8 < 512 ? (end - o) / 8 : 512;
		sim_store_read(s, j->view->phys + o, words, n * 8);
		for (i = 0; i < n; i++)
			if (words[i] != expected_word(j, o + i * 8))
				bad_word(j, o + i * 8, words[i]);
	}
}

/* A whole chunk, all inside or all outside: compared by its formula where it has one. The words of two patterns are
 * equal where seed ^ offset is: the mixing is a bijection. */
static void judge_chunk(struct judge *j, const struct sim_store *s, uint64_t o)
{
	unsigned char buffer[SIM_CHUNK];
	uint64_t seed = o >= j->in_begin && o + SIM_CHUNK <= j->in_end ? j->seed : j->seed_out;
	struct sim_piece p;
	uint64_t i, word;

	sim_store_piece(s, j->view->phys + o, buffer, &p);
	if (p.kind == SIM_CHUNK_PATTERN && p.seed == seed && p.base == o / 8)
		return;
	for (i = 0; i < SIM_CHUNK_WORDS; i++) {
		uint64_t at = o / 8 + i;

		if (p.kind == SIM_CHUNK_PATTERN && (seed ^ at) == (p.seed ^ (p.base + i)))
			continue;
		if (p.kind == SIM_CHUNK_CONST && p.seed == p2s_word(seed, at))
			continue;
		if (p.kind == SIM_CHUNK_BYTES) {
			memcpy(&word, buffer + i * 8, 8);
			if (word != p2s_word(seed, at))
				bad_word(j, at * 8, word);
			continue;
		}
		word = p.kind == SIM_CHUNK_CONST ? p.seed : 0;
		if (p.kind == SIM_CHUNK_PATTERN && j->result.samples < P2S_SAMPLES)
			word = p2s_word(p.seed, p.base + i);
		bad_word(j, at * 8, word);
	}
}

static int one_sided(const struct judge *j, uint64_t o)
{
	uint64_t end = o + SIM_CHUNK;

	return (o >= j->in_begin && end <= j->in_end) || end <= j->in_begin || o >= j->in_end || j->in_begin >= j->in_end;
}

/* The mutant that judges through the window: where a peer has a private copy of what was to arrive, it is shown that. What
 * lies around the transfer it sees in the owner's memory, as a program does that reads back just what it wrote. */
static const struct sim_store *shown(const struct judge *j, uint64_t o)
{
	const struct sim_view *v = j->view;
	struct sim_host *h = v->host;
	uint64_t phys = v->phys + o;
	int s;

	if (h->config.mutant != SIM_MUTANT_CHECK_WINDOW || o < j->in_begin || o >= j->in_end)
		return sim_view_store(v);
	for (s = 0; s < h->config.gpu_count; s++) {
		const struct sim_store *m = &h->mirrors[sim_pair(h, s, v->owner)];

		if (m->chunks && sim_store_present(m, phys))
			return m;
	}
	return sim_view_store(v);
}

static uint64_t to_edge(uint64_t o, uint64_t n, uint64_t edge)
{
	return edge > o && edge - o < n ? edge - o : n;
}

static void judge_range(struct judge *j, uint64_t begin, uint64_t end)
{
	const struct sim_view *v = j->view;
	uint64_t o, n;

	for (o = begin; o < end; o += n) {
		uint64_t in = (v->phys + o) % SIM_CHUNK;

		n = SIM_CHUNK - in;
		n = n < end - o ? n : end - o;
		if (v->host->config.mutant == SIM_MUTANT_CHECK_WINDOW)
			n = to_edge(o, n, o < j->in_begin ? j->in_begin : j->in_end);
		if (n == SIM_CHUNK && o % 8 == 0 && one_sided(j, o))
			judge_chunk(j, shown(j, o), o);
		else
			judge_words(j, shown(j, o), o, o + n);
	}
}

int sim_twin_check(struct sim_kernel *k)
{
	uint64_t begin = k->args[1], end = k->args[2];
	struct judge j = { .in_begin = k->args[3], .in_end = k->args[4], .seed = k->args[5], .seed_out = k->args[6] };
	struct sim_view v, res;
	int rc;

	if (end <= begin)
		return CU_OK;
	if (k->args[0] % 8 || begin % 8 || end % 8)
		return CU_ILLEGAL_ADDRESS;
	rc = sim_kernel_view(k, k->args[0], end, &v);
	if (!rc)
		rc = sim_kernel_view(k, k->args[7], sizeof(j.result), &res);
	if (rc)
		return rc;
	sim_ring_settle(v.host, v.owner);
	j.view = &v;
	sim_store_read(sim_view_store(&res), res.phys, &j.result, sizeof(j.result));
	judge_range(&j, begin, end);
	j.result.compared += (end - begin) / 8;
	sim_store_write(sim_view_store(&res), res.phys, &j.result, sizeof(j.result));
	k->ns = sim_kernel_ns(&v, SIM_OP_SM_LOAD, begin, end - begin);
	return CU_OK;
}
