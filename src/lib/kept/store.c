#define _GNU_SOURCE
#include "kept/store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ipc/codec.h"
#include "kept/marker.h"
#include "kept/trust.h"

#define GENERATION_MAX UINT64_C(1000000000000000)
#define TRIES 4 /* generations that are read until a whole one is found */

/* The number in "<n><suffix>", 0 for other names. */
static uint64_t number_of(const char *name, const char *suffix)
{
	char *end;
	unsigned long long n;

	if (!isdigit((unsigned char)name[0]) || name[0] == '0')
		return 0;
	errno = 0;
	n = strtoull(name, &end, 10);
	return errno == 0 && strcmp(end, suffix) == 0 && n < GENERATION_MAX ? n : 0;
}

/* A stream over the folder; the caller's descriptor stays open. */
static DIR *open_list(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (d == NULL && fd >= 0)
		close(fd);
	return d;
}

/* Highest generation below `below`, 0 none. Returns 0 when the list breaks off: the newest might be in the rest. */
static int32_t highest_below(int dir, uint64_t below, uint64_t *best)
{
	DIR *d = open_list(dir);
	struct dirent *e;
	int32_t whole;

	*best = 0;
	if (d == NULL)
		return 0;
	for (errno = 0; (e = readdir(d)) != NULL; errno = 0) {
		uint64_t n = number_of(e->d_name, ".json");

		if (n > *best && n < below)
			*best = n;
	}
	whole = errno == 0;
	closedir(d);
	return whole;
}

int32_t p2s_store_highest(int dir, uint64_t *n)
{
	return highest_below(dir, GENERATION_MAX, n);
}

static int32_t read_record(int dir, uint64_t n, struct p2s_record *r, const char **why)
{
	char name[32];
	size_t len;
	char *text;
	int32_t ok;

	snprintf(name, sizeof name, "%" PRIu64 ".json", n);
	text = p2s_trust_read(dir, name, P2S_RECORD_MAX, 1, &len, why);
	if (text == NULL)
		return 0;
	ok = p2s_record_parse(r, text, len);
	free(text);
	if (!ok)
		*why = "a record that is cut, damaged or of another schema";
	else
		r->generation = n;
	return ok;
}

int32_t p2s_store_newest(int dir, struct p2s_record *r, const char **why)
{
	uint64_t n;

	*why = "no record";
	if (!p2s_store_highest(dir, &n))
		*why = "the folder cannot be read";
	else if (n != 0)
		return read_record(dir, n, r, why);
	return 0;
}

int32_t p2s_store_last_whole(int dir, struct p2s_record *r)
{
	uint64_t n = GENERATION_MAX;
	const char *why;

	for (int i = 0; i < TRIES && highest_below(dir, n, &n) && n != 0; i++)
		if (read_record(dir, n, r, &why))
			return 1;
	return 0;
}

static int32_t write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	if (!p2s_trust_may_grow(left))
		return 0;
	while (left > 0) {
		ssize_t w = write(fd, text, left);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return 0;
		text += w;
		left -= (size_t)w;
	}
	return 1;
}

/* A new file with that content, on disk. */
static int32_t write_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	int32_t ok;

	if (fd < 0)
		return 0;
	/* It is for all who may look into the folder, whatever our mask: of root's record they would know nothing but that it is there. */
	(void)!fchmod(fd, 0644);
	ok = write_all(fd, text) && fsync(fd) == 0;
	close(fd);
	if (!ok)
		unlinkat(dir, name, 0);
	return ok;
}

/* A name that no other process or thread uses. */
static uint64_t unique(void)
{
	uint64_t v;

	if (getrandom(&v, sizeof v, GRND_NONBLOCK) == (ssize_t)sizeof v)
		return v;
	return p2s_now_ns() ^ (uint64_t)getpid() << 44 ^ (uint64_t)(uintptr_t)&v;
}

/* Links a finished decision file into its place. */
static int32_t link_decision(int dir, struct p2s_record *r)
{
	char temporary[48];
	char name[32];
	char *text;
	int32_t result = -1;

	text = p2s_record_write(r);
	snprintf(temporary, sizeof temporary, "tmp-%016" PRIx64, unique());
	snprintf(name, sizeof name, "%" PRIu64 ".json", r->generation);
	if (text != NULL && write_file(dir, temporary, text)) {
		if (linkat(dir, temporary, dir, name, 0) == 0)
			result = 1;
		else
			result = errno == EEXIST ? 0 : -1;
		unlinkat(dir, temporary, 0);
	}
	free(text);
	if (result == 1)
		fsync(dir);
	return result;
}

int32_t p2s_store_publish(int dir, struct p2s_record *r, uint64_t generation, const char *full)
{
	int32_t result;

	r->generation = generation;
	r->full_name[0] = '\0';
	if (full != NULL && strlen(full) <= P2S_RECORD_FULL_MAX) {
		snprintf(r->full_name, sizeof r->full_name, "%" PRIu64 "-%016" PRIx64 ".full", generation, unique());
		r->full_hash = p2s_record_hash(full, strlen(full));
		if (!write_file(dir, r->full_name, full))
			r->full_name[0] = '\0';
	}
	result = link_decision(dir, r);
	if (result != 1 && r->full_name[0] != '\0')
		unlinkat(dir, r->full_name, 0);
	return result;
}

int32_t p2s_store_republish(int dir, struct p2s_record *r, uint64_t generation)
{
	r->generation = generation;
	return link_decision(dir, r);
}

/* Decisions only. Returns 1 if none is left. */
static int32_t remove_records(int dir)
{
	DIR *d = open_list(dir);
	struct dirent *e;
	int32_t gone = d != NULL;

	for (errno = 0; d != NULL && (e = readdir(d)) != NULL; errno = 0)
		if (number_of(e->d_name, ".json") != 0 && unlinkat(dir, e->d_name, 0) != 0 && errno != ENOENT)
			gone = 0;
	if (d == NULL)
		return 0;
	gone = gone && errno == 0;
	closedir(d);
	fsync(dir);
	return gone;
}

int32_t p2s_store_stop(int dir, uint64_t generation, int32_t alone)
{
	char name[32];
	int fd;

	snprintf(name, sizeof name, "%" PRIu64 ".json", generation);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return errno == EEXIST || (alone && remove_records(dir)); /* there: somebody said something newer */
	close(fd);
	fsync(dir);
	return 1;
}

void p2s_store_clean(int dir, uint64_t keep)
{
	struct p2s_record newest;
	struct stat st;
	struct dirent *e;
	const char *why;
	DIR *d;

	if (!p2s_store_newest(dir, &newest, &why))
		return;
	d = open_list(dir);
	while (d != NULL && (e = readdir(d)) != NULL) {
		uint64_t n = number_of(e->d_name, ".json");
		size_t len = strlen(e->d_name);
		int32_t full = len > 5 && strcmp(e->d_name + len - 5, ".full") == 0;

		/* Left by a writer that died: a living one needs no hour. */
		if (strncmp(e->d_name, "tmp-", 4) == 0 && fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    time(NULL) - st.st_mtime > 3600)
			unlinkat(dir, e->d_name, 0);
		/* Another process may be about to link a full file of the generation in progress: only older ones go. */
		if ((n != 0 && n < keep && n < newest.generation) ||
		    (full && strtoull(e->d_name, NULL, 10) < keep && strcmp(e->d_name, newest.full_name) != 0))
			unlinkat(dir, e->d_name, 0);
	}
	if (d != NULL)
		closedir(d);
	p2s_record_free(&newest);
}

int32_t p2s_store_clear(int dir)
{
	DIR *d = open_list(dir);
	struct dirent *e;
	int32_t gone = 0;
	int failed = 0; /* what stays would still be believed: that is no clear folder */

	if (d == NULL)
		return -errno;
	while (errno = 0, (e = readdir(d)) != NULL) {
		size_t len = strlen(e->d_name);
		int32_t record = number_of(e->d_name, ".json") != 0 || (isdigit((unsigned char)e->d_name[0]) && len > 5 &&
		                                                        strcmp(e->d_name + len - 5, ".full") == 0);

		if (!record && strncmp(e->d_name, "tmp-", 4) != 0 && !p2s_marker_is_name(e->d_name))
			continue;
		if (unlinkat(dir, e->d_name, 0) == 0)
			gone++;
		else if (errno != ENOENT)
			failed = errno;
	}
	failed = errno != 0 ? errno : failed;
	closedir(d);
	return failed != 0 ? -failed : gone;
}

char *p2s_store_full(int dir, const struct p2s_record *r, size_t *len)
{
	const char *why;
	char *text = r->full_name[0] != '\0' ? p2s_trust_read(dir, r->full_name, P2S_RECORD_FULL_MAX, 1, len, &why) : NULL;

	if (text != NULL && p2s_record_hash(text, *len) != r->full_hash) {
		free(text);
		text = NULL;
	}
	return text;
}
