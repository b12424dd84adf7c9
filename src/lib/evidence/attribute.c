/* Whose line is it, whose memory is hit, what do the flags say. */
#include <stdio.h>
#include <string.h>

#include "evidence/log.h"

/* AMD IOMMU event flags (AMD I/O virtualization specification 3.08, table 56) */
#define AMD_INTERRUPT UINT64_C(0x008)
#define AMD_PRESENT UINT64_C(0x010)
#define AMD_WRITE UINT64_C(0x020)
#define AMD_NO_PERMISSION UINT64_C(0x040)
#define AMD_TRANSLATION UINT64_C(0x100)

static int32_t find_gpu(const char *device, const struct p2s_log_gpu *gpus, size_t count)
{
	struct p2psafe_bdf bdf;
	const char *first = strchr(device, ':');
	int32_t any_segment = first != NULL && strchr(first + 1, ':') == NULL;
	int32_t found = -1;

	if (!p2s_bdf_parse(device, &bdf))
		return -1;
	for (size_t i = 0; i < count; i++) {
		const struct p2psafe_bdf *g = &gpus[i].bdf;

		if (g->bus != bdf.bus || g->device != bdf.device || g->function != bdf.function ||
		    (!any_segment && g->domain != bdf.domain))
			continue;
		if (found >= 0)
			return -1; /* two segments have one there */
		found = (int32_t)i;
	}
	return found;
}

/* The firmware's table of ids adds a base to the requester id, which leaves the low 16 bits alone on every machine that was
 * reported. */
static int32_t find_stream(const struct p2s_log_event *e, const struct p2s_log_gpu *gpus, size_t count)
{
	int32_t found = -1;

	for (size_t i = 0; i < count && e->has_stream; i++) {
		const struct p2s_log_gpu *g = &gpus[i];
		uint32_t requester = (uint32_t)g->bdf.bus << 8 | (uint32_t)g->bdf.device << 3 | g->bdf.function;

		if (requester != (e->stream & 0xffff) ||
		    (e->unit[0] != '\0' && g->smmu[0] != '\0' && strcmp(e->unit, g->smmu) != 0))
			continue;
		if (found >= 0)
			return -1;
		found = (int32_t)i;
	}
	return found;
}

void p2s_log_attribute(struct p2s_log_event *event, const struct p2s_log_gpu *gpus, size_t count)
{
	event->gpu = event->device[0] != '\0' ? find_gpu(event->device, gpus, count) : find_stream(event, gpus, count);
	event->owner = event->owner_bar = -1;
	event->owner_offset = 0;
	for (size_t i = 0; event->has_address && i < count; i++) {
		for (int32_t bar = 0; bar < P2S_BARS; bar++) {
			uint64_t start = gpus[i].bar_start[bar];

			if (gpus[i].bar_bytes[bar] == 0 || event->fault_address < start || event->fault_address - start >= gpus[i].bar_bytes[bar])
				continue;
			event->owner = (int32_t)i;
			event->owner_bar = bar;
			event->owner_offset = event->fault_address - start;
			return;
		}
	}
}

int32_t p2s_log_entry_present(const struct p2s_log_event *event)
{
	switch (event->kind) {
	case P2S_LOG_AMD_FAULT:
		return (event->flags & AMD_PRESENT) != 0 ? P2S_YES : P2S_NO;
	case P2S_LOG_DMAR_FAULT: /* 5 and 6: no right to write or read, which an empty entry gives too */
		return event->flags == 1 || event->flags == 2 || event->flags == 0x71 ? P2S_NO : P2S_UNREAD;
	case P2S_LOG_SMMU3_FAULT:
		return event->flags == 0x10 ? P2S_NO : event->flags == 0x12 || event->flags == 0x13 ? P2S_YES : P2S_UNREAD;
	case P2S_LOG_SMMU_FAULT: /* FSR: bit 1 translation fault, bit 3 permission fault */
		return (event->flags & 2) != 0 ? P2S_NO : (event->flags & 8) != 0 ? P2S_YES : P2S_UNREAD;
	default:
		return P2S_UNREAD;
	}
}

int32_t p2s_log_is_write(const struct p2s_log_event *event)
{
	if (event->kind == P2S_LOG_AMD_FAULT) {
		/* RW means nothing unless the entry is present and it is neither an interrupt nor a request for a translation */
		if ((event->flags & AMD_PRESENT) == 0 || (event->flags & (AMD_TRANSLATION | AMD_INTERRUPT)) != 0)
			return P2S_UNREAD;
		return (event->flags & AMD_WRITE) != 0 ? P2S_YES : P2S_NO;
	}
	if (event->kind != P2S_LOG_DMAR_FAULT)
		return P2S_UNREAD;
	return strstr(event->text, "[DMA Write") != NULL ? P2S_YES : strstr(event->text, "[DMA Read") != NULL ? P2S_NO : P2S_UNREAD;
}

const char *p2s_log_flags_text(const struct p2s_log_event *event, char *out, size_t cap)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} aer[] = {{12, "poisoned data"}, {14, "completion timeout"}, {15, "completer abort"}, {16, "unexpected completion"},
	           {18, "malformed packet"}, {20, "unsupported request"}, {21, "ACS violation"}, {22, "internal error"}, {5, "surprise down"},
	           {4, "data link protocol"}};
	int32_t present = p2s_log_entry_present(event);
	int32_t write = p2s_log_is_write(event);
	size_t n = 0;

	if (cap > 0)
		out[0] = '\0';
	if (p2s_log_class(event->kind) == P2S_LOG_CLASS_FAULT) {
		snprintf(out, cap, "%s%s%s%s", present == P2S_NO ? "entry not present" : present == P2S_YES ? "entry present" : "",
		         present != P2S_UNREAD && write != P2S_UNREAD ? ", " : "",
		         write == P2S_YES ? "write" : write == P2S_NO ? "read" : "",
		         event->kind == P2S_LOG_AMD_FAULT && (event->flags & AMD_NO_PERMISSION) != 0 ? ", no permission" : "");
		return out;
	}
	if (event->kind != P2S_LOG_AER_NONFATAL && event->kind != P2S_LOG_AER_FATAL)
		return out;
	for (size_t i = 0; i < sizeof aer / sizeof aer[0] && n < cap; i++)
		if ((event->flags >> aer[i].bit & 1) != 0)
			n += (size_t)snprintf(out + n, cap - n, "%s%s", n > 0 ? ", " : "", aer[i].word);
	return out;
}

int32_t p2s_log_is_grave(const struct p2s_log_event *event)
{
	/* memory that cannot be corrected, a halted or lost processor, a dead link, a GPU that is off the bus */
	static const int32_t grave[] = {48, 61, 62, 64, 74, 79, 92, 94, 95, 110, 119, 120, 140, 143};

	if (event->kind != P2S_LOG_XID)
		return 0;
	if (event->xid == 154) /* an action that cannot be read may be any */
		return event->recovery != P2S_RECOVERY_NONE;
	for (size_t i = 0; i < sizeof grave / sizeof grave[0]; i++)
		if (grave[i] == event->xid)
			return 1;
	return 0;
}

int32_t p2s_log_is_nvlink(const struct p2s_log_event *event)
{
	int32_t xid = event->kind == P2S_LOG_XID ? event->xid : 0;

	return xid == 74 || xid == 136 || xid == 137 || (xid >= 144 && xid <= 150) || xid == 155;
}

int32_t p2s_log_ends_nvlink(const struct p2s_log_event *event)
{
	return p2s_log_is_nvlink(event) && (event->xid == 74 || strstr(event->text, "Nonfatal") == NULL);
}

const char *p2s_log_recovery_text(int32_t recovery)
{
	switch (recovery) {
	case P2S_RECOVERY_NONE:
		return "nothing";
	case P2S_RECOVERY_RESET:
		return "a reset of the GPU";
	case P2S_RECOVERY_REBOOT:
		return "a reboot of the machine";
	case P2S_RECOVERY_DRAIN:
		return "an end of all peer transfers with it";
	case P2S_RECOVERY_DRAIN_RESET:
		return "an end of all work on it, then a reset";
	default:
		return "an action that could not be read";
	}
}
