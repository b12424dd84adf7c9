#define _GNU_SOURCE
#include "api/hit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "api/answer.h"
#include "choose/choose.h"
#include "emit/emit.h"
#include "kept/carry.h"
#include "kept/key.h"
#include "kept/policy.h"
#include "kept/store.h"
#include "kept/trust.h"
#include "rules/rules.h"

#define NOT_RECHECKED "ACS, MIG, NVLink states, UUID, VBIOS, display and kernel log not rechecked"

/* What the full report is judged with when somebody asks for it. */
struct lazy {
	char dir[512];
	struct p2s_record name; /* only full_name and full_hash */
	int32_t single_gpu;
	int32_t nothing_tested;
	int32_t pass_untested;
	int32_t nccl_level;
	int32_t fabric;
	int32_t own_topology;
	int32_t allowed[P2S_CONSUMERS];
	unsigned char *said; /* [(src * gpu_count + dst) * P2S_CONSUMERS + consumer]; index 0: the pair's verdict */
	char *visible;
	char *device_order;
	char path[600];
	char reason[256];
	size_t pair_count;
	size_t gpu_count;
	struct {
		char address[P2S_BDF_TEXT];
		int32_t ours, in_group, driver_order;
	} gpus[P2S_MAX_GPUS];
};

static void lazy_free(void *user)
{
	struct lazy *l = user;

	free(l->said);
	free(l->visible);
	free(l->device_order);
	free(l);
}

/* The group is this process's, not that of the process which made the record. */
static void regroup(const struct lazy *l, struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++) {
		m->gpus[i].in_group = 0;
		m->gpus[i].ours = 0;
		for (size_t k = 0; k < l->gpu_count; k++) {
			if (strcmp(m->gpus[i].address, l->gpus[k].address) != 0)
				continue;
			m->gpus[i].ours = l->gpus[k].ours;
			m->gpus[i].in_group = l->gpus[k].in_group;
			m->gpus[i].driver_order = l->gpus[k].driver_order;
		}
		if (!m->gpus[i].ours)
			m->gpus[i].state = P2PSAFE_GPU_STATE_NOT_OURS;
	}
	p2s_model_drop_outsiders(m);
}

static unsigned char *said(const struct lazy *l, int32_t src, int32_t dst)
{
	return l->said + ((size_t)src * l->gpu_count + (size_t)dst) * P2S_CONSUMERS;
}

static int32_t at(const struct lazy *l, const char *address)
{
	for (size_t i = 0; i < l->gpu_count; i++)
		if (strcmp(l->gpus[i].address, address) == 0)
			return (int32_t)i;
	return -1;
}

/* Does every pair say what the decision said of it? A record may hold a failure of an earlier run that is not among these
 * legs, and groups of GPUs are chosen pair by pair. */
static int32_t says_the_same(const struct lazy *l, const struct p2s_model *m)
{
	int32_t map[P2S_MAX_GPUS];

	for (size_t i = 0; i < m->gpu_count; i++)
		map[i] = at(l, m->gpus[i].address);
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];
		const unsigned char *of = map[p->src] >= 0 && map[p->dst] >= 0 ? said(l, map[p->src], map[p->dst]) : NULL;

		if (of == NULL || of[0] != p->verdict || memcmp(of + 1, p->permits + 1, P2S_CONSUMERS - 1) != 0)
			return 0;
	}
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		if (m->consumers[c].allowed != l->allowed[c])
			return 0;
	return m->pair_count == l->pair_count;
}

/* Judged again from the legs, the evidence must say what the decision says; else the file is not believed. */
static int32_t load(void *user, struct p2s_model *m)
{
	const struct lazy *l = user;
	const char *why;
	size_t len = 0;
	int dir = p2s_trust_dir(l->dir, &why);
	char *text = dir >= 0 ? p2s_store_full(dir, &l->name, &len) : NULL;
	int32_t ok = text != NULL && p2s_emit_parse_full(text, len, m) == 1;

	free(text);
	if (dir >= 0)
		close(dir);
	if (!ok)
		return 0;
	regroup(l, m);
	m->single_gpu = l->single_gpu;
	m->nothing_tested = l->nothing_tested;
	m->nccl_level = l->nccl_level;
	m->fabric = l->fabric;
	m->own_topology = l->own_topology;
	m->kept_hit = 1;
	snprintf(m->kept_path, sizeof m->kept_path, "%.511s", l->path);
	snprintf(m->kept_reason, sizeof m->kept_reason, "%s", l->reason);
	if (!p2s_rules_judge(m, NULL) || !p2s_choose(m) || !p2s_emit_settings(m, l->pass_untested))
		return 0;
	p2s_choose_ordinals(m, l->visible, l->device_order);
	return says_the_same(l, m);
}

static int32_t copy(char **to, const char *from)
{
	*to = from != NULL ? strdup(from) : NULL;
	return from == NULL || *to != NULL;
}

static int32_t prepare_lazy(struct p2s_session *s, const struct p2s_record *r, const char *dir, p2psafe_report *report)
{
	const struct p2s_model *m = &report->decision.m;
	struct lazy *l;

	if (r->full_name[0] == '\0' || dir == NULL)
		return 0; /* an operator's record has no full report beside it */
	l = calloc(1, sizeof *l);
	if (l == NULL)
		return p2s_answer_oom(s);
	snprintf(l->dir, sizeof l->dir, "%s", dir);
	memcpy(l->name.full_name, r->full_name, sizeof l->name.full_name);
	l->name.full_hash = r->full_hash;
	l->single_gpu = m->single_gpu;
	l->nothing_tested = m->nothing_tested;
	l->pass_untested = report->pass_untested;
	l->nccl_level = m->nccl_level;
	l->fabric = m->fabric;
	l->own_topology = m->own_topology;
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		l->allowed[c] = m->consumers[c].allowed;
	snprintf(l->path, sizeof l->path, "%s", m->kept_path);
	snprintf(l->reason, sizeof l->reason, "%s", m->kept_reason);
	for (size_t i = 0; i < m->gpu_count; i++) {
		memcpy(l->gpus[i].address, m->gpus[i].address, sizeof l->gpus[i].address);
		l->gpus[i].ours = m->gpus[i].ours;
		l->gpus[i].in_group = m->gpus[i].in_group;
		l->gpus[i].driver_order = m->gpus[i].driver_order;
	}
	l->gpu_count = m->gpu_count;
	l->pair_count = m->pair_count;
	l->said = calloc(m->gpu_count * m->gpu_count + 1, P2S_CONSUMERS);
	for (size_t i = 0; i < m->pair_count && l->said != NULL; i++) {
		unsigned char *of = said(l, m->pairs[i].src, m->pairs[i].dst);

		memcpy(of, m->pairs[i].permits, P2S_CONSUMERS);
		of[0] = (unsigned char)m->pairs[i].verdict;
	}
	if (l->said == NULL || !copy(&l->visible, s->request.visible) || !copy(&l->device_order, s->request.device_order)) {
		lazy_free(l);
		return p2s_answer_oom(s);
	}
	report->load = load;
	report->load_free = lazy_free;
	report->load_user = l;
	return 0;
}

/* Paths, staged verdicts and the permission matrix, in the model's order of GPUs. NULL when out of memory. */
static unsigned char *transfer(const struct p2s_record *r, struct p2s_model *m)
{
	size_t n = m->gpu_count;
	unsigned char *verdict = malloc(n * n * P2S_CONSUMERS + 1);
	int32_t map[P2S_MAX_GPUS];

	if (verdict == NULL)
		return NULL;
	memset(verdict, P2PSAFE_VERDICT_UNTESTED, n * n * P2S_CONSUMERS);
	for (size_t i = 0; i < n; i++)
		map[i] = p2s_record_gpu(r, m->gpus[i].address);
	for (size_t i = 0; i < m->pair_count; i++) {
		struct p2s_pair *p = &m->pairs[i];
		int32_t a = map[p->src];
		int32_t b = map[p->dst];
		size_t cell;

		if (a < 0 || b < 0 || !r->gpus[a].tested || !r->gpus[b].tested)
			continue;
		cell = (size_t)a * r->gpu_count + (size_t)b;
		p->path = r->path[cell];
		p->nccl_path = p->path == P2PSAFE_PATH_NODE ? P2PSAFE_PATH_PHB : p->path;
		memcpy(verdict + ((size_t)p->src * n + (size_t)p->dst) * P2S_CONSUMERS, r->verdict + cell * P2S_CONSUMERS,
			   P2S_CONSUMERS);
	}
	for (size_t i = 0; i < m->staged_count; i++) {
		struct p2s_staged *st = &m->staged[i];

		if (map[st->a] >= 0 && map[st->b] >= 0)
			st->verdict = r->staged[(size_t)map[st->a] * r->gpu_count + (size_t)map[st->b]];
	}
	return verdict;
}

/* What the record knows and sysfs does not: minors decide whose GPUs these are, UUIDs and the driver's order resolve names; some
 * settings concern some kinds of GPU. */
static void lend_names(const struct p2s_record *r, struct p2s_model *m)
{
	for (size_t i = 0; i < m->gpu_count; i++) {
		int32_t k = p2s_record_gpu(r, m->gpus[i].address);

		if (k < 0)
			continue;
		m->gpus[i].minor = r->gpus[k].minor;
		m->gpus[i].driver_order = r->gpus[k].order;
		m->gpus[i].cc_major = r->gpus[k].cc / 10;
		m->gpus[i].cc_minor = r->gpus[k].cc % 10;
		snprintf(m->gpus[i].uuid, sizeof m->gpus[i].uuid, "%s", r->gpus[k].uuid);
	}
}

static int32_t fill(struct p2s_session *s, const struct p2s_record *r, const char *dir, const char *path,
					p2psafe_report *report)
{
	struct p2s_model *m = &report->decision.m;
	struct p2s_matrix matrix = {.gpus = m->gpu_count};
	unsigned char *verdict;
	int32_t rc;

	m->level = r->level;
	m->created_unix = r->created_unix;
	m->nothing_tested = r->nothing_tested;
	m->deadline_hit = r->deadline_hit;
	m->fabric = r->fabric;
	m->torn_lines = r->torn_lines;
	m->nccl_level = r->nccl_level;
	m->kept_hit = 1;
	snprintf(m->kept_path, sizeof m->kept_path, "%.511s", path);
	if (!p2s_model_make_pairs(m))
		return p2s_answer_oom(s);
	verdict = transfer(r, m);
	if (verdict == NULL)
		return p2s_answer_oom(s);
	matrix.verdict = verdict;
	rc = p2s_answer_finish(s, m, &matrix);
	free(verdict);
	return rc != 0 ? rc : prepare_lazy(s, r, dir, report);
}

/* What one folder adds. Returns 0 when its newest record cannot be read, and is set. */
static int32_t learn_from(struct p2s_session *s, const struct p2s_model *m, int dir, int32_t whole, struct p2s_record *r,
						  int32_t *worse)
{
	struct p2s_request any = s->request;
	struct p2s_record other;
	char reason[200];
	uint64_t highest;

	any.level = 0; /* a failure counts at every level */
	if (!p2s_store_last_whole(dir, &other))
		return !whole || (p2s_store_highest(dir, &highest) && highest == 0);
	if (p2s_key_host_matches(&other, m, &s->host, &any, reason, sizeof reason) && p2s_carry_add(r, &other)) {
		*worse = 1;
		if (other.created_unix > r->created_unix) {
			r->created_unix = other.created_unix; /* what was not tested is tried again as late as it would be there */
			r->retries = other.retries;
		}
	}
	whole = whole ? p2s_store_highest(dir, &highest) && highest == other.generation : 1;
	p2s_record_free(&other);
	return whole;
}

int32_t p2s_hit_learn(struct p2s_session *s, const struct p2s_model *m, const struct p2s_places *places, int own,
					  struct p2s_record *r, int32_t *worse)
{
	*worse = 0;
	for (int i = 0; i < places->count; i++)
		if (i != own && places->place[i].fd >= 0 && !learn_from(s, m, places->place[i].fd, i == places->write, r, worse))
			return 0;
	return 1;
}

/* A record, and where it comes from. */
struct source {
	struct p2s_record *r;
	const struct p2s_places *places;
	int place;       /* -1: an operator's file */
	const char *dir; /* NULL there */
	char path[600];
	int32_t any_age;
};

/* Tries one record. */
static int32_t use(struct p2s_session *s, const struct source *from, p2psafe_report *report, int32_t *hit, char *why,
				   size_t cap)
{
	struct p2s_model *m = &report->decision.m;
	struct p2s_record *r = from->r;
	enum p2s_group group;
	int32_t worse;
	int32_t rc = p2s_answer_look(s, m, P2S_SCOPE_BOUND);

	if (rc != 0)
		return rc;
	lend_names(r, m);
	rc = p2s_answer_group(s, m, 0, &group);
	if (rc == 0 && group == P2S_GROUP_TESTABLE && !p2s_hit_learn(s, m, from->places, from->place, r, &worse)) {
		snprintf(why, cap, "a newer record cannot be read");
	} else if (rc == 0 && group == P2S_GROUP_TESTABLE && p2s_key_matches(r, m, &s->host, &s->request, why, cap)) {
		if (from->any_age || s->request.flags & P2PSAFE_FLAG_NO_RETRY || !p2s_policy_retry(r, (int64_t)time(NULL))) {
			char passes[64] = "";

			if (r->passes >= P2S_CARRY_PASSES)
				snprintf(passes, sizeof passes, "a hang is kept for this boot; ");
			else if (r->passes > 0)
				snprintf(passes, sizeof passes, "a failure is kept, %d of %d passing tests since; ", (int)r->passes,
						 P2S_CARRY_PASSES);
			snprintf(m->kept_reason, sizeof m->kept_reason, "%s%.120s%s" NOT_RECHECKED, passes, why,
					 why[0] != '\0' ? "; " : "");
			*hit = 1;
			return fill(s, r, from->dir, from->path, report);
		}
		snprintf(why, cap, "untested, and time to try again");
	} else if (rc == 0 && group != P2S_GROUP_TESTABLE) {
		snprintf(why, cap, "no group of two GPUs here");
	}
	/* A GPU list that does not fit fails again, with its reason, where the whole inventory is read. */
	p2s_model_free(m);
	p2s_model_init(m);
	memset(&s->fault, 0, sizeof s->fault);
	return 0;
}

static int32_t use_result_file(struct p2s_session *s, const struct p2s_places *places, const struct p2s_refused *refused,
							   p2psafe_report *report, int32_t *hit, char *why, size_t cap)
{
	struct p2s_record r;
	struct source from = {.r = &r, .places = places, .place = -1, .any_age = 1};
	const char *text_why = "no record";
	size_t len = 0;
	char *text;
	int32_t rc;

	if (s->request.result_file == NULL || getauxval(AT_SECURE) != 0)
		return 0;
	snprintf(from.path, sizeof from.path, "%s", s->request.result_file);
	if (refused != NULL && p2s_recheck_refused(refused, from.path) >= 0)
		return 0;
	text = p2s_trust_read(AT_FDCWD, s->request.result_file, P2S_RECORD_MAX, 0, &len, &text_why);
	if (text == NULL || !p2s_record_parse(&r, text, len)) {
		snprintf(why, cap, "%.120s: %s", s->request.result_file, text == NULL ? text_why : "no whole record");
		free(text);
		return 0;
	}
	free(text);
	rc = use(s, &from, report, hit, why, cap);
	p2s_record_free(&r);
	return rc;
}

static int32_t use_place(struct p2s_session *s, const struct p2s_places *places, int i, const struct p2s_refused *refused,
						 int32_t any_age, p2psafe_report *report, int32_t *hit, char *why, size_t cap)
{
	const struct p2s_place *place = &places->place[i];
	struct p2s_record r;
	struct source from = {.r = &r, .places = places, .place = i, .dir = place->dir, .any_age = any_age};
	const char *store_why;
	int32_t rc = 0;

	if (place->fd < 0) {
		snprintf(why, cap, "%s", place->why);
		return 0;
	}
	if (!p2s_store_newest(place->fd, &r, &store_why)) {
		snprintf(why, cap, "%s", store_why);
		return 0;
	}
	snprintf(from.path, sizeof from.path, "%s/%llu.json", place->dir, (unsigned long long)r.generation);
	if (refused == NULL || p2s_recheck_refused(refused, from.path) < 0)
		rc = use(s, &from, report, hit, why, cap);
	p2s_record_free(&r);
	return rc;
}

int32_t p2s_hit_try(struct p2s_session *s, const struct p2s_places *places, const struct p2s_refused *refused,
					p2psafe_report *report, int32_t *hit, char *why, size_t cap)
{
	int32_t rc;

	*hit = 0;
	snprintf(why, cap, "no record");
	rc = use_result_file(s, places, refused, report, hit, why, cap);
	for (int i = 0; i < places->count && rc == 0 && !*hit; i++)
		rc = use_place(s, places, i, refused, 0, report, hit, why, cap);
	return rc;
}

int32_t p2s_hit_adopt(struct p2s_session *s, const struct p2s_places *places, p2psafe_report *report, int32_t *hit, char *why,
					  size_t cap)
{
	*hit = 0;
	return use_place(s, places, places->write, NULL, 1, report, hit, why, cap);
}
