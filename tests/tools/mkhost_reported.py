"""The reported cases: machines of public reports, with the variants that tell one cause from another."""

from mkhost_base import *

# ---- two cards on an AMD workstation: translation, and bridges that redirect ----

RTX5880 = dict(device=0x26B3, sub=(0x10DE, 0x1934), name="NVIDIA RTX 5880 Ada Generation", sm=110)
RTX6000ADA = dict(device=0x26B1, sub=(0x10DE, 0x16A1), name="NVIDIA RTX 6000 Ada Generation", sm=142)
RTX5090 = dict(device=0x2B85, sub=(0x10DE, 0x2057), cc=[12, 0], sm=170, memory_mib=32607, free_mib=20 * GIB,
               name="NVIDIA GeForce RTX 5090", vbios="98.02.2E.00.03", dma_mask_bits=52)
A800 = dict(device=0x20F5, sub=(0x10DE, 0x1799), cc=[8, 0], sm=108, memory_mib=81920, free_mib=20 * GIB,
            name="NVIDIA A800-SXM4-80GB", vbios="92.00.45.00.06")
A800["class"] = 0x030200

AMD_BDFS = ["0000:41:00.0", "0000:61:00.0", "0000:81:00.0", "0000:a1:00.0"]
AMD_PORTS = ["0000:40:03.1", "0000:60:03.1", "0000:80:03.1", "0000:a0:03.1"]
TRANSLATED = ["iommu: Default domain type: Translated", "AMD-Vi: Interrupt remapping enabled"]
PAGE_FAULT = "nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040 flags=0x0020]"
COPIES = ["ce_write", "ce_read"]
STORES = ["sm_store", "sm_load", "atomic"]
DROPPED = [said({"src": "0000:41:00.0", "op": "sm_store", "effect": "drop"}, PAGE_FAULT),
           {"op": COPIES + STORES, "effect": "drop"}, {"op": "flag", "effect": "hang"}]


def amd(description, count=2, acs=(0x001D, 0x001D), **more):
    """F01's machine; acs: control words of the ports, in order."""
    gpus = pcie_gpus(AMD_BDFS[:count], AMD_PORTS[:count], **RTX5880)
    for g, word in zip(gpus, acs):
        g["acs"] = word
    h = dict(description=description, source="NVIDIA/nccl#2079", gpus=gpus, group_type="DMA-FQ", cmdline="root=X ro quiet",
             cpu="AMD Ryzen Threadripper PRO 3975WX 32-Cores", iommu_units=["ivhd0", "ivhd1", "ivhd2", "ivhd3"],
             dmi=("Example", "Workstation", "2.4"), kmsg=TRANSLATED, faults=DROPPED, nvml={"p2p_nvlink": "NS"})
    h.update(more)
    return h


def mixed_domains():
    gpus = pcie_gpus(AMD_BDFS[:3], AMD_PORTS[:3], **RTX5880)
    gpus[0]["group_type"] = "DMA-FQ"
    return gpus


# ---- others ----

def intel(description, **more):
    gpus = pcie_gpus(["0000:16:00.0", "0000:ac:00.0"], ["0000:15:01.0", "0000:ab:01.0"], **RTX6000ADA)
    h = dict(description=description, source="NVIDIA/open-gpu-kernel-modules#1257", gpus=gpus, group_type="DMA-FQ", acs=0x001D,
             cmdline="BOOT_IMAGE=/boot/vmlinuz-6.8.0-111-generic root=/dev/nvme0n1p2 ro quiet splash",
             kernel="6.8.0-111-generic", driver_api=13000, driver_version="580.142", cpu="Intel(R) Xeon(R) w7-3465X",
             port_id=(0x8086, 0x352A),
             iommu_units=["dmar0", "dmar1", "dmar2", "dmar3"],
             kmsg=["iommu: Default domain type: Translated", "DMAR: IOMMU enabled"],
             nvml={"p2p_nvlink": "NS"}, faults=[{"op": COPIES + STORES, "effect": "drop"}, {"op": "flag", "effect": "hang"}])
    h.update(more)
    return h


def z790(description, grouped, **more):
    gpus = [gpu("0000:01:00.0", 0, (0x4000000000, 32 << 30), port="0000:00:01.0", **RTX3090),
            gpu("0000:05:00.0", 1, (0x5000000000, 32 << 30), port="0000:00:1c.4", **RTX3090)]
    for i, g in enumerate(gpus):
        g["group"] = 15 + i if grouped else None
    h = dict(description=description, source="tinygrad/open-gpu-kernel-modules#30", gpus=gpus, driver_version="570.86.15-p2p",
             kernel="6.8.0-52-generic", cpu="13th Gen Intel(R) Core(TM) i9-13900K", port_id=(0x8086, 0xA70D), acs=None,
             dmi=("ASUS", "System Product Name", "1801"), kmsg=["Linux version 6.8.0-52-generic"], memory_gib=128,
             links={"default": {"kind": "pcie", "bytes_per_s": 6260000000, "latency_ns": 1300}},
             staged=staged_path(5900000000), nvml={"p2p_nvlink": "NS"})
    h.update(more)
    return h


def vfio(description, clique, bar1_mib, **more):
    """Two cards in a q35 guest."""
    cards = [gpu("0000:01:00.0", 0, (0x380000000000, bar1_mib << 20), clique=clique, node=-1, **RTX3090),
             gpu("0000:02:00.0", 1, (0x381000000000, bar1_mib << 20), clique=clique, node=-1, **RTX3090)]
    h = dict(description=description, driver_version="610.57.04", hypervisor=True, cpu="AMD EPYC 7302 16-Core Processor",
             bridge=(0x8086, 0x29C0), dmi=("QEMU", "Standard PC (Q35 + ICH9, 2009)", "rel-1.16.3"), gpus=cards, memory_gib=64,
             kmsg=["Hypervisor detected: KVM"], registry="RMForceStaticBar1=1;PeerMappingOverride=1")
    h.update(more)
    return h


REFUSED = {"p2p_read": "CNS", "p2p_write": "CNS", "p2p_nvlink": "NS", "p2p_atomics": "CNS", "p2p_pcie": "CNS"}
NO_ACCESS = {"default": {"kind": "pcie", "can_access": 0}}
NO_LINK = dict(link_text="", gen=4)
D0, D1, D2 = "0000:01:00.0", "0000:41:00.0", "0000:61:00.0"


def desktop(description, first, second, last, boot_id, memory, **more):
    """Three 5090, the first drives the desktop; first, second, last: BAR1 addresses."""
    gpus = pcie_gpus([D0, D1, D2], ["0000:00:01.1", "0000:40:01.1", "0000:60:01.1"], **RTX5090)
    for g, at in zip(gpus, (first, second, last)):
        g["bar1"] = (at, 32 << 30)
    gpus[0].update(boot_vga=1, cuda=dict(display_active=True))
    h = dict(description=description, source="aikitoria/open-gpu-kernel-modules#11", gpus=gpus, driver_version="610.43.03",
             kernel="7.0.0-28-generic", cpu="AMD Ryzen Threadripper 7970X 32-Cores", boot_id=boot_id, memory_gib=memory,
             cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt", iommu_units=["ivhd0", "ivhd1"],
             kmsg=["iommu: Default domain type: Passthrough (set via kernel command line)"], nvml={"p2p_nvlink": "NS"},
             links={"default": {"kind": "pcie", "bytes_per_s": 27000000000, "latency_ns": 1100}}, staged=staged_path(12000000000))
    h.update(more)
    return h


GARBLED = [{"src": s, "dst": d, "op": MOVING, "effect": "bit_flip", "bits": "0x5a5aa5a5c3c33c3c"}
           for s, d in ((D0, D1), (D1, D0), (D0, D2), (D2, D0))]


def small_bar():
    """One card was resized, three were not."""
    bdfs = ["0000:01:00.0", "0000:21:00.0", "0000:41:00.0", "0000:61:00.0"]
    gpus = pcie_gpus(bdfs, ["0000:00:01.1", "0000:20:01.1", "0000:40:01.1", "0000:60:01.1"], **RTX3090)
    for i, g in enumerate(gpus):
        g["bar1"] = (0x20000000000 + i * 0x1000000000, 256 << 20 if i < 3 else 32 << 30)
        g["rebar_mib"] = 32768 if i == 3 else None
    return gpus


PASSTHROUGH = dict(cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt", iommu_units=["ivhd0"],
                   kmsg=["iommu: Default domain type: Passthrough (set via kernel command line)"], nvml={"p2p_nvlink": "NS"})
NO_ROOM = [{"op": ["enable", "open"], "effect": "error", "error": 205}]
F12 = ["0000:21:00.0", "0000:22:00.0", "0000:41:00.0", "0000:43:00.0"]


def two_views(description, access, shm=1 << 30, **more):
    h = dict(description=description, source="NVIDIA/nccl#360, #1647", gpus=pcie_gpus(["0000:2d:00.0", "0000:2e:00.0"],
             ["0000:2c:01.1", "0000:2c:01.2"]), meta=dict(device_access=access, shm_bytes=shm),
             extra={"/run/systemd/container": "docker"}, **PASSTHROUGH)
    h.update(more)
    return h


HOSTS = {
    "f01-amd-translated-redirect": amd(
        "Two RTX 5880 Ada on AMD root ports that redirect, below a translating IOMMU: nothing arrives."),
    "f01a-config-64-bytes": amd("The same, and configuration space can be read to 64 bytes only.", config_bytes=64,
                                meta={"privileged": False}),
    "f01b-four-two-redirect": amd("Four cards, two of them below ports that redirect; no direction works.", count=4,
                                  acs=(0x001D, 0x001D, 0, 0), source="vllm-project/vllm#51513"),
    "f01c-mixed-domains": amd(
        "Three cards, and only the first is in a translating domain: what it starts is lost, what others start arrives.",
        gpus=mixed_domains(), group_type="identity", source="invented", faults=[
            said({"src": AMD_BDFS[0], "op": "sm_store", "effect": "drop"}, PAGE_FAULT),
            {"src": AMD_BDFS[0], "op": COPIES + STORES, "effect": "drop"}, {"src": AMD_BDFS[0], "op": "flag", "effect": "hang"}]),
    "f02-intel-silent": intel("Two RTX 6000 Ada on a Xeon workstation: bytes are lost and nothing says so."),
    "f02a-kmsg-denied": intel("The same, and the kernel log cannot be read.", meta={"kmsg": "denied", "privileged": False}),
    "f03-stale-cache": amd("The machine of f01 after its repair: identity domains, nothing redirects.", acs=(0, 0),
                           group_type="identity", faults=[]),
    "f04-firmware-off": z790(
        "Two RTX 3090 with a patched driver; the command line asks for an IOMMU that firmware has switched off.", False,
        cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet intel_iommu=on iommu=pt"),
    "f04a-cmdline-off-translated": z790(
        "The same board with the IOMMU on in firmware: the command line says off, and the groups translate.", True,
        group_type="DMA", iommu_units=["dmar0", "dmar1"],
        cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet intel_iommu=off iommu=off"),
    "f06-private-mirror": vfio(
        "Two RTX 3090 in a VFIO guest with a false clique: the window to the peer is a private copy.", 1, 32 << 10,
        source="NVIDIA/nccl#2335", nvml={"p2p_nvlink": "NS"},
        links={"default": {"kind": "pcie", "bytes_per_s": 27000000000, "latency_ns": 1000}},
        faults=[{"op": STORES, "effect": "mirror"}, {"op": COPIES, "effect": "drop"}, {"op": "flag", "effect": "hang"}]),
    "f07-vm-refusal": vfio("Two RTX 3090 in a VFIO guest without a clique: an honest refusal.", None, 256,
                           source="noonghunna/club-3090", nvml=REFUSED, links=NO_ACCESS),
    "f07a-flat-bus": vfio("Four A800 on the flat bus of a guest: no node, no link speed, no grant.", None, 256,
                          source="NVIDIA/nccl#1329", nvml=REFUSED, links=NO_ACCESS, bridge=(0x8086, 0x1237), registry="",
                          dmi=("QEMU", "Standard PC (i440FX + PIIX, 1996)", "rel-1.16.3"),
                          gpus=[gpu("0000:00:%02x.0" % (9 + i), i, (0x380000000000 + (i << 36), 256 << 20), node=-1,
                                    **dict(A800, **NO_LINK)) for i in range(4)]),
    "f08-one-direction": dict(
        description="Two RTX 3090: the boot console shifted BAR1 of one, so transfers into the other direction are lost.",
        source="tinygrad/open-gpu-kernel-modules#48", driver_version="570.148.08", kernel="6.8.0-45-generic",
        cpu="AMD Ryzen 9 5950X 16-Core Processor", iommu_units=["ivhd0"], memory_gib=64,
        kmsg=["NVRM: _kbusCreateStaticBar1IOMMUMapping: The peer DMA address 0x6000400000 is not aligned at 0x20000000",
              "NVRM: _kbusCreateStaticBar1IOMMUMappingForGpuPair: IOMMU mapping failed from GPU0 to GPU1"],
        gpus=[gpu("0000:0b:00.0", 0, (0x5000000000, 32 << 30), port="0000:00:01.1", boot_vga=1, group=25, **RTX3090),
              gpu("0000:0c:00.0", 1, (0x6000000000, 32 << 30), port="0000:00:01.2", boot_vga=0, group=26, **RTX3090)],
        links={"default": {"kind": "pcie", "bytes_per_s": 11690000000, "latency_ns": 1300}}, nvml={"p2p_nvlink": "NS"},
        faults=[{"src": "0000:0c:00.0", "dst": "0000:0b:00.0", "op": MOVING, "effect": "drop"}]),
    "f09-display-gpu": desktop("Three RTX 5090, one drives a display: its pairs are wrong, the others right.", 0x1C000000000,
                               0x24000000000, 0x2C000000000, "2f1d7a3e-94b0-4c1f-8d65-0e7ab3c95d21", 256, faults=GARBLED),
    "f09a-less-memory": desktop("The same machine with less memory and BARs elsewhere: everything works.", 0x6000000000,
                                0x8000000000, 0xA000000000, "b86e04d9-1f27-4b3a-a1c8-5d9032e7f614", 64),
    "f10a-small-bar1": dict(description="Four RTX 3090, three of them with a BAR1 of 256 MiB: no peer can be mapped.",
                            source="aikitoria/open-gpu-kernel-modules#22", driver_version="595.58.03", gpus=small_bar(),
                            faults=NO_ROOM, **PASSTHROUGH),
    "f10b-bar1-below-memory": dict(
        description="Two RTX 4090 with 48 GiB, whose BAR1 covers 32 GiB: a peer is offered and cannot be mapped.",
        source="aikitoria/open-gpu-kernel-modules#14", driver_version="590.44.01", faults=NO_ROOM,
        gpus=[dict(g, bar1=(0x20000000000 + i * 0x1000000000, 32 << 30)) for i, g in enumerate(pcie_gpus(
            AMD_BDFS[:2], AMD_PORTS[:2], **dict(RTX4090, memory_mib=49140, rebar_mib=32768)))], **PASSTHROUGH),
    "f10c-bar1-no-space": dict(
        description="Two RTX 5090, for one of them the kernel found no room: exact, and slower than staged both ways.",
        source="aikitoria/open-gpu-kernel-modules#9", driver_version="580.95.05",
        gpus=[dict(g, bar1=(0x20000000000 + i * 0x1000000000, (256 << 20) if i else 32 << 30)) for i, g in enumerate(pcie_gpus(
            ["0000:44:00.0", "0000:84:00.0"], ["0000:40:03.1", "0000:80:03.1"], gen=5, **RTX5090))],
        **dict(PASSTHROUGH, kmsg=["nvidia 0000:84:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space"],
               staged=staged_path(42470000000, 13400),
               links={"default": {"kind": "pcie", "bytes_per_s": 12190000000, "latency_ns": 360},
                      "pairs": [{"src": "0000:84:00.0", "dst": "0000:44:00.0", "bytes_per_s": 2010000000}]})),
    "f12-hang-unkillable": dict(
        description="Four RTX 4090 on a launch driver that advertises P2P: zeros arrive, flags never, and the child cannot be "
                    "killed.",
        source="reports of dual RTX 4090 on driver 520", driver_api=12000, driver_version="520.56.06", flavour="proprietary",
        cpu="AMD EPYC 7402P 24-Core Processor", cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro amd_iommu=off",
        meta={"ignore_sigkill_ms": 30000},
        gpus=[gpu(bdf, i, (0x20000000000 + i * 0x1000000000, 32 << 30), port=port, **RTX4090) for i, (bdf, port) in enumerate(
            zip(F12, ("0000:20:01.1", "0000:20:01.2", "0000:40:01.1", "0000:40:01.3")))],
        kmsg=["AMD-Vi: disabled by kernel command line"], nvml={"hang": True},
        faults=[{"op": COPIES + STORES, "effect": "zeros"}, {"op": "flag", "effect": "wedge"}]),
    "f14-view-a": two_views("A container that may open the first of two GPUs, with a small /dev/shm of its own.",
                            {"0": "rw", "1": "none"}, 64 << 20),
    "f14a-view-b": two_views("Another container on the same host, that may open the second GPU.", {"0": "none", "1": "rw"},
                             64 << 20),
    "f14b-both-visible": two_views("A third view of the same host, that may open both GPUs.", {"0": "rw", "1": "rw"}),
    "f14c-shm-small": two_views("Both GPUs in one container with 64 MiB of /dev/shm, and peers that are wrong.",
                                {"0": "rw", "1": "rw"}, 64 << 20, faults=[{"op": MOVING, "effect": "drop"}]),
}
