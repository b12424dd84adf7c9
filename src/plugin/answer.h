/* The answer of this process: made by whoever asks first, the same for all who ask later. */
#ifndef P2S_PLUGIN_ANSWER_H
#define P2S_PLUGIN_ANSWER_H

#include "veto.h"

/* Never NULL, never blocks beyond the library's deadline, and once it answered always the same. Two cases answer without having
 * decided, with the veto of everything: whoever is asked while it decides itself, and who waited in vain. */
const struct p2s_veto *p2s_plugin_answer(void);
/* 1 for the first who asks once the answer is there: the one who tells it. */
int32_t p2s_plugin_first_to_tell(void);

#endif
