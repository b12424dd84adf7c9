/* env: the settings as text. Without a report it prints the full veto: a program that evaluates the output must never be left
 * without an answer because something failed. */
#include "caches.h"
#include "session.h"
#include "veto.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Length of the shell form's next command or comment, with its line end. A value in '...' may hold line ends of its own. */
static size_t shell_command(const char *text)
{
	size_t n = 0;
	int quoted = 0;
	if (text[0] == '#')
		return strcspn(text, "\n") + (strchr(text, '\n') != NULL);
	while (text[n] != '\0' && (quoted || text[n] != '\n')) {
		if (text[n] == '\\' && !quoted && text[n + 1] != '\0')
			n++;
		else if (text[n] == '\'')
			quoted = !quoted;
		n++;
	}
	return n + (text[n] == '\n');
}

/* The setting that the command is about: "export NAME='...'" or "unset NAME". NULL for a comment. */
static const struct cli_setting *setting_of(const struct cli_veto *veto, const char *command)
{
	const char *name = "";
	if (strncmp(command, "export ", 7) == 0)
		name = command + 7;
	else if (strncmp(command, "unset ", 6) == 0)
		name = command + 6;
	size_t n = strcspn(name, "=\n");
	for (size_t i = 0; i < veto->count; i++) {
		const struct cli_setting *s = &veto->settings[i];
		if ((s->kind == P2PSAFE_SETTING_ENV || s->kind == P2PSAFE_SETTING_UNSET) && strlen(s->name) == n &&
		    strncmp(s->name, name, n) == 0)
			return s;
	}
	return NULL;
}

/* Prints what stands in place of the command because the user has set the variable, as `run` would leave it. Returns 0 where
 * the command stays. A stricter value is said again: the text may be read where the variable is not set. */
static int print_own(const struct cli_setting *s)
{
	const char *user = getenv(s->name);
	if (user == NULL || (s->kind == P2PSAFE_SETTING_ENV && strcmp(user, s->value) == 0))
		return 0;
	if (!s->veto) {
		printf("# %s: your own value stays, since this would give permission and take none away\n", s->name);
		return 1;
	}
	if (s->kind != P2PSAFE_SETTING_ENV || !cli_veto_is_stricter(s->name, user, s->value) ||
	    user[strspn(user, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789,^")] != '\0')
		return 0;
	printf("# %s: your own value is stricter and stays\nexport %s='%s'\n", s->name, s->name, user);
	return 1;
}

static void print_shell(const char *text, const p2psafe_report *report)
{
	struct cli_veto veto;
	int known = cli_veto_load(&veto, report); /* else the text as it is */
	for (size_t n; *text != '\0'; text += n) {
		const struct cli_setting *s = known ? setting_of(&veto, text) : NULL;
		n = shell_command(text);
		if (s == NULL || !print_own(s))
			fwrite(text, 1, n, stdout);
	}
	cli_veto_free(&veto);
}

int cli_cmd_env(const struct cli_args *args)
{
	struct cli_session s;
	struct p2psafe_error err = {.size = sizeof(err)};
	p2psafe_report *report = NULL;
	char *text = NULL;
	int32_t format = P2PSAFE_FORMAT_SHELL;
	if (args->rest_count > 0) {
		cli_say("'p2psafe env' takes no argument, got '%s'", args->rest[0]);
		return CLI_EXIT_USAGE;
	}
	if (cli_args_has(args, CLI_OPTION_FORMAT))
		format = p2psafe_format_from_name(args->value[CLI_OPTION_FORMAT]);
	/* Who reads our messages may be gone: what the output's reader evaluates must come out all the same. */
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	int rc = cli_session_open(&s, args);
	if (rc == 0)
		rc = cli_session_report(&s, CLI_COMMAND_DECIDE, &report);
	if (rc != 0)
		cli_say("no report: the full veto is printed");
	else
		rc = (int)p2psafe_report_exit_code(report);
	if (report != NULL && p2psafe_report_is_simulated(report))
		cli_say("SIMULATED: these settings are not about this machine");
	int heard = rc == CLI_EXIT_USAGE || cli_caches_write(args, report);
	int32_t status = p2psafe_report_env(report, format, &text, &err);
	signal(SIGPIPE, before);
	if (status != P2PSAFE_OK) {
		rc = cli_session_failed(&err, status);
	} else {
		size_t len = strlen(text);
		if (format == P2PSAFE_FORMAT_SHELL)
			print_shell(text, report);
		else
			fputs(text, stdout);
		if (len > 0 && text[len - 1] != '\n')
			putchar('\n');
		/* a wrong --gpus stays an error; what the machine is like is none */
		if (!cli_args_has(args, CLI_OPTION_STRICT) && rc != CLI_EXIT_USAGE)
			rc = CLI_EXIT_OK;
		if (!heard && rc == CLI_EXIT_OK)
			rc = 1;
	}
	p2psafe_string_free(text);
	p2psafe_report_free(report);
	cli_session_close(&s);
	return cli_finish(rc);
}
