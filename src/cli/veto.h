/* The settings of a report, or of no report at all, as `run` applies them. */
#ifndef P2S_CLI_VETO_H
#define P2S_CLI_VETO_H

#include "cli.h"

struct cli_setting {
	int32_t consumer;
	int32_t kind;    /* P2PSAFE_SETTING_* */
	int32_t applied; /* 1: belongs into the environment of CMD */
	int32_t veto;    /* 1: takes permission away, so it wins over what the user set; 0: the user's own setting wins */
	char *name;
	char *value;
	char *why;
};

struct cli_veto {
	struct cli_setting *settings;
	size_t count;
	int denied[P2PSAFE_CONSUMER_MULTICAST + 1];   /* consumers that are vetoed */
	int enforced[P2PSAFE_CONSUMER_MULTICAST + 1]; /* those that a setting alone makes obey; none without a report */
};

/* Settings of the report; report NULL: the full veto of the library. Returns 1, or 0 when out of memory or when the library
 * gives no veto. Free in both cases. */
int cli_veto_load(struct cli_veto *v, const p2psafe_report *report);
void cli_veto_free(struct cli_veto *v);
/* stricter.c: 1 if the user's own value takes away as much as ours, and more. */
int cli_veto_is_stricter(const char *name, const char *user, const char *ours);
/* Changes this process's environment. Returns 1, or 0 when out of memory. */
int cli_veto_apply(const struct cli_veto *v);
/* Tells on stderr which vetoes no environment can enforce: what a person must do, unless CMD's arguments already hold it.
 * Returns how many consumers are vetoed and enforced by nothing. */
int cli_veto_unenforced(const struct cli_veto *v, char *const *command);

#endif
