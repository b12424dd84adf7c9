/* A helper whose calls into libc fail when told to: the helper's own objects linked with fails_calls.c, which puts itself
 * before libc. What is told lies in a file beside that program, which all processes of a run share; nothing goes through the
 * environment, which workers do not inherit. A place is a call, the role of the process that makes it, and the way through the
 * helper that led to it (return addresses). */
#ifndef P2S_TESTS_FAILS_CONTROL_H
#define P2S_TESTS_FAILS_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

enum fails_mode {
	FAILS_OFF,   /* everything passes */
	FAILS_LEARN, /* passes; notes each new place */
	FAILS_ONCE   /* the place given fails the first time that any process comes there */
};

#define FAILS_PLACES 4096

struct fails_place {
	uint64_t hash;
	char role[16]; /* conductor, host, nvml, worker */
	char call[24];
	int in_pci; /* libpci calls for itself: pci_load_name_list() (3.9) does not look at what malloc gave it */
};

struct fails_control {
	atomic_int mode;
	atomic_int target; /* index of a place */
	atomic_int met;
	atomic_int crashes; /* processes that died by a signal of their own making */
	char crashed[16];   /* role of the last one */
	atomic_flag lock;   /* of the places */
	atomic_int places;
	struct fails_place place[FAILS_PLACES];
};

#define FAILS_FILE "control" /* beside the program */

#endif
