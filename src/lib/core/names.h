/* Words <-> numbers, for library, helper and simulator. The tables come from words.def. */
#ifndef P2S_CORE_NAMES_H
#define P2S_CORE_NAMES_H

#include <stddef.h>
#include <stdint.h>

enum p2s_word_group {
	P2S_GROUP_VERDICT,
	P2S_GROUP_TRANSPORT,
	P2S_GROUP_CONSUMER,
	P2S_GROUP_LEG,
	P2S_GROUP_MAPPING,
	P2S_GROUP_DAMAGE,
	P2S_GROUP_PATH,
	P2S_GROUP_LEVEL,
	P2S_GROUP_GPU_STATE,
	P2S_GROUP_IOMMU,
	P2S_GROUP_SEVERITY,
	P2S_GROUP_CONFIDENCE,
	P2S_GROUP_SETTING,
	P2S_GROUP_FORMAT,
	P2S_GROUP_SCOPE
};

/* Spelling of value in group; "unknown" for any number the table lacks. Never NULL. */
const char *p2s_word_name(enum p2s_word_group group, int32_t value);
/* Value of a spelling; 0 for NULL and for unknown words (note: damage "none" is 0 too). */
int32_t p2s_word_value(enum p2s_word_group group, const char *name);
/* 1 if name is a spelling of the group. */
int32_t p2s_word_known(enum p2s_word_group group, const char *name);

#endif
