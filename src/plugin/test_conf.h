/* P2PSAFE_TEST_CONF: a file that puts a simulated machine, or another driver library, in the place of this one. */
#ifndef P2S_PLUGIN_TEST_CONF_H
#define P2S_PLUGIN_TEST_CONF_H

#include <stdint.h>

struct p2s_test_conf {
	char text[4097];    /* of the file, cut into strings */
	const char *host_dir; /* NULL: not given */
	const char *cuda_library;
};

/* Reads path. Returns 1, or 0 with *why set: a file that cannot be believed is never taken for "no file". */
int32_t p2s_test_conf_read(struct p2s_test_conf *conf, const char *path, const char **why);

#endif
