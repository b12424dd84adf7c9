/* The help texts, made from the tables. */
#include <string.h>

#include "cli.h"

static void print_options(FILE *out, enum cli_command command)
{
	for (int i = 0; i < CLI_OPTIONS; i++) {
		const struct cli_option_info *o = &cli_options[i];
		if (command != CLI_COMMAND_NONE && (o->commands & (1u << command)) == 0)
			continue;
		char head[96];
		snprintf(head, sizeof(head), "%s%s%s", o->name, o->argument != NULL ? " " : "", o->argument != NULL ? o->argument : "");
		if (strlen(head) > 28)
			fprintf(out, "  %s\n  %-28s  %s\n", head, "", o->help);
		else
			fprintf(out, "  %-28s  %s\n", head, o->help);
	}
}

void cli_help_print(FILE *out, enum cli_command command)
{
	if (command == CLI_COMMAND_NONE || command == CLI_COMMAND_HELP) {
		fputs("p2psafe - is GPU peer-to-peer transfer safe on this machine?\n\nusage: p2psafe COMMAND [OPTIONS]\n\ncommands:\n",
		      out);
		for (int i = CLI_COMMAND_NONE + 1; i < CLI_COMMANDS; i++) {
			char head[96];
			snprintf(head, sizeof(head), "%s%s%s", cli_commands[i].name, cli_commands[i].synopsis[0] != '\0' ? " " : "",
			         cli_commands[i].synopsis);
			fprintf(out, "  %-28s  %s\n", head, cli_commands[i].summary);
		}
	} else {
		const struct cli_command_info *c = &cli_commands[command];
		fprintf(out, "usage: p2psafe %s [OPTIONS]%s%s\n\n%s\n", c->name, c->synopsis[0] != '\0' ? " " : "", c->synopsis,
		        c->summary);
	}
	fputs("\noptions:\n", out);
	print_options(out, command == CLI_COMMAND_HELP ? CLI_COMMAND_NONE : command);
	fputs("\nexit codes:\n"
	      "  0  every pair was proven (or there is one GPU, or nothing was asked of the pairs)\n"
	      "  1  a consumer of peer transfers is vetoed\n"
	      "  2  wrong option, or an option that does not fit this machine\n"
	      "  3  nothing could be tested: no GPU, no driver, driver too old, no helper; everything is vetoed\n"
	      "  4  no report could be made\n"
	      "  'run' exits as CMD does; 126 CMD cannot be executed, 127 CMD not found.\n",
	      out);
}

int cli_cmd_help(const struct cli_args *args)
{
	enum cli_command command = CLI_COMMAND_NONE;
	if (args->rest_count > 1) {
		cli_say("'p2psafe help' takes one command name, got '%s' too", args->rest[1]);
		return CLI_EXIT_USAGE;
	}
	if (args->rest_count == 1) {
		command = cli_command_find(args->rest[0]);
		if (command == CLI_COMMAND_NONE) {
			cli_say("unknown command '%s': 'p2psafe help' lists the commands", args->rest[0]);
			return CLI_EXIT_USAGE;
		}
	}
	cli_help_print(stdout, command);
	return cli_finish(CLI_EXIT_OK);
}
