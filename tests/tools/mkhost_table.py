"""What each simulated host is, one entry per host. The cases have tables of their own; mkhost_base.py holds what no entry
says."""

import copy

import mkhost_founding
import mkhost_reported
import mkhost_speed
from mkhost_base import *

FAR_LEFT, FAR_RIGHT = ("0000:43:00.0", "0000:44:00.0"), ("0000:83:00.0", "0000:84:00.0")

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
    "no-gpu": dict(description="A machine without any NVIDIA GPU.", driver_api=0, driver_version="", kmsg=["booted"],
                   bridge=(0x8086, 0x1237)),
    "x-wsl2": dict(description="The Linux of Windows: no PCI tree, whatever GPUs the machine has.", driver_api=0, driver_version="",
                   source="NVIDIA/nccl#442", kernel="5.15.167.4-microsoft-standard-WSL2", hypervisor=True, dmi=None,
                   bridge=(0x1414, 0x0088), kmsg=["Hypervisor detected: Microsoft Hyper-V"], extra={"/dev/dxg": ""}),
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
    "x-no-compiler": able(small("A container without the compiler for test kernels; everything works.", []), {"jit": False}, {"jit": False}),
    "x-no-compiler-damage": able(small("No compiler for test kernels, and copies to a peer lose their last bytes.",
                                       [{"op": "ce_write", "effect": "drop", "from": 1048560, "mapping": "peer"}]), {"jit": False}, {"jit": False}),
    "x-one-without-ipc": able(small("One GPU of three cannot hand out its memory as legacy IPC; everything else works.", [], count=3),
                              {}, {"ipc": False}, {}),
    "ok-mixed-models": dict(
        description="An older and slower GPU at the first address, two faster ones of another model behind it; everything works.",
        gpus=[dict(g, **({} if i else dict(device=0x2231, name="NVIDIA RTX A5000", cc=[8, 6], sm=8)))
              for i, g in enumerate(pcie_gpus(["0000:01:00.0", "0000:21:00.0", "0000:41:00.0"],
                                              ["0000:00:01.1", "0000:20:01.1", "0000:40:01.1"]))],
        cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt", iommu_units=["ivhd0"],
        kmsg=["iommu: Default domain type: Passthrough"], nvml={"p2p_nvlink": "NS"},
    ),
    "x-far-pairs": dict(
        description="Two GPUs behind each of two switches: what crosses the root complex is lost, what stays below a switch is right.",
        gpus=switched([("0000:40:01.1", "0000:41:00.0", ("0000:42:00.0", "0000:42:04.0"), ("0000:43:00.0", "0000:44:00.0")),
                       ("0000:80:01.1", "0000:81:00.0", ("0000:82:00.0", "0000:82:04.0"), ("0000:83:00.0", "0000:84:00.0"))]),
        iommu_units=["ivhd0", "ivhd1"], kmsg=["iommu: Default domain type: Passthrough"], nvml={"p2p_nvlink": "NS"},
        faults=[{"src": a, "dst": b, "op": MOVING, "effect": "drop"} for a in FAR_LEFT for b in FAR_RIGHT] +
               [{"src": b, "dst": a, "op": MOVING, "effect": "drop"} for a in FAR_LEFT for b in FAR_RIGHT],
    ),
    "x-torn-lines": dict(
        description="Two H200 over NVLink whose lines of 128 bytes arrive in pieces of 32.",
        gpus=[h200("0000:00:06.0", 0, 0x104002000000, 0x100000000000, 0x104000000000, uuid(6)),
              h200("0000:00:07.0", 1, 0x104003000000, 0x108000000000, 0x104004000000, uuid(7))],
        links={"default": {"kind": "nvlink", "bytes_per_s": 395000000000, "latency_ns": 800, "nvlinks": 18, "granularity": 32}},
        kmsg=["booted"],
    ),
    # As much goes through host memory only when the staged path is timed, after everything else.
    "x-lost-at-the-end": small("A GPU that falls off the bus when every leg is over, while it is measured.",
        [{"op": "staged", "dst": "0000:61:00.0", "effect": "log", "min_bytes": 2 << 20, "count": 1,
          "kmsg": "NVRM: Xid (PCI:0000:61:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."}]),
    # Nobody makes events or loads code for a GPU in between: the fifth and the third of it are those of the measuring.
    "x-lost-made-ready": small("A GPU that is lost when every leg is over, in the first call that makes it ready to be measured.",
        [{"op": "call", "name": "cuEventCreate", "src": "0000:41:00.0", "after": 4, "effect": "lost", "error": 46}]),
    "x-lost-loading": small("A GPU that is lost when every leg is over, while the kernels that measure are loaded.",
        [{"op": "call", "name": "cuModuleLoadDataEx", "src": "0000:61:00.0", "after": 2, "effect": "lost", "error": 46}]),
    "x-fault-at-the-end": small("An IOMMU fault that is logged when every leg is over, while the staged path is timed.",
        [{"op": "staged", "dst": "0000:61:00.0", "effect": "log", "min_bytes": 2 << 20, "count": 1,
          "kmsg": "nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040 flags=0x0020]"}]),
    "x-fault-beside-nvlink": small("An IOMMU fault of a GPU that is logged while it is timed with its partner over NVLink.",
        [{"op": "staged", "dst": A, "effect": "log", "min_bytes": 2 << 20, "count": 1,
          "kmsg": "nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040 flags=0x0020]"}],
        count=3, links={"default": {"kind": "pcie"}, "pairs": [
            {"src": a, "dst": b, "kind": "nvlink", "bytes_per_s": 390000000000, "nvlinks": 18} for a, b in ((A, C), (C, A))]}),
    "x-late-local": small("A call blocks for five seconds while a GPU's own memory is looked at; everything works.",
        [{"op": "call", "name": "cuEventRecord", "src": "0000:41:00.0", "count": 1, "effect": "block", "ms": 5000}]),
    "ok-two-of-three": dict(
        description="A container that was given two of the machine's three GPUs: the other stands in sysfs, and nowhere else.",
        gpus=[hidden(g) if g["bdf"] == A else g
              for g in pcie_gpus([A, B, C], ["0000:40:03.1", "0000:60:03.1", "0000:80:03.1"])],
        iommu_units=["ivhd0"], cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt",
        kmsg=["iommu: Default domain type: Passthrough"], nvml={"p2p_nvlink": "NS"},
    ),
    "x-nameless-fails": dict(
        description="A container that was given three of four GPUs, but no minor numbers; the third cannot make a context.",
        gpus=[hidden(g) if i == 3 else dict(g, cuda={"init_error": 2}) if i == 2 else g for i, g in enumerate(
            pcie_gpus(["0000:01:00.0", "0000:21:00.0", "0000:41:00.0", "0000:61:00.0"],
                      ["0000:00:01.1", "0000:20:01.1", "0000:40:01.1", "0000:60:01.1"]))],
        iommu_units=["ivhd0"], cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt",
        kmsg=["iommu: Default domain type: Passthrough"], nvml={"available": False}, tells_gpus=False,
    ),
    "m-flag-before-data": small("A deliberately wrong twin: the flag is published before the payload.", [],
        mutant="flag_before_data"),
    "m-no-fence": small("A deliberately wrong twin: no fence between payload and flag.", [], mutant="no_fence"),
    "m-check-window": small("A deliberately wrong twin: the check looks through the window, which is a private copy.",
                            [{"op": MOVING, "effect": "mirror"}], mutant="check_through_window"),
}

HOSTS["x-no-nvml"] = dict(
    HOSTS["ok-2xh200-nvlink"], nvml={"available": False}, source="invented",
    description="Two H200 over NVLink in a container without the management library; everything works.")
HOSTS.update(mkhost_founding.HOSTS)
HOSTS.update(mkhost_reported.HOSTS)
HOSTS.update(mkhost_speed.HOSTS)


def host(name):
    h = copy.deepcopy(BASE)
    h.update(copy.deepcopy(HOSTS[name]))
    return h
