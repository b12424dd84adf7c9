/* What NCCL loads. It asks here for each of its variables instead of getenv; init never fails, for NCCL would fail with it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "answer.h"
#include "nccl_env.h"
#include "say.h"

#define EXPORTED __attribute__((visibility("default")))

static const struct p2s_veto *answer_and_tell(nccl_logger log)
{
	int saved = errno;
	const struct p2s_veto *v = p2s_plugin_answer();

	if (p2s_plugin_first_to_tell())
		p2s_plugin_say(v, log);
	errno = saved;
	return v;
}

static int init_v1(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix)
{
	(void)major;
	(void)minor;
	(void)patch;
	(void)suffix;
	answer_and_tell(NULL);
	return NCCL_SUCCESS;
}

static int init_v2(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix, nccl_logger log)
{
	(void)major;
	(void)minor;
	(void)patch;
	(void)suffix;
	answer_and_tell(log);
	return NCCL_SUCCESS;
}

/* Nothing is taken back: NCCL may hold values, another NCCL of this process may go on, and this object is never unloaded. */
static int finalize(void)
{
	return NCCL_SUCCESS;
}

static const char *get_env(const char *name)
{
	if (name == NULL)
		return NULL;
	return p2s_veto_get(answer_and_tell(NULL), name, getenv(name));
}

#ifdef P2S_PLUGIN_JANSSON_INSIDE
/* Stands for stdin in the archive of jansson (CMakeLists.txt): it only names the source of what is read from there. */
extern void *p2s_plugin_no_stdin;
void *p2s_plugin_no_stdin;
#endif

EXPORTED extern const struct nccl_env_v1 ncclEnvPlugin_v1;
EXPORTED extern const struct nccl_env_v2 ncclEnvPlugin_v2;
EXPORTED const struct nccl_env_v1 ncclEnvPlugin_v1 = {"p2psafe", init_v1, finalize, get_env};
EXPORTED const struct nccl_env_v2 ncclEnvPlugin_v2 = {"p2psafe", init_v2, finalize, get_env};
