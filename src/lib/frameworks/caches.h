/* The peer-access caches of frameworks: files of theirs, in their folders, with our answer in them. */
#ifndef P2S_FRAMEWORKS_CACHES_H
#define P2S_FRAMEWORKS_CACHES_H

#include <stddef.h>
#include <stdint.h>

enum p2s_framework {
#define P2S_FRAMEWORK(id, name, variable, below_cache, below_home) P2S_FRAMEWORK_##id,
#include "frameworks/frameworks.def"
#undef P2S_FRAMEWORK
	P2S_FRAMEWORKS
};

/* What the file of one framework is to say. */
enum p2s_cache_answer {
	P2S_CACHE_ABSENT, /* nothing of ours: the framework tests for itself */
	P2S_CACHE_FALSE,  /* no pair may be used */
	P2S_CACHE_TRUE    /* every pair was proven; only where permission may be given */
};

enum p2s_cache_state {
	P2S_CACHE_WRITTEN,
	P2S_CACHE_SAME,    /* it says so already */
	P2S_CACHE_REMOVED, /* an earlier answer of ours */
	P2S_CACHE_NOTHING, /* there is no file, and none is needed */
	P2S_CACHE_FOREIGN, /* not ours, it says otherwise, and we were not told to replace it */
	P2S_CACHE_FAILED
};

/* Strings of the environment that the folders and the key come from; NULL: not set. */
struct p2s_cache_environment {
	const char *visible; /* CUDA_VISIBLE_DEVICES */
	const char *root[P2S_FRAMEWORKS]; /* p2s_framework_variable() */
	const char *xdg_cache_home;
	const char *home;
};

struct p2s_cache_result {
	enum p2s_cache_state state;
	char path[1200]; /* "" where it cannot be said */
	char why[200];
};

const char *p2s_framework_name(enum p2s_framework f);
const char *p2s_framework_variable(enum p2s_framework f);
const char *p2s_cache_state_name(enum p2s_cache_state state);
/* 1 if the state means that the framework does not hear what it must. */
int32_t p2s_cache_unheard(enum p2s_cache_state state);
/* Number of devices that a mask names at most: its entries. */
size_t p2s_cache_mask_entries(const char *visible);
/* Makes the file of f say the answer for that mask; gpus: devices without a mask, 0 unknown. force: also over a file of
 * somebody else. Nothing else is touched; whoever reads sees the old file or the new one. */
void p2s_cache_put(enum p2s_framework f, const struct p2s_cache_environment *env, size_t gpus, enum p2s_cache_answer answer,
                   int32_t force, struct p2s_cache_result *out);

#endif
