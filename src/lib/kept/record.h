/* The decision part of a kept record: who it speaks of (the key) and what was found, small enough to be read at every
 * start. Written and read as JSON; the full report lies beside it. */
#ifndef P2S_KEPT_RECORD_H
#define P2S_KEPT_RECORD_H

#include <jansson.h>
#include <stdint.h>

#include "core/model.h"
#include "inventory/host.h"

#define P2S_RECORD_SCHEMA 1
#define P2S_RECORD_SUITE 1 /* rises when a test changes so that older results no longer count */
#define P2S_RECORD_MAX 16384
#define P2S_RECORD_FULL_MAX (16 * 1024 * 1024)

struct p2s_record_gpu {
	char address[P2S_BDF_TEXT];
	char id[48];          /* ids and subsystem ids */
	char bars[256];       /* addresses and sizes */
	char domain_type[24]; /* "" unknown */
	char uuid[48];
	int32_t minor;  /* -1 unknown */
	int32_t order;  /* the driver's own order, as p2s_gpu.driver_order; -1 unknown */
	int32_t cc;     /* compute capability, 10 * major + minor; 0 unknown */
	int32_t tested; /* belongs to the group that was judged */
};

struct p2s_record {
	int32_t level;
	int32_t simulated;
	int32_t nothing_tested;
	int32_t deadline_hit;
	int32_t measured; /* every pair of the group has a bandwidth */
	int32_t passes;  /* good runs since a bad one that is still kept */
	int32_t retries; /* runs since the first that could not test */
	int32_t gpu_ended; /* in its run a GPU hung, was lost or is not to be trusted */
	int64_t created_unix;
	uint64_t generation;
	/* key */
	char kernel[96];
	char boot_id[48];
	char cmdline[2048];
	char firmware[128];
	char module[96];
	char driver_version[32];
	char driver_flavour[16];
	char driver_parameters[2048];
	char virtualization[32];
	char cuda_library[1024];
	struct p2s_record_gpu *gpus;
	size_t gpu_count;
	/* found: gpus*gpus entries; verdict has P2S_CONSUMERS per pair, index 0 the pair's own */
	unsigned char *verdict;
	unsigned char *path;
	unsigned char *staged;
	/* what settings depend on and the matrices do not show */
	int32_t fabric;
	int32_t torn_lines;
	int32_t nccl_level; /* P2PSAFE_PATH_*; 0: NCCL may go nowhere, or nobody knows */
	char full_name[64]; /* file beside it; "" none */
	uint64_t full_hash; /* FNV-1a of its bytes */
};

void p2s_record_free(struct p2s_record *r);
/* The record of a judged model. Returns 1, 0 when out of memory. */
int32_t p2s_record_from_model(struct p2s_record *r, const struct p2s_model *m, const struct p2s_host *host,
                              const char *cuda_library);
/* Compact JSON text (malloc'd), NULL when out of memory or longer than P2S_RECORD_MAX. Of more than about 32 GPUs rows become
 * runs of letters, and BARs and long texts of the key a hash (kept/compact.h), so that 64 fit. What is too long even then says
 * less, and nothing better (kept/shrink.h). */
char *p2s_record_write(const struct p2s_record *r);
/* Returns 1, 0 when the text is no whole record of a schema this build reads. */
int32_t p2s_record_parse(struct p2s_record *r, const char *text, size_t len);
/* Index of a GPU by address, -1 none. */
int32_t p2s_record_gpu(const struct p2s_record *r, const char *address);
/* The worst pair verdict of the tested group. */
int32_t p2s_record_worst(const struct p2s_record *r);
uint64_t p2s_record_hash(const void *data, size_t len);

#endif
