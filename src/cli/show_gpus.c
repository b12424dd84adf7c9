/* The table of GPUs. The number in front is what the matrix below it uses. */
#include <string.h>

#include "show.h"

static enum cli_colour state_colour(int32_t state)
{
	if (state == P2PSAFE_GPU_STATE_READY)
		return CLI_GOOD;
	if (state == P2PSAFE_GPU_STATE_FAILED || state == P2PSAFE_GPU_STATE_WEDGED)
		return CLI_BAD;
	return state == P2PSAFE_GPU_STATE_NOT_OURS ? CLI_DIM : CLI_UNSURE;
}

static void number(char *out, size_t cap, int32_t value)
{
	if (value < 0)
		snprintf(out, cap, "-");
	else
		snprintf(out, cap, "%d", value);
}

static void show_gpu(const struct cli_style *style, int32_t index, const struct p2psafe_gpu *gpu)
{
	char text[64];
	char name[128];
	const int at = 62; /* columns in front of the name */
	number(text, sizeof(text), index);
	cli_style_cell(style, CLI_HEAD, 3, text);
	fputs("  ", style->out);
	cli_style_cell(style, CLI_PLAIN, -13, gpu->address);
	number(text, sizeof(text), gpu->ordinal);
	cli_style_cell(style, CLI_PLAIN, 5, text);
	fputs("  ", style->out);
	cli_style_cell(style, state_colour(gpu->state), -9, p2psafe_gpu_state_name(gpu->state));
	number(text, sizeof(text), gpu->numa_node);
	cli_style_cell(style, CLI_PLAIN, 4, text);
	fputs("  ", style->out);
	cli_style_cell(style, CLI_PLAIN, -9, gpu->domain_type[0] != '\0' ? gpu->domain_type : "-");
	cli_style_cell(style, CLI_PLAIN, 8, cli_style_bytes(text, sizeof(text), gpu->bar1_bytes));
	fputs("  ", style->out);
	if (gpu->name[0] != '\0')
		snprintf(name, sizeof(name), "%s", gpu->name);
	else
		snprintf(name, sizeof(name), "bound to %s", gpu->driver[0] != '\0' ? gpu->driver : "no driver");
	if (at + (int)strlen(name) > style->width) /* the name gives way on a narrow terminal */
		snprintf(name + (style->width > at + 2 ? style->width - at - 2 : 0), 3, "%s", style->width > at + 2 ? ".." : "");
	fprintf(style->out, "%s\n", name);
}

void cli_show_gpus(const struct cli_style *style, const p2psafe_report *report)
{
	int32_t count = p2psafe_report_gpu_count(report);
	if (count <= 0)
		return;
	cli_style_head(style, "GPUs");
	fputs("  #  address       CUDA  state    node  domain        BAR1  name\n", style->out);
	for (int32_t i = 0; i < count; i++) {
		struct p2psafe_gpu gpu = {.size = sizeof(gpu)};
		if (p2psafe_report_gpu(report, i, &gpu) == P2PSAFE_OK)
			show_gpu(style, i, &gpu);
	}
}
