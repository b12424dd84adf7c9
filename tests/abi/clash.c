/* A program whose own functions have the names that the library's have inside, and the usual ones. It looks as any user of the
 * library does; whoever calls one of its functions instead of the library's own ends it.
 *
 * usage: clash HOST_DIR CACHE_DIR HELPER allowed|refused */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "p2psafe/p2psafe.h"

void clash_called(const char *name);

void clash_called(const char *name)
{
	fprintf(stderr, "the library called the program's %s()\n", name);
	exit(3);
}

int main(int argc, char **argv)
{
	struct p2psafe_error err;
	struct p2psafe_options options;
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	char *json = NULL;
	int refused;
	int32_t status;

	if (argc != 5)
		return 2;
	refused = strcmp(argv[4], "refused") == 0;
	memset(&err, 0, sizeof err);
	err.size = sizeof err;
	p2psafe_options_init(&options, sizeof options);
	options.host_dir = argv[1];
	options.cache_dir = argv[2];
	options.helper_path = argv[3];
	options.level = P2PSAFE_LEVEL_QUICK;
	options.deadline_ms = 120000; /* a busy machine may take its time */
	CHECK(P2PSAFE_OK, p2psafe_context_new(&ctx, NULL, NULL, &err));
	for (int i = 0; i < 2; i++) { /* tested, then kept */
		status = p2psafe_decide(ctx, &options, &report, &err);
		CHECK(refused ? P2PSAFE_E_SYSTEM : P2PSAFE_OK, status);
		CHECK(!refused, p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P));
		CHECK(!refused && i == 1, p2psafe_report_is_kept(report));
		if (refused)
			CHECK(1, strstr(err.text, "json_object_get") != NULL);
		else
			CHECK(P2PSAFE_OK, p2psafe_report_json(report, &json, &err));
		if (status != P2PSAFE_OK)
			fprintf(stderr, "%s: %s\n", p2psafe_status_name(status), err.text);
		p2psafe_string_free(json);
		p2psafe_report_free(report);
		json = NULL;
		report = NULL;
	}
	p2psafe_context_free(ctx);
	return check_result();
}
