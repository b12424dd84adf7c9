/* Colour, width and numbers of what people read. */
#include "style.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "p2psafe/p2psafe.h"

#define WIDTH_FILE 100
#define WIDTH_TERMINAL 80
#define WIDTH_LEAST 40
#define WIDTH_MOST 1000

static const char *const colour_codes[] = {"", "\033[32m", "\033[1;31m", "\033[33m", "\033[1m", "\033[2m"};

void cli_style_init(struct cli_style *style, FILE *out)
{
	struct winsize size = {0};
	int terminal = isatty(fileno(out)) == 1;
	const char *term = getenv("TERM");
	const char *columns = getenv("COLUMNS");
	style->out = out;
	style->colour = terminal && getenv("NO_COLOR") == NULL && term != NULL && strcmp(term, "dumb") != 0;
	style->width = terminal ? WIDTH_TERMINAL : WIDTH_FILE;
	if (terminal && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		style->width = size.ws_col;
	if (columns != NULL) {
		char *end = NULL;
		long n = strtol(columns, &end, 10);
		if (end != columns && *end == '\0' && n > 0)
			style->width = n > WIDTH_MOST ? WIDTH_MOST : (int)n;
	}
	if (style->width < WIDTH_LEAST)
		style->width = WIDTH_LEAST;
}

void cli_style_cell(const struct cli_style *style, enum cli_colour colour, int width, const char *text)
{
	int len = (int)strlen(text);
	int pad = (width < 0 ? -width : width) - len;
	if (width > 0 && pad > 0)
		fprintf(style->out, "%*s", pad, "");
	if (style->colour && colour != CLI_PLAIN)
		fprintf(style->out, "%s%s\033[0m", colour_codes[colour], text);
	else
		fputs(text, style->out);
	if (width < 0 && pad > 0)
		fprintf(style->out, "%*s", pad, "");
}

void cli_style_head(const struct cli_style *style, const char *title)
{
	fputc('\n', style->out);
	cli_style_cell(style, CLI_HEAD, 0, title);
	fputc('\n', style->out);
}

void cli_style_wrap(const struct cli_style *style, int column, int indent, const char *text)
{
	int at = column;
	int fresh = 1; /* nothing of text stands on this line yet */
	const char *p = text;
	while (*p != '\0') {
		while (*p == ' ' || *p == '\n')
			p++;
		size_t n = strcspn(p, " \n");
		if (n == 0)
			break;
		if (!fresh && at + 1 + (int)n > style->width) {
			fprintf(style->out, "\n%*s", indent, "");
			at = indent;
			fresh = 1;
		}
		if (!fresh) {
			fputc(' ', style->out);
			at++;
		}
		for (size_t i = 0; i < n; i++)
			fputc((unsigned char)p[i] < 0x20 || p[i] == 0x7f ? '?' : p[i], style->out);
		at += (int)n;
		fresh = 0;
		p += n;
	}
	fputc('\n', style->out);
}

enum cli_colour cli_style_verdict(int32_t verdict)
{
	switch (verdict) {
	case P2PSAFE_VERDICT_OK:
		return CLI_GOOD;
	case P2PSAFE_VERDICT_CORRUPT:
	case P2PSAFE_VERDICT_HANG:
	case P2PSAFE_VERDICT_ERROR:
		return CLI_BAD;
	default:
		return CLI_UNSURE;
	}
}

const char *cli_style_bytes(char *out, size_t cap, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	size_t unit = 0;
	uint64_t whole = bytes;
	uint64_t rest = 0; /* tenths */
	while (whole >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		rest = (whole % 1024) * 10 / 1024;
		whole /= 1024;
		unit++;
	}
	if (bytes == 0)
		snprintf(out, cap, "-");
	else if (rest > 0 && whole < 100)
		snprintf(out, cap, "%llu.%llu %s", (unsigned long long)whole, (unsigned long long)rest, units[unit]);
	else
		snprintf(out, cap, "%llu %s", (unsigned long long)whole, units[unit]);
	return out;
}
