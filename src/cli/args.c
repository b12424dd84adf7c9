/* Takes the command line apart by the tables of commands.def and options.def. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

const struct cli_command_info cli_commands[CLI_COMMANDS] = {
#define P2S_COMMAND(id, name, function, synopsis, summary) [CLI_COMMAND_##id] = {name, function, synopsis, summary},
#include "commands.def"
#undef P2S_COMMAND
};

const struct cli_option_info cli_options[CLI_OPTIONS] = {
#define P2S_OPTION(id, name, argument, commands, help) [CLI_OPTION_##id] = {name, argument, commands, help},
#include "options.def"
#undef P2S_OPTION
};

#define DAY_MS UINT64_C(86400000) /* the library takes no more */

int cli_args_has(const struct cli_args *args, enum cli_option option)
{
	return args->value[option] != NULL;
}

enum cli_command cli_command_find(const char *name)
{
	for (int i = CLI_COMMAND_NONE + 1; i < CLI_COMMANDS; i++) {
		if (strcmp(cli_commands[i].name, name) == 0)
			return (enum cli_command)i;
	}
	return CLI_COMMAND_NONE;
}

int cli_seconds_parse(const char *text, uint64_t *milliseconds)
{
	uint64_t ms = 0;
	uint64_t unit = 1000;
	int digits = 0;
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '.' && unit == 1000 && digits > 0) {
			unit = 100;
			digits = 0;
			continue;
		}
		if (*p < '0' || *p > '9' || unit == 0)
			return 0;
		if (unit == 1000) {
			ms = ms * 10 + (uint64_t)(*p - '0') * 1000;
			if (ms > DAY_MS)
				return 0;
		} else {
			ms += (uint64_t)(*p - '0') * unit;
			unit /= 10;
		}
		digits++;
	}
	if (digits == 0 || ms == 0 || ms > DAY_MS)
		return 0;
	*milliseconds = ms;
	return 1;
}

/* "--json, --host DIR, ..." of a command, cut to fit one line of an error. */
static void list_options(char *out, size_t cap, enum cli_command command)
{
	size_t len = 0;
	out[0] = '\0';
	for (int i = 0; i < CLI_OPTIONS; i++) {
		const struct cli_option_info *o = &cli_options[i];
		if ((o->commands & (1u << command)) == 0 || o->commands == CLI_EVERYWHERE)
			continue;
		int n = snprintf(out + len, cap - len, "%s%s", len > 0 ? ", " : "", o->name);
		if (n < 0 || (size_t)n >= cap - len)
			return;
		len += (size_t)n;
	}
}

static int unknown_option(const char *text, int name_len, enum cli_command command)
{
	char list[512];
	list_options(list, sizeof(list), command);
	if (command == CLI_COMMAND_NONE)
		cli_say("unknown option '%.*s': 'p2psafe help' lists all of them", name_len, text);
	else
		cli_say("unknown option '%.*s': 'p2psafe %s' takes %s", name_len, text, cli_commands[command].name,
		        list[0] != '\0' ? list : "no options");
	return CLI_EXIT_USAGE;
}

/* Stores the option at argv[*i] and moves *i to the last word it used. */
static int take_option(struct cli_args *args, int argc, char **argv, int *i)
{
	const char *text = argv[*i];
	const char *equals = strchr(text, '=');
	size_t name_len = equals != NULL ? (size_t)(equals - text) : strlen(text);
	for (int k = 0; k < CLI_OPTIONS; k++) {
		const struct cli_option_info *o = &cli_options[k];
		if (strlen(o->name) != name_len || strncmp(o->name, text, name_len) != 0)
			continue;
		if (o->argument == NULL) {
			if (equals != NULL) {
				cli_say("option %s takes no value, got '%s'", o->name, equals + 1);
				return CLI_EXIT_USAGE;
			}
			args->value[k] = "";
			return 0;
		}
		const char *value = equals != NULL ? equals + 1 : NULL;
		if (value == NULL && *i + 1 < argc)
			value = argv[++*i];
		if (value == NULL || value[0] == '\0' || (equals == NULL && strncmp(value, "--", 2) == 0)) {
			cli_say("option %s needs a value: expected %s", o->name, o->argument);
			return CLI_EXIT_USAGE;
		}
		if (args->value[k] != NULL) {
			cli_say("option %s is given twice: '%s' and '%s'; expected one", o->name, args->value[k], value);
			return CLI_EXIT_USAGE;
		}
		args->value[k] = value;
		return 0;
	}
	return unknown_option(text, (int)name_len, args->command);
}

/* The words that a value may be, and the commands that an option belongs to. */
static int check_values(const struct cli_args *args)
{
	uint64_t ms;
	for (int k = 0; k < CLI_OPTIONS; k++) {
		const char *value = args->value[k];
		if (value == NULL)
			continue;
		int good = 1;
		if (k == CLI_OPTION_LEVEL)
			good = p2psafe_level_from_name(value) != 0;
		else if (k == CLI_OPTION_FORMAT)
			good = p2psafe_format_from_name(value) != 0;
		else if (k == CLI_OPTION_BEST || k == CLI_OPTION_ORDER)
			good = strspn(value, "0123456789") == strlen(value) && strlen(value) <= 3 && atoi(value) >= 2;
		else if (k == CLI_OPTION_BY)
			good = strcmp(value, "uuid") == 0 || strcmp(value, "ordinal") == 0 || strcmp(value, "address") == 0;
		else if (k == CLI_OPTION_DEADLINE || k == CLI_OPTION_SOAK)
			good = cli_seconds_parse(value, &ms);
		if (!good) {
			cli_say("option %s: expected %s, got '%s'", cli_options[k].name,
			        k == CLI_OPTION_DEADLINE || k == CLI_OPTION_SOAK ? "seconds above 0 and at most 86400"
			        : k == CLI_OPTION_BEST || k == CLI_OPTION_ORDER  ? "a number of GPUs, 2 or more"
			                                                         : cli_options[k].argument,
			        value);
			return CLI_EXIT_USAGE;
		}
		if ((cli_options[k].commands & (1u << args->command)) == 0) {
			char list[512];
			list_options(list, sizeof(list), args->command);
			cli_say("option %s is not for 'p2psafe %s', which takes %s", cli_options[k].name, cli_commands[args->command].name,
			        list[0] != '\0' ? list : "no options");
			return CLI_EXIT_USAGE;
		}
	}
	if (args->value[CLI_OPTION_SOAK] != NULL &&
	    (args->value[CLI_OPTION_LEVEL] == NULL || strcmp(args->value[CLI_OPTION_LEVEL], "thorough") != 0)) {
		cli_say("option --soak needs --level thorough");
		return CLI_EXIT_USAGE;
	}
	if (args->value[CLI_OPTION_WRITE_CACHES] == NULL &&
	    (args->value[CLI_OPTION_FORCE] != NULL || args->value[CLI_OPTION_HOME] != NULL)) {
		cli_say("options --force and --home need --write-caches");
		return CLI_EXIT_USAGE;
	}
	return 0;
}

int cli_args_parse(struct cli_args *args, int argc, char **argv)
{
	memset(args, 0, sizeof(*args));
	int kept = 0; /* words of rest, moved to the front of argv + 1 */
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			if (args->command != CLI_COMMAND_RUN) {
				cli_say("'--' is only for 'p2psafe run -- CMD'");
				return CLI_EXIT_USAGE;
			}
			args->rest = argv + i + 1;
			args->rest_count = argc - i - 1;
			return check_values(args);
		}
		if (argv[i][0] == '-' && argv[i][1] != '\0') {
			if (strcmp(argv[i], "-h") == 0) {
				args->value[CLI_OPTION_HELP] = "";
				continue;
			}
			int rc = take_option(args, argc, argv, &i);
			if (rc != 0)
				return rc;
			continue;
		}
		if (args->command == CLI_COMMAND_NONE) {
			args->command = cli_command_find(argv[i]);
			if (args->command == CLI_COMMAND_NONE) {
				cli_say("unknown command '%s': 'p2psafe help' lists the commands", argv[i]);
				return CLI_EXIT_USAGE;
			}
			continue;
		}
		if (args->command == CLI_COMMAND_RUN) {
			args->rest = argv + i;
			args->rest_count = argc - i;
			return check_values(args);
		}
		argv[1 + kept++] = argv[i]; /* kept < i: never overtakes what is still to be read */
	}
	argv[1 + kept] = NULL;
	args->rest = argv + 1;
	args->rest_count = kept;
	return args->command == CLI_COMMAND_NONE ? 0 : check_values(args);
}
