/* NCCL's interface for environment plugins. Declared here, so that nothing of NCCL is needed to build. The names are NCCL's; so
 * are the layouts, which it never changes within a version of the interface: v1 since NCCL 2.28.7, v2 (looked up first) since
 * 2.30.7. */
#ifndef P2S_PLUGIN_NCCL_ENV_H
#define P2S_PLUGIN_NCCL_ENV_H

#include <stdint.h>

#define NCCL_SUCCESS 0 /* ncclSuccess */

/* ncclDebugLogLevel */
#define NCCL_LOG_WARN 2
#define NCCL_LOG_INFO 3
/* ncclDebugLogSubSys: what NCCL_DEBUG_SUBSYS selects; both are in its default. */
#define NCCL_LOG_INIT 1UL
#define NCCL_LOG_ENV 128UL

/* ncclDebugLogger_t */
typedef void (*nccl_logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

struct nccl_env_v1 {
	const char *name;
	int (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix);
	int (*finalize)(void);
	/* NULL: not set. The pointer must stay valid until finalize, or until the same name is asked for again. */
	const char *(*get_env)(const char *name);
};

struct nccl_env_v2 {
	const char *name;
	int (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix, nccl_logger log);
	int (*finalize)(void);
	const char *(*get_env)(const char *name);
};

#endif
