/* p2psafe: the program. Exit codes are those of cli.h; see docs/man/p2psafe.1. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

void cli_say(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fputs("p2psafe: ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
}

int cli_finish(int code)
{
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		cli_say("cannot write to standard output: %s", errno != 0 ? strerror(errno) : "earlier error");
		return CLI_EXIT_NO_REPORT;
	}
	return code;
}

/* A standard descriptor that the caller closed must not become a record or a socket, into which a message would then be
 * written. What takes its place fails every write, as the closed one would, and is closed again for the command of `run`. */
static void hold_standard_descriptors(void)
{
	int fd;
	do {
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct cli_args args;
	hold_standard_descriptors();
	int rc = cli_args_parse(&args, argc, argv);
	if (rc != 0)
		return rc;
	if (cli_args_has(&args, CLI_OPTION_VERSION)) {
		printf("p2psafe %s\n", p2psafe_version_string());
		return cli_finish(CLI_EXIT_OK);
	}
	if (cli_args_has(&args, CLI_OPTION_HELP)) {
		cli_help_print(stdout, args.command);
		return cli_finish(CLI_EXIT_OK);
	}
	if (args.command == CLI_COMMAND_NONE) {
		cli_help_print(stderr, CLI_COMMAND_NONE);
		return CLI_EXIT_USAGE;
	}
	return cli_commands[args.command].function(&args);
}
