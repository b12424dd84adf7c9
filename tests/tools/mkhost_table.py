"""What each simulated host is. One entry per host; BASE and GPU hold what is not said."""

import copy

GIB = 1024  # MiB

BASE = dict(
    description="", source="invented", meta={}, kmsg=None, gpus=[], links={"default": {"kind": "pcie"}}, faults=[], nvml={},
    driver_api=12080, driver_version="575.57.08", flavour="open", registry="", srcversion="5A7D0C7C6A0B1E6F3C2D4E1",
    kernel="6.8.0-60-generic", cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet", hypervisor=False,
    cpu="AMD EPYC 7543 32-Core Processor", port_id=(0x1022, 0x1483), acs=0x0000, group_type="identity",
    iommu_units=[], extra={}, boot_id="7c0d3a52-8f4e-4b7e-9a51-3f2d6f0c1b9e", dmi=("Example", "Server", "1.0"),
)

GPU = dict(
    port=None, device=0x26B1, sub=(0x10DE, 0x16A1), node=0, gen=4, driver="nvidia", minor=0, cc=[8, 9], sm=16,
    memory_mib=48 * GIB, free_mib=20 * GIB, name="NVIDIA RTX 6000 Ada Generation", vbios="95.02.51.00.06",
)
GPU["class"] = 0x030000


def uuid(n):
    """A fixed UUID per number; distinct in its first group, so that prefixes are unambiguous."""
    return "GPU-%08x-6b1f-4c5d-8e2a-0c3d5f7a9b%02x" % (0x5D3C0000 + n * 0x1111, n)


def gpu(bdf, n, bar1, **more):
    g = copy.deepcopy(GPU)
    g.update(bdf=bdf, minor=n, uuid=uuid(n), bar1=bar1)
    g.update(more)
    return g


def pcie_gpus(bdfs, ports=None, **more):
    """GPUs on root ports of their own, each with a group of its own."""
    out = []
    for i, bdf in enumerate(bdfs):
        port = ports[i] if ports else "0000:%02x:01.1" % (int(bdf[5:7], 16) & 0xF0 if int(bdf[5:7], 16) & 15 else
                                                          int(bdf[5:7], 16) - 1)
        extra = dict(more)
        extra.setdefault("group", 20 + i)
        out.append(gpu(bdf, i, (0x20000000000 + i * 0x1000000000, 64 << 30), port=port, **extra))
    return out


def small(description, faults, count=2, **more):
    """A minimal two-GPU PCIe host with one kind of fault."""
    bdfs = ["0000:41:00.0", "0000:61:00.0", "0000:81:00.0"][:count]
    ports = ["0000:40:03.1", "0000:60:03.1", "0000:80:03.1"][:count]
    return dict(description=description, gpus=pcie_gpus(bdfs, ports), faults=faults, iommu_units=["ivhd0"],
                cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt",
                    kmsg=["iommu: Default domain type: Passthrough"], **more)


MOVING = ["ce_write", "ce_read", "sm_store", "sm_load", "flag", "atomic"]
A, B, C = "0000:41:00.0", "0000:61:00.0", "0000:81:00.0"

H200 = dict(device=0x2335, sub=(0x10DE, 0x18BF), node=-1, gen=5, cc=[9, 0], sm=132, memory_mib=143771, free_mib=140 * GIB,
            name="NVIDIA H200", vbios="96.00.D9.00.02", dma_mask_bits=52)
H200["class"] = 0x030200


def h200(bdf, n, bar0, bar1, bar2, number):
    """Both 64-bit: the frame-buffer window is sysfs index 2."""
    flags = 0x14220C
    regions = {0: (bar0, 16 << 20, flags), 2: (bar1, 256 << 30, flags), 4: (bar2, 32 << 20, flags)}
    g = gpu(bdf, n, (bar1, 256 << 30), **H200)
    g.update(regions=regions, uuid=number)
    return g


PRO6000 = dict(device=0x2BB5, sub=(0x10DE, 0x204E), gen=5, cc=[12, 0], sm=188, memory_mib=97887, free_mib=94 * GIB,
               name="NVIDIA RTX PRO 6000 Blackwell Server Edition", vbios="98.02.8D.00.03")
PRO6000["class"] = 0x030200


def founding_gpus():
    out = []
    bars = [0x20000000000, 0x24000000000, 0x30000000000, 0x34000000000, 0x40000000000, 0x44000000000, 0x50000000000,
        0x54000000000]
    for i, bus in enumerate([0x01, 0x11, 0x61, 0x71, 0x81, 0x91, 0xE1, 0xF1]):
        more = dict(PRO6000)
        more.update(port="0000:%02x:01.1" % (bus - 1), node=0 if i < 4 else 1, group=30 + i)
        if i >= 4:
            more.update(driver="vfio-pci")
        out.append(gpu("0000:%02x:00.0" % bus, i, (bars[i], 128 << 30), **more))
    return out


RTX3090 = dict(device=0x2204, sub=(0x1462, 0x3884), cc=[8, 6], sm=82, memory_mib=24576, free_mib=20 * GIB,
               name="NVIDIA GeForce RTX 3090", vbios="94.02.42.80.E2")
RTX4090 = dict(device=0x2684, sub=(0x1043, 0x889A), cc=[8, 9], sm=128, memory_mib=24564, free_mib=20 * GIB,
               name="NVIDIA GeForce RTX 4090", vbios="95.02.18.80.5B")
F12 = ["0000:21:00.0", "0000:22:00.0", "0000:41:00.0", "0000:43:00.0"]

HOSTS = {
    "ok-2xh200-nvlink": dict(
        description="Two H200 over 18 NVLinks each, passed to a KVM guest without an IOMMU; everything works.",
        source="read on the machine that this library was measured on", driver_api=13000, driver_version="580.159.04",
        kernel="6.18.44", hypervisor=True, cpu="Intel(R) Xeon(R) Processor", dmi=None,
        cmdline="console=ttyS0 reboot=k panic=1 root=/dev/vda rw",
        kmsg=["Linux version 6.18.44",
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)  "],
        gpus=[h200("0000:00:06.0", 0, 0x104002000000, 0x100000000000, 0x104000000000, uuid(6)),
              h200("0000:00:07.0", 1, 0x104003000000, 0x108000000000, 0x104004000000, uuid(7))],
        links={"default": {"kind": "nvlink", "bytes_per_s": 395000000000, "latency_ns": 800, "nvlinks": 18}},
        staged={"bytes_per_s": 50000000000, "latency_ns": 14000},
        nvml={"link_bytes_per_s": 26562000000, "p2p_pcie": "NS"},
    ),
    "ok-4xpcie": dict(
        description="Four GPUs on root ports of their own, one NUMA node, identity domains; everything works.",
        gpus=pcie_gpus(["0000:01:00.0", "0000:21:00.0", "0000:41:00.0", "0000:61:00.0"],
                       ["0000:00:01.1", "0000:20:01.1", "0000:40:01.1", "0000:60:01.1"]),
        cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt", iommu_units=["ivhd0"],
        kmsg=["iommu: Default domain type: Passthrough"], nvml={"p2p_nvlink": "NS"},
    ),
    "ok-8xpcie": dict(
        description="Eight Gen4 GPUs on two sockets, identity domains; everything works, slower between the sockets.",
        gpus=[dict(g, node=0 if i < 4 else 1) for i, g in enumerate(pcie_gpus(
            ["0000:%02x:00.0" % b for b in (0x01, 0x21, 0x41, 0x61, 0x81, 0xA1, 0xC1, 0xE1)],
            ["0000:%02x:01.1" % b for b in (0x00, 0x20, 0x40, 0x60, 0x80, 0xA0, 0xC0, 0xE0)]))],
        links={"default": {"kind": "pcie", "bytes_per_s": 24000000000, "latency_ns": 1300}},
        cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt", iommu_units=["ivhd0", "ivhd1"],
        kmsg=["iommu: Default domain type: Passthrough"], nvml={"p2p_nvlink": "NS"},
    ),
    "s01-founding-host": dict(
        description="Eight RTX PRO 6000 Blackwell, four bound to nvidia, four to vfio-pci for a confidential VM; "
                    "translated domains, raw BAR addresses, every peer transfer lost.",
        source="the founding report", driver_api=13010, driver_version="590.48.01", kernel="6.14.11-4-pve",
        cpu="AMD EPYC 9335 32-Core Processor", port_id=(0x1022, 0x14AB), acs=0x001D, group_type="DMA-FQ", gpus=founding_gpus(),
        cmdline="BOOT_IMAGE=/boot/vmlinuz-6.14.11-4-pve root=/dev/mapper/pve-root ro quiet amd_iommu=on",
        iommu_units=["ivhd0", "ivhd1", "ivhd2", "ivhd3", "ivhd4", "ivhd5", "ivhd6", "ivhd7"],
        extra={"/sys/module/kvm_amd/parameters/sev_snp": "Y", "/sys/module/kvm_amd/parameters/sev": "Y"},
        kmsg=["iommu: Default domain type: Translated", "AMD-Vi: Interrupt remapping enabled",
            "SEV-SNP: RMP table physical range",
              "nvidia 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0020 address=0x24000000000 flags=0x0020]",
              "nvidia 0000:61:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0024 address=0x34000010000 flags=0x0020]"],
        links={"default": {"kind": "pcie", "bytes_per_s": 53000000000, "latency_ns": 1200}},
        staged={"bytes_per_s": 41000000000, "latency_ns": 13400}, nvml={"p2p_nvlink": "NS"},
        faults=[{"op": ["ce_write", "sm_store", "flag", "atomic"], "effect": "drop"},
                {"op": ["ce_read", "sm_load"], "effect": "ones"}],
    ),
    "f06-private-mirror": dict(
        description="Two RTX 3090 in a VFIO guest with a false clique: the window to the peer is a private copy.",
        source="NVIDIA/nccl#2335", driver_api=12080, driver_version="610.57.04", hypervisor=True, kernel="6.8.0-60-generic",
        cpu="AMD EPYC 7302 16-Core Processor", bridge=(0x8086, 0x29C0), dmi=("QEMU", "Standard PC (Q35 + ICH9, 2009)",
            "rel-1.16.3"),
        registry="RMForceStaticBar1=1;PeerMappingOverride=1",
        gpus=[gpu("0000:01:00.0", 0, (0x380000000000, 32 << 30), clique=1, node=-1, **RTX3090),
              gpu("0000:02:00.0", 1, (0x381000000000, 32 << 30), clique=1, node=-1, **RTX3090)],
        kmsg=["Hypervisor detected: KVM"], nvml={"p2p_nvlink": "NS"},
        links={"default": {"kind": "pcie", "bytes_per_s": 27000000000, "latency_ns": 1000}},
        faults=[{"op": MOVING, "effect": "mirror"}],
    ),
    "f08-one-direction": dict(
        description="Two RTX 3090: the boot console shifted BAR1 of one, so transfers into the other direction are lost.",
        source="tinygrad/open-gpu-kernel-modules#48", driver_version="570.148.08", kernel="6.8.0-45-generic",
        cpu="AMD Ryzen 9 5950X 16-Core Processor", iommu_units=["ivhd0"],
        kmsg=["NVRM: _kbusCreateStaticBar1IOMMUMapping: The peer DMA address 0x6000400000 is not aligned at 0x20000000",
              "NVRM: _kbusCreateStaticBar1IOMMUMappingForGpuPair: IOMMU mapping failed from GPU0 to GPU1"],
        gpus=[gpu("0000:0b:00.0", 0, (0x5000000000, 32 << 30), port="0000:00:01.1", boot_vga=1, group=25, **RTX3090),
              gpu("0000:0c:00.0", 1, (0x6000000000, 32 << 30), port="0000:00:01.2", boot_vga=0, group=26, **RTX3090)],
        links={"default": {"kind": "pcie", "bytes_per_s": 11690000000, "latency_ns": 1300}}, nvml={"p2p_nvlink": "NS"},
        faults=[{"src": "0000:0c:00.0", "dst": "0000:0b:00.0", "op": ["ce_write", "ce_read", "sm_store", "sm_load",
            "flag", "atomic"],
                 "effect": "drop"}],
    ),
    "f12-hang-unkillable": dict(
        description="Four RTX 4090 on a launch driver that advertises P2P: zeros arrive, flags never, and the child "
                    "cannot be killed.",
        source="reports of dual RTX 4090 on driver 520", driver_api=12000, driver_version="520.56.06", flavour="proprietary",
        cpu="AMD EPYC 7402P 24-Core Processor", cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro amd_iommu=off",
        meta={"ignore_sigkill_ms": 30000},
        gpus=[gpu(F12[0], 0, (0x20000000000, 32 << 30), port="0000:20:01.1", **RTX4090),
              gpu(F12[1], 1, (0x21000000000, 32 << 30), port="0000:20:01.2", **RTX4090),
              gpu(F12[2], 2, (0x22000000000, 32 << 30), port="0000:40:01.1", **RTX4090),
              gpu(F12[3], 3, (0x23000000000, 32 << 30), port="0000:40:01.3", **RTX4090)],
        kmsg=["AMD-Vi: disabled by kernel command line"], nvml={"hang": True},
        faults=[{"op": ["ce_write", "ce_read", "sm_store", "sm_load", "atomic"], "effect": "zeros"},
                {"op": "flag", "effect": "wedge"}],
    ),
    "no-gpu": dict(description="A machine without any NVIDIA GPU.", driver_api=0, driver_version="", kmsg=["booted"],
                   bridge=(0x8086, 0x1237)),
    "no-driver": dict(
        description="Two GPUs, bound to nouveau; the vendor's driver is not installed.", driver_api=0, driver_version="",
        gpus=[dict(g, driver="nouveau") for g in pcie_gpus(["0000:41:00.0", "0000:61:00.0"], ["0000:40:03.1", "0000:60:03.1"])],
        iommu_units=["ivhd0"], kmsg=["nouveau 0000:41:00.0: NVIDIA AD102"],
    ),
    "one-gpu": dict(
        description="One GPU and no other.", iommu_units=["ivhd0"], kmsg=["iommu: Default domain type: Passthrough"],
        gpus=pcie_gpus(["0000:41:00.0"], ["0000:40:03.1"]),
    ),
    "driver-too-old": dict(
        description="Two healthy GPUs on a driver whose API is below 12.0.", driver_api=11040, driver_version="470.256.02",
        flavour="proprietary", iommu_units=["ivhd0"], kmsg=["iommu: Default domain type: Passthrough"],
        gpus=pcie_gpus(["0000:41:00.0", "0000:61:00.0"], ["0000:40:03.1", "0000:60:03.1"]),
    ),
    "x-zeros": small("Every peer transfer arrives as zeros.", [{"op": MOVING, "effect": "zeros"}]),
    "x-stale": small("Peer reads give what was there before the last change.",
                     [{"op": ["ce_read", "sm_load"], "effect": "stale"}]),
    "x-misdirect": small("Writes to a peer arrive in the memory of another GPU.", [
        {"src": A, "dst": B, "op": ["ce_write", "sm_store", "flag"], "effect": "misdirect", "target": C},
        {"src": A, "dst": C, "op": ["ce_write", "sm_store", "flag"], "effect": "misdirect", "target": B},
        {"src": B, "dst": A, "op": ["ce_write", "sm_store", "flag"], "effect": "misdirect", "target": C},
        {"src": B, "dst": C, "op": ["ce_write", "sm_store", "flag"], "effect": "misdirect", "target": A},
        {"src": C, "dst": A, "op": ["ce_write", "sm_store", "flag"], "effect": "misdirect", "target": B},
        {"src": C, "dst": B, "op": ["ce_write", "sm_store", "flag"], "effect": "misdirect", "target": A}], count=3),
    "x-torn": small("Stores to a peer arrive in halves of a word.", [{"op": ["sm_store", "flag"], "effect": "torn"}]),
    "x-bitflip": small("Large transfers lose a bit here and there.",
                       [{"op": ["ce_write", "ce_read", "sm_store", "sm_load"], "effect": "bit_flip", "rate": 200,
                           "bits": "0x10000",
                         "min_bytes": 65536}]),
    "x-error": small("Kernels that store to a peer end with an illegal address.",
                     [{"op": "sm_store", "effect": "error", "error": 700}]),
    "x-crash": small("The process dies inside the driver when it copies to a peer.", [{"op": "ce_write", "effect": "crash"}]),
    "x-staged-broken": small("Copies through host memory arrive damaged.",
                             [{"op": "staged", "effect": "zeros", "min_bytes": 4096}]),
    "m-flag-before-data": small("A deliberately wrong twin: the flag is published before the payload.", [],
        mutant="flag_before_data"),
    "m-no-fence": small("A deliberately wrong twin: no fence between payload and flag.", [], mutant="no_fence"),
    "m-check-window": small("A deliberately wrong twin: the check looks through the window, which is a private copy.",
                            [{"op": MOVING, "effect": "mirror"}], mutant="check_through_window"),
}


def host(name):
    h = copy.deepcopy(BASE)
    h.update(copy.deepcopy(HOSTS[name]))
    return h
