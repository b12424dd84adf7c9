/* What the CPU itself says about a hypervisor. Only for this machine: a simulated host has its own. */
#ifndef P2S_INVENTORY_CPUID_H
#define P2S_INVENTORY_CPUID_H

#include <stdint.h>

#define P2S_CPUID_SIGNATURE 13

/* 1 guest, 0 no hypervisor, -1 this CPU has no such instruction. signature gets "" or twelve characters; of a hypervisor that
 * shows several (KVM behind Hyper-V's interface) the innermost name. */
int32_t p2s_cpuid_hypervisor(char signature[P2S_CPUID_SIGNATURE]);
/* 1 if this is a TDX guest. */
int32_t p2s_cpuid_tdx_guest(void);

#endif
