/* The library in a program that took its user's locale: prints the report of a probe and of a test as JSON, one behind the
 * other. The locale stays the program's own.
 *
 * usage: locales HOST_DIR CACHE_DIR DECIMAL_POINT (what the locale must have, or this tests nothing) */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "p2psafe/p2psafe.h"

int main(int argc, char **argv)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options options;
	p2psafe_context *ctx = NULL;
	char before[4096];

	if (argc != 4)
		return 2;
	if (setlocale(LC_ALL, "") == NULL || strcmp(localeconv()->decimal_point, argv[3]) != 0) {
		fprintf(stderr, "locales: no such locale, or its decimal point is '%s'\n", localeconv()->decimal_point);
		return 2;
	}
	snprintf(before, sizeof before, "%s", setlocale(LC_ALL, NULL));
	p2psafe_options_init(&options, sizeof options);
	options.host_dir = argv[1];
	options.cache_dir = argv[2];
	options.level = P2PSAFE_LEVEL_QUICK;
	options.deadline_ms = 120000; /* a busy machine may take its time */
	CHECK(P2PSAFE_OK, p2psafe_context_new(&ctx, NULL, NULL, &err));
	for (int i = 0; i < 3; i++) { /* a probe, a test, and what was kept of it */
		p2psafe_report *report = NULL;
		char *json = NULL;

		CHECK(P2PSAFE_OK, (i == 0 ? p2psafe_probe : p2psafe_decide)(ctx, &options, &report, &err));
		CHECK(i == 2, p2psafe_report_is_kept(report));
		CHECK(P2PSAFE_OK, p2psafe_report_json(report, &json, &err));
		printf("%s\n", json != NULL ? json : "null");
		p2psafe_string_free(json);
		p2psafe_report_free(report);
	}
	p2psafe_context_free(ctx);
	CHECK(0, strcmp(before, setlocale(LC_ALL, NULL)));
	return failures == 0 ? 0 : 1;
}
