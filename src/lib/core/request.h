/* What the caller asked for: the options, checked and copied, and the environment where the caller lets it be read. */
#ifndef P2S_CORE_REQUEST_H
#define P2S_CORE_REQUEST_H

#include <stdint.h>

struct p2s_request {
	uint64_t flags; /* P2PSAFE_FLAG_* */
	uint64_t deadline_ms;
	uint64_t soak_ms;
	int32_t level; /* never DEFAULT */
	int32_t simulated;
	char *gpus; /* NULL: all */
	char *host_dir;
	char *cuda_library;
	char *helper_path;
	char *cache_dir;   /* option, else P2PSAFE_CACHE */
	char *topology_file;
	char *placement_file;
	char *result_file; /* option, else P2PSAFE_RESULT */
	char *xdg_cache;   /* XDG_CACHE_HOME */
	char *home;        /* HOME */
	char *visible;     /* CUDA_VISIBLE_DEVICES; NULL: not set */
	char *device_order; /* CUDA_DEVICE_ORDER */
	int32_t environment;  /* 1: the environment was read; else nothing is known of what follows */
	int32_t topology_set; /* 1: NCCL_TOPO_FILE is set */
	char *nvidia_visible; /* NVIDIA_VISIBLE_DEVICES: what a container was to be given, a hint */
	char *nccl_conf;      /* NCCL_CONF_FILE */
};

#endif
