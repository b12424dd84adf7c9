/* explain: why, and what can be done. From the kept test where one is valid, else from a look; it never tests. */
#include <jansson.h>
#include <string.h>

#include "session.h"
#include "show.h"

/* 1 if a letter of the record's verdicts is one of these; see docs/adr/0001-record-in-two-files.md. */
static int any_verdict(const json_t *record, const char *letters)
{
	const char *name;
	json_t *rows;
	json_object_foreach(json_object_get(record, "verdicts"), name, rows)
	{
		size_t i;
		json_t *row;
		json_array_foreach(rows, i, row)
		{
			const char *text = json_string_value(row);
			if (text != NULL && strpbrk(text, letters) != NULL)
				return 1;
		}
	}
	return 0;
}

/* 1 if `decide` would answer from the record. A record with nothing worse than "untested" may be due for another try, and then
 * `decide` would test: it is left alone. */
static int kept_is_valid(struct cli_session *s)
{
	char *text = NULL;
	if ((s->options.flags & P2PSAFE_FLAG_NO_CACHE) != 0 || p2psafe_cache_show(s->ctx, &s->options, &text, NULL) != P2PSAFE_OK)
		return 0;
	json_t *record = json_loads(text, 0, NULL);
	int valid = json_is_true(json_object_get(record, "valid")) && !json_is_true(json_object_get(record, "nothing_tested")) &&
				(any_verdict(record, "CHE") || !any_verdict(record, "T?"));
	json_decref(record);
	p2psafe_string_free(text);
	return valid;
}

int cli_explain_report(struct cli_session *s, p2psafe_report **report)
{
	s->options.level = P2PSAFE_LEVEL_QUICK; /* whatever level was tested: a better one serves a lower request */
	if (kept_is_valid(s))
		return cli_session_report(s, CLI_COMMAND_DECIDE, report);
	s->options.level = P2PSAFE_LEVEL_DEFAULT;
	return cli_session_report(s, CLI_COMMAND_PROBE, report);
}

int cli_cmd_explain(const struct cli_args *args)
{
	struct cli_session s;
	p2psafe_report *report = NULL;
	if (args->rest_count > 0) {
		cli_say("'p2psafe explain' takes no argument, got '%s'", args->rest[0]);
		return CLI_EXIT_USAGE;
	}
	int rc = cli_session_open(&s, args);
	if (rc == 0)
		rc = cli_explain_report(&s, &report);
	if (rc == 0) {
		rc = (int)p2psafe_report_exit_code(report);
		if (cli_args_has(args, CLI_OPTION_JSON)) {
			int failed = cli_show_print_json(report);
			rc = failed != 0 ? failed : rc;
		} else {
			struct cli_style style;
			cli_style_init(&style, stdout);
			cli_show_explain(&style, report, args);
		}
	}
	p2psafe_report_free(report);
	cli_session_close(&s);
	return cli_finish(rc);
}
