/* Ready-made code of the test kernels, made from the PTX text at build time where a CUDA assembler is installed
 * (P2PSAFE_CUBINS, cubins.cmake). Only a shortcut: it saves the driver's compilation, and the text remains for every GPU
 * that is not in the list and every driver that does not take it. */
#ifndef P2S_HELPER_CUBINS_H
#define P2S_HELPER_CUBINS_H

#include <stdint.h>

struct p2s_cubin {
	int32_t arch;    /* 10 * major + minor of the compute capability; 0 ends the list */
	int32_t measure; /* which module: 0 the tests, 1 the measuring */
	const unsigned char *image;
};

extern const struct p2s_cubin p2s_cubins[]; /* generated */
/* The one for this GPU: same major, the highest minor that is not above its own. NULL: none. */
const struct p2s_cubin *p2s_cubin_for(int32_t arch, int32_t measure);

#endif
