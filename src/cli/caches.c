#include "caches.h"

#include <jansson.h>
#include <string.h>

static const char *text_of(const json_t *entry, const char *key)
{
	const char *text = json_string_value(json_object_get(entry, key));
	return text != NULL ? text : "";
}

static void tell(const char *text)
{
	json_t *list = json_loads(text, 0, NULL);
	size_t i;
	json_t *entry;
	json_array_foreach(list, i, entry)
	{
		const char *path = text_of(entry, "path");
		cli_say("cache of %s: %s: %s%s%s", text_of(entry, "framework"), text_of(entry, "state"), path, path[0] != '\0' ? ": " : "",
		        text_of(entry, "why"));
	}
	json_decref(list);
}

int cli_caches_write(const struct cli_args *args, const p2psafe_report *report)
{
	struct p2psafe_error err = {.size = sizeof(err)};
	struct p2psafe_caches caches = {.size = sizeof(caches), .flags = P2PSAFE_CACHES_ENVIRONMENT};
	char *text = NULL;
	if (!cli_args_has(args, CLI_OPTION_WRITE_CACHES))
		return 1;
	if (cli_args_has(args, CLI_OPTION_FORCE))
		caches.flags |= P2PSAFE_CACHES_FORCE;
	if (cli_args_has(args, CLI_OPTION_PROMOTE))
		caches.flags |= P2PSAFE_CACHES_PROMOTE;
	caches.home = args->value[CLI_OPTION_HOME];
	int32_t unheard = p2psafe_report_write_caches(report, &caches, &text, &err);
	if (unheard < 0)
		cli_say("the caches of frameworks are not written: %s", err.text);
	else
		tell(text);
	p2psafe_string_free(text);
	return unheard == 0;
}
