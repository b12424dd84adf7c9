/* How an inference server starts with libp2psafe: decide, refuse what was asked for and is not safe, give the decision to its
 * worker processes, start them. A real server would take its configuration where this takes its command line.
 *
 * usage: server_start [--host DIR] [--require nccl_p2p] [--] WORKER [ARGS...]
 *
 * exit: that of WORKER; 2 wrong usage; 3 a required way of transfer is not safe here; 4 the worker was not started. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <p2psafe/p2psafe.h>

extern char **environ;

struct config {
	const char *host_dir; /* a simulated host, for the server's own tests */
	int32_t required;     /* P2PSAFE_CONSUMER_* that the operator insists on; 0 none */
	char **worker;
};

static int read_command_line(struct config *config, int argc, char **argv)
{
	int i = 1;
	memset(config, 0, sizeof(*config));
	for (; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--host") == 0)
			config->host_dir = argv[i + 1];
		else if (strcmp(argv[i], "--require") == 0)
			config->required = p2psafe_consumer_from_name(argv[i + 1]);
		else
			break;
		if (strcmp(argv[i], "--require") == 0 && config->required == 0)
			return 0;
	}
	i += i < argc && strcmp(argv[i], "--") == 0;
	config->worker = argv + i;
	return i < argc;
}

static void log_line(void *user, int32_t level, const char *line)
{
	(void)user;
	if (level <= P2PSAFE_LOG_WARNING)
		fprintf(stderr, "server: p2psafe: %s\n", line);
}

/* The worker's environment: ours, with the decision over it. What takes permission away wins over what the operator set; what
 * only gives it leaves the operator's value alone. An operator's own NCCL_P2P_LEVEL or NCCL_PROTO may have been stricter still
 * and is replaced all the same: nothing that was not proven gets in by that. (`p2psafe run` keeps it.) */
static int set_environment(const p2psafe_report *report)
{
	int32_t count = p2psafe_report_setting_count(report);
	for (int32_t i = 0; i < count; i++) {
		struct p2psafe_setting setting = {.size = sizeof(setting)};
		if (p2psafe_report_setting(report, i, &setting) != P2PSAFE_OK)
			return 0;
		if (!setting.applied) {
			fprintf(stderr, "server: to be set by you: %s %s (%s)\n", setting.name, setting.value, setting.why);
			continue;
		}
		if (setting.kind == P2PSAFE_SETTING_ENV && setenv(setting.name, setting.value, !setting.gives_permission) != 0)
			return 0;
		if (setting.kind == P2PSAFE_SETTING_UNSET && !setting.gives_permission && unsetenv(setting.name) != 0)
			return 0;
	}
	return 1;
}

/* No report, so nothing is known, and the worker must not use what was not proven: a missing report joined with nothing vetoes
 * everything. NULL where not even that can be had; then nothing is started. */
static p2psafe_report *full_veto(void)
{
	static const char *const missing[] = {NULL};
	struct p2psafe_error error = {.size = sizeof(error)};
	p2psafe_report *report = NULL;
	if (p2psafe_merge(missing, 1, NULL, &report, &error) != P2PSAFE_OK)
		fprintf(stderr, "server: refusing to start: nothing can be vetoed: %s\n", error.text);
	return report;
}

static int start_worker(char **command)
{
	pid_t pid;
	int status = 0;
	int failed = posix_spawnp(&pid, command[0], NULL, NULL, command, environ);
	if (failed != 0) {
		fprintf(stderr, "server: cannot start '%s': %s\n", command[0], strerror(failed));
		return 4;
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return 4;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	struct config config;
	struct p2psafe_options options;
	struct p2psafe_error error = {.size = sizeof(error)};
	p2psafe_context *context = NULL;
	p2psafe_report *report = NULL;
	if (!read_command_line(&config, argc, argv)) {
		fprintf(stderr, "usage: server_start [--host DIR] [--require CONSUMER] [--] WORKER [ARGS...]\n");
		return 2;
	}
	p2psafe_options_init(&options, sizeof(options));
	options.flags = P2PSAFE_FLAG_ENVIRONMENT;
	options.host_dir = config.host_dir;

	int32_t status = p2psafe_context_new(&context, log_line, NULL, &error);
	if (status == P2PSAFE_OK)
		status = p2psafe_decide(context, &options, &report, &error);
	if (status != P2PSAFE_OK) {
		fprintf(stderr, "server: no decision, peer-to-peer stays off: %s\n", error.text);
		report = full_veto();
	}
	printf("server: %s%s, nccl_p2p %s, custom all-reduce %s\n", p2psafe_report_is_simulated(report) ? "SIMULATED " : "",
	       p2psafe_transport_name(p2psafe_report_transport(report)),
	       p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P) ? "allowed" : "off",
	       p2psafe_report_allows(report, P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE) ? "allowed" : "off");
	fflush(stdout);

	int code = 4;
	if (config.required != 0 && !p2psafe_report_allows(report, config.required)) {
		fprintf(stderr, "server: refusing to start: %s is required and not proven on this machine\n",
		        p2psafe_consumer_name(config.required));
		code = 3;
	} else if (report != NULL && set_environment(report)) {
		code = start_worker(config.worker);
	}
	p2psafe_report_free(report);
	p2psafe_context_free(context);
	return code;
}
