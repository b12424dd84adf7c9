#define _GNU_SOURCE
#include "api/placement.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/answer.h"
#include "ipc/codec.h"

#define PLACEMENT_MAX 65536

struct placement {
	struct p2s_session *s;
	const struct p2s_model *m;
	int32_t *node;
};

static int32_t refuse(struct p2s_session *s, const char *what, const char *why)
{
	return p2s_fault_set(&s->fault, P2PSAFE_E_CONFIG, 0, "placement_file: \"%.80s\": %s", what, why);
}

/* One line "ADDRESS NODE". */
static int32_t place_one(const struct placement *k, const char *line)
{
	char address[32];
	struct p2psafe_bdf bdf;
	int node;
	int used = 0;

	if (sscanf(line, "%31s %d %n", address, &node, &used) != 2 || line[used] != '\0' || node < 0 || node > 1023 ||
	    !p2s_bdf_parse(address, &bdf))
		return refuse(k->s, line, "expected ADDRESS NODE");
	for (size_t i = 0; i < k->m->gpu_count; i++) {
		if (p2s_bdf_compare(&k->m->gpus[i].bdf, &bdf) != 0)
			continue;
		if (k->m->gpus[i].numa_node >= 0 && k->m->gpus[i].numa_node != node)
			return refuse(k->s, line, "the kernel names another node");
		if (k->m->gpus[i].numa_node < 0 && k->node[i] >= 0)
			return refuse(k->s, line, "named twice");
		k->node[i] = node;
		return 0;
	}
	return refuse(k->s, line, "no such GPU here");
}

/* Until there is something to read, or nothing will come any more. 0: not before the deadline. */
static int32_t wait_for(int fd, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t now;

	while ((now = p2s_now_ns()) < deadline_ns) {
		uint64_t ms = (deadline_ns - now) / 1000000 + 1;
		int n = poll(&p, 1, ms > 60000 ? 60000 : (int)ms);

		if (n > 0)
			return 1;
		if (n < 0 && errno != EINTR)
			return 0;
	}
	return 0;
}

/* The text of a file of at most room bytes. NULL, or why it cannot be had. A pipe that nobody has opened for writing yet reads as one
 * at its end, so it is waited for first. */
static const char *read_all(int fd, uint64_t deadline_ns, char *text, size_t room, size_t *len)
{
	struct stat st;

	*len = 0;
	if (fstat(fd, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode)))
		return "neither a file nor a pipe";
	for (;;) {
		ssize_t n;

		if (S_ISFIFO(st.st_mode) && !wait_for(fd, deadline_ns))
			return "a pipe that was not written to its end within the deadline";
		n = read(fd, text + *len, room - *len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return "cannot be read";
		if (n == 0)
			return *len == room || *len == 0 || memchr(text, '\0', *len) != NULL ? "no short text" : NULL;
		*len += (size_t)n;
	}
}

/* text holds PLACEMENT_MAX bytes. */
static int32_t read_text(struct p2s_session *s, size_t gpus, char *text)
{
	const char *path = s->request.placement_file;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *why;
	char opening[64];
	size_t len;

	if (fd < 0) {
		snprintf(opening, sizeof opening, "cannot be opened (errno %d)", errno);
		return refuse(s, path, opening);
	}
	why = read_all(fd, p2s_session_deadline(s, gpus), text, PLACEMENT_MAX - 1, &len);
	close(fd);
	text[why == NULL ? len : 0] = '\0';
	return why == NULL ? 0 : refuse(s, path, why);
}

int32_t p2s_placement_read(struct p2s_session *s, const struct p2s_model *m, int32_t *node)
{
	const struct placement k = {.s = s, .m = m, .node = node};
	char *text = malloc(PLACEMENT_MAX);
	char *rest = NULL;
	int32_t rc;

	if (text == NULL)
		return p2s_answer_oom(s);
	rc = read_text(s, m->gpu_count, text);
	for (char *line = rc == 0 ? strtok_r(text, "\n", &rest) : NULL; line != NULL && rc == 0; line = strtok_r(NULL, "\n", &rest)) {
		line += strspn(line, " \t\r");
		if (line[0] != '\0' && line[0] != '#')
			rc = place_one(&k, line);
	}
	free(text);
	for (size_t i = 0; i < m->gpu_count && rc == 0; i++)
		if (m->gpus[i].in_group && node[i] < 0)
			rc = refuse(s, m->gpus[i].address, "no node is given for this GPU");
	return rc;
}
