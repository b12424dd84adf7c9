/* Will NCCL find the topology itself, or does somebody hand it one? Then its paths are not those that we see. */
#include "api/nccl_topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a hypervisor's agent leaves for the NCCL of its guests. */
#define VIRTUAL_TOPOLOGY "/var/run/nvidia-topologyd/virtualTopology.xml"

#define PASSWD_MAX (1 << 20)

/* 1 if the file is not there, or was read to its end and names no topology. */
static int32_t conf_is_silent(const struct p2s_fsroot *root, const char *path)
{
	char text[16384];
	enum p2s_read r = p2s_fsroot_read(root, path, text, sizeof text, NULL, NULL);

	return r == P2S_READ_ABSENT || (r == P2S_READ_OK && strstr(text, "NCCL_TOPO_FILE") == NULL);
}

static int32_t home_is_silent(const struct p2s_fsroot *root, const char *home, size_t len)
{
	char path[1024];
	int n = snprintf(path, sizeof path, "%.*s/.nccl.conf", (int)len, home);

	return len > 0 && home[0] == '/' && n > 0 && (size_t)n < sizeof path && conf_is_silent(root, path);
}

/* Up to 2.29 NCCL asks getpwuid(getuid()) where home is, not $HOME (param.cc). Who is not in the file may be in a directory service, of
 * which nobody here asks: that loads libraries into the caller. */
static int32_t account_is_silent(const struct p2s_fsroot *root)
{
	char *text = malloc(PASSWD_MAX);
	char *line = text;
	enum p2s_read r;
	int32_t silent;

	if (text == NULL)
		return 0;
	r = p2s_fsroot_read(root, "/etc/passwd", text, PASSWD_MAX, NULL, NULL);
	silent = r == P2S_READ_ABSENT;
	while (r == P2S_READ_OK && line != NULL && !silent) {
		char *field[6] = {line}; /* name:password:uid:gid:comment:home:shell */
		char *next = strchr(line, '\n');
		char *end;
		size_t n = 1;

		if (next != NULL)
			*next++ = '\0';
		while (n < 6 && (field[n] = strchr(field[n - 1], ':')) != NULL)
			field[n++]++;
		if (n == 6 && field[2][0] >= '0' && field[2][0] <= '9' && strtoul(field[2], &end, 10) == (unsigned long)getuid() && *end == ':') {
			silent = home_is_silent(root, field[5], strcspn(field[5], ":"));
			break;
		}
		line = next;
	}
	free(text);
	return silent;
}

int32_t p2s_nccl_own_topology(const struct p2s_session *s)
{
	const char *home = s->request.home;

	/* A setuid program, or a caller that lets nothing be read: nobody knows what NCCL will be told. */
	if (!s->request.environment || s->request.topology_set)
		return 0;
	if (p2s_fsroot_exists(&s->root, VIRTUAL_TOPOLOGY) || p2s_fsroot_exists(&s->root, &VIRTUAL_TOPOLOGY[strlen("/var")]))
		return 0;
	/* Which of the user's files is read depends on the release. */
	if (s->request.nccl_conf != NULL && (s->request.nccl_conf[0] != '/' || !conf_is_silent(&s->root, s->request.nccl_conf)))
		return 0;
	if ((home != NULL && !home_is_silent(&s->root, home, strlen(home))) || !account_is_silent(&s->root))
		return 0;
	return conf_is_silent(&s->root, "/etc/nccl.conf");
}
