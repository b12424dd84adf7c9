/* Own declarations of the part of NVML that the helper uses, from the vendor's documentation. Every function returns nvmlReturn_t. */
#ifndef P2S_HELPER_NVML_ABI_H
#define P2S_HELPER_NVML_ABI_H

#define NVML_OK 0
#define NVML_LINKS 18 /* NVML_NVLINK_MAX_LINKS */

typedef void *nvml_device;

struct nvml_pci { /* nvmlPciInfo_t (version 3): what nvmlDeviceGetNvLinkRemotePciInfo_v2 fills */
	char legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char address[32];
};

struct nvml_field { /* nvmlFieldValue_t */
	unsigned field;
	unsigned scope;
	long long timestamp;
	long long latency;
	int value_type; /* nvmlValueType_t: 0 double, 1 unsigned int, 2 unsigned long, 3 unsigned long long, 4 signed long long, 5 int */
	int result;
	union {
		double d;
		unsigned ui;
		unsigned long ul;
		unsigned long long ull;
		long long sll;
		int si;
	} value;
};

#endif
