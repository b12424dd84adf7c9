#define _GNU_SOURCE
#include "helper/klog_source.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define KMSG "/dev/kmsg"
#define KMSG_MAJOR 1
#define KMSG_MINOR 11
#define FILE_MAX (8 * 1024 * 1024) /* of a simulated host */

static int state_of_errno(int e)
{
	return e == EACCES || e == EPERM ? P2S_LOG_DENIED : e == ENOENT || e == ENXIO || e == ENODEV ? P2S_LOG_ABSENT : P2S_LOG_UNREAD;
}

/* Containers get other things under this name: a console, a pipe. Only the kernel's own device is the log. */
static void open_device(struct p2s_klog_source *s)
{
	struct stat st;

	s->fd = open(KMSG, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (s->fd < 0) {
		s->state = state_of_errno(errno);
		return;
	}
	if (fstat(s->fd, &st) != 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(KMSG_MAJOR, KMSG_MINOR)) {
		close(s->fd);
		s->fd = -1;
		s->state = P2S_LOG_ABSENT;
		return;
	}
	s->state = P2S_LOG_READABLE;
}

/* A whole file; NULL when there is none. */
static char *slurp(const char *dir, const char *name, size_t *bytes)
{
	char path[1100];
	struct stat st;
	char *text;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	*bytes = 0;
	text = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? malloc(FILE_MAX) : NULL;
	while (text != NULL && *bytes < FILE_MAX && (n = read(fd, text + *bytes, FILE_MAX - *bytes)) > 0)
		*bytes += (size_t)n;
	close(fd);
	return text;
}

static void open_files(struct p2s_klog_source *s, const char *host_dir, int live_fd)
{
	char path[1100];
	json_t *host;
	const char *word;

	snprintf(path, sizeof path, "%s/host.json", host_dir);
	host = json_load_file(path, 0, NULL);
	word = json_string_value(json_object_get(host, "kmsg"));
	if (word != NULL && strcmp(word, "denied") == 0) {
		s->state = P2S_LOG_DENIED;
	} else if (word != NULL && strcmp(word, "absent") == 0) {
		s->state = P2S_LOG_ABSENT;
	} else {
		s->file = slurp(host_dir, "kmsg", &s->file_bytes);
		if (s->file == NULL)
			s->file = slurp(host_dir, "dmesg.txt", &s->file_bytes);
		s->state = s->file != NULL || word != NULL ? P2S_LOG_READABLE : P2S_LOG_ABSENT;
		s->live_fd = s->state == P2S_LOG_READABLE ? live_fd : -1;
	}
	json_decref(host);
}

void p2s_klog_source_open(struct p2s_klog_source *s, const char *host_dir, int live_fd)
{
	memset(s, 0, sizeof *s);
	s->fd = s->live_fd = -1;
	if (host_dir[0] != '\0')
		open_files(s, host_dir, live_fd);
	else
		open_device(s);
}

void p2s_klog_source_close(struct p2s_klog_source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->file);
	s->fd = s->live_fd = -1;
	s->file = NULL;
	s->file_bytes = s->file_at = 0;
}

/* One read gives one record. */
static int next_of_device(struct p2s_klog_source *s, struct p2s_log_record *out)
{
	for (int tries = 0; tries < 64; tries++) {
		ssize_t n = read(s->fd, s->buffer, sizeof s->buffer);
		size_t used;

		if (n > 0) {
			s->bytes += (uint64_t)n;
			if (p2s_log_next(s->buffer, (size_t)n, 1, out, &used) != P2S_LOG_NEXT_RECORD)
				continue;
			if (s->gap) {
				s->lost += s->have_seq && out->seq > s->seq + 1 ? out->seq - s->seq - 1 : 1;
				s->gap = 0;
			}
			s->seq = out->seq;
			s->have_seq = 1;
			return 1;
		}
		if (n < 0 && errno == EPIPE) /* overwritten before we came */
			s->gap = 1;
		else if (n < 0 && errno == EINVAL) /* longer than any record should be */
			s->lost++;
		else if (n == 0 || errno != EINTR)
			return 0;
	}
	return 0;
}

static uint64_t now_usec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int next_of_files(struct p2s_klog_source *s, struct p2s_log_record *out)
{
	size_t used;
	ssize_t n;

	while (s->file_at < s->file_bytes) {
		enum p2s_log_next what = p2s_log_next(s->file + s->file_at, s->file_bytes - s->file_at, 1, out, &used);

		s->file_at += used;
		s->bytes += used;
		if (what == P2S_LOG_NEXT_RECORD) {
			out->seq = s->file_count++;
			return 1;
		}
		if (used == 0)
			break;
	}
	if (s->live_fd < 0)
		return 0;
	n = pread(s->live_fd, s->buffer + s->held, sizeof s->buffer - s->held, (off_t)s->live_at);
	if (n > 0) {
		s->held += (size_t)n;
		s->live_at += (uint64_t)n;
	}
	for (;;) {
		enum p2s_log_next what = p2s_log_next(s->buffer, s->held, 0, out, &used);

		/* A record of the future: the simulator wrote it ahead, the kernel would log it later. */
		if (what == P2S_LOG_NEXT_SHORT || (what == P2S_LOG_NEXT_RECORD && out->usec > now_usec())) {
			if (s->held == sizeof s->buffer && what == P2S_LOG_NEXT_SHORT)
				s->held = 0; /* no line is that long */
			return 0;
		}
		memmove(s->buffer, s->buffer + used, s->held - used);
		s->held -= used;
		s->bytes += used;
		if (what == P2S_LOG_NEXT_RECORD) {
			/* It lives as long as this run: no later one will count it. */
			out->seq = s->file_count > 0 ? s->file_count - 1 : 0;
			return 1;
		}
	}
}

int p2s_klog_source_next(struct p2s_klog_source *s, struct p2s_log_record *out)
{
	if (s->state != P2S_LOG_READABLE || !(s->fd >= 0 ? next_of_device(s, out) : next_of_files(s, out)))
		return 0;
	s->position = out->seq + 1;
	if (s->first == 0)
		s->first = s->position;
	return 1;
}

void p2s_klog_source_skip(struct p2s_klog_source *s)
{
	struct p2s_log_record record;
	size_t used;

	if (s->fd >= 0) {
		(void)lseek(s->fd, 0, SEEK_END);
		s->gap = 1;
		return;
	}
	while (s->file_at < s->file_bytes) {
		enum p2s_log_next what = p2s_log_next(s->file + s->file_at, s->file_bytes - s->file_at, 1, &record, &used);

		s->file_at += used;
		s->lost += what == P2S_LOG_NEXT_RECORD;
		s->file_count += what == P2S_LOG_NEXT_RECORD;
		if (used == 0)
			break;
	}
}
