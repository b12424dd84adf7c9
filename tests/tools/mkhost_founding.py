"""The founding cases: the machine that began it all, what was tried on it, and machines near it."""

from mkhost_base import *

FOUR = ["0000:01:00.0", "0000:11:00.0", "0000:61:00.0", "0000:71:00.0"]
LOST_WRITES = ["ce_write", "sm_store", "flag", "atomic"]
LOST_READS = ["ce_read", "sm_load"]
STAGED = staged_path(41400000000, 13400)


def founding_gpus(**more):
    """Four bound to nvidia on node 0, four to vfio-pci on node 1. more: of the first four."""
    out = []
    for i, bus in enumerate([0x01, 0x11, 0x61, 0x71, 0x81, 0x91, 0xE1, 0xF1]):
        g = dict(PRO6000, port="0000:%02x:01.1" % (bus - 1), node=0 if i < 4 else 1, group=30 + i)
        g.update(dict(driver="vfio-pci") if i >= 4 else more)
        bar = 0x20000000000 + (i // 2) * 0x10000000000 + (i % 2) * 0x4000000000
        out.append(gpu("0000:%02x:00.0" % bus, i, (bar, 128 << 30), **g))
    return out


def fault_line(gpu_bdf, domain, address):
    return "nvidia %s: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x%04x address=0x%x flags=0x0020]" % (
        gpu_bdf, domain, address)


FAULT_0 = fault_line(FOUR[0], 0x20, 0x24000000000)
FAULT_2 = fault_line(FOUR[2], 0x24, 0x34000010000)
BOOT = ["iommu: Default domain type: Translated", "AMD-Vi: Interrupt remapping enabled",
        "SEV-SNP: RMP table physical range [0x000000003f800000 - 0x000000005fffffff]", "AMD-Vi: IOMMU SNP support enabled."]
SNP = {"/sys/module/kvm_amd/parameters/sev_snp": "Y", "/sys/module/kvm_amd/parameters/sev": "Y"}


def founding(description, **more):
    h = dict(
        description=description, source="the founding report", driver_api=13010, driver_version="590.48.01",
        kernel="6.14.11-4-pve", cpu="AMD EPYC 9335 32-Core Processor", port_id=(0x1022, 0x14AB), acs=0x001D,
        group_type="DMA-FQ", gpus=founding_gpus(),
        cmdline="BOOT_IMAGE=/boot/vmlinuz-6.14.11-4-pve root=/dev/mapper/pve-root ro quiet amd_iommu=on", memory_gib=768,
        iommu_units=["ivhd%d" % n for n in range(8)], extra=SNP, kmsg=BOOT,
        links={"default": {"kind": "pcie", "bytes_per_s": 53000000000, "latency_ns": 1200}},
        staged=STAGED, nvml={"p2p_nvlink": "NS"})
    h.update(more)
    return h


FSP = ["NVRM: GPU%d kfspSendBootCommands_GH100: version=0x1, size=0x35c, gspFmcSysmemOffset=0x8000000110680000",
       "NVRM: GPU%d kfspPollForResponse_IMPL: FSP response reported error. Task ID: 0x1 Command type: 0x14 Error code: 0x177",
       "NVRM: GPU%d kfspSendBootCommands_GH100: FSP boot cmds failed. RM cannot boot."]
FAILED = [line % n if "%d" in line else line for n, bdf in enumerate(FOUR)
          for line in FSP + ["NVRM: GPU %s: RmInitAdapter failed! (0x62:0xffff:2168)" % bdf,
                             "NVRM: GPU %s: rm_init_adapter failed, device minor number %d" % (bdf, n)]]


def identity_tried(description, **more):
    h = founding(description, gpus=founding_gpus(group_type="identity"), init_error=100)
    h.update(more)
    return h


def guest_gpus():
    return [gpu("0000:%02x:00.0" % (i + 1), i, (0x380000000000 + i * 0x2000000000, 128 << 30), port="0000:00:02.%d" % i,
                **dict(PRO6000, node=-1)) for i in range(8)]


SPARK = dict(device=0x2E12, sub=(0x10DE, 0x21EC), gen=1, cc=[12, 1], sm=48, memory_mib=122566, free_mib=110 * GIB,
             name="NVIDIA GB10", vbios="9A.0B.0F.00.08", dma_mask_bits=52, group=11)


def renumbered(description, numbers, **more):
    """The repaired machine; numbers: of the groups of the four GPUs."""
    gpus = [dict(g, group=numbers[i] if i < 4 else g["group"] + 20) for i, g in enumerate(founding_gpus(group_type="identity"))]
    for g, kind in zip(gpus, more.pop("types", [])):
        g["group_type"] = kind
    h = founding(description, gpus=gpus, source="invented", extra={}, kmsg=["iommu: Default domain type: Passthrough"],
                 cmdline="BOOT_IMAGE=/boot/vmlinuz-6.14.11-4-pve root=/dev/mapper/pve-root ro quiet iommu=pt")
    h.update(more)
    return h


HOSTS = {
    "s01-founding-host": founding(
        "Eight RTX PRO 6000 Blackwell, four bound to nvidia, four to vfio-pci for a confidential VM; translated domains, raw "
        "BAR addresses, every peer transfer lost.",
        faults=[said({"src": FOUR[0], "op": "sm_store", "effect": "drop"}, FAULT_0),
                said({"src": FOUR[2], "op": "sm_store", "effect": "drop"}, FAULT_2),
                {"op": LOST_WRITES, "effect": "drop"}, {"op": LOST_READS, "effect": "ones"}]),
    "s02-maps-incomplete": founding(
        "The founding host, but only some directed pairs lose their bytes: the maps of two GPUs are incomplete.",
        faults=[said({"src": FOUR[0], "dst": FOUR[1], "op": "sm_store", "effect": "drop"}, FAULT_0),
                said({"src": FOUR[2], "dst": FOUR[3], "op": "sm_store", "effect": "drop"}, FAULT_2),
                {"src": FOUR[0], "dst": FOUR[1], "op": LOST_WRITES, "effect": "drop"},
                {"src": FOUR[0], "dst": FOUR[1], "op": LOST_READS, "effect": "ones"},
                {"src": FOUR[2], "dst": FOUR[3], "op": LOST_WRITES, "effect": "drop"},
                {"src": FOUR[2], "dst": FOUR[3], "op": LOST_READS, "effect": "ones"}]),
    "s03-identity-tried": identity_tried(
        "The founding host with the groups of its four GPUs set to identity: their firmware does not boot, no device appears.",
        kmsg=BOOT + FAILED),
    "s03a-identity-by-option": identity_tried(
        "The founding host booted with iommu=pt and memory encryption, without SNP: the same failure.", memory_gib=768,
        cmdline="BOOT_IMAGE=/boot/vmlinuz-6.14.11-4-pve root=/dev/mapper/pve-root ro quiet iommu=pt mem_encrypt=on",
        cpu_flags="sme", extra={"/sys/module/kvm_amd/parameters/sev_snp": "N"},
        kmsg=["iommu: Default domain type: Passthrough (set via kernel command line)",
              "Memory Encryption Features active: AMD SME",
              "SNP: IOMMU disabled or configured in passthrough mode, SNP cannot be supported."] + FAILED),
    "s04-kvm-guest": dict(
        description="The same eight GPUs passed through with VFIO to a q35 guest without a peer grant.",
        source="the founding report",
        driver_api=13010, driver_version="590.48.01", hypervisor=True, kernel="6.8.0-60-generic",
        cpu="AMD EPYC 9335 32-Core Processor", bridge=(0x8086, 0x29C0), port_id=(0x1B36, 0x000C), acs=None,
        dmi=("QEMU", "Standard PC (Q35 + ICH9, 2009)", "rel-1.16.3"), gpus=guest_gpus(), kmsg=["Hypervisor detected: KVM"],
        links={"default": {"kind": "pcie", "can_access": 0}}, staged=STAGED,
        nvml={"p2p_read": "NS", "p2p_write": "NS", "p2p_nvlink": "NS", "p2p_atomics": "NS", "p2p_pcie": "NS"}),
    "s05-dgx-spark": dict(
        description="A DGX Spark: one GB10 with integrated memory.", source="reports of DGX Spark", driver_api=13000,
        driver_version="580.173.02", kernel="6.17.0-1014-nvidia", cpu="ARM Cortex-X925", arch="aarch64", memory_gib=119,
        dmi=("NVIDIA", "NVIDIA_DGX_Spark", "5.36_0ACUM018"), port_id=(0x10DE, 0x22CE), group_type="DMA-FQ",
        iommu_units=["smmu3.0x0000000005000000", "smmu3.0x0000000006000000"],
        cmdline="BOOT_IMAGE=/boot/vmlinuz-6.17.0-1014-nvidia root=/dev/nvme0n1p2 ro quiet splash",
        kmsg=["iommu: Default domain type: Translated", "iommu: DMA domain TLB invalidation policy: strict mode"],
        gpus=[gpu("000f:01:00.0", 0, (0x2000000000, 64 << 20), port="000f:00:00.0", cuda=dict(integrated=True), **SPARK)]),
    "s06-renumbered-groups": renumbered("The founding host without SNP, repaired: identity domains; groups numbered from 30.",
                                        [30, 31, 32, 33]),
    "s06a-other-numbers": renumbered("The same, and every IOMMU group has another number.", [73, 12, 40, 9]),
    "s06b-other-type": renumbered("The same numbers as at first, and the group of one GPU translates.", [30, 31, 32, 33],
                                  types=["identity", "identity", "DMA-FQ"]),
    "s06c-acs-cleared": renumbered("The machine of s06 after somebody cleared the ACS words of its root ports with setpci.",
                                   [30, 31, 32, 33], acs=0),
    "s06d-xid-since": renumbered(
        "The machine of s06 after one of its GPUs reported that it fell off the bus.", [30, 31, 32, 33],
        kmsg=["iommu: Default domain type: Passthrough",
              "NVRM: Xid (PCI:0000:61:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."]),
}
