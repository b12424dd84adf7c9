/* Reads system files below a root: "/" on this machine, <host>/root in a simulated host. All paths are absolute
 * ("/sys/..."). A read never truncates silently, never blocks on a fifo, and never follows a symbolic link out of a
 * simulated root. Every outcome is told apart: absent is not denied. */
#ifndef P2S_CORE_FSROOT_H
#define P2S_CORE_FSROOT_H

#include <stddef.h>
#include <stdint.h>

enum p2s_read {
	P2S_READ_OK = 0,
	P2S_READ_ABSENT, /* no such file */
	P2S_READ_DENIED, /* no permission */
	P2S_READ_ERROR   /* anything else: too long, an I/O error, not a regular file */
};

struct p2s_fsroot {
	int fd;        /* directory descriptor of the root; -1: closed */
	int simulated; /* 1: links must stay below the root */
};

/* host_dir NULL: this machine. A host folder is either one with root/ in it, or one with sys/ at its top (a captured
 * tree). Returns 1, or 0 with errno set when there is neither. */
int32_t p2s_fsroot_open(struct p2s_fsroot *root, const char *host_dir);
void p2s_fsroot_close(struct p2s_fsroot *root);

/* Reads a whole file of at most cap-1 bytes into buf and ends it with NUL; *len (may be NULL) gets the length.
 * A longer file is P2S_READ_ERROR. errno_out (may be NULL) gets the errno behind it. */
enum p2s_read p2s_fsroot_read(const struct p2s_fsroot *root, const char *path, char *buf, size_t cap, size_t *len,
                              int *errno_out);
/* Reads at most the first cap-1 bytes of a file that may be longer (/proc/cpuinfo) and ends them with NUL. */
enum p2s_read p2s_fsroot_head(const struct p2s_fsroot *root, const char *path, char *buf, size_t cap);
/* A whole file with surrounding white space removed: for sysfs attributes. */
enum p2s_read p2s_fsroot_line(const struct p2s_fsroot *root, const char *path, char *buf, size_t cap);
/* Reads an unsigned number in C notation (0x..., decimal). */
enum p2s_read p2s_fsroot_u64(const struct p2s_fsroot *root, const char *path, uint64_t *out);
/* Text of a symbolic link. */
enum p2s_read p2s_fsroot_link(const struct p2s_fsroot *root, const char *path, char *buf, size_t cap);
/* 1 if the path exists (any kind). */
int32_t p2s_fsroot_exists(const struct p2s_fsroot *root, const char *path);
/* Names in a directory, sorted, without "." and "..". *names and each entry are freed by p2s_fsroot_names_free(). */
enum p2s_read p2s_fsroot_list(const struct p2s_fsroot *root, const char *path, char ***names, size_t *count);
void p2s_fsroot_names_free(char **names, size_t count);

#endif
