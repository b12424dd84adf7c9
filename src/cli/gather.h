/* `gather`: a redacted copy of what this machine looks like, as a host folder. Not part of the library: it alone of the
 * program reads system files itself, through the same functions as the library (core/fsroot.h, evidence/log.h). */
#ifndef P2S_CLI_GATHER_H
#define P2S_CLI_GATHER_H

#include <jansson.h>
#include <stddef.h>

#include "core/fsroot.h"

struct gather {
	struct p2s_fsroot from;
	const char *host_dir; /* the simulated host that is gathered; NULL: this machine */
	int to;               /* directory descriptor of the new folder */
	int failed;           /* something could not be written: errno of the first */
	char failed_path[256];
};

/* gather_write.c. Paths are relative to the new folder; folders are made on the way. Nothing is ever overwritten. */
void gather_write(struct gather *g, const char *path, const void *data, size_t len);
void gather_link(struct gather *g, const char *path, const char *text);
void gather_folder(struct gather *g, const char *path);

/* gather_files.c: the files of gather.def. */
void gather_files(struct gather *g);
/* gather_tree.c: GPUs, the bridges above them, groups, device nodes. */
void gather_tree(struct gather *g);
/* gather_log.c: lines of the kernel log that matter. Returns "readable", "denied" or "absent". */
const char *gather_log(struct gather *g);
/* gather_report.c: takes out of a report's JSON form what names people, machines, parts or files. */
void gather_clean_report(json_t *report);

#endif
