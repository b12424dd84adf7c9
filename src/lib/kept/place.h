/* Where records, lock and marker live. */
#ifndef P2S_KEPT_PLACE_H
#define P2S_KEPT_PLACE_H

#include <stdint.h>

#include "core/request.h"

#define P2S_PLACES 3

struct p2s_place {
	int fd;         /* -1: no such folder (yet), or not to be trusted */
	char dir[512];
	int above;      /* length of the folder of several machines that it lies in; 0 none */
	char why[96];   /* why fd is -1 */
};

struct p2s_places {
	struct p2s_place place[P2S_PLACES]; /* in the order in which records are looked for */
	int count;
	int write; /* index of the one that is written; -1 none */
	char why[200]; /* why none is written */
};

/* Explicit folder, else /var/cache/p2psafe, $XDG_CACHE_HOME/p2psafe, ~/.cache/p2psafe (the last two only when the caller lets
 * the environment be read). Where other machines may see them, as on a file server, all but the second are folders of several machines,
 * and each has its own in it (docs/adr/0027-a-folder-for-each-machine.md). A simulated host uses only an explicit folder. make: create the folder to write in. */
void p2s_places_open(struct p2s_places *p, const struct p2s_request *request, int32_t make);
void p2s_places_close(struct p2s_places *p);

#endif
