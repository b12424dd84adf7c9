/* Colour, width and numbers of what people read. */
#ifndef P2S_CLI_STYLE_H
#define P2S_CLI_STYLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cli_colour { CLI_PLAIN = 0, CLI_GOOD, CLI_BAD, CLI_UNSURE, CLI_HEAD, CLI_DIM };

struct cli_style {
	FILE *out;
	int colour; /* 1: out is a terminal that wants it */
	int width;  /* columns */
};

/* out's terminal: its width, and colour unless NO_COLOR is set (to anything) or TERM is "dumb" or unset. Elsewhere 100
 * columns without colour. COLUMNS, when it is a number, wins over both widths. */
void cli_style_init(struct cli_style *style, FILE *out);
/* Text padded to width (negative: to the left edge) in a colour; the padding is outside the colour. */
void cli_style_cell(const struct cli_style *style, enum cli_colour colour, int width, const char *text);
/* "\nTITLE" and the end of the line. */
void cli_style_head(const struct cli_style *style, const char *title);
/* Words of text, wrapped; the first line starts at column `column` (already printed), others are indented by `indent`. Ends
 * the line. Control characters are printed as '?'. */
void cli_style_wrap(const struct cli_style *style, int column, int indent, const char *text);
/* The colour of a verdict. */
enum cli_colour cli_style_verdict(int32_t verdict);
/* "96 GiB", "1.5 MiB", "17 B"; "-" for 0. */
const char *cli_style_bytes(char *out, size_t cap, uint64_t bytes);

#endif
