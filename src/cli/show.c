/* The order of the report. */
#include "show.h"

void cli_show_report(const struct cli_style *style, const p2psafe_report *report, const struct cli_args *args)
{
	cli_show_header(style, report, args);
	cli_show_gpus(style, report);
	cli_show_matrix(style, report);
	cli_show_evidence(style, report);
	cli_show_permission(style, report);
	cli_show_settings(style, report);
	cli_show_findings(style, report);
	cli_show_kept(style, report);
	cli_show_conclusion(style, report);
}
