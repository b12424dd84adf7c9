/* What was measured: one matrix per number, the size table of the slowest direction, staging, host links. Rows access, columns
 * own the memory, as in the matrix of verdicts. Prints nothing where nothing was measured. */
#include <stdlib.h>

#include "show.h"

enum unit { GIGABYTES, NANOSECONDS, THOUSANDTHS };

#define CELL 8 /* a space and "1234.5" or "99999" */

typedef int64_t (*number_of)(const struct p2psafe_pair *pair);

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static int64_t best_write(const struct p2psafe_pair *p)
{
	return (int64_t)larger(p->ce_write_bytes_per_s, p->sm_store_bytes_per_s);
}

static int64_t best_read(const struct p2psafe_pair *p)
{
	return (int64_t)larger(p->ce_read_bytes_per_s, p->sm_load_bytes_per_s);
}

static int64_t loaded(const struct p2psafe_pair *p)
{
	return (int64_t)p->loaded_bytes_per_s;
}

static int64_t limit(const struct p2psafe_pair *p)
{
	/* A limit is there without measuring; beside no measured number it says nothing. */
	return best_write(p) != 0 ? (int64_t)p->limit_bytes_per_s : 0;
}

static int64_t load_ns(const struct p2psafe_pair *p)
{
	return (int64_t)p->load_ns;
}

static int64_t store_flag_ns(const struct p2psafe_pair *p)
{
	return (int64_t)p->store_flag_ns;
}

static int64_t score(const struct p2psafe_pair *p)
{
	return best_write(p) != 0 ? p->score : 0;
}

static const struct table {
	const char *title;
	enum unit unit;
	number_of number;
} tables[] = {
	{"Write, GB/s (row to column; copy engine or kernels, the faster one)", GIGABYTES, best_write},
	{"Read, GB/s (row reads from column)", GIGABYTES, best_read},
	{"Write while every pair writes both ways, GB/s", GIGABYTES, loaded},
	{"Limit of the narrowest link on the way, GB/s", GIGABYTES, limit},
	{"Store and flag until seen, ns (row stores, column sees)", NANOSECONDS, store_flag_ns},
	{"Load, there and back, ns", NANOSECONDS, load_ns},
	{"Score, 0 to 1000", THOUSANDTHS, score},
};

static void format(char *out, size_t cap, int64_t value, enum unit unit)
{
	if (value <= 0 && unit != THOUSANDTHS)
		snprintf(out, cap, "-");
	else if (unit == GIGABYTES) /* bytes/s to tenths of 10^9, rounded */
		snprintf(out, cap, "%lld.%lld", (long long)((value + 50000000) / 1000000000),
				 (long long)((value + 50000000) / 100000000 % 10));
	else
		snprintf(out, cap, "%lld", (long long)value);
}

/* values[row * gpus + column], all of the report's GPUs; INT64_MIN: no such pair. */
static void show_table(const struct cli_style *style, const struct table *t, const int64_t *values, int32_t gpus)
{
	char text[32];
	char *used = calloc((size_t)gpus + 1, 1);
	int32_t columns = (style->width - 9) / CELL > 0 ? (style->width - 9) / CELL : 1;
	int32_t shown[64];
	int32_t count = 0;
	int any = 0;
	for (int32_t i = 0; used != NULL && i < gpus * gpus; i++) {
		if (values[i] == INT64_MIN)
			continue;
		used[i / gpus] = used[i % gpus] = 1;
		any |= values[i] > 0;
	}
	for (int32_t i = 0; any && i < gpus && count < 64; i++) {
		if (used[i])
			shown[count++] = i;
	}
	free(used);
	if (count == 0)
		return;
	cli_style_head(style, t->title);
	for (int32_t from = 0; from < count; from += columns) {
		int32_t to = from + columns < count ? from + columns : count;
		fputs("  src\\dst", style->out);
		for (int32_t c = from; c < to; c++) {
			snprintf(text, sizeof(text), "%d", shown[c]);
			cli_style_cell(style, CLI_HEAD, CELL, text);
		}
		fputc('\n', style->out);
		for (int32_t r = 0; r < count; r++) {
			snprintf(text, sizeof(text), "%d", shown[r]);
			cli_style_cell(style, CLI_HEAD, 9, text);
			for (int32_t c = from; c < to; c++) {
				int64_t value = values[shown[r] * gpus + shown[c]];
				format(text, sizeof(text), value, t->unit);
				if (value == INT64_MIN || (value < 0 && t->unit == THOUSANDTHS))
					cli_style_cell(style, CLI_DIM, CELL, r == c ? "-" : " ");
				else
					cli_style_cell(style, CLI_PLAIN, CELL, text);
			}
			fputc('\n', style->out);
		}
	}
}

static void show_tables(const struct cli_style *style, const p2psafe_report *report)
{
	int32_t gpus = p2psafe_report_gpu_count(report);
	int32_t pairs = p2psafe_report_pair_count(report);
	int64_t *values = calloc((size_t)gpus * (size_t)gpus + 1, sizeof(*values));
	for (size_t t = 0; values != NULL && t < sizeof(tables) / sizeof(tables[0]); t++) {
		for (int32_t i = 0; i < gpus * gpus; i++)
			values[i] = INT64_MIN;
		for (int32_t i = 0; i < pairs; i++) {
			struct p2psafe_pair pair = {.size = sizeof(pair)};
			if (p2psafe_report_pair(report, i, &pair) == P2PSAFE_OK && pair.src >= 0 && pair.src < gpus && pair.dst >= 0 &&
				pair.dst < gpus)
				values[pair.src * gpus + pair.dst] = tables[t].number(&pair);
		}
		show_table(style, &tables[t], values, gpus);
	}
	free(values);
}

static void show_row(const struct cli_style *style, const struct p2psafe_size *row)
{
	char text[32];
	const char *winner = "";
	fputs("  ", style->out);
	cli_style_cell(style, CLI_PLAIN, 8, cli_style_bytes(text, sizeof(text), row->bytes));
	format(text, sizeof(text), (int64_t)row->p2p_bytes_per_s, GIGABYTES);
	cli_style_cell(style, CLI_PLAIN, 11, text);
	format(text, sizeof(text), (int64_t)row->p2p_ns, NANOSECONDS);
	cli_style_cell(style, CLI_PLAIN, 12, text);
	format(text, sizeof(text), (int64_t)row->staged_bytes_per_s, GIGABYTES);
	cli_style_cell(style, CLI_PLAIN, 13, text);
	format(text, sizeof(text), (int64_t)row->staged_ns, NANOSECONDS);
	cli_style_cell(style, CLI_PLAIN, 12, text);
	if (row->p2p_ns != 0 && row->staged_ns != 0)
		winner = row->p2p_ns < row->staged_ns ? "peer" : "staged";
	fprintf(style->out, "  %s\n", winner);
}

/* One direction stands for all: the one whose writes are slowest of those that have a size table. */
static void show_sizes(const struct cli_style *style, const p2psafe_report *report)
{
	char title[160], from[32];
	struct p2psafe_pair shown = {.size = sizeof(shown)};
	int32_t chosen = -1;
	for (int32_t i = 0; i < p2psafe_report_pair_count(report); i++) {
		struct p2psafe_pair pair = {.size = sizeof(pair)};
		if (p2psafe_report_pair(report, i, &pair) != P2PSAFE_OK || pair.size_count == 0)
			continue;
		if (chosen < 0 || best_write(&pair) < best_write(&shown)) {
			shown = pair;
			chosen = i;
		}
	}
	if (chosen < 0)
		return;
	if (shown.p2p_wins_from_bytes != 0)
		snprintf(title, sizeof(title), "Sizes, %d to %d (the slowest direction): the peer is sooner from %s on", shown.src,
				 shown.dst, cli_style_bytes(from, sizeof(from), shown.p2p_wins_from_bytes));
	else
		snprintf(title, sizeof(title), "Sizes, %d to %d (the slowest direction): staging is sooner for large transfers",
				 shown.src, shown.dst);
	cli_style_head(style, title);
	fputs("      size  peer GB/s   peer ns  staged GB/s   staged ns  sooner\n", style->out);
	for (int32_t i = 0; i < shown.size_count; i++) {
		struct p2psafe_size row = {.size = sizeof(row)};
		if (p2psafe_report_size(report, chosen, i, &row) == P2PSAFE_OK)
			show_row(style, &row);
	}
}

static void show_pair_of_numbers(const struct cli_style *style, const char *name, uint64_t one, uint64_t other, uint64_t both)
{
	char a[32], b[32], c[32];
	format(a, sizeof(a), (int64_t)one, GIGABYTES);
	format(b, sizeof(b), (int64_t)other, GIGABYTES);
	format(c, sizeof(c), (int64_t)both, GIGABYTES);
	fprintf(style->out, "  %-9s%9s%9s%11s", name, a, b, c);
}

static void show_staged(const struct cli_style *style, const p2psafe_report *report)
{
	int any = 0;
	for (int32_t i = 0; i < p2psafe_report_staged_count(report); i++) {
		char name[32];
		struct p2psafe_staged staged = {.size = sizeof(staged)};
		if (p2psafe_report_staged(report, i, &staged) != P2PSAFE_OK ||
			(staged.a_to_b_bytes_per_s == 0 && staged.b_to_a_bytes_per_s == 0))
			continue;
		if (any++ == 0) {
			cli_style_head(style, "Staged through host memory, GB/s");
			fputs("  a b           a to b   b to a  both, sum  smallest, ns\n", style->out);
		}
		snprintf(name, sizeof(name), "%d %d", staged.a, staged.b);
		show_pair_of_numbers(style, name, staged.a_to_b_bytes_per_s, staged.b_to_a_bytes_per_s, staged.both_ways_bytes_per_s);
		format(name, sizeof(name), (int64_t)staged.latency_ns, NANOSECONDS);
		fprintf(style->out, "%14s\n", name);
	}
}

static void show_host_links(const struct cli_style *style, const p2psafe_report *report)
{
	int any = 0;
	for (int32_t i = 0; i < p2psafe_report_gpu_count(report); i++) {
		char name[32];
		struct p2psafe_gpu gpu = {.size = sizeof(gpu)};
		if (p2psafe_report_gpu(report, i, &gpu) != P2PSAFE_OK ||
			(gpu.to_host_bytes_per_s == 0 && gpu.from_host_bytes_per_s == 0))
			continue;
		if (any++ == 0) {
			cli_style_head(style, "Host memory, GB/s");
			fputs("  #              to it  from it  both, sum  its node  all others to this GPU  this GPU to all\n",
				  style->out);
		}
		snprintf(name, sizeof(name), "%d", i);
		show_pair_of_numbers(style, name, gpu.to_host_bytes_per_s, gpu.from_host_bytes_per_s, gpu.host_both_ways_bytes_per_s);
		if (gpu.host_node >= 0)
			fprintf(style->out, "%10d", gpu.host_node);
		else
			fprintf(style->out, "%10s", "-");
		format(name, sizeof(name), (int64_t)gpu.all_to_one_bytes_per_s, GIGABYTES);
		fprintf(style->out, "%24s", name);
		format(name, sizeof(name), (int64_t)gpu.one_to_all_bytes_per_s, GIGABYTES);
		fprintf(style->out, "%17s\n", name);
	}
}

void cli_show_measured(const struct cli_style *style, const p2psafe_report *report)
{
	show_tables(style, report);
	show_sizes(style, report);
	show_staged(style, report);
	show_host_links(style, report);
}
