/* The report as plain data: what the tests found and what was decided. Filled by api and the run, judged by the pure
 * functions of score, rules, choose and emit, written by report_json. Indices into gpus[] are used everywhere
 * inside; addresses are used outside.
 *
 * Zero is unknown in every member. Fixed arrays keep ownership simple: only the lists are allocated. */
#ifndef P2S_CORE_MODEL_H
#define P2S_CORE_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "core/bdf.h"
#include "core/facts.h"
#include "p2psafe/p2psafe.h"

#define P2S_MAX_GPUS 64 /* 6-bit GPU index in the test word */
#define P2S_BARS 6
#define P2S_CONSUMERS 6 /* index = P2PSAFE_CONSUMER_*; 0 unused */

struct p2s_gpu {
	struct p2psafe_bdf bdf;
	char address[P2S_BDF_TEXT];
	char uuid[48];
	char name[96];
	char vbios[32];       /* as the driver tells it; "" unknown */
	char driver[32];      /* bound kernel driver; "" none */
	char domain_type[24]; /* of its IOMMU group, as the kernel prints it; "" unknown */
	char error[160];      /* why state is failed, busy or risky */
	int32_t ordinal;      /* -1 unknown or masked */
	int32_t driver_order; /* CUDA ordinal where nobody asks for an order or a mask, as the driver told a worker; -1 unknown */
	int32_t minor;        /* of /dev/nvidia<minor>; -1 unknown */
	int32_t ours;
	int32_t state;
	int32_t numa_node; /* -1 unknown */
	int32_t cc_major;
	int32_t cc_minor;
	int32_t in_group; /* belongs to the decision's group */
	uint32_t vendor;
	uint32_t device;
	uint32_t subsystem_vendor;
	uint32_t subsystem_device;
	uint32_t class_code;
	uint64_t bar_start[P2S_BARS]; /* as in sysfs "resource": index 0..5 */
	uint64_t bar_bytes[P2S_BARS];
	uint64_t bar1_bytes; /* frame-buffer window: sysfs index 2 where BAR0 has 64 bits, else 1 */
	uint64_t memory_bytes;
	uint64_t free_bytes;
	struct p2s_gpu_facts facts;
};

struct p2s_leg {
	int32_t leg;
	int32_t mapping;
	int32_t initiator; /* GPU index */
	int32_t verdict;
	int32_t damage;
	int32_t cuda_error; /* CUresult behind ERROR and UNSUPPORTED; 0 none */
	int32_t has_detail;
	uint64_t bytes;
	uint64_t rounds;
	uint64_t error_bound_ppb;
	uint64_t coverage_bytes;
	uint64_t coverage_of_bytes;
	uint64_t max_handle_bytes;
	uint64_t verified_bytes_per_s; /* poison, transfer and check of a whole large buffer; 0 none was large enough */
	uint64_t offset; /* byte offset in the handle of the first bad word */
	uint64_t expected;
	uint64_t found;
	char note[96]; /* one short observation, for people; "" none */
};

/* bytes/s; 0 not measured. Of a staged pair: ce_write a to b, ce_read b to a, both_ways their sum at once; the others stay 0. */
struct p2s_bandwidth {
	uint64_t ce_write, ce_read, sm_store, sm_load, both_ways, loaded;
};

/* ns; 0 not measured. Of a staged pair only store_flag_ns: the smallest transfer, of both directions the slower. */
struct p2s_latency {
	uint64_t write_issue_ns, load_ns, store_flag_ns;
};

/* Transfers of one size, in rows by size. bytes/s: one behind the other; ns: one alone, for staged up to the other process's
 * seeing it. In a staged pair's own table: of both directions the slower. */
struct p2s_size_row {
	uint64_t bytes, p2p_bytes_per_s, p2p_ns, staged_bytes_per_s, staged_ns;
};

struct p2s_pair {
	int32_t src;
	int32_t dst;
	int32_t path;
	int32_t nccl_path;
	int32_t can_access; /* cuDeviceCanAccessPeer: 1 yes, 0 no, -1 not asked */
	int32_t native_atomics;
	int32_t verdict;
	int32_t transport;
	int32_t score; /* -1 not measured */
	unsigned char permits[P2S_CONSUMERS]; /* verdict per consumer; set when the pair is judged */
	int32_t lost; /* HANG, ERROR, UNTESTED: what its legs passed counts no more (rules/lost.h). 0 it does; set when judged */
	int32_t told; /* its verdict in a report that was read back; 0 none. A failure there stays one */
	uint64_t limit_bytes_per_s; /* narrowest hop at its maximum, or NVLink's count and speed; 0 unknown */
	uint64_t limit_loaded;      /* the same at the speed that links had while transfers ran; 0 unknown */
	int32_t efficiency;         /* best write in thousandths of limit_loaded, else of limit_bytes_per_s; -1 unknown */
	struct p2s_bandwidth bandwidth;
	struct p2s_latency latency;
	uint64_t wins_from; /* smallest size from which the peer is sooner than staging, at every larger one too; 0 none or not measured */
	struct p2s_size_row *sizes;
	size_t size_count;
	struct p2s_leg *legs;
	size_t leg_count;
};

struct p2s_staged { /* unordered pair, a < b; legs over mapping host, both directions */
	int32_t a;
	int32_t b;
	int32_t verdict;
	struct p2s_bandwidth bandwidth;
	struct p2s_latency latency;
	struct p2s_size_row *sizes;
	size_t size_count;
};

struct p2s_evidence {
	char source[160];
	char text[400];
};

struct p2s_finding {
	char code[32];
	int32_t severity;
	int32_t confidence;
	int32_t src; /* subject: -1,-1 host; a,-1 GPU a; a,b pair a>b */
	int32_t dst;
	struct p2s_evidence *evidence;
	size_t evidence_count;
};

struct p2s_remedy {
	char code[16];
	char effect[16]; /* applies, no_effect, forbidden, already_on */
	char needs[96];  /* comma-separated */
	char what[1024]; /* what to do */
	char risk[256];
	char why[448];
};

struct p2s_setting {
	int32_t consumer;
	int32_t kind;
	int32_t applied;
	int32_t scope; /* P2PSAFE_SCOPE_* */
	int32_t gives; /* 1: gives permission (promote) */
	char name[64];
	char value[192];
	char why[192];
};

struct p2s_failed_leg {
	int32_t src, dst, leg, mapping;
};

struct p2s_consumer {
	int32_t allowed; /* 1, 0, -1 */
	int32_t verdict;
	struct p2s_failed_leg *failed;
	size_t failed_count;
	char enforced_by[4][64]; /* names of settings that enforce the veto; "" unused */
};

struct p2s_timing {
	char name[32];
	uint64_t ms;
};

struct p2s_model {
	/* what was asked */
	int32_t level;
	int32_t simulated;
	int32_t deadline_hit;
	int32_t single_gpu;     /* exactly one GPU on the machine: nothing to test, exit 0 */
	int32_t unsure_gpus;    /* PCI functions of which it cannot be read whether they are GPUs of the driver: peers may be among them */
	int32_t nothing_tested; /* exit 3: no driver, no GPU, driver too old, no helper, peers invisible */
	int32_t joined;         /* reports of nodes that this one was made of; 0: it is of this machine */
	int64_t created_unix;
	int64_t measured_unix; /* when its numbers were measured; 0 it has none */
	/* host */
	char kernel[96];
	char driver_version[32];
	char driver_flavour[16]; /* open, proprietary, "" unknown */
	char driver_parameters[2048]; /* "Name: value\n" of those that matter */
	int32_t cuda_version;    /* of the driver API, 12000 = 12.0; 0 unknown */
	char virtualization[32]; /* "none", "kvm", ...; "" unknown */
	char container[32];
	char log_state[16]; /* readable, denied, absent, "" unknown */
	int32_t snp_host;   /* -1 unknown */
	int32_t privileged;
	/* iommu */
	int32_t iommu_state;
	int32_t iommu_confidence;
	struct p2s_evidence *iommu_evidence;
	size_t iommu_evidence_count;

	struct p2s_facts facts;

	struct p2s_gpu *gpus;
	size_t gpu_count;
	struct p2s_pair *pairs; /* every directed pair of GPUs in the group */
	size_t pair_count;
	struct p2s_staged *staged;
	size_t staged_count;
	struct p2s_finding *findings;
	size_t finding_count;
	struct p2s_remedy *remedies;
	size_t remedy_count;

	/* decision */
	int32_t transport;
	int32_t nccl_level;   /* farthest P2PSAFE_PATH_* up to which NCCL may go among vetoed GPUs; 0: nowhere */
	int32_t own_topology; /* 1: looked, and nothing gives NCCL another topology than it finds itself; 0: not known */
	int32_t promote;      /* settings that give permission are wanted */
	int32_t fabric;       /* it is, or may be, part of an NVLink fabric over several boxes */
	int32_t torn_lines;   /* lines of 128 bytes do not arrive whole */
	struct p2s_consumer consumers[P2S_CONSUMERS];
	int32_t **islands; /* lists of GPU indices, each ended by -1 */
	size_t island_count;
	struct p2s_setting *settings;
	size_t setting_count;

	/* kept */
	int32_t kept_hit;
	char kept_path[512];
	char kept_reason[256];
	struct p2s_timing *timings;
	size_t timing_count;
};

/* model.c: allocation only. All return 1, or 0 when out of memory (the model stays valid). */
void p2s_model_init(struct p2s_model *m);
void p2s_model_free(struct p2s_model *m);
/* Appends a zeroed GPU (ordinal, driver_order, minor and numa_node -1); NULL when out of memory or at P2S_MAX_GPUS. */
struct p2s_gpu *p2s_model_add_gpu(struct p2s_model *m);
/* The pair src>dst, NULL if there is none. */
struct p2s_pair *p2s_model_pair(struct p2s_model *m, int32_t src, int32_t dst);
const struct p2s_pair *p2s_model_pair_const(const struct p2s_model *m, int32_t src, int32_t dst);
/* The staged entry of two GPUs in either order, NULL if there is none. */
struct p2s_staged *p2s_model_staged(struct p2s_model *m, int32_t a, int32_t b);
/* Makes the directed pairs and unordered staged entries of the GPUs with in_group set that are not there yet, all UNTESTED;
 * in order. */
int32_t p2s_model_make_pairs(struct p2s_model *m);
/* Removes the pairs and staged entries of GPUs that have left the group (in_group 0). */
void p2s_model_drop_outsiders(struct p2s_model *m);
/* The leg entry of a pair, made (UNTESTED) if absent; NULL when out of memory. */
struct p2s_leg *p2s_model_leg(struct p2s_pair *pair, int32_t leg, int32_t mapping);
/* Finds the finding (code, subject) or appends it, then appends one piece of evidence (source NULL: none). */
int32_t p2s_model_find(struct p2s_model *m, const char *code, int32_t severity, int32_t confidence, int32_t src, int32_t dst,
                       const char *source, const char *text);
int32_t p2s_model_add_setting(struct p2s_model *m, int32_t consumer, int32_t kind, int32_t applied, const char *name,
                              const char *value, const char *why);
int32_t p2s_model_add_iommu_evidence(struct p2s_model *m, const char *source, const char *text);
int32_t p2s_model_add_timing(struct p2s_model *m, const char *name, uint64_t ms);
int32_t p2s_model_add_failed(struct p2s_consumer *c, int32_t src, int32_t dst, int32_t leg, int32_t mapping);

#endif
