/* libp2psafe - decides whether GPU peer-to-peer transfers on this machine are safe to use.
 * SPDX-License-Identifier: MIT
 *
 * THE PROMISE
 *   - Zero never means safe. Every predicate of this header answers 0 for NULL, for unknown names, for
 *     time-outs and for everything that was not proven by a test.
 *   - A bad machine is a result, not an error. Hung, killed and lying transfers yield a report. A negative
 *     status means only that no report could be made.
 *   - The calling process stays untouched: no CUDA, no driver call, no thread, no signal handler, no output, no
 *     environment change. The risky work happens in programs that this library executes; it waits for these alone,
 *     and the one thing that their end leaves is a SIGCHLD, as the end of any child.
 *   - Every call returns within its deadline plus one second.
 *
 * ERRORS
 *   Functions that can fail return 0 or one negative P2PSAFE_E_* and describe the failure in the caller's
 *   struct p2psafe_error (may be NULL). Outputs are written only on success; pointer outputs are set to NULL on
 *   failure. errno is no part of the contract.
 *
 * OWNERSHIP
 *   What comes through **out belongs to the caller and is freed with the function named in its comment, which
 *   accepts NULL. A const char * is borrowed and lives as long as the object it came from.
 *
 * THREADS
 *   A context serves one call at a time. A report is immutable: any number of threads may read it. Different
 *   contexts are independent. After fork() the child may only free.
 *
 * STRUCTS
 *   Every struct that crosses this interface starts with its size, set by the caller (sizeof). Members are only
 *   ever appended. Zero in every other member of an input struct means the default.
 */
#ifndef P2PSAFE_H
#define P2PSAFE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define P2PSAFE_API __attribute__((visibility("default")))
#else
#define P2PSAFE_API
#endif

/* ---- Versions ------------------------------------------------------------------------------------------- */

#define P2PSAFE_VERSION_MAJOR 1
#define P2PSAFE_VERSION_MINOR 0
#define P2PSAFE_VERSION_PATCH 0

/* Release of the library that is loaded, "MAJOR.MINOR.PATCH". Never NULL. Since 1.0. */
P2PSAFE_API const char *p2psafe_version_string(void);
/* ABI level: the MINOR of the newest interface this library offers. Since 1.0. */
P2PSAFE_API int32_t p2psafe_abi_level(void);
/* Schema number of the kept record that this library writes and the newest it reads. Since 1.0. */
P2PSAFE_API int32_t p2psafe_record_schema(void);
/* Number of the private protocol between library and helper; both must agree exactly. Since 1.0. */
P2PSAFE_API int32_t p2psafe_protocol(void);
/* 1 if this library knows the named feature ("probe", "test", "decide", "json", "env", ...), else 0. Since 1.0. */
P2PSAFE_API int32_t p2psafe_has(const char *feature);

/* ---- Status of a call ----------------------------------------------------------------------------------- */

#define P2PSAFE_OK 0
#define P2PSAFE_E_INVALID (-1)  /* an argument is wrong; the text says which and why */
#define P2PSAFE_E_SIZE (-2)     /* a struct's size member is 0 or absurd */
#define P2PSAFE_E_NEWER (-3)    /* the caller set a member or flag that this library does not know */
#define P2PSAFE_E_NOMEM (-4)    /* out of memory */
#define P2PSAFE_E_BUSY (-5)     /* the context is already inside another call */
#define P2PSAFE_E_CONFIG (-6)   /* a file or name the caller configured does not fit this machine (unknown GPU, bad host folder) */
#define P2PSAFE_E_RANGE (-7)    /* an index is out of range */
#define P2PSAFE_E_INTERNAL (-8) /* a broken invariant; please report it */
#define P2PSAFE_E_SYSTEM (-9)   /* the system refused something without which no report can be made, or the program has functions with
                                   the names of jansson's, which would be called in their place */

/* Name of a status, for instance "E_CONFIG"; "E_UNKNOWN" for any other number. Never NULL. Since 1.0. */
P2PSAFE_API const char *p2psafe_status_name(int32_t status);

/* A PCI address. domain has 32 bits (Intel VMD and Hyper-V use large ones). Since 1.0. */
struct p2psafe_bdf {
	uint32_t domain;
	uint8_t bus;
	uint8_t device;
	uint8_t function;
	uint8_t reserved;
};

/* Filled by a failing call. text: one line, no newline, the object, what was seen and what was expected. Since 1.0. */
struct p2psafe_error {
	size_t size;
	int32_t code;     /* P2PSAFE_E_* */
	int32_t os_error; /* errno value of the system call behind it, 0 if none */
	struct p2psafe_bdf gpu; /* the GPU it is about; all zero if none */
	char text[256];
};

/* ---- Words: verdicts, legs, mappings, ... ---------------------------------------------------------------
 * All are int32_t with 0 = unknown. Values are never reused or renumbered. The *_name functions are total: any
 * number gives a non-NULL string, "unknown" for those this library does not know. The *_from_name functions give
 * 0 for NULL and unknown names. */

/* A judgement over a pair or a leg. Only OK is a pass. */
#define P2PSAFE_VERDICT_UNKNOWN 0
#define P2PSAFE_VERDICT_OK 1
#define P2PSAFE_VERDICT_DEGRADED 2    /* exact, but not better than staging through host memory */
#define P2PSAFE_VERDICT_CORRUPT 3     /* bytes were lost, wrong, or somewhere else */
#define P2PSAFE_VERDICT_HANG 4        /* an engine did not come back */
#define P2PSAFE_VERDICT_ERROR 5       /* an API failed after bytes could have moved */
#define P2PSAFE_VERDICT_UNSUPPORTED 6 /* an API refused before any byte moved */
#define P2PSAFE_VERDICT_UNTESTED 7    /* could not be tested: never a pass */

/* How bytes travel between two GPUs. */
#define P2PSAFE_TRANSPORT_UNKNOWN 0
#define P2PSAFE_TRANSPORT_NVLINK 1
#define P2PSAFE_TRANSPORT_PCIE 2
#define P2PSAFE_TRANSPORT_HOST_STAGED 3
#define P2PSAFE_TRANSPORT_NET 4
#define P2PSAFE_TRANSPORT_NONE 5

/* Programs that move bytes between GPUs; permission is given per consumer. */
#define P2PSAFE_CONSUMER_UNKNOWN 0
#define P2PSAFE_CONSUMER_NCCL_P2P 1
#define P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE 2
#define P2PSAFE_CONSUMER_SYMMETRIC_MEMORY 3
#define P2PSAFE_CONSUMER_PEER_COPIES 4
#define P2PSAFE_CONSUMER_MULTICAST 5

/* One kind of transfer of a directed pair src>dst: src's engine accesses memory owned by dst. */
#define P2PSAFE_LEG_UNKNOWN 0
#define P2PSAFE_LEG_CE_WRITE 1
#define P2PSAFE_LEG_CE_READ 2
#define P2PSAFE_LEG_SM_STORE 3
#define P2PSAFE_LEG_SM_LOAD 4
#define P2PSAFE_LEG_MP_PUSH 5
#define P2PSAFE_LEG_MP_PULL 6
#define P2PSAFE_LEG_TEARING_8 7
#define P2PSAFE_LEG_ATOMICS 8
#define P2PSAFE_LEG_CE_FLAG 9
#define P2PSAFE_LEG_SIZES 10
#define P2PSAFE_LEG_STALE 11
#define P2PSAFE_LEG_LOAD 12
#define P2PSAFE_LEG_SWEEP 13
#define P2PSAFE_LEG_TEARING_128 14
#define P2PSAFE_LEG_STAGED 15

/* How the accessor reached the owner's memory. */
#define P2PSAFE_MAPPING_UNKNOWN 0
#define P2PSAFE_MAPPING_PEER 1   /* peer access inside one process */
#define P2PSAFE_MAPPING_IPC 2    /* legacy CUDA IPC handle */
#define P2PSAFE_MAPPING_CUMEM 3  /* cuMem allocation shared as a POSIX file descriptor */
#define P2PSAFE_MAPPING_FABRIC 4 /* fabric handle: not tested yet */
#define P2PSAFE_MAPPING_HOST 5   /* pinned shared host memory */

/* What happened to wrong bytes. */
#define P2PSAFE_DAMAGE_NONE 0
#define P2PSAFE_DAMAGE_DROPPED 1
#define P2PSAFE_DAMAGE_ZEROS 2
#define P2PSAFE_DAMAGE_ONES 3
#define P2PSAFE_DAMAGE_NAN 4
#define P2PSAFE_DAMAGE_MIRROR 5
#define P2PSAFE_DAMAGE_STALE 6
#define P2PSAFE_DAMAGE_MISDIRECTED 7
#define P2PSAFE_DAMAGE_SHIFTED 8
#define P2PSAFE_DAMAGE_ALIASED 9
#define P2PSAFE_DAMAGE_TORN 10
#define P2PSAFE_DAMAGE_REORDERED 11
#define P2PSAFE_DAMAGE_BIT_ERROR 12
#define P2PSAFE_DAMAGE_UNKNOWN 13

/* Where the path between two GPUs runs. NCCL's words; NODE is not NCCL's. */
#define P2PSAFE_PATH_UNKNOWN 0
#define P2PSAFE_PATH_NVL 1
#define P2PSAFE_PATH_C2C 2
#define P2PSAFE_PATH_PIX 3
#define P2PSAFE_PATH_PXB 4
#define P2PSAFE_PATH_PHB 5
#define P2PSAFE_PATH_NODE 6
#define P2PSAFE_PATH_SYS 7

#define P2PSAFE_LEVEL_DEFAULT 0 /* standard */
#define P2PSAFE_LEVEL_QUICK 1
#define P2PSAFE_LEVEL_STANDARD 2
#define P2PSAFE_LEVEL_THOROUGH 3

#define P2PSAFE_GPU_STATE_UNKNOWN 0
#define P2PSAFE_GPU_STATE_READY 1
#define P2PSAFE_GPU_STATE_NOT_OURS 2
#define P2PSAFE_GPU_STATE_FAILED 3
#define P2PSAFE_GPU_STATE_BUSY 4
#define P2PSAFE_GPU_STATE_RISKY 5
#define P2PSAFE_GPU_STATE_WEDGED 6

#define P2PSAFE_IOMMU_UNKNOWN 0
#define P2PSAFE_IOMMU_NONE 1
#define P2PSAFE_IOMMU_IDENTITY 2
#define P2PSAFE_IOMMU_TRANSLATED 3
#define P2PSAFE_IOMMU_MIXED 4

#define P2PSAFE_SEVERITY_UNKNOWN 0
#define P2PSAFE_SEVERITY_INFO 1
#define P2PSAFE_SEVERITY_WARNING 2
#define P2PSAFE_SEVERITY_ERROR 3
#define P2PSAFE_SEVERITY_DANGER 4

#define P2PSAFE_CONFIDENCE_UNKNOWN 0
#define P2PSAFE_CONFIDENCE_LOW 1
#define P2PSAFE_CONFIDENCE_MEDIUM 2
#define P2PSAFE_CONFIDENCE_HIGH 3

/* What a setting is: an environment variable, a variable to remove, a command line argument, a file, a YAML key
 * or a sentence for a person. */
#define P2PSAFE_SETTING_UNKNOWN 0
#define P2PSAFE_SETTING_ENV 1
#define P2PSAFE_SETTING_UNSET 2
#define P2PSAFE_SETTING_ARGUMENT 3
#define P2PSAFE_SETTING_FILE 4
#define P2PSAFE_SETTING_YAML 5
#define P2PSAFE_SETTING_ADVICE 6

/* Who must have the same value of a setting. */
#define P2PSAFE_SCOPE_UNKNOWN 0
#define P2PSAFE_SCOPE_NODE 1 /* one process, or all of one machine */
#define P2PSAFE_SCOPE_JOB 2  /* every rank of a job, on all of its machines: see p2psafe_merge() */

/* Text forms of the settings that p2psafe_report_env() writes: commands of a POSIX shell, docker run --env-file, systemd's
 * EnvironmentFile=, items of a Kubernetes container's env, nccl.conf, JSON, a drop-in of a systemd unit. */
#define P2PSAFE_FORMAT_UNKNOWN 0
#define P2PSAFE_FORMAT_SHELL 1
#define P2PSAFE_FORMAT_DOCKER 2
#define P2PSAFE_FORMAT_SYSTEMD 3
#define P2PSAFE_FORMAT_KUBERNETES 4
#define P2PSAFE_FORMAT_NCCL_CONF 5
#define P2PSAFE_FORMAT_JSON 6
#define P2PSAFE_FORMAT_SYSTEMD_UNIT 7

P2PSAFE_API const char *p2psafe_verdict_name(int32_t verdict);       /* "OK", "CORRUPT", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_transport_name(int32_t transport);   /* "NVLINK", "HOST_STAGED", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_consumer_name(int32_t consumer);     /* "nccl_p2p", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_leg_name(int32_t leg);               /* "ce_write", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_mapping_name(int32_t mapping);       /* "peer", "ipc", "cumem", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_damage_name(int32_t damage);         /* "none", "dropped", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_path_name(int32_t path);             /* "NVL", "PHB", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_level_name(int32_t level);           /* "quick", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_gpu_state_name(int32_t state);       /* "ready", "not_ours", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_iommu_name(int32_t state);           /* "none", "translated", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_severity_name(int32_t severity);     /* "info", "danger", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_confidence_name(int32_t confidence); /* "low", "high", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_setting_kind_name(int32_t kind);     /* "env", "unset", ... Since 1.0. */
P2PSAFE_API const char *p2psafe_scope_name(int32_t scope);            /* "node", "job". Since 1.0. */
P2PSAFE_API const char *p2psafe_format_name(int32_t format);         /* "shell", "nccl-conf", ... Since 1.0. */
P2PSAFE_API int32_t p2psafe_consumer_from_name(const char *name);    /* 0 for NULL or unknown. Since 1.0. */
P2PSAFE_API int32_t p2psafe_level_from_name(const char *name);       /* 0 for NULL or unknown. Since 1.0. */
P2PSAFE_API int32_t p2psafe_format_from_name(const char *name);      /* 0 for NULL or unknown. Since 1.0. */

/* ---- Options -------------------------------------------------------------------------------------------- */

#define P2PSAFE_FLAG_KEEP_GOING UINT64_C(1)        /* test on after a failed pair; also overrides a marker of an earlier boot */
#define P2PSAFE_FLAG_NO_CACHE UINT64_C(2)          /* neither read nor publish a record; lock and marker are still used */
#define P2PSAFE_FLAG_MEASURE UINT64_C(4)           /* also measure bandwidth and latency of verified legs */
#define P2PSAFE_FLAG_PROMOTE UINT64_C(8)           /* allow settings that give permission; off by default */
#define P2PSAFE_FLAG_ENVIRONMENT UINT64_C(16)      /* honour P2PSAFE_CACHE, P2PSAFE_RESULT, P2PSAFE_ON_UNTESTED, XDG_CACHE_HOME, HOME; for
                                                      ordinals CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; for what NCCL will be told
                                                      NCCL_TOPO_FILE and NCCL_CONF_FILE; NVIDIA_VISIBLE_DEVICES as evidence only (read with
                                                      secure_getenv; nothing is ever read without this flag, and then a caller who is
                                                      not root and names no cache_dir keeps no record, lock or marker: only what root
                                                      kept is read) */
#define P2PSAFE_FLAG_RECHECK UINT64_C(32)          /* decide: a record must also fit what only the helper can read (ACS words, MIG mode,
                                                      NVLink states, UUID, VBIOS, display, no grave Xid since the test) */
#define P2PSAFE_FLAG_PASS_UNTESTED UINT64_C(64)    /* untested pairs are not vetoed; never covers a bad verdict */
#define P2PSAFE_FLAG_REQUIRE_MARKER UINT64_C(128)  /* no risky test where no marker can be kept (what plugin and apply() do) */
#define P2PSAFE_FLAG_NO_RETRY UINT64_C(256)        /* decide: an untested record counts however old it is (what the NCCL plugin does); without
                                                      this flag it is tested again after 1, 5, 30 and then 60 minutes */

/* Strings are copied before the call returns. Since 1.0. */
struct p2psafe_options {
	size_t size;
	uint64_t flags;           /* P2PSAFE_FLAG_*; unknown bits are refused with E_NEWER */
	uint64_t deadline_ms;     /* 0: 20 s plus 2 s per GPU (thorough: soak plus 600 s); at most a day, else E_INVALID */
	uint64_t soak_ms;         /* thorough only: how long to repeat under load; at most a day, else E_INVALID */
	int32_t level;            /* P2PSAFE_LEVEL_*; 0: standard */
	int32_t reserved_0;       /* must be 0 */
	const char *gpus;         /* comma-separated addresses, UUIDs or ordinals; NULL: all usable GPUs */
	const char *host_dir;     /* simulated host folder; NULL: this machine. Sets "simulated" */
	const char *cuda_library; /* path of a libcuda to load instead of the system's. Sets "simulated" */
	const char *helper_path;  /* path of p2psafe-helper; NULL: found beside the library */
	const char *cache_dir;    /* folder of the kept record; NULL: the documented places */
	const char *result_file;  /* operator's read-only record (decision part); NULL: none */
	const char *topology_file;  /* where a topology file for NCCL is written, if one is: with placement_file, or islands with
	                               PROMOTE; NULL: beside the record. A file that is not ours is never replaced */
	const char *placement_file; /* lines "ADDRESS NODE": the NUMA nodes of GPUs that this machine does not show; a pipe is waited for
	                               until the deadline; NULL: none */
};

/* Zeroes *options and sets its size member to size. Since 1.0. */
P2PSAFE_API void p2psafe_options_init(struct p2psafe_options *options, size_t size);

/* ---- Context and calls ---------------------------------------------------------------------------------- */

#define P2PSAFE_LOG_ERROR 1
#define P2PSAFE_LOG_WARNING 2
#define P2PSAFE_LOG_INFO 3
#define P2PSAFE_LOG_DEBUG 4
#define P2PSAFE_LOG_PROGRESS 5 /* short, replaces the one before it: "first contact 3 of 12" */

/* One finished line without newline. Called only on the calling thread, inside a call. Must not call back. */
typedef void (*p2psafe_log_fn)(void *user, int32_t level, const char *line);

typedef struct p2psafe_context p2psafe_context;
typedef struct p2psafe_report p2psafe_report;

/* Makes a context. log may be NULL (silent). user is an opaque token handed back to log.
 * Free with p2psafe_context_free(). Errors: E_NOMEM, E_INVALID (out is NULL). Since 1.0. */
P2PSAFE_API int32_t p2psafe_context_new(p2psafe_context **out, p2psafe_log_fn log, void *user, struct p2psafe_error *err);
/* Frees a context; NULL is fine. Reports made with it stay valid. Since 1.0. */
P2PSAFE_API void p2psafe_context_free(p2psafe_context *ctx);

/* Looks at the machine without opening any GPU: inventory, IOMMU, paths. No transfer, no driver call. Every verdict is UNTESTED.
 * options may be NULL. Free *out with p2psafe_report_free(). Errors: E_CONFIG, E_NOMEM, E_SYSTEM. Since 1.0. */
P2PSAFE_API int32_t p2psafe_probe(p2psafe_context *ctx, const struct p2psafe_options *options, p2psafe_report **out,
                                  struct p2psafe_error *err);
/* Runs a fresh test of every directed pair in child processes, judges, and publishes the record unless NO_CACHE.
 * Blocks at most deadline plus one second. Errors: E_CONFIG, E_NOMEM, E_SYSTEM. Since 1.0. */
P2PSAFE_API int32_t p2psafe_test(p2psafe_context *ctx, const struct p2psafe_options *options, p2psafe_report **out,
                                 struct p2psafe_error *err);
/* The kept record if it is valid for this machine, else a test under the lock (one per start, however many
 * processes ask), else UNTESTED. This is what a server calls. Blocks at most deadline plus one second.
 * Errors: E_CONFIG, E_NOMEM, E_SYSTEM. Since 1.0. */
P2PSAFE_API int32_t p2psafe_decide(p2psafe_context *ctx, const struct p2psafe_options *options, p2psafe_report **out,
                                   struct p2psafe_error *err);

/* ---- Report: the decision ------------------------------------------------------------------------------- */

/* Frees a report; NULL is fine. Since 1.0. */
P2PSAFE_API void p2psafe_report_free(p2psafe_report *report);
/* 1 only if the test proved every leg that the consumer needs, for every pair of the group. 0 otherwise: NULL,
 * unknown consumer, untested, one GPU. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_allows(const p2psafe_report *report, int32_t consumer);
/* What the p2psafe program exits with for this report: 0, 1 or 3; 4 for NULL. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_exit_code(const p2psafe_report *report);
/* The group's transport, P2PSAFE_TRANSPORT_*; NONE for NULL. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_transport(const p2psafe_report *report);
/* 1 if host_dir or cuda_library was in force: never use such a report for a real decision. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_is_simulated(const p2psafe_report *report);
/* 1 if the answer came from a kept record. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_is_kept(const p2psafe_report *report);

/* Permission of one consumer for the whole group. Since 1.0. */
struct p2psafe_consumer_info {
	size_t size;
	int32_t consumer;
	int32_t allowed;          /* 1 proven, 0 denied, -1 left as it is (multicast with no veto beside it) */
	int32_t verdict;          /* worst verdict over what it needs */
	int32_t failed_leg_count; /* see p2psafe_report_failed_leg() */
};
/* Errors: E_INVALID (unknown consumer), E_SIZE. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_consumer(const p2psafe_report *report, int32_t consumer, struct p2psafe_consumer_info *out);
/* "src>dst leg mapping" of failed leg i, NULL when out of range. Since 1.0. */
P2PSAFE_API const char *p2psafe_report_failed_leg(const p2psafe_report *report, int32_t consumer, int32_t i);

/* A setting that carries the decision to a program. Since 1.0. */
struct p2psafe_setting {
	size_t size;
	int32_t consumer; /* P2PSAFE_CONSUMER_* it protects */
	int32_t kind;     /* P2PSAFE_SETTING_* */
	int32_t applied;  /* 1 if `run` and apply() set it; 0 if a person must */
	int32_t reserved_0;
	const char *name;  /* variable, argument or file name */
	const char *value; /* value; "" for unset and arguments without one */
	const char *why;   /* one sentence */
	int32_t scope;            /* P2PSAFE_SCOPE_* */
	int32_t gives_permission; /* 1: only with PROMOTE; 0: it takes permission away, so it wins over what a user had set */
};
/* Number of settings; 0 for NULL. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_setting_count(const p2psafe_report *report);
/* Errors: E_RANGE, E_SIZE. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_setting(const p2psafe_report *report, int32_t i, struct p2psafe_setting *out);

/* ---- Report: the evidence ------------------------------------------------------------------------------- */

/* What the report is about and where it comes from. Unknown strings are "". Since 1.0. */
struct p2psafe_about {
	size_t size;
	int64_t created_unix;
	int32_t level;        /* P2PSAFE_LEVEL_* */
	int32_t deadline_hit; /* 1: ended by its deadline, what is missing is UNTESTED */
	int32_t iommu_state;  /* P2PSAFE_IOMMU_* */
	int32_t iommu_confidence;
	int32_t cuda_version; /* of the driver API, 12000 = 12.0; 0 unknown */
	int32_t privileged;   /* 1: configuration space and log could be read as far as rights go */
	const char *kernel;
	const char *driver_version;
	const char *driver_flavour;
	const char *virtualization; /* "none", "kvm", ... */
	const char *container;      /* "none", "docker", ... */
	const char *iommu_source;   /* first evidence of iommu_state: where it was read, */
	const char *iommu_text;     /* and what stood there */
	const char *kept_path;      /* record that holds the answer */
	const char *kept_reason;    /* why it was used or not, and what was not rechecked */
};
/* Errors: E_INVALID (report is NULL), E_SIZE. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_about(const p2psafe_report *report, struct p2psafe_about *out);

/* A GPU as seen by this report. Unknown numbers are -1 (int32_t) or 0 (uint64_t), unknown strings "". Since 1.0. */
struct p2psafe_gpu {
	size_t size;
	struct p2psafe_bdf bdf;
	int32_t ordinal;   /* CUDA ordinal under the caller's mask; -1 when masked or unknown */
	int32_t is_ours;   /* 1: bound to nvidia and usable by this process */
	int32_t state;     /* P2PSAFE_GPU_STATE_* */
	int32_t numa_node; /* -1 unknown */
	int32_t compute_capability_major;
	int32_t compute_capability_minor;
	uint64_t bar1_bytes;
	uint64_t memory_bytes;
	const char *address; /* "dddd:bb:dd.f", lower case */
	const char *uuid;    /* "GPU-..." */
	const char *name;
	const char *domain_type; /* as the kernel prints it */
	const char *driver;      /* bound kernel driver, "" if none */
	/* Measured, docs/MEASURING.md. Copies to and from pinned host memory on NUMA node host_node (-1: bound to none or not told;
	 * where no speed is told it says nothing). */
	uint64_t to_host_bytes_per_s;
	uint64_t from_host_bytes_per_s;
	uint64_t host_both_ways_bytes_per_s; /* both at once, their sum */
	uint64_t all_to_one_bytes_per_s;     /* into this GPU while every other writes to it, their sum; three GPUs or more */
	uint64_t one_to_all_bytes_per_s;     /* out of this GPU while it writes to every other, their sum */
	int32_t host_node;
	int32_t reserved_0;
};
P2PSAFE_API int32_t p2psafe_report_gpu_count(const p2psafe_report *report); /* Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_gpu(const p2psafe_report *report, int32_t i, struct p2psafe_gpu *out); /* E_RANGE, E_SIZE. Since 1.0. */

/* A directed pair: src is the accessor, dst the owner of the memory. Measured numbers are 0 when they were not measured; what
 * each means: docs/MEASURING.md. Writes carry bytes from src to dst, reads from dst to src. Since 1.0. */
struct p2psafe_pair {
	size_t size;
	int32_t src; /* index for p2psafe_report_gpu() */
	int32_t dst;
	int32_t path;      /* P2PSAFE_PATH_* */
	int32_t nccl_path; /* the same in NCCL's words (no NODE) */
	int32_t verdict;
	int32_t transport;
	int32_t score; /* 0..1000; -1 not measured */
	int32_t leg_count;
	uint64_t limit_bytes_per_s; /* of the narrowest hop; 0 unknown */
	uint64_t ce_write_bytes_per_s;
	uint64_t ce_read_bytes_per_s;
	uint64_t sm_store_bytes_per_s;
	uint64_t sm_load_bytes_per_s;
	uint64_t both_ways_bytes_per_s;    /* copy-engine writes of both at once, their sum */
	uint64_t loaded_bytes_per_s;       /* copy-engine write while every pair of the round writes both ways */
	uint64_t limit_loaded_bytes_per_s; /* the limit at the speed that links had while transfers ran; 0 unknown */
	uint64_t write_issue_ns;           /* until a posted store lets the next one go */
	uint64_t load_ns;                  /* a dependent load, there and back */
	uint64_t store_flag_ns;            /* from a store and its flag to the owner having seen both */
	uint64_t p2p_wins_from_bytes;      /* smallest size from which the peer is sooner than staging; 0 none */
	int32_t efficiency;                /* best write in thousandths of limit_loaded, else of the limit; -1 or 0: unknown */
	int32_t size_count;                /* rows for p2psafe_report_size() */
};
P2PSAFE_API int32_t p2psafe_report_pair_count(const p2psafe_report *report); /* Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_pair(const p2psafe_report *report, int32_t i, struct p2psafe_pair *out); /* E_RANGE, E_SIZE. Since 1.0. */

/* One leg of a pair over one mapping. Since 1.0. */
struct p2psafe_leg {
	size_t size;
	int32_t leg;
	int32_t mapping;
	int32_t initiator; /* GPU index whose engine moved the bytes */
	int32_t verdict;
	int32_t damage;
	int32_t has_detail; /* 1: offset, expected and found below are valid */
	uint64_t bytes;
	uint64_t rounds;
	uint64_t error_bound_ppb; /* 95% upper bound of the error rate, parts per 10^9; 0 if none can be given */
	uint64_t coverage_bytes;
	uint64_t coverage_of_bytes;
	uint64_t max_handle_bytes;
	uint64_t offset;
	uint64_t expected;
	uint64_t found;
	const char *note; /* one short observation for people, "" if none */
};
P2PSAFE_API int32_t p2psafe_report_leg(const p2psafe_report *report, int32_t pair, int32_t i, struct p2psafe_leg *out); /* E_RANGE, E_SIZE. Since 1.0. */

/* Transfers of one size between the two of a pair, from src to dst: bytes per second one behind the other, ns one alone. 0: not
 * measured. Rows are in order of size. Since 1.0. */
struct p2psafe_size {
	size_t size;
	uint64_t bytes;
	uint64_t p2p_bytes_per_s;
	uint64_t p2p_ns;
	uint64_t staged_bytes_per_s; /* through pinned host memory */
	uint64_t staged_ns;
};
P2PSAFE_API int32_t p2psafe_report_size(const p2psafe_report *report, int32_t pair, int32_t i, struct p2psafe_size *out); /* E_RANGE, E_SIZE. Since 1.0. */

/* The path of two GPUs (a < b) through pinned host memory: what is left where peers are not used. 0: not measured. Since 1.0. */
struct p2psafe_staged {
	size_t size;
	int32_t a; /* index for p2psafe_report_gpu() */
	int32_t b;
	int32_t verdict;
	int32_t reserved_0;
	uint64_t a_to_b_bytes_per_s;
	uint64_t b_to_a_bytes_per_s;
	uint64_t both_ways_bytes_per_s; /* both at once, their sum */
	uint64_t latency_ns;            /* the smallest transfer, until the other process sees it; of both directions the slower */
};
P2PSAFE_API int32_t p2psafe_report_staged_count(const p2psafe_report *report); /* 0 for NULL. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_staged(const p2psafe_report *report, int32_t i, struct p2psafe_staged *out); /* E_RANGE, E_SIZE. Since 1.0. */

/* An observed fact that matters. subject: "host", an address, or "address>address". Since 1.0. */
struct p2psafe_finding {
	size_t size;
	int32_t severity;
	int32_t confidence;
	int32_t evidence_count;
	int32_t reserved_0;
	const char *code;
	const char *subject;
};
P2PSAFE_API int32_t p2psafe_report_finding_count(const p2psafe_report *report); /* Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_finding(const p2psafe_report *report, int32_t i, struct p2psafe_finding *out); /* E_RANGE, E_SIZE. Since 1.0. */
/* Where piece k of finding i's evidence was read; NULL when out of range. Since 1.0. */
P2PSAFE_API const char *p2psafe_report_evidence_source(const p2psafe_report *report, int32_t i, int32_t k);
/* What was read there; NULL when out of range. Since 1.0. */
P2PSAFE_API const char *p2psafe_report_evidence_text(const p2psafe_report *report, int32_t i, int32_t k);

/* ---- Report: groups --------------------------------------------------------------------------------------
 * Whether some of the GPUs may use peer transfers among themselves while others may not. GPUs are indices for
 * p2psafe_report_gpu(). A group is safe when every pair of it was proven in both directions. The consumers' permissions of the
 * whole report do not change by this: a program that is given a safe group must also be kept to it, with CUDA_VISIBLE_DEVICES.
 *
 * Answers are exact for every machine that fits one chassis; the search is bounded in steps (not in time), and says so in
 * `exact` where it was cut. Ties: docs/GROUPS.md. */

/* What is known about a group. Since 1.0. */
struct p2psafe_group {
	size_t size;
	int32_t verdict;   /* worst of its pairs */
	int32_t transport; /* worst of its pairs */
	int32_t score;     /* of its weakest pair, 0..1000; -1 not measured */
	int32_t exact;     /* 1: there is none better; 0: the search was cut */
};
/* Judges any two or more GPUs of the report's group. Errors: E_INVALID (fewer than two, one named twice, or one that is not
 * ours), E_RANGE (no such GPU), E_SIZE. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_group(const p2psafe_report *report, const int32_t *gpus, int32_t count,
                                         struct p2psafe_group *out);
/* 1 only if the consumer's needs were proven for every pair among these GPUs, both ways; 0 otherwise, also for every mistake.
 * Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_group_allows(const p2psafe_report *report, const int32_t *gpus, int32_t count, int32_t consumer);
/* The best safe group of count (two or more) GPUs, written to gpus[count] in ascending order. consumer: P2PSAFE_CONSUMER_* whose
 * needs count, 0 for the verdicts of the pairs. out may be NULL. Errors: E_RANGE (there is no such group), E_INVALID, E_SIZE,
 * E_NOMEM. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_best_group(const p2psafe_report *report, int32_t consumer, int32_t count, int32_t *gpus,
                                              struct p2psafe_group *out);
/* Number of islands: the largest safe groups, which may overlap. 0 for NULL. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_island_count(const p2psafe_report *report);
/* Writes the members of island i to gpus[room]; returns how many it has, or E_RANGE, E_INVALID (room too small). Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_island(const p2psafe_report *report, int32_t i, int32_t *gpus, int32_t room);
/* Divides the group into disjoint safe islands: part[i] becomes the island of GPU i, counted from 0, or -1 for a GPU outside the
 * group. room: at least the number of GPUs. Returns the number of islands, or E_INVALID, E_NOMEM. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_partition(const p2psafe_report *report, int32_t *part, int32_t room);
/* Orders the GPUs of the group so that the first n times count of them are n safe groups of count each, in a row; n is as large
 * as can be. Writes all of them to gpus[room]. Returns n, or E_INVALID (count below two, room too small),
 * E_NOMEM. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_order(const p2psafe_report *report, int32_t count, int32_t *gpus, int32_t room);

/* ---- Report: text forms ---------------------------------------------------------------------------------- */

/* The report as JSON (docs/report.schema.json). Free with p2psafe_string_free(). Errors: E_NOMEM, E_INVALID. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_json(const p2psafe_report *report, char **out, struct p2psafe_error *err);
/* The settings as text in a P2PSAFE_FORMAT_*. report may be NULL: then the full veto is written. Free with
 * p2psafe_string_free(). Errors: E_INVALID (unknown format), E_NOMEM, E_SYSTEM (for JSON). Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_env(const p2psafe_report *report, int32_t format, char **out, struct p2psafe_error *err);
/* Frees a string of this library; NULL is fine. Since 1.0. */
P2PSAFE_API void p2psafe_string_free(char *string);

/* ---- Caches of frameworks --------------------------------------------------------------------------------
 * vLLM and SGLang test peer access themselves, keep the answer as gpu_p2p_access_cache_for_<mask>.json in their cache folder and
 * believe that file as long as it exists. A veto of custom_all_reduce is carried there as "false" for every pair, whichever of the
 * GPUs a mask shows. Without a veto nothing is written and an earlier file of this library is removed: then they test themselves. */

#define P2PSAFE_CACHES_FORCE UINT64_C(1)       /* also replace a file that this library did not write */
#define P2PSAFE_CACHES_ENVIRONMENT UINT64_C(2) /* what is NULL below is CUDA_VISIBLE_DEVICES, VLLM_CACHE_ROOT, SGLANG_CACHE_DIR,
                                                  XDG_CACHE_HOME and HOME */
#define P2PSAFE_CACHES_PROMOTE UINT64_C(4)     /* write "true" where every pair of the group was proven and measured faster than staging */

/* Since 1.0. */
struct p2psafe_caches {
	size_t size;
	uint64_t flags;      /* P2PSAFE_CACHES_* */
	const char *visible; /* CUDA_VISIBLE_DEVICES of the server, letter for letter (or vLLM's --device-ids); NULL: not set */
	const char *home;    /* HOME of the server; then no other folder is used. A simulated report needs it */
};
/* Makes these files say what the report says; report NULL: the veto. A file appears or changes as a whole. *out (may be NULL): what
 * was done, as a JSON list of {framework, path, state: written|same|removed|nothing|foreign|failed, why}; free with
 * p2psafe_string_free(). Returns how many frameworks do not hear what they must (foreign, failed), or an error: E_SIZE, E_NEWER,
 * E_CONFIG, E_NOMEM, E_SYSTEM. Since 1.0. */
P2PSAFE_API int32_t p2psafe_report_write_caches(const p2psafe_report *report, const struct p2psafe_caches *caches, char **out,
                                                struct p2psafe_error *err);

/* ---- Several nodes -------------------------------------------------------------------------------------- */

/* Joins the JSON reports of a job's nodes into one report whose settings every rank can use: a consumer is allowed only if it is
 * on every node (nodes of one GPU take nothing away), and NCCL may go as far as on the worst. Each report is judged again from its
 * legs, and never better than it says itself. The result has no GPUs and pairs of its own; as JSON it can be joined once more, and then
 * counts as it says. A text that is NULL, damaged, of a newer schema, or joined by a version with settings that this one lacks, vetoes
 * everything. exit_codes (may be NULL; count entries): p2psafe_report_exit_code() of each, 4 for what is no report.
 * Free *out with p2psafe_report_free(). Errors: E_INVALID (no reports), E_NOMEM, E_SYSTEM. Since 1.0. */
P2PSAFE_API int32_t p2psafe_merge(const char *const *reports, int32_t count, int32_t *exit_codes, p2psafe_report **out,
                                  struct p2psafe_error *err);

/* ---- The kept record ------------------------------------------------------------------------------------ */

/* Where the record is kept under these options: "" when there is no place. In a folder that other machines may see, the part of
 * this one: on-<name>. Free with p2psafe_string_free(). Since 1.0. */
P2PSAFE_API int32_t p2psafe_cache_path(p2psafe_context *ctx, const struct p2psafe_options *options, char **out,
                                       struct p2psafe_error *err);
/* Removes kept records and markers in that place; waits for nobody. Returns how many files went, or an error: E_SYSTEM where
 * some stay that may still be believed. Since 1.0. */
P2PSAFE_API int32_t p2psafe_cache_clear(p2psafe_context *ctx, const struct p2psafe_options *options, struct p2psafe_error *err);
/* The newest whole record as it is kept, with "valid" and "reason" beside it, as JSON. "" if none. Since 1.0. */
P2PSAFE_API int32_t p2psafe_cache_show(p2psafe_context *ctx, const struct p2psafe_options *options, char **out,
                                       struct p2psafe_error *err);

#ifdef __cplusplus
}
#endif

#endif
