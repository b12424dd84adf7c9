/* What was read about the machine, before any judgement: the input of the rules (src/lib/rules/findings.def,
 * remedies.def). Nothing here is a conclusion. Filled by inventory and iommu (sysfs, proc), by the helper's host and nvml
 * workers (configuration space, driver) and by evidence (kernel log); read by pure functions only.
 *
 * Tri-state members: P2S_NO, P2S_YES, or P2S_UNREAD: the source was absent, denied or nonsense. Unread is never "no". A zeroed
 * struct would say "no" everywhere, so p2s_facts_init() must run first. */
#ifndef P2S_CORE_FACTS_H
#define P2S_CORE_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/bdf.h"

enum { P2S_UNREAD = -1, P2S_NO = 0, P2S_YES = 1 };

#define P2S_HOPS 24

enum p2s_hop_kind { P2S_HOP_UNKNOWN, P2S_HOP_ROOT_PORT, P2S_HOP_SWITCH_UP, P2S_HOP_SWITCH_DOWN, P2S_HOP_BRIDGE, P2S_HOP_ENDPOINT };

#define P2S_ACS_UNREAD (-1) /* configuration space beyond 64 bytes could not be read: ACS is unknown, not off */
#define P2S_ACS_NONE (-2)   /* readable, and there is no ACS capability */
/* ACS control bits that turn peer requests or completions towards the root complex (PCIe base specification 6.0, 7.7.11.3) */
#define P2S_ACS_RR 0x04
#define P2S_ACS_CR 0x08
#define P2S_ACS_EC 0x20

/* One PCI function on the way from a root bus to a GPU. */
struct p2s_hop {
	char address[P2S_BDF_TEXT];
	int32_t kind;
	uint32_t vendor;
	uint32_t device;
	int32_t acs_cap; /* capability register, or P2S_ACS_* */
	int32_t acs_ctl; /* control register, or P2S_ACS_* */
	uint32_t speed_now_mts; /* mega-transfers/s: 16000 = Gen4; 0 unread */
	uint32_t speed_max_mts;
	uint32_t width_now; /* lanes; 0 unread */
	uint32_t width_max;
	uint32_t max_payload; /* bytes; 0 unread */
	int32_t window_ok;    /* bridges: a 64-bit prefetchable window is assigned and holds the BARs below it */
	uint32_t speed_loaded_mts; /* while transfers ran, as idle links go slower; 0 unread: only a test that measures reads it */
	uint32_t width_loaded;
	uint64_t errors[3]; /* PCIe errors that a bridge counted during the test: corrected, non-fatal, fatal */
};

struct p2s_gpu_facts {
	/* sysfs and configuration space */
	char root_bus[16];    /* "pci0000:40"; "" unread */
	char iommu_group[16]; /* number; never part of a key */
	struct p2s_hop hops[P2S_HOPS]; /* root port first, the GPU itself last */
	size_t hop_count;              /* 0: the path is not known */
	int32_t has_iommu_link;
	int32_t boot_vga;
	int32_t is_vf;   /* SR-IOV virtual function */
	int32_t asleep;  /* power_state D3: its configuration space is not read */
	int32_t rebar;   /* Resizable BAR capability for BAR1 */
	uint64_t rebar_max_bytes;
	int32_t bar1_assigned; /* NO: the kernel could not place BAR1 */
	int32_t bar1_index;    /* the kernel's number of that window: 1, or 2 where BAR0 has 64 bits */
	int32_t clique;        /* KVM peer clique id of the hypervisor; P2S_UNREAD unread, -2 none */
	uint32_t dma_mask_bits; /* 0 unread */
	/* from the driver, only in a test (nvml worker) */
	int32_t display_active;
	int32_t mig;
	int32_t confidential;
	int32_t vgpu; /* a guest's part of a GPU */
	int32_t mps;
	int32_t persistence;
	int32_t compute_mode; /* CUcomputemode; -1 unread */
	int32_t pending_reset;
	int32_t other_process; /* a compute process that is neither ours nor unresolvable */
	int32_t busy_process;  /* one we cannot resolve, or our own */
	int32_t fabric_state;  /* nvmlGpuFabricState_t; -1 unread */
	int32_t fabric_status; /* nvmlReturn_t of a set-up that is over, 0 no error; -1 unread */
	int32_t nvlinks_active;
	int32_t nvlinks_total;
	/* counters: before and after the test; ~0 unread */
	uint64_t aer_correctable[2];
	uint64_t aer_nonfatal[2];
	uint64_t aer_fatal[2];
	uint64_t pcie_replays[2];
	uint64_t nvlink_errors[2];
	/* measured: bytes/s, 0 not measured. See P2S_GPU_FACT_TO_HOST and on (ipc/proto.h) */
	uint64_t to_host;
	uint64_t from_host;
	uint64_t host_both_ways;
	uint64_t all_to_one;
	uint64_t one_to_all;
	int32_t host_node; /* NUMA node of the pinned memory used; -1 none or not told */
};

/* One line (or group of lines) of the kernel log that matters. kind: P2S_LOG_* from evidence/patterns.def. */
struct p2s_log_event {
	int32_t kind;
	int32_t xid;         /* Xid number, 0 none */
	int32_t in_test;     /* 1: logged during this test, 0: since boot, before it */
	int32_t gpu;         /* index of the GPU the line names (the accessor of a fault); -1 none of ours */
	int32_t owner;       /* GPU whose BAR holds fault_address; -1 none */
	int32_t owner_bar;   /* sysfs index of that BAR */
	int32_t src;         /* directed pair under test when it was logged; -1 none */
	int32_t dst;
	int32_t own_pid;     /* 1: carries the pid of one of our workers */
	int32_t recovery;    /* Xid 154: P2S_RECOVERY_* */
	int32_t has_address;
	uint64_t fault_address;
	uint64_t owner_offset; /* from the start of that BAR */
	uint64_t flags;
	uint64_t usec;   /* since boot */
	uint64_t seq;    /* number of its record, plus one; 0 unknown */
	uint32_t repeats; /* further lines alike, suppressed ones included */
	char device[P2S_BDF_TEXT]; /* as named by the line; "" none */
	/* of a line that names no device: what finds it. Used where the line is read, not told */
	int32_t has_stream;
	uint32_t stream; /* id that an ARM SMMU knows the device by; the low 16 bits are its PCI requester id */
	char unit[32];   /* the SMMU, as "arm-smmu-v3.0.auto"; "" not named */
	char text[240];  /* the line without prefix, identifiers removed */
};

enum { P2S_RECOVERY_UNREAD = 0, P2S_RECOVERY_NONE, P2S_RECOVERY_RESET, P2S_RECOVERY_REBOOT, P2S_RECOVERY_DRAIN, P2S_RECOVERY_DRAIN_RESET };

enum p2s_iommu_driver { P2S_IOMMU_DRIVER_NONE, P2S_IOMMU_DRIVER_AMD, P2S_IOMMU_DRIVER_INTEL, P2S_IOMMU_DRIVER_SMMU, P2S_IOMMU_DRIVER_VIRTIO,
                        P2S_IOMMU_DRIVER_OTHER };
enum p2s_log_state { P2S_LOG_UNREAD, P2S_LOG_READABLE, P2S_LOG_DENIED, P2S_LOG_ABSENT };

struct p2s_host_facts {
	/* IOMMU */
	int32_t sysfs_readable;     /* /sys is there: absence of a class or link means something */
	int32_t iommu_class_count;  /* entries of /sys/class/iommu; P2S_UNREAD */
	int32_t iommu_driver;       /* enum p2s_iommu_driver */
	int32_t vfio_gpus;          /* NVIDIA GPUs bound to vfio-pci */
	/* command line: hints, each YES when the word is there */
	int32_t cmd_read;
	int32_t cmd_pt;             /* iommu=pt or iommu.passthrough=1, and nothing after it that undoes it */
	int32_t cmd_off;            /* iommu=off, amd_iommu=off, intel_iommu=off */
	int32_t cmd_intel_on;
	int32_t cmd_amd_on;         /* amd_iommu=on: not an option */
	int32_t cmd_noacs;          /* pci=noacs: not an option */
	int32_t cmd_acs_list_comma; /* disable_acs_redir= or config_acs= whose list is cut by a comma */
	int32_t cmd_acs_option;     /* disable_acs_redir= or config_acs= present */
	int32_t cmd_acs_override;   /* pcie_acs_override= */
	int32_t cmd_mem_encrypt;    /* mem_encrypt=on */
	char cmd_words[256];        /* the words above as written, blank-separated */
	/* driver */
	int32_t remap_peer_mmio;    /* DmaRemapPeerMmio */
	int32_t force_p2p_keys;     /* RegistryDwords holds ForceP2P or PeerMappingOverride or RMForceP2PType */
	int32_t patched;            /* signs of a patched driver; see patched_why */
	char registry_dwords[192];
	char patched_why[128];
	/* where we run */
	int32_t hypervisor;         /* guest */
	int32_t confidential_guest;
	int32_t sme;
	int32_t snp;                /* host really runs SNP */
	int32_t tdx;
	int32_t wsl;
	int32_t amd_cpu;
	uint32_t cpu_count; /* logical CPUs, those switched off included; 0 unread */
	char snp_source[96];
	char dmi_vendor[64];
	char dmi_product[64];
	/* kernel */
	int32_t kernel_major;
	int32_t kernel_minor;
	int32_t log_state; /* enum p2s_log_state */
	uint64_t log_lost; /* records overwritten before they were read */
	uint64_t log_first; /* number of the first record that was seen, plus one; 0 unknown */
	uint64_t log_position; /* of the last one, plus one: what is logged later has a higher number; 0 unknown */
	/* this process's view */
	uint64_t shm_bytes; /* size of /dev/shm; 0 unread */
	int32_t nodes_usable;  /* openable /dev/nvidia<minor> */
};

struct p2s_facts {
	struct p2s_host_facts host;
	struct p2s_log_event *log;
	size_t log_count;
};

/* Everything unread. */
void p2s_facts_init(struct p2s_facts *f);
void p2s_facts_gpu_init(struct p2s_gpu_facts *g);
void p2s_facts_free(struct p2s_facts *f);
/* Do requests between the two meet in a bridge below the root complex? Only there ACS turns them. P2S_UNREAD: a path is not
 * known. */
int32_t p2s_facts_shared_bridge(const struct p2s_gpu_facts *a, const struct p2s_gpu_facts *b);
/* Appends one event; returns 1, or 0 when out of memory or at 4096 events. */
int32_t p2s_facts_add_log(struct p2s_facts *f, const struct p2s_log_event *event);

#endif
