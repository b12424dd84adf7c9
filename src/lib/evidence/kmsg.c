/* Splits what /dev/kmsg, dmesg or a journal give into records. Format: Documentation/ABI/testing/dev-kmsg. */
#include <ctype.h>
#include <string.h>

#include "evidence/log.h"

struct span {
	const char *at;
	const char *end;
};

/* Decimal number; 0 when there is none or it does not fit. */
static int32_t number(struct span *s, uint64_t *out)
{
	const char *start = s->at;
	uint64_t n = 0;

	while (s->at < s->end && isdigit((unsigned char)*s->at)) {
		uint64_t digit = (uint64_t)(*s->at - '0');

		if (n > (UINT64_MAX - digit) / 10)
			return 0;
		n = n * 10 + digit;
		s->at++;
	}
	*out = n;
	return s->at > start;
}

static int32_t skip(struct span *s, char c)
{
	if (s->at == s->end || *s->at != c)
		return 0;
	s->at++;
	return 1;
}

static int32_t hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Appends text to the record's: \xNN decoded once, everything that is not printable made harmless. */
static void put_text(struct p2s_log_record *out, const char *at, const char *end, int32_t escapes)
{
	size_t n = strlen(out->text);

	while (at < end && n < sizeof out->text - 1) {
		unsigned char c = (unsigned char)*at++;

		if (escapes && c == '\\' && end - at >= 3 && at[0] == 'x' && hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0) {
			c = (unsigned char)(hex_digit(at[1]) << 4 | hex_digit(at[2]));
			at += 3;
		}
		if (c == '\n' || c == '\t' || c == '\r')
			c = ' ';
		out->text[n++] = c >= ' ' && c < 127 ? (char)c : '?';
	}
	while (n > 0 && out->text[n - 1] == ' ')
		n--;
	out->text[n] = '\0';
}

/* "prio,seq,usec,flag[,key=value];text" */
static int32_t kmsg_line(struct span line, struct p2s_log_record *out)
{
	uint64_t prio;

	if (!number(&line, &prio) || !skip(&line, ',') || !number(&line, &out->seq) || !skip(&line, ',') ||
	    !number(&line, &out->usec) || !skip(&line, ','))
		return 0;
	out->level = (uint32_t)(prio & 7);
	out->facility = (uint32_t)(prio >> 3);
	while (line.at < line.end && *line.at != ';')
		line.at++;
	if (!skip(&line, ';'))
		return 0;
	put_text(out, line.at, line.end, 1);
	return 1;
}

static int32_t has(struct span s, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(s.end - s.at) >= n && memcmp(s.at, word, n) == 0;
}

/* "Nov 30 00:00:00 host kernel: ", as syslog and journalctl write it: drops it and with it the host's name. */
static void skip_journal(struct span *line)
{
	static const char word[] = " kernel: ";
	const char *stop = line->end - line->at > 160 ? line->at + 160 : line->end;

	if (line->at == line->end || !isalnum((unsigned char)*line->at))
		return;
	for (const char *p = line->at; stop - p >= (int)sizeof word - 1; p++) {
		if (memcmp(p, word, sizeof word - 1) == 0) {
			line->at = p + sizeof word - 1;
			return;
		}
	}
}

/* "[   T1234]" or "[   C12]", of kernels built with CONFIG_PRINTK_CALLER. */
static void skip_caller(struct span *line)
{
	struct span probe = *line;
	uint64_t n;

	if (!skip(&probe, '['))
		return;
	while (skip(&probe, ' '))
		;
	if ((skip(&probe, 'T') || skip(&probe, 'C')) && number(&probe, &n) && skip(&probe, ']'))
		*line = probe;
}

/* "[    1.234567] text", "<6>[    1.234567] text", the same behind a journal's prefix; dmesg -T: "[Mon Nov 30 ...] text". */
static int32_t dmesg_line(struct span line, struct p2s_log_record *out)
{
	uint64_t seconds = 0;
	uint64_t part = 0;
	uint64_t level;
	struct span probe = line;
	const char *digits;

	if (skip(&probe, '<') && number(&probe, &level) && skip(&probe, '>')) {
		out->level = (uint32_t)(level & 7);
		out->facility = (uint32_t)(level >> 3);
		line = probe;
	}
	probe = line;
	skip_journal(&line);
	if (!has(line, "[")) {
		if (line.at == probe.at)
			return 0; /* neither a journal's prefix nor a time */
		put_text(out, line.at, line.end, 0);
		return 1;
	}
	probe = line;
	probe.at++;
	while (skip(&probe, ' '))
		;
	if (number(&probe, &seconds) && skip(&probe, '.')) {
		digits = probe.at;
		if (!number(&probe, &part))
			part = 0;
		for (long n = probe.at - digits; n < 6; n++)
			part *= 10;
		out->usec = part < 1000000 && seconds < UINT64_MAX / 2000000 ? seconds * 1000000 + part : 0;
	}
	while (probe.at < probe.end && *probe.at != ']')
		probe.at++;
	if (!skip(&probe, ']'))
		return 0;
	skip_caller(&probe);
	skip(&probe, ' ');
	put_text(out, probe.at, probe.end, 0);
	return 1;
}

/* A line that begins with a blank: a key of the record, or (dmesg) the next line of its text. */
static void continuation(struct span line, struct p2s_log_record *out)
{
	static const char pci[] = "DEVICE=+pci:";
	const char *key;
	struct p2psafe_bdf bdf;
	char text[32];
	size_t n;

	while (skip(&line, ' ') || skip(&line, '\t'))
		;
	for (key = line.at; key < line.end && (isupper((unsigned char)*key) || *key == '_'); key++)
		;
	if (key == line.at || key == line.end || *key != '=') {
		n = strlen(out->text);
		if (n > 0 && n < sizeof out->text - 1) {
			out->text[n] = ' ';
			out->text[n + 1] = '\0';
		}
		put_text(out, line.at, line.end, 0);
		return;
	}
	if (!has(line, pci) || (size_t)(line.end - line.at) >= sizeof text + sizeof pci)
		return;
	n = (size_t)(line.end - line.at) - (sizeof pci - 1);
	if (n >= sizeof text)
		return;
	memcpy(text, line.at + sizeof pci - 1, n);
	text[n] = '\0';
	if (p2s_bdf_parse(text, &bdf))
		p2s_bdf_format(&bdf, out->device);
}

/* The next line without its line break; 0 when it is not whole. */
static int32_t take_line(const char *data, size_t len, int32_t end, struct span *line, size_t *used)
{
	const char *stop = len > 0 ? memchr(data, '\n', len) : NULL;

	if (stop == NULL && (!end || len == 0))
		return 0;
	line->at = data;
	line->end = stop != NULL ? stop : data + len;
	*used = (size_t)(line->end - data) + (stop != NULL);
	if (line->end > line->at && line->end[-1] == '\r')
		line->end--;
	return 1;
}

enum p2s_log_next p2s_log_next(const char *data, size_t len, int32_t end, struct p2s_log_record *out, size_t *used)
{
	struct span line;
	size_t n;
	int32_t ok;

	memset(out, 0, sizeof *out);
	out->level = 6;
	*used = 0;
	if (!take_line(data, len, end, &line, used))
		return P2S_LOG_NEXT_SHORT;
	ok = kmsg_line(line, out);
	if (!ok) {
		memset(out, 0, sizeof *out);
		out->level = 6;
		ok = dmesg_line(line, out);
	}
	while (*used < len && (data[*used] == ' ' || data[*used] == '\t') && take_line(data + *used, len - *used, end, &line, &n)) {
		if (ok)
			continuation(line, out);
		*used += n;
	}
	return ok ? P2S_LOG_NEXT_RECORD : P2S_LOG_NEXT_JUNK;
}
