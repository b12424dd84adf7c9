/* The order of the report, and its other form. */
#include <string.h>

#include "session.h"
#include "show.h"

int cli_show_print_json(const p2psafe_report *report)
{
	struct p2psafe_error err = {.size = sizeof(err)};
	char *json = NULL;
	int32_t status = p2psafe_report_json(report, &json, &err);
	if (status != P2PSAFE_OK)
		return cli_session_failed(&err, status);
	size_t len = strlen(json);
	fputs(json, stdout);
	if (len == 0 || json[len - 1] != '\n')
		putchar('\n');
	p2psafe_string_free(json);
	return 0;
}

void cli_show_report(const struct cli_style *style, const p2psafe_report *report, const struct cli_args *args)
{
	cli_show_header(style, report, args);
	cli_show_gpus(style, report);
	cli_show_matrix(style, report);
	cli_show_evidence(style, report);
	cli_show_measured(style, report);
	cli_show_permission(style, report);
	cli_show_settings(style, report);
	cli_show_findings(style, report);
	cli_show_kept(style, report);
	cli_show_conclusion(style, report);
}
