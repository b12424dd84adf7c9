/* The kernel log as evidence: records, the lines of patterns.def, and whose memory a fault address hits. Pure: no I/O, no
 * clock, no memory of its own. Used by the helper, which reads the log, and by the library.
 *
 * Everything that comes in is hostile: anybody may write to the kernel log of a container's host, and a captured file may
 * hold anything. No input makes these functions read beyond it, and the work for each record is bounded. What a program wrote
 * is no evidence, where the record tells: monitors try themselves out with Xid lines of their own (leptonai/gpud#870). */
#ifndef P2S_EVIDENCE_LOG_H
#define P2S_EVIDENCE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "core/facts.h"
#include "core/model.h"

#define P2S_LOG_RECORD_MAX 8192 /* bytes of a record of /dev/kmsg, continuation lines included (kernel: CONSOLE_EXT_LOG_MAX) */
#define P2S_LOG_TEXT 1024       /* bytes of a text that are looked at; the kernel's own limit for a line */

enum p2s_log_class {
	P2S_LOG_CLASS_NONE,
	P2S_LOG_CLASS_FAULT, /* an IOMMU stopped a transfer */
	P2S_LOG_CLASS_EVENT, /* an IOMMU says something else */
	P2S_LOG_CLASS_AER,
	P2S_LOG_CLASS_XID,
	P2S_LOG_CLASS_NVRM,
	P2S_LOG_CLASS_PCI,
	P2S_LOG_CLASS_MODE,
	P2S_LOG_CLASS_GROUP,
	P2S_LOG_CLASS_ENCRYPTION
};

/* P2S_LOG_AMD_FAULT, ...: kinds of struct p2s_log_event, from patterns.def. */
enum p2s_log_kind {
	P2S_LOG_KIND_NONE,
#define P2S_LOG_KIND(name, group, says) P2S_LOG_##name,
#define P2S_LOG_LINE(name, shape, era, source)
#define P2S_LOG_MORE(name, shape, era, source)
#include "evidence/patterns.def"
#undef P2S_LOG_KIND
#undef P2S_LOG_LINE
#undef P2S_LOG_MORE
	P2S_LOG_KINDS
};

/* patterns.def in C: P2S_LOG_CLASS_NONE and "" for a kind that does not exist. */
int32_t p2s_log_class(int32_t kind);
const char *p2s_log_name(int32_t kind); /* "AMD_FAULT" */
const char *p2s_log_says(int32_t kind); /* "the AMD IOMMU stopped a transfer" */

/* ---- kmsg.c: records ---- */

struct p2s_log_record {
	uint32_t level; /* 0 emergency .. 7 debug; 6 when not told */
	uint32_t facility; /* 0 the kernel itself, or not told; else a program wrote it: the kernel lets none claim 0 (dev-kmsg) */
	uint64_t seq;   /* 0 not told */
	uint64_t usec;  /* since boot; 0 not told */
	char device[P2S_BDF_TEXT]; /* of "DEVICE=+pci:..."; "" none */
	char text[P2S_LOG_TEXT];   /* printable ASCII: escapes decoded, other bytes '?' , line breaks and tabs as blanks */
};

enum p2s_log_next { P2S_LOG_NEXT_RECORD, P2S_LOG_NEXT_JUNK, P2S_LOG_NEXT_SHORT };

/* Takes one record from data: a line "prio,seq,usec,flag[,key=value];text" with its continuation lines (/dev/kmsg), or a line
 * "[    1.234567] text" as dmesg prints it, also behind a journal's prefix or "<6>". *used gets the bytes taken. JUNK: a line
 * that is none of these was taken. SHORT: no whole line is left (nothing is taken); with end set the rest counts as a line. */
enum p2s_log_next p2s_log_next(const char *data, size_t len, int32_t end, struct p2s_log_record *out, size_t *used);

/* ---- match.c: lines of patterns.def ---- */

struct p2s_log_found {
	struct p2s_log_event event; /* gpu, owner, src, dst are -1: see attribute */
	int32_t pid;                /* of an Xid; 0 none */
	char process[16];           /* its name; "" none */
	int32_t family;             /* SUPPRESSED: kind of the lines that were swallowed */
};

/* Joins what belongs together: an event waits here for the lines that continue it. Zeroed at first. */
struct p2s_log_joiner {
	int32_t waiting;
	int32_t idle;  /* records since then that did not belong to it */
	int32_t words; /* SMMU v3: words of the event seen */
	int32_t announced; /* AER: only the root port's announcement came so far */
	int32_t half;  /* the first part of a line that the oldest AMD kernels printed in two: records it still waits */
	char driver[P2S_LOG_TEXT]; /* prefix of the waiting line: "pcieport 0000:00:02.0: " */
	struct p2s_log_found found;
};

/* Takes one record. Returns how many events are finished (0 to 2) in out. */
size_t p2s_log_feed(struct p2s_log_joiner *j, const struct p2s_log_record *record, struct p2s_log_found out[2]);
/* The event that still waits. Returns 1, or 0 when none does. */
size_t p2s_log_flush(struct p2s_log_joiner *j, struct p2s_log_found *out);
/* One line alone. Returns 1 if it is of patterns.def. */
int32_t p2s_log_match(const struct p2s_log_record *record, struct p2s_log_found *out);
/* Compares text with a shape of patterns.def and fills the event. For tests and for match.c. */
int32_t p2s_log_shape(const char *shape, const char *text, struct p2s_log_event *event);

/* ---- redact.c ---- */

/* Removes what names people, machines or processes: UUIDs, serial numbers, (user@host), pids, process names. out gets at most
 * cap-1 bytes of text and its end. */
void p2s_log_redact(const char *text, char *out, size_t cap);

/* ---- attribute.c ---- */

struct p2s_log_gpu { /* what is needed of a GPU to know its lines and its memory */
	struct p2psafe_bdf bdf;
	uint64_t bar_start[P2S_BARS]; /* as in sysfs "resource" */
	uint64_t bar_bytes[P2S_BARS]; /* 0 unused */
	char smmu[32]; /* ARM: the unit that it is behind, as in the log; "" unknown */
};

/* Fills gpu, owner, owner_bar and owner_offset from device and fault_address. A device without a PCI segment is a GPU's only
 * where no other segment has a GPU there; a stream id is a GPU's only where it alone, behind that unit, has such a requester
 * id. */
void p2s_log_attribute(struct p2s_log_event *event, const struct p2s_log_gpu *gpus, size_t count);
/* P2S_YES or P2S_NO where the flags of a fault tell it, else P2S_UNREAD. */
int32_t p2s_log_entry_present(const struct p2s_log_event *event); /* the page table had an entry */
int32_t p2s_log_is_write(const struct p2s_log_event *event);
/* What the flags say, for people: "entry not present". "" nothing. */
const char *p2s_log_flags_text(const struct p2s_log_event *event, char *out, size_t cap);
/* 1 for an Xid after which its GPU is not tested and nothing risky runs any more; 154 only with an action. */
int32_t p2s_log_is_grave(const struct p2s_log_event *event);
/* An Xid about NVLink; and one of these that is not only told: the line does not call it nonfatal. */
int32_t p2s_log_is_nvlink(const struct p2s_log_event *event);
int32_t p2s_log_ends_nvlink(const struct p2s_log_event *event);
const char *p2s_log_recovery_text(int32_t recovery); /* P2S_RECOVERY_*: "GPU reset" */

#endif
