/* groups: which GPUs may be together, when not all of them may. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 64
#define NAME_MAX_BYTES 65 /* a name with its zero byte, and a comma */

/* How a program is told about a GPU. Returns 0 when that is not known. */
static int name_of(const p2psafe_report *report, int32_t i, const char *by, char *out, size_t cap)
{
	struct p2psafe_gpu g = {.size = sizeof(g)};
	if (p2psafe_report_gpu(report, i, &g) != P2PSAFE_OK)
		return 0;
	if (strcmp(by, "address") == 0)
		snprintf(out, cap, "%s", g.address);
	else if (strcmp(by, "ordinal") == 0 && g.ordinal >= 0)
		snprintf(out, cap, "%d", (int)g.ordinal);
	else if (strcmp(by, "uuid") == 0)
		snprintf(out, cap, "%s", g.uuid);
	else
		out[0] = '\0';
	return out[0] != '\0';
}

/* One line that CUDA_VISIBLE_DEVICES takes; a part of one would be believed, too. */
static int print_list(const p2psafe_report *report, const int32_t *gpus, int32_t count, const char *by)
{
	char line[GPUS_MAX * NAME_MAX_BYTES];
	size_t len = 0;
	for (int32_t i = 0; i < count; i++) {
		char name[NAME_MAX_BYTES - 1];
		if (!name_of(report, gpus[i], by, name, sizeof(name))) {
			cli_say("groups: the %s of a GPU is not known here: ask for another name with --by", by);
			return CLI_EXIT_NO_REPORT;
		}
		len += (size_t)snprintf(line + len, sizeof(line) - len, "%s%s", i > 0 ? "," : "", name);
	}
	printf("%.*s\n", (int)len, line);
	return 0;
}

static void print_set(const p2psafe_report *report, const char *title, const int32_t *gpus, int32_t count)
{
	char name[NAME_MAX_BYTES - 1];
	printf("%s", title);
	for (int32_t i = 0; i < count; i++)
		printf(" %s", name_of(report, gpus[i], "address", name, sizeof(name)) ? name : "?");
	putchar('\n');
}

static void print_all(const p2psafe_report *report)
{
	int32_t part[GPUS_MAX];
	int32_t list[GPUS_MAX];
	int32_t islands = p2psafe_report_island_count(report);
	printf("largest safe groups\n");
	for (int32_t i = 0; i < islands; i++) {
		int32_t n = p2psafe_report_island(report, i, list, GPUS_MAX);
		if (n > 1)
			print_set(report, " ", list, n);
	}
	printf("disjoint islands\n");
	int32_t parts = p2psafe_report_partition(report, part, GPUS_MAX);
	for (int32_t k = 0; k < parts; k++) {
		int32_t n = 0;
		for (int32_t i = 0; i < GPUS_MAX && i < p2psafe_report_gpu_count(report); i++) {
			if (part[i] == k)
				list[n++] = i;
		}
		print_set(report, " ", list, n);
	}
	for (int32_t k = 2; k <= GPUS_MAX; k *= 2) {
		struct p2psafe_group g = {.size = sizeof(g)};
		char title[96];
		if (p2psafe_report_best_group(report, P2PSAFE_CONSUMER_UNKNOWN, k, list, &g) != P2PSAFE_OK)
			break;
		snprintf(title, sizeof(title), "best %d (%s)", (int)k, p2psafe_transport_name(g.transport));
		print_set(report, title, list, k);
	}
}

static int choose(const p2psafe_report *report, const struct cli_args *args)
{
	const char *by = cli_args_has(args, CLI_OPTION_BY) ? args->value[CLI_OPTION_BY] : "uuid";
	int32_t list[GPUS_MAX];
	if (cli_args_has(args, CLI_OPTION_BEST)) {
		int32_t k = atoi(args->value[CLI_OPTION_BEST]);
		if (k > GPUS_MAX || p2psafe_report_best_group(report, P2PSAFE_CONSUMER_UNKNOWN, k, list, NULL) != P2PSAFE_OK) {
			cli_say("groups: no safe group of %d GPUs here", (int)k);
			return 1;
		}
		return print_list(report, list, k, by);
	}
	if (cli_args_has(args, CLI_OPTION_ORDER)) {
		int32_t k = atoi(args->value[CLI_OPTION_ORDER]);
		for (int32_t i = 0; i < GPUS_MAX; i++)
			list[i] = -1;
		int32_t whole = k <= GPUS_MAX ? p2psafe_report_order(report, k, list, GPUS_MAX) : 0;
		if (whole < 1) {
			cli_say("groups: no safe group of %d GPUs here", (int)k);
			return 1;
		}
		/* GPUs that fit into no whole group are left out: a program would put them into one */
		return print_list(report, list, whole * k, by);
	}
	print_all(report);
	return (int)p2psafe_report_exit_code(report);
}

int cli_cmd_groups(const struct cli_args *args)
{
	struct cli_session s;
	p2psafe_report *report = NULL;
	if (args->rest_count > 0) {
		cli_say("'p2psafe groups' takes no argument, got '%s'", args->rest[0]);
		return CLI_EXIT_USAGE;
	}
	if (cli_args_has(args, CLI_OPTION_BEST) && cli_args_has(args, CLI_OPTION_ORDER)) {
		cli_say("options --best and --order exclude each other");
		return CLI_EXIT_USAGE;
	}
	/* The list replaces a mask that this process has, so its numbers are those that CUDA counts without one. Nothing else of a
	 * report depends on the mask. */
	unsetenv("CUDA_VISIBLE_DEVICES");
	int rc = cli_session_open(&s, args);
	if (rc == 0)
		rc = cli_session_report(&s, CLI_COMMAND_DECIDE, &report);
	if (rc == 0) {
		if (p2psafe_report_is_simulated(report))
			cli_say("SIMULATED: this is not about this machine");
		rc = choose(report, args);
	}
	p2psafe_report_free(report);
	cli_session_close(&s);
	return cli_finish(rc);
}
