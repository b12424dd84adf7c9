/* Finds the lines of patterns.def and joins those that one event is made of. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/log.h"

#define PATIENCE 8 /* records of others that may come between the lines of one event */
#define SMMU_ADDRESS_WORD 3 /* of four */

struct line {
	int32_t kind;
	const char *shape;
};

static const struct {
	int32_t group;
	const char *name, *says;
} kinds[] = {
	{P2S_LOG_CLASS_NONE, "", ""},
#define P2S_LOG_KIND(name, group, says) {P2S_LOG_CLASS_##group, #name, says},
#define P2S_LOG_LINE(name, shape, era, source)
#define P2S_LOG_MORE(name, shape, era, source)
#include "evidence/patterns.def"
#undef P2S_LOG_KIND
#undef P2S_LOG_LINE
#undef P2S_LOG_MORE
};

static const struct line lines[] = {
#define P2S_LOG_KIND(name, group, says)
#define P2S_LOG_LINE(name, shape, era, source) {P2S_LOG_##name, shape},
#define P2S_LOG_MORE(name, shape, era, source)
#include "evidence/patterns.def"
#undef P2S_LOG_LINE
#undef P2S_LOG_MORE
};

static const struct line more[] = {
#define P2S_LOG_LINE(name, shape, era, source)
#define P2S_LOG_MORE(name, shape, era, source) {P2S_LOG_##name, shape},
#include "evidence/patterns.def"
#undef P2S_LOG_KIND
#undef P2S_LOG_LINE
#undef P2S_LOG_MORE
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int32_t known(int32_t kind)
{
	return kind > 0 && kind < P2S_LOG_KINDS ? kind : 0;
}

int32_t p2s_log_class(int32_t kind)
{
	return kinds[known(kind)].group;
}

const char *p2s_log_name(int32_t kind)
{
	return kinds[known(kind)].name;
}

const char *p2s_log_says(int32_t kind)
{
	return kinds[known(kind)].says;
}

static void blank(struct p2s_log_event *e)
{
	memset(e, 0, sizeof *e);
	e->gpu = e->owner = e->owner_bar = e->src = e->dst = -1;
}

/* Length of a prefix "<driver> <address>: ", whose address is then in device; 0 none. */
static size_t prefix(const char *text, char device[P2S_BDF_TEXT])
{
	size_t driver = strcspn(text, " ");
	const char *address = text + driver + 1;
	char copy[P2S_BDF_TEXT];
	struct p2psafe_bdf bdf;
	size_t n;

	if (driver == 0 || driver > 40 || text[driver] != ' ' || text[driver - 1] == ':')
		return 0;
	n = strcspn(address, " ");
	if (n < 8 || n > sizeof copy || address[n] != ' ' || address[n - 1] != ':')
		return 0;
	memcpy(copy, address, n - 1);
	copy[n - 1] = '\0';
	if (strchr(copy, '.') == NULL || !p2s_bdf_parse(copy, &bdf))
		return 0;
	p2s_bdf_format(&bdf, device);
	return driver + 1 + n + 1;
}

/* What an Xid says behind its number. */
static void read_xid(const char *text, struct p2s_log_found *out)
{
	static const struct {
		const char *word;
		int32_t recovery;
	} words[] = {{"Drain and Reset", P2S_RECOVERY_DRAIN_RESET}, {"Drain", P2S_RECOVERY_DRAIN}, {"Reboot", P2S_RECOVERY_REBOOT},
	             {"Reset", P2S_RECOVERY_RESET},                 {"None", P2S_RECOVERY_NONE}};
	const char *p = strstr(text, "pid=");

	if (p != NULL && isdigit((unsigned char)p[4]))
		out->pid = (int32_t)strtol(p + 4, NULL, 10);
	p = strstr(text, "name=");
	if (p != NULL)
		snprintf(out->process, sizeof out->process, "%.*s", (int)strcspn(p + 5, ","), p + 5);
	if (out->event.xid != 154)
		return;
	p = strstr(text, " to "); /* "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)" */
	for (size_t i = 0; p != NULL && i < COUNT(words) && out->event.recovery == P2S_RECOVERY_UNREAD; i++)
		if (strstr(p, words[i].word) != NULL)
			out->event.recovery = words[i].recovery;
}

/* The new form of SMMU v3 names the event: its number, as the old form gives it. */
static void read_smmu3(const char *text, struct p2s_log_event *e)
{
	static const struct {
		const char *word;
		uint64_t number;
	} words[] = {{"F_TRANSLATION", 0x10}, {"F_ADDR_SIZE", 0x11}, {"F_ACCESS", 0x12}, {"F_PERMISSION", 0x13},
	             {"F_TRANSL_FORBIDDEN", 0x07}};

	for (size_t i = 0; i < COUNT(words) && e->flags == 0; i++)
		if (strstr(text, words[i].word) != NULL)
			e->flags = words[i].number;
}

static int32_t family_of(const char *text)
{
	return strncmp(text, "dmar", 4) == 0        ? P2S_LOG_DMAR_FAULT
	       : strncmp(text, "amd_", 4) == 0      ? P2S_LOG_AMD_FAULT
	       : strncmp(text, "arm_smmu_e", 10) == 0 ? P2S_LOG_SMMU3_FAULT
	       : strncmp(text, "arm_", 4) == 0      ? P2S_LOG_SMMU_FAULT
	                                            : P2S_LOG_AER_CORRECTABLE;
}

/* The root port's announcement of an error ends with the address of who reported it, if it knows. */
static void read_announced(const char *text, struct p2s_log_event *e)
{
	const char *last = strrchr(text, ' ');
	struct p2psafe_bdf bdf;

	if (last != NULL && strchr(last, '.') != NULL && p2s_bdf_parse(last + 1, &bdf))
		p2s_bdf_format(&bdf, e->device);
}

static void finish_match(const char *rest, struct p2s_log_found *out)
{
	struct p2s_log_event *e = &out->event;

	switch (e->kind) {
	case P2S_LOG_XID:
		read_xid(rest, out);
		break;
	case P2S_LOG_SXID:
		e->flags = strstr(rest, ", Fatal,") != NULL;
		break;
	case P2S_LOG_SMMU3_FAULT:
		read_smmu3(rest, e);
		break;
	case P2S_LOG_SUPPRESSED:
		out->family = family_of(rest);
		break;
	default:
		if (p2s_log_class(e->kind) == P2S_LOG_CLASS_AER && strncmp(rest, "AER: ", 5) == 0)
			read_announced(rest, e);
		break;
	}
}

/* A cheap look before the real one: is the first plain text of the shape there at all? */
static int32_t might_fit(const char *shape, const char *text)
{
	int32_t anywhere = shape[0] == '*';
	char plain[96];
	size_t n;

	shape += anywhere;
	if (!anywhere && *shape != *text)
		return 0;
	n = strcspn(shape, "*{");
	if (!anywhere || n == 0 || n >= sizeof plain)
		return strncmp(shape, text, n) == 0;
	memcpy(plain, shape, n);
	plain[n] = '\0';
	return strstr(text, plain) != NULL;
}

/* "arm-smmu-v3 arm-smmu-v3.0.auto: ...": the second word is the unit. */
static void name_unit(const char *text, struct p2s_log_event *e)
{
	const char *at = strncmp(text, "arm-smmu", 8) == 0 ? strchr(text, ' ') : NULL;
	size_t n = at != NULL ? strcspn(at + 1, ": ") : 0;

	e->unit[0] = '\0';
	if (n == 0 || n >= sizeof e->unit || at[1 + n] != ':')
		return;
	memcpy(e->unit, at + 1, n);
	e->unit[n] = '\0';
}

int32_t p2s_log_match(const struct p2s_log_record *record, struct p2s_log_found *out)
{
	char device[P2S_BDF_TEXT] = "";
	const char *rest = record->text + prefix(record->text, device);

	for (size_t i = 0; i < COUNT(lines) && record->facility == 0; i++) {
		struct p2s_log_event *e = &out->event;

		if (!might_fit(lines[i].shape, rest))
			continue;
		blank(e);
		if (!p2s_log_shape(lines[i].shape, rest, e))
			continue;
		out->pid = 0;
		out->process[0] = '\0';
		out->family = 0;
		e->kind = lines[i].kind;
		name_unit(record->text, e);
		e->usec = record->usec;
		e->seq = record->seq + 1;
		if (e->device[0] == '\0')
			memcpy(e->device, device, sizeof e->device);
		finish_match(rest, out);
		/* What the kernel itself attaches to the record names the device best. */
		if (e->device[0] == '\0')
			memcpy(e->device, record->device, sizeof e->device);
		p2s_log_redact(record->text, e->text, sizeof e->text);
		return 1;
	}
	return 0;
}

/* ---- joining ---- */

static size_t release(struct p2s_log_joiner *j, struct p2s_log_found *out)
{
	if (!j->waiting)
		return 0;
	j->waiting = 0;
	j->announced = 0;
	*out = j->found;
	return 1;
}

size_t p2s_log_flush(struct p2s_log_joiner *j, struct p2s_log_found *out)
{
	return release(j, out);
}

/* Does the event want the lines that follow? */
static int32_t wants_more(const struct p2s_log_found *f)
{
	switch (f->event.kind) {
	case P2S_LOG_DMAR_STATUS:
		return 1;
	case P2S_LOG_DMAR_FAULT:
		return f->event.flags == 0;
	case P2S_LOG_SMMU3_FAULT:
		return !f->event.has_address;
	case P2S_LOG_AER_CORRECTABLE:
	case P2S_LOG_AER_NONFATAL:
	case P2S_LOG_AER_FATAL:
	case P2S_LOG_AER_FIRMWARE:
		return 1;
	default:
		return 0;
	}
}

static void append(struct p2s_log_event *e, const char *text)
{
	size_t n = strlen(e->text);

	while (*text == ' ')
		text++;
	if (n + 4 < sizeof e->text) {
		memcpy(e->text + n, "; ", 3);
		p2s_log_redact(text, e->text + n + 2, sizeof e->text - n - 2);
	}
}

/* Is this record a further line of the waiting event? */
static int32_t continues(struct p2s_log_joiner *j, const struct p2s_log_record *r)
{
	struct p2s_log_event *e = &j->found.event;
	char device[P2S_BDF_TEXT];
	size_t n = prefix(r->text, device);
	const char *rest = r->text + n;
	int32_t group = p2s_log_class(e->kind);

	while (*rest == ' ')
		rest++;
	for (size_t i = 0; i < COUNT(more); i++) {
		struct p2s_log_event part = *e;

		if (more[i].kind != e->kind && !(group == P2S_LOG_CLASS_AER && p2s_log_class(more[i].kind) == group))
			continue;
		part.has_address = 0;
		part.fault_address = 0;
		if (!p2s_log_shape(more[i].shape, rest, &part))
			continue;
		if (e->kind == P2S_LOG_SMMU3_FAULT) {
			/* The first word ends in the stream id. Only faults of a translation have an input address, in the third word. */
			if (++j->words == 1) {
				e->has_stream = 1;
				e->stream = (uint32_t)(part.fault_address >> 32);
			}
			if (j->words == SMMU_ADDRESS_WORD && e->flags >= 0x10 && e->flags <= 0x13) {
				e->has_address = 1;
				e->fault_address = part.fault_address;
			}
		} else {
			if (group == P2S_LOG_CLASS_AER && (n == 0 || (strncmp(j->driver, r->text, n) != 0 && !j->announced)))
				return 0; /* of another device */
			e->flags = part.flags;
		}
		append(e, rest);
		return 1;
	}
	return 0;
}

/* An event that says more than the one that waits replaces it: a fault its status line, an error its announcement. */
static int32_t replaces(const struct p2s_log_joiner *j, const struct p2s_log_found *next)
{
	int32_t old = j->found.event.kind;

	if (old == P2S_LOG_DMAR_STATUS)
		return next->event.kind == P2S_LOG_DMAR_FAULT || next->event.kind == P2S_LOG_DMAR_INTERRUPT;
	return j->announced && next->event.kind == old;
}

/* The oldest AMD kernels: "AMD-Vi: Event logged [" and the rest, each a record. Returns 1 for the first part, which says
 * nothing alone. */
static int32_t join_halves(struct p2s_log_joiner *j, struct p2s_log_record *r)
{
	static const char half[] = "AMD-Vi: Event logged [";
	size_t n = sizeof half - 1;

	if (strcmp(r->text, half) == 0) {
		j->half = PATIENCE;
		return 1;
	}
	if (j->half > 0 && isupper((unsigned char)r->text[0]) && strstr(r->text, "device=") != NULL) {
		size_t room = sizeof r->text - 1 - n;
		size_t len = strlen(r->text);

		if (len > room)
			len = room;
		memmove(r->text + n, r->text, len);
		memcpy(r->text, half, n);
		r->text[n + len] = '\0';
		j->half = 0;
	}
	j->half -= j->half > 0;
	return 0;
}

size_t p2s_log_feed(struct p2s_log_joiner *j, const struct p2s_log_record *record, struct p2s_log_found out[2])
{
	struct p2s_log_record r = *record;
	struct p2s_log_found found;
	char device[P2S_BDF_TEXT];
	size_t done = 0;

	if (r.facility == 0 && join_halves(j, &r))
		return 0;
	if (r.facility == 0 && j->waiting && continues(j, &r)) {
		j->idle = 0;
		if (j->found.event.kind == P2S_LOG_DMAR_FAULT || j->words == 4)
			return release(j, out);
		return 0;
	}
	if (!p2s_log_match(&r, &found))
		return j->waiting && ++j->idle > PATIENCE ? release(j, out) : 0;
	if (j->waiting && replaces(j, &found))
		j->waiting = j->announced = 0;
	done += release(j, out);
	if (!wants_more(&found)) {
		out[done++] = found;
		return done;
	}
	j->found = found;
	j->waiting = 1;
	j->idle = j->words = 0;
	snprintf(j->driver, sizeof j->driver, "%.*s", (int)prefix(r.text, device), r.text);
	j->announced = p2s_log_class(found.event.kind) == P2S_LOG_CLASS_AER && strstr(r.text, "AER: ") != NULL &&
	               strstr(r.text, " Bus Error:") == NULL && found.event.kind != P2S_LOG_AER_FIRMWARE;
	return done;
}
