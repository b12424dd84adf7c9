/* The matrix of directed verdicts: rows access, columns own the memory. Full words where they fit, three letters where they
 * do not, and blocks of columns where even these are too wide. */
#include <stdlib.h>
#include <string.h>

#include "show.h"

struct matrix {
	int32_t count;    /* GPUs that belong to a pair */
	int32_t *gpu;     /* their report indices */
	int32_t *verdict; /* count * count; -1 no such pair */
};

static const char *short_word(int32_t verdict)
{
	switch (verdict) {
	case P2PSAFE_VERDICT_OK:
		return "OK";
	case P2PSAFE_VERDICT_DEGRADED:
		return "DEG";
	case P2PSAFE_VERDICT_CORRUPT:
		return "COR";
	case P2PSAFE_VERDICT_HANG:
		return "HNG";
	case P2PSAFE_VERDICT_ERROR:
		return "ERR";
	case P2PSAFE_VERDICT_UNSUPPORTED:
		return "UNS";
	case P2PSAFE_VERDICT_UNTESTED:
		return "unt";
	default:
		return "?";
	}
}

static int32_t place(struct matrix *m, int32_t gpu)
{
	for (int32_t i = 0; i < m->count; i++) {
		if (m->gpu[i] == gpu)
			return i;
	}
	return -1;
}

static int fill(struct matrix *m, const p2psafe_report *report)
{
	int32_t gpus = p2psafe_report_gpu_count(report);
	int32_t pairs = p2psafe_report_pair_count(report);
	char *used = calloc((size_t)gpus + 1, 1);
	m->gpu = calloc((size_t)gpus + 1, sizeof(*m->gpu));
	m->verdict = calloc((size_t)gpus * (size_t)gpus + 1, sizeof(*m->verdict));
	if (used == NULL || m->gpu == NULL || m->verdict == NULL) {
		free(used);
		return 0;
	}
	for (int32_t i = 0; i < pairs; i++) {
		struct p2psafe_pair pair = {.size = sizeof(pair)};
		if (p2psafe_report_pair(report, i, &pair) == P2PSAFE_OK && pair.src >= 0 && pair.src < gpus && pair.dst >= 0 &&
		    pair.dst < gpus)
			used[pair.src] = used[pair.dst] = 1;
	}
	for (int32_t i = 0; i < gpus; i++) {
		if (used[i])
			m->gpu[m->count++] = i;
	}
	free(used);
	for (int32_t i = 0; i < m->count * m->count; i++)
		m->verdict[i] = -1;
	for (int32_t i = 0; i < pairs; i++) {
		struct p2psafe_pair pair = {.size = sizeof(pair)};
		if (p2psafe_report_pair(report, i, &pair) != P2PSAFE_OK)
			continue;
		int32_t row = place(m, pair.src);
		int32_t column = place(m, pair.dst);
		if (row >= 0 && column >= 0)
			m->verdict[row * m->count + column] = pair.verdict;
	}
	return 1;
}

static void show_block(const struct cli_style *style, const struct matrix *m, int32_t from, int32_t to, int cell,
                       int whole_words)
{
	char text[16];
	fputs("  src\\dst", style->out);
	for (int32_t c = from; c < to; c++) {
		snprintf(text, sizeof(text), "%d", m->gpu[c]);
		cli_style_cell(style, CLI_HEAD, cell, text);
	}
	fputc('\n', style->out);
	for (int32_t r = 0; r < m->count; r++) {
		snprintf(text, sizeof(text), "%d", m->gpu[r]);
		cli_style_cell(style, CLI_HEAD, 9, text);
		for (int32_t c = from; c < to; c++) {
			int32_t verdict = m->verdict[r * m->count + c];
			if (verdict < 0)
				cli_style_cell(style, CLI_DIM, cell, r == c ? "-" : " ");
			else
				cli_style_cell(style, cli_style_verdict(verdict), cell,
				               whole_words ? p2psafe_verdict_name(verdict) : short_word(verdict));
		}
		fputc('\n', style->out);
	}
}

void cli_show_matrix(const struct cli_style *style, const p2psafe_report *report)
{
	struct matrix m = {0};
	if (fill(&m, report) && m.count > 0) {
		int cell = 4; /* a space and at least three letters */
		int whole_words = 0;
		int longest = 0;
		for (int32_t i = 0; i < m.count * m.count; i++) {
			int len = m.verdict[i] >= 0 ? (int)strlen(p2psafe_verdict_name(m.verdict[i])) : 0;
			longest = len > longest ? len : longest;
		}
		if (9 + m.count * (longest + 2) <= style->width) {
			cell = longest + 2 < 5 ? 5 : longest + 2;
			whole_words = 9 + m.count * cell <= style->width;
			cell = whole_words ? cell : 4;
		}
		int32_t columns = (style->width - 9) / cell;
		cli_style_head(style, "Verdicts (row: the GPU that accesses; column: the GPU that owns the memory)");
		for (int32_t from = 0; from < m.count; from += columns)
			show_block(style, &m, from, from + columns < m.count ? from + columns : m.count, cell, whole_words);
		if (!whole_words) {
			fputs("  ", style->out);
			cli_style_wrap(style, 2, 2,
			               "COR corrupt, HNG hang, ERR error, unt untested, UNS unsupported, DEG degraded; only OK is a pass");
		}
	}
	free(m.gpu);
	free(m.verdict);
}
