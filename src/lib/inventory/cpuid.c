#include "inventory/cpuid.h"

#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

#define LEAF_FEATURES 1u
#define HYPERVISOR_BIT (1u << 31) /* of ECX: reserved by both vendors for hypervisors */
#define LEAF_HYPERVISOR 0x40000000u
#define LEAF_STEP 0x100u /* further interfaces of the same hypervisor */
#define LEAF_TDX 0x21u   /* Intel TDX module specification: guest identification */

static void name_of(uint32_t leaf, char signature[P2S_CPUID_SIGNATURE])
{
	uint32_t eax, part[3];

	__cpuid(leaf, eax, part[0], part[1], part[2]);
	memcpy(signature, part, sizeof part);
	signature[12] = '\0';
	(void)eax;
}

int32_t p2s_cpuid_hypervisor(char signature[P2S_CPUID_SIGNATURE])
{
	uint32_t eax, ebx, ecx, edx;
	char second[P2S_CPUID_SIGNATURE];

	signature[0] = '\0';
	if (!__get_cpuid(LEAF_FEATURES, &eax, &ebx, &ecx, &edx))
		return -1;
	if ((ecx & HYPERVISOR_BIT) == 0)
		return 0;
	name_of(LEAF_HYPERVISOR, signature);
	if (strcmp(signature, "Microsoft Hv") == 0) {
		name_of(LEAF_HYPERVISOR + LEAF_STEP, second);
		if (strcmp(second, "KVMKVMKVM") == 0 || strcmp(second, "XenVMMXenVMM") == 0)
			memcpy(signature, second, sizeof second);
	}
	return 1;
}

int32_t p2s_cpuid_tdx_guest(void)
{
	uint32_t eax, ebx, ecx, edx;
	char name[P2S_CPUID_SIGNATURE];

	if (!__get_cpuid_count(LEAF_TDX, 0, &eax, &ebx, &ecx, &edx))
		return 0;
	memcpy(name, &ebx, 4);
	memcpy(name + 4, &edx, 4);
	memcpy(name + 8, &ecx, 4);
	return memcmp(name, "IntelTDX    ", 12) == 0;
}
#else
int32_t p2s_cpuid_hypervisor(char signature[P2S_CPUID_SIGNATURE])
{
	signature[0] = '\0';
	return -1;
}

int32_t p2s_cpuid_tdx_guest(void)
{
	return 0;
}
#endif
