/* The program of README.md as it stands there, on a simulated host: argv[1]. Prints its answer. */
#include <p2psafe/p2psafe.h>
#include <stdio.h>

static const char *host;

/* The README speaks of this machine; the rest of what it asks stays as it is. */
static int32_t decide_on_host(p2psafe_context *context, const struct p2psafe_options *asked, p2psafe_report **report,
                              struct p2psafe_error *error)
{
	struct p2psafe_options options;

	p2psafe_options_init(&options, sizeof(options));
	if (asked != NULL)
		options = *asked;
	options.host_dir = host;
	return p2psafe_decide(context, &options, report, error);
}

#define p2psafe_decide decide_on_host
int nccl_may_use_peers(void);
#include "readme.inc"

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	host = argv[1];
	printf("%d\n", nccl_may_use_peers());
	return 0;
}
