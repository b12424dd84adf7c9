/* What NCCL is told instead of its environment, and in which words a person is told. Made once per process, never changed. */
#ifndef P2S_PLUGIN_VETO_H
#define P2S_PLUGIN_VETO_H

#include <stddef.h>
#include <stdint.h>

#define P2S_VETO_ROWS 16

enum p2s_veto_tell {
	P2S_TELL_NOTHING, /* switched off: not even a word */
	P2S_TELL_INFO,    /* for who reads NCCL's INFO lines */
	P2S_TELL_WARNING  /* one line for everybody */
};

struct p2s_veto_row {
	char name[48];
	char value[208];
	int32_t unset; /* 1: NCCL must find the variable unset */
};

struct p2s_veto {
	size_t count;
	struct p2s_veto_row rows[P2S_VETO_ROWS];
	enum p2s_veto_tell tell;
	char line[800];
};

/* veto.c: a veto of everything that NCCL can be told, for when nobody can be asked. */
extern const struct p2s_veto p2s_veto_of_all;
/* Returns 1, or 0 when it does not fit: then the veto says less than it must, and the other one is to be used. */
int32_t p2s_veto_add(struct p2s_veto *v, const char *name, const char *value, int32_t unset);
/* What NCCL is told when it asks for name and its environment says user (NULL: nothing). The result is user, NULL, or lives as
 * long as the process. */
const char *p2s_veto_get(const struct p2s_veto *v, const char *name, const char *user);

/* decide.c: asks the library: the kept record, else a test in child processes, within the library's deadline. */
void p2s_veto_decide(struct p2s_veto *out);

#endif
