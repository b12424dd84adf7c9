/* What the predicates of findings.def share: the question, the answer, and small questions about the model. */
#ifndef P2S_RULES_ABOUT_H
#define P2S_RULES_ABOUT_H

#include <stdint.h>

#include "core/model.h"
#include "evidence/log.h"
#include "rules/rules.h"

/* What a predicate is asked about. Only m is always there. */
struct p2s_about {
	const struct p2s_model *m;
	int32_t gpu;                       /* GPU, HOP: its index; PAIR: the accessor; else -1 */
	int32_t peer;                      /* PAIR: the owner; else -1 */
	const struct p2s_pair *pair;       /* PAIR */
	size_t hop;                        /* HOP: index into the GPU's hops */
	const struct p2s_log_event *event; /* LOG */
};

#define P2S_CLAIM_VALUES 4

/* What a predicate that holds says. */
struct p2s_claim {
	int32_t severity;                  /* 0: the row's */
	int32_t confidence;                /* 0: the row's rule */
	int32_t gpu;                       /* LOG, HOP: whom the finding is about; -1 the host. GPU and PAIR: fixed */
	char source[160];                  /* where it was read */
	char value[P2S_CLAIM_VALUES][240]; /* {0}..{3} of the row's text */
};

/* Returns 1 if the finding is there, with *c filled. */
typedef int32_t (*p2s_predicate)(const struct p2s_about *a, struct p2s_claim *c);

#define P2S_SAY(to, ...) ((void)snprintf(to, sizeof(to), __VA_ARGS__))

/* ---- small questions, about.c ---- */

/* Is this GPU one of those that are looked at together: the group, or, where no GPU is bound to the nvidia driver, every one
 * that vfio has not taken. */
int32_t p2s_about_looked_at(const struct p2s_model *m, int32_t gpu);
int32_t p2s_about_translated(const struct p2s_gpu *g);
/* The domain is not known, so it may translate: its type cannot be read, or is none of those that say. */
int32_t p2s_about_may_translate(const struct p2s_gpu *g);
int32_t p2s_about_bad(const struct p2s_pair *p);      /* bytes were wrong, or an engine hung, or a call failed midway */
int32_t p2s_about_untested(const struct p2s_pair *p); /* not one leg of it ran */
/* Counts over the pairs of GPU g (either end); g -1: all pairs. */
struct p2s_tally {
	size_t pairs, ok, bad, untested, unsupported, degraded;
};
struct p2s_tally p2s_about_tally(const struct p2s_model *m, int32_t g);
/* Every transfer with GPU g (-1: of all of them) is right: what was logged before is no cause of anything. */
int32_t p2s_about_all_right(const struct p2s_model *m, int32_t g);
/* Bridges that both paths run through; -1 when a path is not known. */
int32_t p2s_about_shared(const struct p2s_model *m, int32_t a, int32_t b);
/* 1 if the bridge's ACS control word turns peer traffic towards the root complex; 0 no, or not read. */
int32_t p2s_about_redirects(const struct p2s_hop *h);
int32_t p2s_about_geforce(const struct p2s_gpu *g);
int32_t p2s_about_has(const struct p2s_model *m, const char *code);
/* 1 if a finding that explains wrong bytes is about this pair, one of its ends, or the host. */
int32_t p2s_about_explained(const struct p2s_model *m, const struct p2s_pair *p);
/* 1 when the kernel is major.minor or later, 0 earlier, -1 unread. */
int32_t p2s_about_kernel_from(const struct p2s_model *m, int32_t major, int32_t minor);
/* What is to be expected of raw transfers through a translating IOMMU: 1 lost, 0 mapped and so expected to arrive, -1 cannot be
 * said. */
int32_t p2s_about_prior(const struct p2s_model *m);
/* 1 if the driver asked for an action before the test (Xid 154) and has taken that back: its last word about that GPU is none. */
int32_t p2s_about_taken_back(const struct p2s_model *m, const struct p2s_log_event *e);
/* MiB of bytes, rounded. */
unsigned long long p2s_about_mib(uint64_t bytes);
/* Where an attribute of a GPU lies: "/sys/bus/pci/devices/<address>/<name>". */
void p2s_about_sysfs(const struct p2s_gpu *g, const char *name, char *out, size_t cap);

/* ---- the table ---- */

/* 1 if a finding of this code explains wrong bytes and hangs of the pairs it covers. */
int32_t p2s_find_is_damage(const char *code);

#define P2S_FINDING(code, role, severity, confidence, asked, predicate, source, text, reference)                               \
	int32_t p2s_find_##predicate(const struct p2s_about *a, struct p2s_claim *c);
#define P2S_ELSEWHERE(code, role, made_by)
#include "rules/findings.def"
#undef P2S_FINDING
#undef P2S_ELSEWHERE

#endif
