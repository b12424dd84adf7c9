/* A program as a user of the installed library writes it; compiled as C and as C++. Decides on a simulated host and demands
 * what that host must answer.
 *
 * usage: app HOST_DIR CACHE_DIR allowed|denied [FINDING that must be there] */
#include <stdio.h>
#include <string.h>

#include <p2psafe/p2psafe.h>

static int has_finding(const p2psafe_report *report, const char *code)
{
	for (int32_t i = 0; i < p2psafe_report_finding_count(report); i++) {
		struct p2psafe_finding finding;

		finding.size = sizeof finding;
		if (p2psafe_report_finding(report, i, &finding) == P2PSAFE_OK && strcmp(finding.code, code) == 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct p2psafe_options options;
	struct p2psafe_error err;
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	int32_t status;
	int right;

	if (argc < 4)
		return 2;
	err.size = sizeof err;
	p2psafe_options_init(&options, sizeof options);
	options.host_dir = argv[1];
	options.cache_dir = argv[2];
	options.level = P2PSAFE_LEVEL_QUICK;
	status = p2psafe_context_new(&ctx, NULL, NULL, &err);
	if (status == P2PSAFE_OK)
		status = p2psafe_decide(ctx, &options, &report, &err);
	if (status != P2PSAFE_OK) {
		fprintf(stderr, "%s: %s\n", p2psafe_status_name(status), err.text);
		return 1;
	}
	right = p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P) == (strcmp(argv[3], "allowed") == 0);
	if (argc > 4 && !has_finding(report, argv[4]))
		right = 0;
	printf("libp2psafe %s: nccl_p2p %s, transport %s, %s\n", p2psafe_version_string(),
	       p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P) ? "allowed" : "denied",
	       p2psafe_transport_name(p2psafe_report_transport(report)), right ? "as wanted" : "NOT as wanted");
	for (int32_t i = 0; !right && i < p2psafe_report_finding_count(report); i++) {
		struct p2psafe_finding finding;

		finding.size = sizeof finding;
		if (p2psafe_report_finding(report, i, &finding) == P2PSAFE_OK)
			fprintf(stderr, "%s %s: %s\n", finding.code, finding.subject, p2psafe_report_evidence_text(report, i, 0));
	}
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	return right ? 0 : 1;
}
