/* Calls into libc that fail when told to. A program that is linked with failing.c puts itself before libc: whatever the
 * library (and jansson) calls of these passes through here first. A place is a call with the way that led to it (return
 * addresses). */
#ifndef P2S_TESTS_FAILING_H
#define P2S_TESTS_FAILING_H

#include <stdint.h>

enum failing_mode {
	FAILING_OFF,   /* everything passes */
	FAILING_LEARN, /* passes; notes each new place */
	FAILING_ONCE,  /* the place given fails the first time it is met; then everything passes */
	FAILING_DIE,   /* the process is killed there, before the call */
	FAILING_AFTER, /* the process is killed there, right after the call */
};

#define FAILING_MEMORY 1 /* malloc, calloc, realloc */
#define FAILING_FILES 2  /* what touches files and folders */
#define FAILING_REST 4   /* processes, sockets, waiting, the clock's neighbours */

#define FAILING_PLACES 8192

/* kinds: which calls count. place: for ONCE, DIE and AFTER the index of a place that was learnt. */
void failing_set(enum failing_mode mode, int kinds, int place);
/* Places learnt since the last failing_forget(). */
int failing_places(void);
void failing_forget(void);
/* 1 if the place of ONCE was met. */
int failing_met(void);
/* Name of the call at a place. */
const char *failing_name(int place);
/* 1 if the place is inside jansson's parser. */
int failing_in_parser(int place);
/* Allocations that were not given back yet. */
long failing_live(void);

#endif
