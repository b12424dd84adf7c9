/* The kernel log: records, the lines of every era, what belongs together, what is left out, whose memory it is. */
#include "unit.h"

#include "evidence/log.h"

#define FAULT_TEXT "nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040 flags=0x0020]"

static struct p2s_log_record record_of(const char *text)
{
	struct p2s_log_record r;
	char line[2048];
	size_t used;

	snprintf(line, sizeof line, "3,7,1500,-;%s\n", text);
	assert_int_equal(p2s_log_next(line, strlen(line), 0, &r, &used), P2S_LOG_NEXT_RECORD);
	assert_int_equal(used, strlen(line));
	return r;
}

/* Feeds lines one by one; the events that come out. */
static size_t play(const char *const *texts, size_t count, struct p2s_log_found *out, size_t cap)
{
	struct p2s_log_joiner j;
	size_t n = 0;

	memset(&j, 0, sizeof j);
	for (size_t i = 0; i < count; i++) {
		struct p2s_log_record r = record_of(texts[i]);
		struct p2s_log_found two[2];
		size_t k = p2s_log_feed(&j, &r, two);

		for (size_t m = 0; m < k && n < cap; m++)
			out[n++] = two[m];
	}
	if (n < cap)
		n += p2s_log_flush(&j, &out[n]);
	return n;
}

struct sample {
	const char *text;
	int32_t kind;
	const char *device;
	int32_t has_address;
	uint64_t address;
	uint64_t flags;
	int32_t xid;
	int32_t pid;
};

static const struct sample samples[] = {
	{FAULT_TEXT, P2S_LOG_AMD_FAULT, "0000:07:00.0", 1, 0x80000040, 0x20, 0, 0},
	{"nvidia 0000:81:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x001c address=0x2bee0314000 flags=0x0020]", P2S_LOG_AMD_FAULT,
	 "0000:81:00.0", 1, 0x2bee0314000, 0x20, 0, 0},
	{"amdgpu 0000:03:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f address=0xe0c0000100 flags=0x0020]", P2S_LOG_AMD_FAULT,
	 "0000:03:00.0", 1, 0xe0c0000100, 0x20, 0, 0},
	{"ath10k_pci 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000d address=0xcff49550 flags=0x0070]", P2S_LOG_AMD_FAULT,
	 "0000:01:00.0", 1, 0xcff49550, 0x70, 0, 0},
	{"nvme 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0000 address=0xfc189000 flags=0x0000]", P2S_LOG_AMD_FAULT,
	 "0000:01:00.0", 1, 0xfc189000, 0, 0, 0},
	{"AMD-Vi: Event logged [IO_PAGE_FAULT device=02:00.0 domain=0x0012 address=0x00000000ff6101b0 flags=0x0070]", P2S_LOG_AMD_FAULT,
	 "02:00.0", 1, 0xff6101b0, 0x70, 0, 0},
	{"AMD-Vi: Event logged [IO_PAGE_FAULT device=0001:c1:00.0 domain=0x0012 address=0x1000 flags=0x0000]", P2S_LOG_AMD_FAULT,
	 "0001:c1:00.0", 1, 0x1000, 0, 0, 0},
	{"vfio-pci 0000:c1:00.0: AMD-Vi: Event logged [RMP_PAGE_FAULT vmg_tag=0x0000, gpa=0x740b8784, flags_rmp=0x0000, flags=0x0020]",
	 P2S_LOG_AMD_RMP_FAULT, "0000:c1:00.0", 1, 0x740b8784, 0x20, 0, 0},
	{"AMD-Vi: Event logged [RMP_PAGE_FAULT device=0000:c1:00.0, vmg_tag=0x0000, gpa=0x740b8784, flags_rmp=0x0000, flags=0x0020]",
	 P2S_LOG_AMD_RMP_FAULT, "0000:c1:00.0", 1, 0x740b8784, 0x20, 0, 0},
	{"AMD-Vi: Event logged [ILLEGAL_DEV_TABLE_ENTRY device=0000:02:00.0 pasid=0x00000 address=0xfffffffdf8000000 flags=0x0a00]",
	 P2S_LOG_AMD_EVENT, "0000:02:00.0", 1, 0xfffffffdf8000000, 0xa00, 0, 0},
	{"AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=0000:06:00.0 address=0x1001d41e0]", P2S_LOG_AMD_EVENT, "0000:06:00.0", 0, 0, 0, 0, 0},
	{"AMD-Vi: Event logged [DEV_TAB_HARDWARE_ERROR device=0000:06:00.0 address=0x1001d41e0 flags=0x0600]", P2S_LOG_AMD_EVENT,
	 "0000:06:00.0", 1, 0x1001d41e0, 0x600, 0, 0},
	{"nvidia 0000:01:00.0: AMD-Vi: Event logged [Device not attached to domain properly]", P2S_LOG_AMD_EVENT, "0000:01:00.0", 0, 0, 0, 0, 0},
	{"AMD-Vi: Completion-Wait loop timed out", P2S_LOG_AMD_EVENT, "", 0, 0, 0, 0, 0},

	{"DMAR: DRHD: handling fault status reg 2", P2S_LOG_DMAR_STATUS, "", 0, 0, 2, 0, 0},
	{"dmar: DRHD: handling fault status reg 3", P2S_LOG_DMAR_STATUS, "", 0, 0, 3, 0, 0},
	{"DMAR: [DMA Write] Request device [00:12.0] fault addr 0 [fault reason 05] PTE Write access is not set", P2S_LOG_DMAR_FAULT,
	 "00:12.0", 1, 0, 5, 0, 0},
	{"DMAR: [DMA Read] Request device [00:02.0] PASID ffffffff fault addr 9c000000 [fault reason 06] PTE Read access is not set",
	 P2S_LOG_DMAR_FAULT, "00:02.0", 1, 0x9c000000, 6, 0, 0},
	{"DMAR: [DMA Read NO_PASID] Request device [0x00:0x02.0] fault addr 0x70ad5000 [fault reason 0x07] Next page table ptr is invalid",
	 P2S_LOG_DMAR_FAULT, "00:02.0", 1, 0x70ad5000, 7, 0, 0},
	{"DMAR: [DMA Read NO_PASID] Request device [00:02.0] fault addr 0x7cd80000 [fault reason 0x01] Present bit in root entry is clear",
	 P2S_LOG_DMAR_FAULT, "00:02.0", 1, 0x7cd80000, 1, 0, 0},
	{"DMAR: [DMA Read NO_PASID] Request device [03:00.0] fault addr 0x100000 [fault reason 0x71] SM: Present bit in first-level paging "
	 "entry is clear", P2S_LOG_DMAR_FAULT, "03:00.0", 1, 0x100000, 0x71, 0, 0},
	{"DMAR: [DMA Write PASID 0x1] Request device [03:00.0] fault addr 0x100000 [fault reason 0x71] SM: ...", P2S_LOG_DMAR_FAULT,
	 "03:00.0", 1, 0x100000, 0x71, 0, 0},
	{"DMAR: [DMA Write NO_PASID] Request device [0000:03:00.0] fault addr 0xf4001000 [fault reason 0x05] PTE Write access is not set",
	 P2S_LOG_DMAR_FAULT, "0000:03:00.0", 1, 0xf4001000, 5, 0, 0},
	{"dmar: DMAR:[DMA Read] Request device [02:00.0] fault addr ffff7000 \\x0aDMAR:[fault reason 06] PTE Read access is not set",
	 P2S_LOG_DMAR_FAULT, "02:00.0", 1, 0xffff7000, 6, 0, 0},
	{"DMAR: [INTR-REMAP] Request device [f0:1f.7] fault index 0x1d [fault reason 0x22] Present field in the IRTE entry is clear",
	 P2S_LOG_DMAR_INTERRUPT, "f0:1f.7", 0, 0, 0x22, 0, 0},

	{"arm-smmu-v3 arm-smmu-v3.0.auto: event: F_TRANSLATION client: 0000:01:00.0 sid: 0x100 ssid: 0x0 iova: 0x24000000000 ipa: 0x0",
	 P2S_LOG_SMMU3_FAULT, "0000:01:00.0", 1, 0x24000000000, 0x10, 0, 0},
	{"arm-smmu-v3 arm-smmu-v3.0.auto: event: F_PERMISSION client: (unassigned sid) sid: 0x100 ssid: 0x0 iova: 0x1000 ipa: 0x0",
	 P2S_LOG_SMMU3_FAULT, "", 1, 0x1000, 0x13, 0, 0},
	{"arm-smmu-v3 arm-smmu-v3.0.auto: event: C_BAD_STREAMID client: (unassigned sid) sid: 0x100 ssid: 0x0", P2S_LOG_SMMU3_EVENT, "", 0, 0, 0,
	 0, 0},
	{"arm-smmu-v3 70c00000.iommu: EVTQ overflow detected -- events lost", P2S_LOG_SMMU3_EVENT, "", 0, 0, 0, 0, 0},
	{"arm-smmu 2b400000.iommu: Unhandled context fault: fsr=0x402, iova=0x34000010000, fsynr=0x1, cbfrsynra=0x100, cb=3", P2S_LOG_SMMU_FAULT,
	 "", 1, 0x34000010000, 0x402, 0, 0},

	{"pcieport 0000:00:02.0: AER: Corrected error received: id=0010", P2S_LOG_AER_CORRECTABLE, "0000:00:02.0", 0, 0, 0, 0, 0},
	{"pcieport 0000:00:02.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, id=0010(Receiver ID)", P2S_LOG_AER_FATAL,
	 "0000:00:02.0", 0, 0, 0, 0, 0},
	{"pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0", P2S_LOG_AER_FATAL, "0000:00:03.0", 0, 0, 0, 0,
	 0},
	/* whatever severity stands in the lines after it: the link is cut */
	{"pcieport 0000:97:02.0: DPC: containment event, status:0x1f01 source:0x0000", P2S_LOG_AER_FATAL, "0000:97:02.0", 0, 0, 0, 0, 0},
	{"pcieport 0015:00:00.0: DPC: containment event, status:0x200d, ERR_FATAL received from 0015:01:00.0", P2S_LOG_AER_FATAL,
	 "0015:00:00.0", 0, 0, 0, 0, 0},
	{"pcieport 0000:80:1b.4: AER: Uncorrectable (Non-Fatal) error message received from 0000:81:00.0", P2S_LOG_AER_NONFATAL, "0000:81:00.0",
	 0, 0, 0, 0, 0},
	{"pcieport 0000:00:03.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)", P2S_LOG_AER_CORRECTABLE,
	 "0000:00:03.1", 0, 0, 0, 0, 0},
	{"cxl_pci 0000:0c:00.0: CXL Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Receiver ID)", P2S_LOG_AER_NONFATAL,
	 "0000:0c:00.0", 0, 0, 0, 0, 0},
	{"nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)", P2S_LOG_AER_NO_RECOVERY, "0000:03:00.0", 0, 0, 0, 0, 0},
	{"nvidia 0000:03:00.0: AER: aer_status: 0x00004000, aer_mask: 0x00000000", P2S_LOG_AER_FIRMWARE, "0000:03:00.0", 0, 0, 0x4000, 0, 0},

	{"NVRM: Xid (PCI:0000:3d:00): 43, pid=35521, Ch 00000008", P2S_LOG_XID, "0000:3d:00.0", 0, 0, 0, 43, 35521},
	{"NVRM: Xid (PCI:0000:db:00): 31, pid=13641, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_10 faulted @ "
	 "0x7fd7_90743000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ", P2S_LOG_XID, "0000:db:00.0", 0, 0, 0, 31, 13641},
	{"NVRM: Xid (PCI:0000:9b:00): 119, pid=4071838, name=python, Timeout after 45s of waiting for RPC response from GPU4 GSP! Expected "
	 "function 76 (GSP_RM_CONTROL) (0x20801702 0x4).", P2S_LOG_XID, "0000:9b:00.0", 0, 0, 0, 119, 4071838},
	{"NVRM: Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x58005",
	 P2S_LOG_XID, "0000:cb:00.0", 0, 0, 0, 109, 1797828},
	{"NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149", P2S_LOG_XID, "0000:dc:00.0", 0, 0,
	 0, 45, 1818990},
	{"NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001)", P2S_LOG_XID,
	 "0018:01:00.0", 0, 0, 0, 145, 0},
	{"NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.", P2S_LOG_XID, "0000:02:00.0", 0, 0, 0, 79, 0},
	{"NVRM: Xid (PCI:0000:9b:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): x", P2S_LOG_XID,
	 "0000:9b:00.0", 0, 0, 0, 13, 0},
	{"NVRM: Xid (0000:02:00): 79, GPU has fallen off the bus.", P2S_LOG_XID, "0000:02:00.0", 0, 0, 0, 79, 0},
	{"NVRM: Xid (PCI:0000:3d:00 GPU-I:05): 43, pid=35521, Ch 00000008", P2S_LOG_XID, "0000:3d:00.0", 0, 0, 0, 43, 35521},
	{"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", P2S_LOG_SXID, "0000:c1:00.0", 0, 0, 1, 20034, 0},
	{"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 40 egress non-posted PRIV error", P2S_LOG_SXID, "0000:c1:00.0", 0,
	 0, 0, 12028, 0},

	{"NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)", P2S_LOG_NVRM_INIT_FAILED, "0000:98:00.0", 0, 0, 0, 0, 0},
	{"NVRM: kgspWaitForGfwBootOk_TU102: failed to wait for GFW boot complete: 0x65 VBIOS version 94.02.59.00.05", P2S_LOG_NVRM_GSP_BOOT, "",
	 0, 0, 0, 0, 0},
	{"NVRM: RmInitAdapter: Cannot initialize GSP firmware RM", P2S_LOG_NVRM_GSP_BOOT, "", 0, 0, 0, 0, 0},
	{"NVRM: GPU6 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP", P2S_LOG_NVRM_WPR2, "", 0, 0, 0, 0, 0},
	{"NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 812751949 heartbeat 1899482 timeout 5200",
	 P2S_LOG_NVRM_GSP_HEARTBEAT, "", 0, 0, 0, 0, 0},
	{"NVRM: kfspPollForQueueEmpty_IMPL: Timed out waiting for FSP command queue to be empty.", P2S_LOG_NVRM_FSP_BOOT, "", 0, 0, 0, 0, 0},
	{"NVRM: kfspSendBootCommands_GH100: FSP boot cmds failed. RM cannot boot.", P2S_LOG_NVRM_FSP_BOOT, "", 0, 0, 0, 0, 0},
	{"NVRM: kfspWaitForSecureBoot_GH100: FSP secure boot partition timed out.", P2S_LOG_NVRM_FSP_BOOT, "", 0, 0, 0, 0, 0},
	{"NVRM: kfspSendBootCommands_GH100: version=0x1, size=0x35c, gspFmcSysmemOffset=0x8000110680000", P2S_LOG_NVRM_FSP_ADDRESS, "", 0, 0,
	 0x8000110680000, 0, 0},
	{"NVRM: GPU0 kfspProcessCommandResponse_GH100: FSP response reported error. Task ID: 0x1 Command type: 0x14 Error code: 0x177",
	 P2S_LOG_NVRM_FSP_ERROR, "", 0, 0, 0x177, 0, 0},
	{"NVRM: nvAssertFailedNoLog: Assertion failed: pIOVAS != NULL @ io_vaspace.c:592", P2S_LOG_NVRM_IOVA, "", 0, 0, 0, 0, 0},
	{"NVRM: GPU0 iovaspaceDestruct_IMPL: 1 left-over mappings in IOVAS 0x100", P2S_LOG_NVRM_IOVA, "", 0, 0, 0, 0, 0},
	{"NVRM: _kbusCreateStaticBar1IOMMUMapping: The peer DMA address 0x6000400000 is not aligned at 0x20000000", P2S_LOG_NVRM_BAR1_UNALIGNED,
	 "", 1, 0x6000400000, 0x20000000, 0, 0},
	{"NVRM: _kbusCreateStaticBar1IOMMUMappingForGpuPair: IOMMU mapping failed from GPU0 to GPU1", P2S_LOG_NVRM_PEER_MAP, "", 0, 0, 0, 0, 0},
	{"NVRM: nv_dma_map_mmio: Failed to DMA map MMIO range [0x1000-0x1fff]", P2S_LOG_NVRM_PEER_MAP, "", 0, 0, 0, 0, 0},
	{"NVRM: GPU0 memdescMapIommu: 0x8000000000000 is not addressable by GPU 0x100", P2S_LOG_NVRM_PEER_MAP, "", 1, 0x8000000000000, 0, 0, 0},
	{"NVRM: 0000:01:00.0: DMA address not in addressable range of device (0x80000-0x90000, 0x0-0x7fff)", P2S_LOG_NVRM_PEER_MAP, "0000:01:00.0", 0, 0, 0,
	 0, 0},
	{"pci 0000:84:00.0: bridge window [mem size 0x800000000 64bit pref]: can't assign; no space", P2S_LOG_BAR_NO_SPACE, "0000:84:00.0", 0, 0,
	 0, 0, 0},
	{"nvidia 0000:84:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space", P2S_LOG_BAR_NO_SPACE, "0000:84:00.0", 0, 0, 0,
	 0, 0},
	{"pci 0000:84:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]", P2S_LOG_BAR_NO_SPACE, "0000:84:00.0", 0, 0, 0, 0, 0},
	{"pci 0000:84:00.0: ACS redirect is set between the client and provider (0000:01:00.0)", P2S_LOG_P2PDMA, "0000:84:00.0", 0, 0, 0, 0, 0},

	{"iommu: Default domain type: Translated ", P2S_LOG_MODE_TRANSLATED, "", 0, 0, 0, 0, 0},
	{"iommu: Default domain type: Passthrough (set via kernel command line)", P2S_LOG_MODE_PASSTHROUGH, "", 0, 0, 0, 0, 0},
	{"iommu: DMA domain TLB invalidation policy: lazy mode ", P2S_LOG_MODE_LAZY, "", 0, 0, 0, 0, 0},
	{"iommu: DMA domain TLB invalidation policy: strict mode (set via kernel command line)", P2S_LOG_MODE_STRICT, "", 0, 0, 0, 0, 0},
	{"iommu: Memory encryption detected - Disabling default IOMMU Passthrough", P2S_LOG_MODE_ENCRYPTED, "", 0, 0, 0, 0, 0},
	{"iommu: Failed to allocate default IOMMU domain of type 4 for group x - Falling back to IOMMU_DOMAIN_DMA", P2S_LOG_MODE_FALLBACK, "", 0,
	 0, 0, 0, 0},
	{"pci 0000:01:00.0: Adding to iommu group 14", P2S_LOG_GROUP, "0000:01:00.0", 0, 0, 0, 0, 0},
	{"AMD-Vi: Unknown option - 'on'", P2S_LOG_MODE_AMD_UNKNOWN_OPTION, "", 0, 0, 0, 0, 0},
	{"DMAR: IOMMU enabled", P2S_LOG_MODE_INTEL_OPTION, "", 0, 0, 0, 0, 0},
	{"AMD-Vi: AMD IOMMU disabled on kernel command-line", P2S_LOG_MODE_AMD_OFF, "", 0, 0, 0, 0, 0},

	{"AMD-Vi: IOMMU SNP support enabled.", P2S_LOG_SNP_ON, "", 0, 0, 0, 0, 0},
	{"SNP: IOMMU disabled or configured in passthrough mode, SNP cannot be supported.", P2S_LOG_SNP_REFUSED, "", 0, 0, 0, 0, 0},
	{"AMD-Vi: SNP: IOMMU is configured with V2 page table mode, SNP cannot be supported.", P2S_LOG_SNP_REFUSED, "", 0, 0, 0, 0, 0},
	{"SNP: IOMMU SNP feature not enabled, SNP cannot be supported.", P2S_LOG_SNP_REFUSED, "", 0, 0, 0, 0, 0},
	{"SNP: RMP initialization failed, SNP cannot be supported.", P2S_LOG_SNP_REFUSED, "", 0, 0, 0, 0, 0},
	{"SEV-SNP: IOMMU is either disabled or configured in passthrough mode", P2S_LOG_SNP_REFUSED, "", 0, 0, 0, 0, 0},
	{"SEV-SNP: RMP table physical range [0x0000000005800000 - 0x00000000158fffff]", P2S_LOG_SNP_RMP, "", 0, 0, 0, 0, 0},
	{"ccp 0000:22:00.1: SEV-SNP API:1.55 build:21", P2S_LOG_SNP_FIRMWARE, "0000:22:00.1", 0, 0, 0, 0, 0},
	{"kvm_amd: SEV-SNP enabled (ASIDs 1 - 99)", P2S_LOG_SNP_KVM, "", 0, 0, 0, 0, 0},
	{"Memory Encryption Features active: AMD SME", P2S_LOG_SME_ON, "", 0, 0, 0, 0, 0},
	{"AMD Memory Encryption Features active: SME", P2S_LOG_SME_ON, "", 0, 0, 0, 0, 0},
	{"AMD Secure Memory Encryption (SME) active", P2S_LOG_SME_ON, "", 0, 0, 0, 0, 0},
	{"Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP", P2S_LOG_SEV_GUEST, "", 0, 0, 0, 0, 0},
	{"Memory Encryption Features active: Intel TDX", P2S_LOG_TDX_GUEST, "", 0, 0, 0, 0, 0},
	{"amd_iommu_report_page_fault: 6 callbacks suppressed", P2S_LOG_SUPPRESSED, "", 0, 0, 0, 0, 0},
	{"dmar_fault: 2474 callbacks suppressed", P2S_LOG_SUPPRESSED, "", 0, 0, 0, 0, 0},
};

static void every_sample_is_understood(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(samples); i++) {
		const struct sample *s = &samples[i];
		struct p2s_log_record r = record_of(s->text);
		struct p2s_log_found f;

		if (!p2s_log_match(&r, &f) || f.event.kind != s->kind)
			fail_msg("%s: %s, not %s", s->text, p2s_log_name(f.event.kind), p2s_log_name(s->kind));
		if (strcmp(f.event.device, s->device) != 0 || f.event.fault_address != s->address || f.event.flags != s->flags)
			fail_msg("%s: device %s address %llx flags %llx", s->text, f.event.device, (unsigned long long)f.event.fault_address,
			         (unsigned long long)f.event.flags);
		assert_int_equal(f.event.has_address, s->has_address);
		assert_int_equal(f.event.xid, s->xid);
		assert_int_equal(f.pid, s->pid);
		assert_int_equal(f.event.usec, 1500);
		assert_int_equal(f.event.gpu, -1);
		assert_int_equal(f.event.src, -1);
		assert_true(p2s_log_class(f.event.kind) != P2S_LOG_CLASS_NONE);
		assert_true(p2s_log_says(f.event.kind)[0] != '\0');
	}
}

static void every_kind_has_a_sample(void **state)
{
	static const int32_t elsewhere[] = {P2S_LOG_MODE_INTEL_OFF, P2S_LOG_TDX_HOST};

	(void)state;
	for (int32_t kind = 1; kind < P2S_LOG_KINDS; kind++) {
		int32_t seen = 0;

		for (size_t i = 0; i < COUNT(samples); i++)
			seen |= samples[i].kind == kind;
		for (size_t i = 0; i < COUNT(elsewhere); i++)
			seen |= elsewhere[i] == kind;
		if (!seen)
			fail_msg("no sample of %s", p2s_log_name(kind));
	}
}

static void other_lines_are_left_alone(void **state)
{
	static const char *const texts[] = {
		"", "usb 1-1: new high-speed USB device number 2", "net_ratelimit: 5 callbacks suppressed",
		"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.1  Release Build  (builder@host)",
		"NVRM: GPU at PCI:0000:01:00: GPU-01234567-89ab-cdef-0123-456789abcdef", "NVRM: GPU Board Serial Number: 1234567",
		"AMD-Vi: Interrupt remapping enabled", "pci 0000:80:00.0: bridge window [io  size 0x1000]: can't assign; no space", "DMAR: Host address width 39", "DMAR-IR: Enabled IRQ remapping in xapic mode",
		"AMD-Vi: AMD IOMMUv2 functionality not available on this system - This is not a bug.", "NVRM: Xid (PCI:zz): 79, x",
		"NVRM: Xid (PCI:0000:02:00): seventy", "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability]"};

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct p2s_log_record r = record_of(texts[i]);
		struct p2s_log_found f;

		if (p2s_log_match(&r, &f))
			fail_msg("%s is taken for %s", texts[i], p2s_log_name(f.event.kind));
	}
}

#define PLAY(texts) play(texts, COUNT(texts), f, COUNT(f))

static void lines_are_joined(void **state)
{
	static const char *const amd[] = {"AMD-Vi: Event logged [",
	                                  "IO_PAGE_FAULT device=05:00.0 domain=0x0012 address=0x00000000ff6101b0 flags=0x0070]"};
	static const char *const status[] = {
		"DMAR: DRHD: handling fault status reg 2", "usb 1-1: between", "DMAR: [DMA Write] Request device [00:12.0] fault addr 10 [fault reason 05] x",
		"DMAR: DRHD: handling fault status reg 2", "DMAR: DRHD: handling fault status reg 2"};
	static const char *const old[] = {"dmar: DRHD: handling fault status reg 3",
	                                  "dmar: DMAR:[DMA Read] Request device [02:00.0] fault addr ffff7000 ",
	                                  "DMAR:[fault reason 06] PTE Read access is not set"};
	static const char *const smmu[] = {"arm-smmu-v3 70c00000.iommu: event 0x10 received:", "arm-smmu-v3 70c00000.iommu: \\x090x0000010000000010",
	                                   "arm-smmu-v3 70c00000.iommu: \\x090x0000020000000000", "arm-smmu-v3 70c00000.iommu: \\x090x0000024000000040",
	                                   "arm-smmu-v3 70c00000.iommu: \\x090x0000000000000000", "arm-smmu-v3 70c00000.iommu: \\x090x1111111111111111"};
	static const char *const aer[] = {"pcieport 0000:00:02.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0",
	                                  "nvidia 0000:03:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
	                                  "nvidia 0000:03:00.0:   device [10de:26b1] error status/mask=00004000/00000000",
	                                  "pcieport 0000:00:07.0:    [ 5] SDES (First)", "nvidia 0000:03:00.0:    [14] CmpltTO                (First)",
	                                  "nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)"};
	static const char *const bare[] = {"pcieport 0000:80:1b.4: AER: Uncorrectable (Non-Fatal) error message received from 0000:80:1b.4",
	                                   "pcieport 0000:80:1b.4:    [21] ACSViol                (First)"};
	struct p2s_log_found f[8];
	char text[96];

	(void)state;
	assert_int_equal(PLAY(amd), 1);
	assert_int_equal(f[0].event.kind, P2S_LOG_AMD_FAULT);
	assert_string_equal(f[0].event.device, "05:00.0");
	assert_int_equal(f[0].event.fault_address, 0xff6101b0);

	assert_int_equal(PLAY(status), 3); /* the first status line belongs to the fault, the others stand for lost ones */
	assert_int_equal(f[0].event.kind, P2S_LOG_DMAR_FAULT);
	assert_int_equal(f[1].event.kind, P2S_LOG_DMAR_STATUS);
	assert_int_equal(f[2].event.kind, P2S_LOG_DMAR_STATUS);

	assert_int_equal(PLAY(old), 1);
	assert_int_equal(f[0].event.kind, P2S_LOG_DMAR_FAULT);
	assert_int_equal(f[0].event.flags, 6);
	assert_non_null(strstr(f[0].event.text, "PTE Read access"));

	assert_int_equal(PLAY(smmu), 1);
	assert_int_equal(f[0].event.has_address, 1);
	assert_int_equal(f[0].event.fault_address, 0x24000000040);
	assert_int_equal(f[0].event.flags, 0x10);

	assert_int_equal(PLAY(aer), 2);
	assert_int_equal(f[0].event.kind, P2S_LOG_AER_FATAL);
	assert_string_equal(f[0].event.device, "0000:03:00.0");
	assert_int_equal(f[0].event.flags, 1 << 14); /* the line of another port is not its */
	assert_string_equal(p2s_log_flags_text(&f[0].event, text, sizeof text), "completion timeout");
	assert_int_equal(f[1].event.kind, P2S_LOG_AER_NO_RECOVERY);

	assert_int_equal(PLAY(bare), 1);
	assert_int_equal(f[0].event.flags, 1 << 21);
}

static void waiting_ends(void **state)
{
	static const char *const texts[] = {"DMAR: DRHD: handling fault status reg 2", "a", "b", "c", "d", "e", "f", "g", "h", "i",
	                                    "DMAR: [DMA Write] Request device [00:12.0] fault addr 10 [fault reason 05] x"};
	struct p2s_log_found f[4];

	(void)state;
	assert_int_equal(PLAY(texts), 2);
	assert_int_equal(f[0].event.kind, P2S_LOG_DMAR_STATUS);
}

static void records_are_split(void **state)
{
	static const char text[] = "6,339,5140900,-;nvidia 0000:81:00.0: text\n SUBSYSTEM=pci\n DEVICE=+pci:0000:81:00.0\n"
				   "30,340,5690716,-,caller=T1;plain\\x5cx41 \\xff\\x09\\x1b[31m\n"
				   "[    1.234567] iommu: Default domain type: Translated \n"
				   "<4>[12345.6] x\n"
				   "[    3.000000][   T12] called\n"
				   "[Mon Nov 30 00:00:00 2026] human\n"
				   "Nov 30 00:00:00 secrethost kernel: AMD-Vi: SNP enabled\n"
				   "Nov 30 00:00:00 secrethost kernel: [    7.000001] y\n"
				   "nonsense\n"
				   " DEVICE=+pci:0000:01:00.0\n"
				   "[    2.000000] dmar: one\n"
				   "               two\n"
				   "6,341,1,-;unfinished";
	struct p2s_log_record r;
	size_t at = 0;
	size_t used;

#define NEXT(what)                                                                                    \
	do {                                                                                          \
		assert_int_equal(p2s_log_next(text + at, sizeof text - 1 - at, 0, &r, &used), what);   \
		at += used;                                                                           \
	} while (0)
	(void)state;
	NEXT(P2S_LOG_NEXT_RECORD);
	assert_int_equal(r.seq, 339);
	assert_int_equal(r.usec, 5140900);
	assert_int_equal(r.level, 6);
	assert_string_equal(r.device, "0000:81:00.0");
	assert_string_equal(r.text, "nvidia 0000:81:00.0: text");
	NEXT(P2S_LOG_NEXT_RECORD);
	assert_int_equal(r.level, 6);
	assert_int_equal(r.facility, 3);
	assert_string_equal(r.text, "plain\\x41 ? ?[31m"); /* decoded once, and nothing that a terminal obeys */
	NEXT(P2S_LOG_NEXT_RECORD);
	assert_int_equal(r.usec, 1234567);
	assert_string_equal(r.text, "iommu: Default domain type: Translated");
	NEXT(P2S_LOG_NEXT_RECORD);
	assert_int_equal(r.level, 4);
	assert_int_equal(r.usec, UINT64_C(12345600000));
	NEXT(P2S_LOG_NEXT_RECORD);
	assert_string_equal(r.text, "called");
	NEXT(P2S_LOG_NEXT_RECORD);
	assert_string_equal(r.text, "human");
	assert_int_equal(r.usec, 0);
	NEXT(P2S_LOG_NEXT_RECORD);
	assert_string_equal(r.text, "AMD-Vi: SNP enabled");
	NEXT(P2S_LOG_NEXT_RECORD);
	assert_int_equal(r.usec, 7000001);
	assert_string_equal(r.text, "y");
	NEXT(P2S_LOG_NEXT_JUNK);
	NEXT(P2S_LOG_NEXT_RECORD);
	assert_string_equal(r.text, "dmar: one two");
	NEXT(P2S_LOG_NEXT_SHORT);
	assert_int_equal(used, 0);
	assert_int_equal(p2s_log_next(text + at, sizeof text - 1 - at, 1, &r, &used), P2S_LOG_NEXT_RECORD);
	assert_string_equal(r.text, "unfinished");
}

/* Whoever may write to /dev/kmsg can write what the kernel writes, but never as the kernel: facility 0 is taken for 1. */
static void what_a_program_wrote_is_no_evidence(void **state)
{
	static const struct {
		const char *record;
		int32_t counts;
	} cases[] = {{"3,7,1500,-;NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus\n", 1},
	             {"11,7,1500,-;NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus\n", 0}, /* user */
	             {"43,7,1500,-;NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus\n", 0}, /* syslog */
	             {"<3>[   12.345678] NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus\n", 1},
	             {"<11>[   12.345678] NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus\n", 0}};
	static const char fault[] = "3,1,1,-;" FAULT_TEXT "\n";
	static const char event[] = "3,1,1,-;arm-smmu-v3 arm-smmu-v3.0.auto: event 0x10 received:\n";
	static const char word[] = "11,2,1,-;arm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000010000000010\n";
	struct p2s_log_joiner j;
	struct p2s_log_found f[2];
	struct p2s_log_record r;
	size_t used;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		memset(&j, 0, sizeof j);
		assert_int_equal(p2s_log_next(cases[i].record, strlen(cases[i].record), 1, &r, &used), P2S_LOG_NEXT_RECORD);
		assert_int_equal(r.level, 3);
		assert_int_equal(p2s_log_match(&r, f), cases[i].counts);
		assert_int_equal(p2s_log_feed(&j, &r, f), (size_t)cases[i].counts);
	}
	/* nor does it add to what the kernel said, or cut that short */
	memset(&j, 0, sizeof j);
	assert_int_equal(p2s_log_next(event, sizeof event - 1, 1, &r, &used), P2S_LOG_NEXT_RECORD);
	assert_int_equal(p2s_log_feed(&j, &r, f), 0);
	assert_int_equal(p2s_log_next(word, sizeof word - 1, 1, &r, &used), P2S_LOG_NEXT_RECORD);
	assert_int_equal(p2s_log_feed(&j, &r, f), 0);
	assert_int_equal(p2s_log_next(fault, sizeof fault - 1, 1, &r, &used), P2S_LOG_NEXT_RECORD);
	assert_int_equal(p2s_log_feed(&j, &r, f), 2);
	assert_int_equal(f[0].event.kind, P2S_LOG_SMMU3_FAULT);
	assert_int_equal(f[0].event.has_stream, 0);
}

static void hostile_records_do_no_harm(void **state)
{
	static const char *const bad[] = {"", ",,,;", "6,1,2;x", "99999999999999999999999,1,1,-;x", "6,1,99999999999999999999999,-;x", "6,1,2,-",
	                                  "-1,1,1,-;x", "[", "[]", "[ 1", "<", "<3>", "\x80\xff\x01", " leading", "[1.2", "6,1,1,-;\\x", "6,1,1,-;\\x4"};
	char huge[70000];
	struct p2s_log_record r;
	struct p2s_log_found f;
	size_t used;

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		p2s_log_next(bad[i], strlen(bad[i]), 1, &r, &used);
		assert_true(used <= strlen(bad[i]));
		assert_true(bad[i][0] == '\0' || used > 0);
	}
	memset(huge, 'A', sizeof huge);
	memcpy(huge, "6,1,1,-;", 8);
	assert_int_equal(p2s_log_next(huge, sizeof huge, 0, &r, &used), P2S_LOG_NEXT_SHORT);
	huge[sizeof huge - 1] = '\n';
	assert_int_equal(p2s_log_next(huge, sizeof huge, 0, &r, &used), P2S_LOG_NEXT_RECORD);
	assert_int_equal(strlen(r.text), P2S_LOG_TEXT - 1);
	assert_int_equal(p2s_log_match(&r, &f), 0);
	/* numbers that fit nowhere */
	r = record_of("nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0 address=0x12345678901234567 flags=0x0]");
	assert_true(!p2s_log_match(&r, &f) || !f.event.has_address);
	r = record_of("NVRM: Xid (PCI:0000:02:00): 99999999999, x");
	assert_int_equal(p2s_log_match(&r, &f), 0);
	r = record_of("dmar_fault: 99999999999999 callbacks suppressed");
	assert_int_equal(p2s_log_match(&r, &f), 0);
	/* shapes with many stars against a line made to make them search */
	for (size_t i = 0; i + 20 < sizeof huge; i++)
		huge[i] = "AER: Uncorrect(Non-Fatal) error"[i % 31];
	memcpy(huge, "6,1,1,-;", 8);
	assert_int_equal(p2s_log_next(huge, sizeof huge, 0, &r, &used), P2S_LOG_NEXT_RECORD);
	p2s_log_match(&r, &f);
}

static void names_are_left_out(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"NVRM: GPU at PCI:0000:01:00: GPU-01234567-89ab-cdef-0123-456789abcdef", "NVRM: GPU at PCI:0000:01:00: GPU-*"},
		{"MIG-01234567-89AB-CDEF-0123-456789ABCDEF x", "MIG-* x"},
		{"uuid=GPU_01234567-89ab-cdef-0123-456789abcdef", "uuid=GPU_*"},
		{"NVRM: GPU Board Serial Number: 1324220012345", "NVRM: GPU Board Serial Number: *"},
		{"Release Build  (builder@somehost.example)  Fri", "Release Build  (*)  Fri"},
		{"Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 8", "Xid (PCI:0000:cb:00): 109, pid=*, name=*, Ch 8"},
		{"nothing (to hide) at 0000:01:00.0", "nothing (to hide) at 0000:01:00.0"},
		{"cupid=3 01234567-89ab-cdef-0123-456789abcdefg", "cupid=3 01234567-89ab-cdef-0123-456789abcdefg"},
	};
	char out[240];
	char small[8];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		p2s_log_redact(cases[i].text, out, sizeof out);
		assert_string_equal(out, cases[i].want);
	}
	p2s_log_redact("pid=12345678", small, sizeof small);
	assert_string_equal(small, "pid=*");
	p2s_log_redact("abcdefghijkl", small, sizeof small);
	assert_string_equal(small, "abcdefg");
}

static struct p2s_log_gpu gpus[] = {
	{.bdf = {.bus = 0x01}, .bar_start = {[1] = UINT64_C(0x20000000000)}, .bar_bytes = {[1] = UINT64_C(1) << 37}},
	{.bdf = {.bus = 0x11}, .bar_start = {[0] = 0xf4000000, [1] = UINT64_C(0x24000000000)}, .bar_bytes = {[0] = 1 << 24, [1] = UINT64_C(1) << 37}},
	{.bdf = {.domain = 1, .bus = 0x61}, .bar_start = {[2] = UINT64_C(0x34000000000)}, .bar_bytes = {[2] = UINT64_C(1) << 37}},
	{.bdf = {.domain = 0, .bus = 0x61}},
};

static struct p2s_log_event event_at(const char *device, uint64_t address)
{
	struct p2s_log_event e;

	memset(&e, 0, sizeof e);
	e.kind = P2S_LOG_AMD_FAULT;
	snprintf(e.device, sizeof e.device, "%s", device);
	e.has_address = 1;
	e.fault_address = address;
	p2s_log_attribute(&e, gpus, COUNT(gpus));
	return e;
}

static void addresses_find_their_owner(void **state)
{
	struct p2s_log_event e = event_at("0000:01:00.0", UINT64_C(0x24000010000));

	(void)state;
	assert_int_equal(e.gpu, 0);
	assert_int_equal(e.owner, 1);
	assert_int_equal(e.owner_bar, 1);
	assert_int_equal(e.owner_offset, 0x10000);
	e = event_at("01:00.0", 0xf4ffffff); /* no segment, and only one GPU could be meant */
	assert_int_equal(e.gpu, 0);
	assert_int_equal(e.owner, 1);
	assert_int_equal(e.owner_bar, 0);
	e = event_at("61:00.0", 0xf5000000); /* two segments have that bus; one byte behind the BAR */
	assert_int_equal(e.gpu, -1);
	assert_int_equal(e.owner, -1);
	assert_int_equal(e.owner_bar, -1);
	e = event_at("0001:61:00.0", UINT64_C(0x34000000000) + (UINT64_C(1) << 37) - 1);
	assert_int_equal(e.gpu, 2);
	assert_int_equal(e.owner, 2);
	assert_int_equal(e.owner_bar, 2);
	e = event_at("", UINT64_MAX);
	assert_int_equal(e.gpu, -1);
	e = event_at("0000:01:00.1", 0); /* its sound function is not the GPU; address 0 hits no unused BAR */
	assert_int_equal(e.gpu, -1);
	assert_int_equal(e.owner, -1);
}

static void flags_are_decoded(void **state)
{
	static const struct {
		uint64_t flags;
		int32_t present, write;
		const char *text;
	} amd[] = {{0x20, P2S_NO, P2S_UNREAD, "entry not present"},
	           {0x00, P2S_NO, P2S_UNREAD, "entry not present"},
	           {0x70, P2S_YES, P2S_YES, "entry present, write, no permission"},
	           {0x50, P2S_YES, P2S_NO, "entry present, read, no permission"},
	           {0x130, P2S_YES, P2S_UNREAD, "entry present"}};
	struct p2s_log_event e = event_at("0000:01:00.0", 0);
	char text[64];

	(void)state;
	for (size_t i = 0; i < COUNT(amd); i++) {
		e.flags = amd[i].flags;
		assert_int_equal(p2s_log_entry_present(&e), amd[i].present);
		assert_int_equal(p2s_log_is_write(&e), amd[i].write);
		assert_string_equal(p2s_log_flags_text(&e, text, sizeof text), amd[i].text);
	}
	e.kind = P2S_LOG_DMAR_FAULT;
	e.flags = 5;
	snprintf(e.text, sizeof e.text, "DMAR: [DMA Write NO_PASID] Request device");
	assert_int_equal(p2s_log_entry_present(&e), P2S_UNREAD);
	assert_int_equal(p2s_log_is_write(&e), P2S_YES);
}

static void grave_errors_are_known(void **state)
{
	static const int32_t grave[] = {48, 61, 62, 64, 74, 79, 92, 94, 95, 110, 119, 120, 140, 143};
	static const struct {
		const char *text;
		int32_t recovery, is_grave;
	} actions[] = {
		{"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", P2S_RECOVERY_RESET, 1},
		{"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", P2S_RECOVERY_REBOOT, 1},
		{"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", P2S_RECOVERY_DRAIN, 1},
		{"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", P2S_RECOVERY_DRAIN_RESET, 1},
		{"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", P2S_RECOVERY_NONE, 0},
		{"NVRM: Xid (PCI:0000:18:00): 154, something else", P2S_RECOVERY_UNREAD, 1}};
	struct p2s_log_event e;

	(void)state;
	for (int32_t xid = 0; xid < 200; xid++) {
		int32_t want = 0;

		memset(&e, 0, sizeof e);
		e.kind = P2S_LOG_XID;
		e.xid = xid;
		for (size_t i = 0; i < COUNT(grave); i++)
			want |= grave[i] == xid;
		if (xid != 154)
			assert_int_equal(p2s_log_is_grave(&e), want);
		e.kind = P2S_LOG_SXID;
		assert_int_equal(p2s_log_is_grave(&e), 0);
	}
	for (size_t i = 0; i < COUNT(actions); i++) {
		struct p2s_log_record r = record_of(actions[i].text);
		struct p2s_log_found f;

		assert_int_equal(p2s_log_match(&r, &f), 1);
		assert_int_equal(f.event.recovery, actions[i].recovery);
		assert_int_equal(p2s_log_is_grave(&f.event), actions[i].is_grave);
	}
}

/* Lines of an SMMU that name no device: the stream id does, behind the unit that speaks. */
static void streams_find_their_gpu(void **state)
{
	static const struct p2s_log_gpu arm[] = {
		{.bdf = {.domain = 9, .bus = 1}, .smmu = "arm-smmu-v3.0.auto"},
		{.bdf = {.domain = 25, .bus = 1}, .smmu = "arm-smmu-v3.5.auto"},
		{.bdf = {.domain = 9, .bus = 2, .device = 3, .function = 1}, .smmu = "arm-smmu-v3.0.auto"},
		{.bdf = {.domain = 41, .bus = 4}, .smmu = ""}};
	static const struct {
		const char *text;
		int32_t gpu;
	} rows[] = {
		{"arm-smmu-v3 arm-smmu-v3.5.auto: event: F_TRANSLATION client: (unassigned sid) sid: 0x100 ssid: 0x0 iova: 0x1000 ipa: 0x0", 1},
		{"arm-smmu-v3 arm-smmu-v3.0.auto: event: F_TRANSLATION client: (unassigned sid) sid: 0x90100 ssid: 0x0 iova: 0x1000 ipa: 0x0", 0},
		{"arm-smmu-v3 arm-smmu-v3.0.auto: event: F_TRANSLATION client: (unassigned sid) sid: 0x219 ssid: 0x0 iova: 0x1000 ipa: 0x0", 2},
		{"arm-smmu-v3 arm-smmu-v3.9.auto: event: F_TRANSLATION client: (unassigned sid) sid: 0x100 ssid: 0x0 iova: 0x1000 ipa: 0x0", -1},
		{"arm-smmu-v3 arm-smmu-v3.9.auto: event: F_TRANSLATION client: (unassigned sid) sid: 0x400 ssid: 0x0 iova: 0x1000 ipa: 0x0", 3},
		/* what the line names counts, whatever its stream is */
		{"arm-smmu-v3 arm-smmu-v3.0.auto: event: F_TRANSLATION client: 0019:01:00.0 sid: 0x219 ssid: 0x0 iova: 0x1000 ipa: 0x0", 1},
		{"arm-smmu arm-smmu-v3.0.auto: Unhandled context fault: fsr=0x402, iova=0x34000010000, fsynr=0x1, cbfrsynra=0x219, cb=3", 2},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_log_record r = {0};
		struct p2s_log_found f;

		snprintf(r.text, sizeof r.text, "%s", rows[i].text);
		assert_int_equal(p2s_log_match(&r, &f), 1);
		p2s_log_attribute(&f.event, arm, COUNT(arm));
		if (f.event.gpu != rows[i].gpu)
			fail_msg("row %zu: %d", i, (int)f.event.gpu);
	}
}

/* Before 6.14 an event is five lines; the first word of four ends in the stream id. */
static void streams_of_the_old_form(void **state)
{
	static const struct p2s_log_gpu arm[] = {{.bdf = {.domain = 9, .bus = 1}, .smmu = "arm-smmu-v3.0.auto"}};
	static const char *const lines[] = {"arm-smmu-v3 arm-smmu-v3.0.auto: event 0x10 received:", "arm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000010000000010",
	                                    "arm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000020000000000",
	                                    "arm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000024000010000",
	                                    "arm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000000000000000"};
	struct p2s_log_joiner j = {0};
	struct p2s_log_found out[2];

	(void)state;
	for (size_t i = 0; i < COUNT(lines); i++) {
		struct p2s_log_record r = {0};

		snprintf(r.text, sizeof r.text, "%s", lines[i]);
		for (char *c = r.text; *c != '\0'; c++)
			*c = *c == '\t' ? ' ' : *c; /* as records are split */
		if (p2s_log_feed(&j, &r, out) > 0)
			break;
	}
	if (j.waiting)
		assert_int_equal(p2s_log_flush(&j, out), 1);
	p2s_log_attribute(&out[0].event, arm, COUNT(arm));
	assert_int_equal(out[0].event.gpu, 0);
	assert_true(out[0].event.fault_address == UINT64_C(0x24000010000));
}

/* Numbers that are no bits of a register, whatever the log says, change nothing. */
static void bits_have_a_range(void **state)
{
	static const struct {
		const char *text;
		int32_t fits;
		uint64_t flags;
	} rows[] = {{"[ 5] SDES", 1, 1u << 5}, {"[31] x", 1, UINT64_C(1) << 31}, {"[32] x", 0, 0}, {"[96] CmpltTO", 0, 0}, {"[] x", 0, 0}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_log_event e = {0};

		assert_int_equal(p2s_log_shape("[{b}] *", rows[i].text, &e), rows[i].fits);
		assert_true(e.flags == rows[i].flags);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_have_a_range), cmocka_unit_test(streams_find_their_gpu), cmocka_unit_test(streams_of_the_old_form), cmocka_unit_test(every_sample_is_understood), cmocka_unit_test(every_kind_has_a_sample),
		cmocka_unit_test(other_lines_are_left_alone), cmocka_unit_test(lines_are_joined), cmocka_unit_test(waiting_ends),
		cmocka_unit_test(records_are_split),          cmocka_unit_test(what_a_program_wrote_is_no_evidence),
		cmocka_unit_test(hostile_records_do_no_harm), cmocka_unit_test(names_are_left_out),
		cmocka_unit_test(addresses_find_their_owner), cmocka_unit_test(flags_are_decoded), cmocka_unit_test(grave_errors_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
