/* The kernel log: only lines of evidence/patterns.def, redacted, as records that --host reads back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "evidence/log.h"
#include "gather.h"

#define LOG_MAX (8u * 1024 * 1024) /* what is read */

/* This machine's log is a device: one record per read. A host folder's is a file. */
static char *read_all(const struct gather *g, size_t *len, const char **state)
{
	char path[1100];
	struct stat st;
	static const char *const files[] = {"kmsg", "dmesg.txt"};
	int fd = -1;
	char *data = malloc(LOG_MAX);
	*len = 0;
	*state = "absent";
	if (data == NULL)
		return NULL;
	if (g->host_dir == NULL) {
		fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
		if (fd < 0 && (errno == EACCES || errno == EPERM))
			*state = "denied";
		if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISCHR(st.st_mode))) {
			close(fd);
			fd = -1;
		}
	}
	for (size_t i = 0; g->host_dir != NULL && fd < 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", g->host_dir, files[i]);
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	}
	if (fd < 0)
		return data;
	*state = "readable";
	while (LOG_MAX - *len > P2S_LOG_RECORD_MAX) {
		ssize_t n = read(fd, data + *len, LOG_MAX - *len);
		if (n < 0 && (errno == EINTR || errno == EPIPE)) /* EPIPE: overwritten before it was read; the next one is there */
			continue;
		if (n <= 0)
			break;
		*len += (size_t)n;
	}
	close(fd);
	return data;
}

const char *gather_log(struct gather *g)
{
	const char *state;
	size_t len, at = 0, used, out_len = 0, out_cap = 0;
	char *out = NULL;
	char *data = read_all(g, &len, &state);
	FILE *to = data != NULL ? open_memstream(&out, &out_cap) : NULL;
	struct p2s_log_record record;
	struct p2s_log_joiner joiner = {0};
	unsigned long long seq = 0;
	while (to != NULL && at < len) {
		struct p2s_log_found done[2];
		char clean[P2S_LOG_TEXT];
		enum p2s_log_next next = p2s_log_next(data + at, len - at, 1, &record, &used);
		if (next == P2S_LOG_NEXT_SHORT || used == 0)
			break;
		at += used;
		if (next != P2S_LOG_NEXT_RECORD)
			continue;
		/* Some lines mean something only behind another: those that the joiner takes. */
		(void)p2s_log_feed(&joiner, &record, done);
		if (!p2s_log_match(&record, &done[0]) && !(joiner.waiting && joiner.idle == 0))
			continue;
		p2s_log_redact(record.text, clean, sizeof(clean));
		fprintf(to, "%u,%llu,%llu,-;%s\n", (unsigned)record.level, ++seq, (unsigned long long)record.usec, clean);
		if (record.device[0] != '\0')
			fprintf(to, " SUBSYSTEM=pci\n DEVICE=+pci:%s\n", record.device);
	}
	if (to != NULL && fclose(to) == 0)
		out_len = strlen(out);
	if (strcmp(state, "readable") == 0)
		gather_write(g, "kmsg", out != NULL ? out : "", out_len);
	free(out);
	free(data);
	return state;
}
