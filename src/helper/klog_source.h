/* Where the records of the kernel log come from: /dev/kmsg, or the files of a simulated host. */
#ifndef P2S_HELPER_KLOG_SOURCE_H
#define P2S_HELPER_KLOG_SOURCE_H

#include "evidence/log.h"

struct p2s_klog_source {
	int state;      /* enum p2s_log_state */
	int fd;         /* /dev/kmsg; -1: none */
	uint64_t seq;   /* of the last record */
	int have_seq;
	int gap;        /* records were skipped: the next number tells how many */
	uint64_t lost;
	uint64_t first;    /* number of the first and of the last record, plus one; 0 none */
	uint64_t position;
	uint64_t bytes; /* read so far */
	/* simulated */
	char *file;     /* what the host logged before the test */
	size_t file_bytes;
	size_t file_at;
	uint64_t file_count; /* records so far: their numbers, for a file may have none of its own */
	int live_fd;    /* what it logs during the test; -1: none. Not owned */
	uint64_t live_at;
	char buffer[2 * P2S_LOG_RECORD_MAX];
	size_t held;    /* live bytes in buffer */
};

/* host_dir "": this machine. live_fd -1: none. */
void p2s_klog_source_open(struct p2s_klog_source *s, const char *host_dir, int live_fd);
void p2s_klog_source_close(struct p2s_klog_source *s);
/* The next record, without waiting. Returns 1, or 0 when there is none now. */
int p2s_klog_source_next(struct p2s_klog_source *s, struct p2s_log_record *out);
/* Skips to the end. */
void p2s_klog_source_skip(struct p2s_klog_source *s);

#endif
