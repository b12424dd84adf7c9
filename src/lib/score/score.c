#include "score/score.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t p2s_score_writes(const struct p2s_pair *pair)
{
	return larger(pair->bandwidth.sm_store, pair->bandwidth.ce_write);
}

uint64_t p2s_score_staged(const struct p2s_pair *pair, const struct p2s_staged *staged)
{
	uint64_t own;
	uint64_t other;

	if (staged == NULL)
		return 0;
	/* Of a staged pair (a < b): ce_write is a to b, ce_read b to a. */
	own = pair->src < pair->dst ? staged->bandwidth.ce_write : staged->bandwidth.ce_read;
	other = pair->src < pair->dst ? staged->bandwidth.ce_read : staged->bandwidth.ce_write;
	return own != 0 ? own : other;
}

int32_t p2s_score_degraded(const struct p2s_pair *pair, const struct p2s_staged *staged)
{
	uint64_t peer = p2s_score_writes(pair);
	uint64_t host = p2s_score_staged(pair, staged);

	return peer != 0 && host != 0 && peer <= host;
}

int32_t p2s_score_not_nvlink(const struct p2s_model *m, const struct p2s_pair *pair)
{
	uint64_t seen = p2s_score_writes(pair);
	uint64_t a = p2s_score_own_link(&m->gpus[pair->src].facts);
	uint64_t b = p2s_score_own_link(&m->gpus[pair->dst].facts);

	return pair->path == P2PSAFE_PATH_NVL && seen != 0 && a != 0 && b != 0 && seen < (a < b ? a : b);
}

int32_t p2s_score_efficiency(const struct p2s_pair *pair, uint64_t limit_under_load)
{
	uint64_t of = limit_under_load != 0 ? limit_under_load : pair->limit_bytes_per_s;
	uint64_t seen = p2s_score_writes(pair);

	if (of == 0 || seen == 0)
		return -1;
	return seen / 10 >= of ? 10000 : (int32_t)(seen * 1000 / of);
}

/* 1 the peer wins, 0 staging does, -1 cannot be said. */
static int32_t wins(const struct p2s_size_row *r)
{
	if (r->p2p_ns != 0 && r->staged_ns != 0)
		return r->p2p_ns < r->staged_ns;
	if (r->p2p_bytes_per_s != 0 && r->staged_bytes_per_s != 0)
		return r->p2p_bytes_per_s > r->staged_bytes_per_s;
	return -1;
}

uint64_t p2s_score_wins_from(const struct p2s_pair *pair)
{
	uint64_t lost = 0; /* the largest size at which staging wins */
	uint64_t from = 0;

	for (size_t i = 0; i < pair->size_count; i++)
		if (wins(&pair->sizes[i]) == 0 && pair->sizes[i].bytes > lost)
			lost = pair->sizes[i].bytes;
	for (size_t i = 0; i < pair->size_count; i++)
		if (wins(&pair->sizes[i]) == 1 && pair->sizes[i].bytes > lost && (from == 0 || pair->sizes[i].bytes < from))
			from = pair->sizes[i].bytes;
	return from;
}

/* value of `of`, in `weight` parts; more than all is all. */
static uint64_t part(uint64_t value, uint64_t of, uint64_t weight)
{
	if (value >= of)
		return weight;
	while (of > UINT64_MAX / 1000) { /* no speed is that large: only so that no product overflows */
		of >>= 10;
		value >>= 10;
	}
	return value * weight / of;
}

/* Of the limit. Where nothing is known to compare with, half of the weight: it moved, and that is all that can be said. */
static uint64_t share(uint64_t value, uint64_t limit, uint64_t weight)
{
	if (value == 0)
		return 0;
	return limit != 0 ? part(value, limit, weight) : weight / 2;
}

static uint64_t gain(uint64_t peer, uint64_t host)
{
	return host == 0 || peer <= host ? 0 : part(peer - host, host, P2S_SCORE_GAIN);
}

static uint64_t sooner(const struct p2s_pair *pair, const struct p2s_staged *staged)
{
	uint64_t peer = pair->latency.store_flag_ns;
	uint64_t host = staged != NULL ? staged->latency.store_flag_ns : 0;

	return peer == 0 || peer >= host ? 0 : part(host - peer, host, P2S_SCORE_LATENCY);
}

int32_t p2s_score_pair(const struct p2s_pair *pair, const struct p2s_staged *staged)
{
	uint64_t writes = p2s_score_writes(pair);
	uint64_t host = p2s_score_staged(pair, staged);
	uint64_t limit = pair->limit_bytes_per_s != 0 ? pair->limit_bytes_per_s : host < UINT64_MAX / 2 ? host * 2 : 0;
	uint64_t sum;

	switch (pair->verdict) {
	case P2PSAFE_VERDICT_OK:
	case P2PSAFE_VERDICT_DEGRADED:
		break;
	case P2PSAFE_VERDICT_CORRUPT:
	case P2PSAFE_VERDICT_HANG:
	case P2PSAFE_VERDICT_ERROR:
	case P2PSAFE_VERDICT_UNSUPPORTED:
		return 0;
	default:
		return writes != 0 ? 0 : -1;
	}
	if (writes == 0)
		return -1;
	sum = share(writes, limit, P2S_SCORE_WRITE) +
		  share(larger(pair->bandwidth.ce_read, pair->bandwidth.sm_load), limit, P2S_SCORE_READ) +
		  share(pair->bandwidth.loaded, limit, P2S_SCORE_LOADED) + gain(writes, host) + sooner(pair, staged);
	if (pair->verdict == P2PSAFE_VERDICT_DEGRADED)
		return 1 + (int32_t)(sum * (P2S_SCORE_DEGRADED_MAX - 1) / 1000);
	return P2S_SCORE_DEGRADED_MAX + 1 + (int32_t)(sum * (1000 - P2S_SCORE_DEGRADED_MAX - 1) / 1000);
}
