/* cache: show, clear, path. */
#include "session.h"

#include <string.h>

static int show(struct cli_session *s)
{
	struct p2psafe_error err = {.size = sizeof(err)};
	char *text = NULL;
	int32_t status = p2psafe_cache_show(s->ctx, &s->options, &text, &err);
	if (status != P2PSAFE_OK)
		return cli_session_failed(&err, status);
	size_t len = strlen(text);
	if (len == 0)
		cli_say("nothing is kept");
	fputs(text, stdout);
	if (len > 0 && text[len - 1] != '\n')
		putchar('\n');
	p2psafe_string_free(text);
	return CLI_EXIT_OK;
}

static int clear(struct cli_session *s)
{
	struct p2psafe_error err = {.size = sizeof(err)};
	int32_t gone = p2psafe_cache_clear(s->ctx, &s->options, &err);
	if (gone < 0)
		return cli_session_failed(&err, gone);
	printf("%d file%s removed\n", gone, gone == 1 ? "" : "s");
	return CLI_EXIT_OK;
}

static int path(struct cli_session *s)
{
	struct p2psafe_error err = {.size = sizeof(err)};
	char *text = NULL;
	int32_t status = p2psafe_cache_path(s->ctx, &s->options, &text, &err);
	if (status != P2PSAFE_OK)
		return cli_session_failed(&err, status);
	if (text[0] == '\0')
		cli_say("there is no place to keep a result: set P2PSAFE_CACHE to a folder that only you can write");
	else
		printf("%s\n", text);
	p2psafe_string_free(text);
	return CLI_EXIT_OK;
}

int cli_cmd_cache(const struct cli_args *args)
{
	static const struct {
		const char *name;
		int (*function)(struct cli_session *s);
	} verbs[] = {{"show", show}, {"clear", clear}, {"path", path}};
	struct cli_session s;
	int (*function)(struct cli_session * s) = NULL;
	for (size_t i = 0; args->rest_count == 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(args->rest[0], verbs[i].name) == 0)
			function = verbs[i].function;
	}
	if (function == NULL) {
		cli_say("'p2psafe cache' takes one of show, clear, path; got %s%s%s", args->rest_count > 0 ? "'" : "nothing",
		        args->rest_count > 0 ? args->rest[args->rest_count - 1] : "", args->rest_count > 0 ? "'" : "");
		return CLI_EXIT_USAGE;
	}
	if (cli_args_has(args, CLI_OPTION_JSON) && function != show) {
		cli_say("option --json is for 'p2psafe cache show' only");
		return CLI_EXIT_USAGE;
	}
	int rc = cli_session_open(&s, args);
	if (rc == 0)
		rc = function(&s);
	cli_session_close(&s);
	return cli_finish(rc);
}
