/* Will NCCL find the topology itself, or does somebody hand it one? Then its paths are not those that we see. */
#include "api/nccl_topology.h"

#include <stdio.h>
#include <string.h>

/* What a hypervisor's agent leaves for the NCCL of its guests. */
#define VIRTUAL_TOPOLOGY "/var/run/nvidia-topologyd/virtualTopology.xml"

/* 1 if the file is not there, or was read to its end and names no topology. */
static int32_t conf_is_silent(const struct p2s_fsroot *root, const char *path)
{
	char text[16384];
	enum p2s_read r = p2s_fsroot_read(root, path, text, sizeof text, NULL, NULL);

	return r == P2S_READ_ABSENT || (r == P2S_READ_OK && strstr(text, "NCCL_TOPO_FILE") == NULL);
}

int32_t p2s_nccl_own_topology(const struct p2s_session *s)
{
	char home[1024] = "";

	/* A setuid program, or a caller that lets nothing be read: nobody knows what NCCL will be told. */
	if (!s->request.environment || s->request.topology_set)
		return 0;
	if (p2s_fsroot_exists(&s->root, VIRTUAL_TOPOLOGY) || p2s_fsroot_exists(&s->root, &VIRTUAL_TOPOLOGY[strlen("/var")]))
		return 0;
	if (s->request.nccl_conf != NULL) {
		if (s->request.nccl_conf[0] != '/' || !conf_is_silent(&s->root, s->request.nccl_conf))
			return 0;
	} else if (s->request.home != NULL) {
		int n = snprintf(home, sizeof home, "%s/.nccl.conf", s->request.home);

		if (home[0] != '/' || n < 0 || (size_t)n >= sizeof home || !conf_is_silent(&s->root, home))
			return 0;
	}
	return conf_is_silent(&s->root, "/etc/nccl.conf");
}
