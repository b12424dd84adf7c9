/* --write-caches: the peer-access caches of vLLM and SGLang. */
#ifndef P2S_CLI_CACHES_H
#define P2S_CLI_CACHES_H

#include "cli.h"

/* Writes them (report NULL: the veto) and tells on stderr what was done. Returns 1 if every framework hears what it must, or
 * nothing was asked for; 0 otherwise. */
int cli_caches_write(const struct cli_args *args, const p2psafe_report *report);

#endif
