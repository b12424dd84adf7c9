#include "kept/recheck.h"

#include <stdio.h>
#include <string.h>

#include "core/ascii.h"
#include "evidence/log.h"
#include "rules/rules.h"

static int32_t differs(struct p2s_recheck *r, const char *what, const char *of)
{
	if (r->changed[0] == '\0')
		snprintf(r->changed, sizeof r->changed, "%s of %s changed", what, of);
	return 0;
}

/* Each name once. */
static int32_t unread(struct p2s_recheck *r, const char *what)
{
	size_t used = strlen(r->unread);

	if (strstr(r->unread, what) == NULL && used + strlen(what) + 3 < sizeof r->unread)
		snprintf(r->unread + used, sizeof r->unread - used, "%s%s", used > 0 ? ", " : "", what);
	return 1;
}

static int32_t same_number(struct p2s_recheck *r, const char *what, const char *of, int32_t kept, int32_t now)
{
	if (kept == P2S_UNREAD || now == P2S_UNREAD)
		return unread(r, what);
	return kept == now || differs(r, what, of);
}

static int32_t same_text(struct p2s_recheck *r, const char *what, const char *of, const char *kept, const char *now)
{
	if (kept[0] == '\0' || now[0] == '\0')
		return unread(r, what);
	return p2s_ascii_same(kept, now) || differs(r, what, of);
}

/* Every bridge above the GPU, and the GPU itself. A GPU that hangs elsewhere has other words, whatever they are. */
static int32_t same_way(struct p2s_recheck *r, const struct p2s_gpu *kept, const struct p2s_gpu *now)
{
	const struct p2s_gpu_facts *a = &kept->facts;
	const struct p2s_gpu_facts *b = &now->facts;
	int32_t same = 1;

	if (a->hop_count == 0 || b->hop_count == 0)
		return unread(r, "ACS");
	if (a->hop_count != b->hop_count)
		return differs(r, "the bridges", now->address);
	for (size_t i = 0; i < a->hop_count && same; i++) {
		if (strcmp(a->hops[i].address, b->hops[i].address) != 0)
			same = differs(r, "the bridges", now->address);
		else
			same = same_number(r, "ACS", b->hops[i].address, a->hops[i].acs_ctl, b->hops[i].acs_ctl);
	}
	return same;
}

static int32_t same_gpu(struct p2s_recheck *r, const struct p2s_gpu *kept, const struct p2s_gpu *now)
{
	const struct p2s_gpu_facts *a = &kept->facts;
	const struct p2s_gpu_facts *b = &now->facts;
	const char *of = now->address;

	return same_way(r, kept, now) && same_number(r, "MIG mode", of, a->mig, b->mig) &&
	       same_number(r, "NVLink states", of, a->nvlinks_active, b->nvlinks_active) &&
	       same_number(r, "NVLink states", of, a->nvlinks_total, b->nvlinks_total) &&
	       same_text(r, "UUID", of, kept->uuid, now->uuid) && same_text(r, "VBIOS", of, kept->vbios, now->vbios);
}

static int32_t in_group(const struct p2s_model *m, int32_t gpu)
{
	return gpu >= 0 && (size_t)gpu < m->gpu_count && m->gpus[gpu].in_group;
}

/* A failure is kept whatever is logged of the same kind. */
static int32_t has_failures(const struct p2s_model *kept)
{
	for (size_t i = 0; i < kept->pair_count; i++)
		if (p2s_rules_is_bad(kept->pairs[i].told))
			return 1;
	return 0;
}

/* Does the line speak against what was kept? Returns 1 with *what. */
static int32_t speaks_against(const struct p2s_model *now, const struct p2s_log_event *e, int32_t failed, char *what, size_t cap)
{
	if (!in_group(now, e->gpu))
		return 0;
	if (p2s_log_is_grave(e) || (!failed && p2s_log_ends_nvlink(e)))
		snprintf(what, cap, "%s logged Xid %d since the test", now->gpus[e->gpu].address, (int)e->xid);
	else if (!failed && p2s_log_class(e->kind) == P2S_LOG_CLASS_FAULT && in_group(now, e->owner) && e->owner != e->gpu)
		snprintf(what, cap, "the IOMMU stopped a transfer from %s to %s since the test", now->gpus[e->gpu].address,
		         now->gpus[e->owner].address);
	else
		return 0;
	return 1;
}

/* Numbers of records only rise while the machine runs, and the boot is part of the key. A run that saw no log knows no
 * number: then every grave line is younger than it, as far as anybody can tell. */
static int32_t nothing_logged(struct p2s_recheck *r, const struct p2s_model *kept, const struct p2s_model *now)
{
	const struct p2s_host_facts *log = &now->facts.host;
	uint64_t position = kept->facts.host.log_position;
	int32_t failed = has_failures(kept);

	if (log->log_state != P2S_LOG_READABLE)
		return unread(r, "kernel log");
	for (size_t i = 0; i < now->facts.log_count; i++) {
		const struct p2s_log_event *e = &now->facts.log[i];

		if ((e->seq == 0 || e->seq > position) && speaks_against(now, e, failed, r->changed, sizeof r->changed))
			return 0;
	}
	if (position != 0 && (log->log_first > position + 1 || log->log_lost > 0))
		return unread(r, "all of the kernel log");
	return 1;
}

/* Of one GPU of now's group. */
static int32_t same_card(struct p2s_recheck *r, const struct p2s_model *kept, const struct p2s_gpu *now)
{
	for (size_t k = 0; k < kept->gpu_count; k++)
		if (strcmp(kept->gpus[k].address, now->address) == 0)
			return same_gpu(r, &kept->gpus[k], now);
	return differs(r, "the list of GPUs", "this machine");
}

/* A desktop that starts takes a part of BAR1, and transfers may go another way from then on: what was allowed is no answer any
 * more. The card is the same, so what failed stays. */
static int32_t same_displays(struct p2s_recheck *r, const struct p2s_model *kept, const struct p2s_model *now)
{
	int32_t same = 1;

	for (size_t i = 0; i < now->gpu_count; i++)
		for (size_t k = 0; k < kept->gpu_count && now->gpus[i].in_group; k++)
			if (strcmp(kept->gpus[k].address, now->gpus[i].address) == 0)
				same &= same_number(r, "the display", now->gpus[i].address, kept->gpus[k].facts.display_active,
				                    now->gpus[i].facts.display_active);
	return same;
}

int32_t p2s_recheck_compare(const struct p2s_model *kept, const struct p2s_model *now, struct p2s_recheck *out)
{
	int32_t same = 1;

	memset(out, 0, sizeof *out);
	for (size_t i = 0; i < now->gpu_count; i++) {
		if (!now->gpus[i].in_group || same_card(out, kept, &now->gpus[i]))
			continue;
		out->other[i] = 1;
		same = 0;
	}
	return same && same_displays(out, kept, now) && nothing_logged(out, kept, now);
}
