/* What the kernel log says beside IOMMU faults. An Xid 43, 45 or 109 of our own killed worker is no evidence. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/about.h"
#include "rules/lost.h"

static void say(const struct p2s_about *a, struct p2s_claim *c)
{
	c->gpu = a->event->gpu;
	P2S_SAY(c->value[0], "%s", a->event->text);
}

static int32_t own_end(const struct p2s_log_event *e)
{
	return e->own_pid && (e->xid == 43 || e->xid == 45 || e->xid == 109);
}

int32_t p2s_find_xid_grave(const struct p2s_about *a, struct p2s_claim *c)
{
	if (!p2s_log_is_grave(a->event) || p2s_log_is_nvlink(a->event) || own_end(a->event) || p2s_about_taken_back(a->m, a->event))
		return 0;
	say(a, c);
	if (a->event->recovery > P2S_RECOVERY_NONE)
		P2S_SAY(c->value[1], "; the driver asks for: %s", p2s_log_recovery_text(a->event->recovery));
	return 1;
}

int32_t p2s_find_xid_nvlink(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_log_event *e = a->event;

	if (!p2s_log_is_nvlink(e))
		return 0;
	say(a, c);
	if (!p2s_log_ends_nvlink(e))
		c->severity = P2PSAFE_SEVERITY_WARNING;
	return 1;
}

int32_t p2s_find_xid_other(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_log_event *e = a->event;

	if (p2s_log_class(e->kind) != P2S_LOG_CLASS_XID || p2s_log_is_nvlink(e) || own_end(e) ||
		(p2s_log_is_grave(e) ? !p2s_about_taken_back(a->m, e) : e->xid == 154))
		return 0;
	say(a, c);
	if (!e->in_test)
		c->severity = P2PSAFE_SEVERITY_INFO;
	return 1;
}

/* The one GPU that the line names, or whose way runs through the bridge that it names; -1 of several or none. */
static int32_t gpu_below(const struct p2s_model *m, const struct p2s_log_event *e, int32_t *any)
{
	int32_t found = -1;
	int32_t count = 0;

	for (size_t i = 0; i < m->gpu_count; i++) {
		if (!p2s_rules_link_of(m, (int32_t)i, e))
			continue;
		found = (int32_t)i;
		count++;
	}
	*any = count > 0;
	return count == 1 ? found : -1;
}

int32_t p2s_find_aer_fatal(const struct p2s_about *a, struct p2s_claim *c)
{
	int32_t gpu, any;

	if (a->event->kind != P2S_LOG_AER_FATAL || !a->event->in_test)
		return 0;
	gpu = gpu_below(a->m, a->event, &any);
	if (!any)
		return 0;
	say(a, c);
	c->gpu = gpu;
	return 1;
}

/* The number behind "BAR " as a whole: before 6.10 the kernel numbers windows of SR-IOV from 7 and of bridges from 13 in the
 * same words (drivers/pci/setup-res.c). -1 none. */
static long window_number(const char *text)
{
	const char *at = strstr(text, "BAR ");
	char *end;
	long number;

	if (at == NULL)
		return -1;
	number = strtol(at + 4, &end, 10);
	return end != at + 4 && (*end == ' ' || *end == ':') ? number : -1;
}

/* "BAR 2" is BAR1 where BAR0 takes two numbers. Of a GPU whose BARs were not read either may be meant: the other one is the
 * upper half of a window then, which no line names. */
static int32_t names_bar1(const struct p2s_gpu *g, const char *text)
{
	long number = window_number(text);

	return g->facts.bar1_index != P2S_UNREAD ? number == g->facts.bar1_index : number == 1 || number == 2;
}

/* The kernel tries again (pci=realloc, a driver that resizes): does the window have an address now, and room for the memory,
 * or, where nobody told how much that is, for what was asked for then? */
static int32_t has_room_now(const struct p2s_gpu *g, const char *text)
{
	const char *size = strstr(text, "[mem size 0x");
	uint64_t needed = g->memory_bytes;

	if (needed == 0 && size != NULL)
		needed = strtoull(size + strlen("[mem size "), NULL, 16);
	return g->facts.bar1_assigned == P2S_YES && needed != 0 && g->bar1_bytes >= needed;
}

int32_t p2s_find_bar_no_space_log(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_log_event *e = a->event;
	int32_t room;

	if (e->kind != P2S_LOG_BAR_NO_SPACE || e->gpu < 0 || !names_bar1(&a->m->gpus[e->gpu], e->text))
		return 0;
	say(a, c);
	room = has_room_now(&a->m->gpus[e->gpu], e->text);
	if (room)
		P2S_SAY(c->value[1], " (it has one now)");
	if (room || p2s_about_all_right(a->m, e->gpu))
		c->severity = P2PSAFE_SEVERITY_INFO;
	return 1;
}

/* The line names an address and no GPU: the GPU is the one whose window begins there or holds it. It may be of an earlier load
 * of the driver. */
int32_t p2s_find_bar_unaligned(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_log_event *e = a->event;

	if (e->kind != P2S_LOG_NVRM_BAR1_UNALIGNED)
		return 0;
	say(a, c);
	c->gpu = e->owner >= 0 ? e->owner : e->gpu;
	P2S_SAY(c->value[1], "0x%" PRIx64, e->fault_address);
	P2S_SAY(c->value[2], "0x%" PRIx64, e->flags);
	if (p2s_about_all_right(a->m, c->gpu))
		c->severity = P2PSAFE_SEVERITY_INFO;
	return 1;
}

/* It names GPUs by the driver's own numbers, if at all, and may be of an earlier load of the driver. */
int32_t p2s_find_peer_map(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_log_event *e = a->event;

	if (e->kind != P2S_LOG_NVRM_PEER_MAP || (e->gpu < 0 && e->device[0] != '\0'))
		return 0;
	say(a, c);
	if (e->in_test)
		c->confidence = P2PSAFE_CONFIDENCE_HIGH;
	if (!e->in_test && p2s_about_all_right(a->m, e->gpu))
		c->severity = P2PSAFE_SEVERITY_INFO;
	return 1;
}

static int32_t is_boot_failure(int32_t kind)
{
	return kind == P2S_LOG_NVRM_FSP_ERROR || kind == P2S_LOG_NVRM_FSP_BOOT || kind == P2S_LOG_NVRM_GSP_BOOT ||
		   kind == P2S_LOG_NVRM_WPR2 || kind == P2S_LOG_NVRM_INIT_FAILED;
}

/* A GPU that works now has been started since. */
static int32_t works(const struct p2s_model *m, int32_t gpu)
{
	struct p2s_tally t = p2s_about_tally(m, gpu);

	return gpu >= 0 && t.pairs > t.untested;
}

int32_t p2s_find_boot_failed(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_log_event *e = a->event;

	if (!is_boot_failure(e->kind) || works(a->m, e->gpu) || (e->gpu < 0 && !p2s_about_has(a->m, "DRIVER_NO_DEVICE")))
		return 0;
	say(a, c);
	if (e->kind == P2S_LOG_NVRM_FSP_ERROR && e->flags != 0)
		P2S_SAY(c->value[1], " (firmware error 0x%" PRIx64 ")", e->flags);
	else if (e->kind == P2S_LOG_NVRM_WPR2)
		P2S_SAY(c->value[1], " (an earlier start failed: the GPU needs a reset or a power cycle)");
	return 1;
}

/* Firmware lines often name no GPU: then all that did not start are meant. */
int32_t p2s_find_boot_failed_identity(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu *g = &a->m->gpus[a->gpu];
	const struct p2s_log_event *fsp = NULL;
	int32_t failed = g->state == P2PSAFE_GPU_STATE_FAILED;

	if (strcmp(g->domain_type, "identity") != 0 || works(a->m, a->gpu))
		return 0;
	for (size_t i = 0; i < a->m->facts.log_count; i++) {
		const struct p2s_log_event *e = &a->m->facts.log[i];

		if ((e->kind == P2S_LOG_NVRM_FSP_ERROR || e->kind == P2S_LOG_NVRM_FSP_BOOT) && (e->gpu < 0 || e->gpu == a->gpu))
			fsp = e;
		failed |= e->kind == P2S_LOG_NVRM_INIT_FAILED && e->gpu == a->gpu;
	}
	if (fsp == NULL || (!failed && !p2s_about_has(a->m, "DRIVER_NO_DEVICE")))
		return 0;
	P2S_SAY(c->source, "kernel log and iommu_group/type");
	P2S_SAY(c->value[0], "%s", fsp->text);
	return 1;
}
