/* What the files of the program share. The program is a client of the public header only: what it can do, any other
 * program can do. */
#ifndef P2S_CLI_H
#define P2S_CLI_H

#include <stdint.h>
#include <stdio.h>

#include "p2psafe/p2psafe.h"

/* Exit codes. 0, 1 and 3 come from p2psafe_report_exit_code(). */
#define CLI_EXIT_OK 0
#define CLI_EXIT_USAGE 2        /* wrong option, or an option that does not fit this machine */
#define CLI_EXIT_NO_REPORT 4    /* no report could be made, or not be written */
#define CLI_EXIT_CANNOT_RUN 126 /* `run`: CMD found and not executable, as in a shell */
#define CLI_EXIT_NOT_FOUND 127  /* `run`: CMD not found, as in a shell */

enum cli_command {
	CLI_COMMAND_NONE = 0,
#define P2S_COMMAND(id, name, function, synopsis, summary) CLI_COMMAND_##id,
#include "commands.def"
#undef P2S_COMMAND
	CLI_COMMANDS
};

enum cli_option {
#define P2S_OPTION(id, name, argument, commands, help) CLI_OPTION_##id,
#include "options.def"
#undef P2S_OPTION
	CLI_OPTIONS
};

#define CLI_IN(command) (1u << CLI_COMMAND_##command)
#define CLI_EVERYWHERE (~0u)

/* The command line, taken apart. Strings are argv's. */
struct cli_args {
	enum cli_command command;
	const char *value[CLI_OPTIONS]; /* NULL: not given; "" for a switch */
	char **rest;                    /* what follows the command: CMD ARGS, a verb, a command name; ends with NULL */
	int rest_count;
};

struct cli_command_info {
	const char *name;
	int (*function)(const struct cli_args *args);
	const char *synopsis;
	const char *summary;
};

struct cli_option_info {
	const char *name;
	const char *argument; /* NULL: a switch */
	unsigned commands;    /* CLI_IN() of each command that takes it */
	const char *help;
};

extern const struct cli_command_info cli_commands[CLI_COMMANDS];
extern const struct cli_option_info cli_options[CLI_OPTIONS];

/* args.c: returns 0, or CLI_EXIT_USAGE after one line on stderr. */
int cli_args_parse(struct cli_args *args, int argc, char **argv);
int cli_args_has(const struct cli_args *args, enum cli_option option);
/* The command of that name, CLI_COMMAND_NONE if there is none. */
enum cli_command cli_command_find(const char *name);
/* Seconds, up to three decimals, above zero and at most a week, as milliseconds. Returns 1, or 0. */
int cli_seconds_parse(const char *text, uint64_t *milliseconds);

/* The commands; each returns the exit code. */
int cli_cmd_report(const struct cli_args *args);
int cli_cmd_explain(const struct cli_args *args);
int cli_cmd_gather(const struct cli_args *args);
int cli_cmd_env(const struct cli_args *args);
int cli_cmd_run(const struct cli_args *args);
int cli_cmd_cache(const struct cli_args *args);
int cli_cmd_groups(const struct cli_args *args);
int cli_cmd_merge(const struct cli_args *args);
int cli_cmd_help(const struct cli_args *args);

/* help.c */
void cli_help_print(FILE *out, enum cli_command command);

/* One line on stderr, "p2psafe: ...". */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Flushes stdout. Returns code, or CLI_EXIT_NO_REPORT when something could not be written. */
int cli_finish(int code);

#endif
