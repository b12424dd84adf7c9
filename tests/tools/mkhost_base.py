"""What is the same on most simulated hosts, and the cards that they are built of. The tables of hosts build on it."""

import copy

GIB = 1024  # MiB

BASE = dict(
    description="", source="invented", meta={}, kmsg=None, gpus=[], links={"default": {"kind": "pcie"}}, faults=[], nvml={},
    driver_api=12080, driver_version="575.57.08", flavour="open", registry="", srcversion="5A7D0C7C6A0B1E6F3C2D4E1",
    kernel="6.8.0-60-generic", cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet", hypervisor=False,
    cpu="AMD EPYC 7543 32-Core Processor", port_id=(0x1022, 0x1483), acs=0x0000, group_type="identity",
    iommu_units=[], extra={}, memory_gib=256, config_bytes=4096, arch="x86_64", cpu_flags="",
    boot_id="7c0d3a52-8f4e-4b7e-9a51-3f2d6f0c1b9e", dmi=("Example", "Server", "1.0"),
    tells_gpus=True,  # /proc/driver/nvidia/gpus is there
)

GPU = dict(
    port=None, device=0x26B1, sub=(0x10DE, 0x16A1), node=0, gen=4, driver="nvidia", minor=0, cc=[8, 9], sm=16,
    memory_mib=48 * GIB, free_mib=20 * GIB, name="NVIDIA RTX 6000 Ada Generation", vbios="95.02.51.00.06",
)
GPU["class"] = 0x030000


def staged_path(bytes_per_s, small_ns=None):
    """`staged` of a machine on which 16 MiB travel through host memory at this speed, and 12 KiB in small_ns.

    What is measured and reported is the whole way. The model knows its halves, into host memory and out of it: small transfers
    pay for both, one after the other; of large ones the halves overlap, in slots of 2 MiB.
    """
    slot, small = 2 << 20, 12 << 10
    each = slot * 1e9 / bytes_per_s
    if small_ns is None:
        latency = 14000
    else:
        latency = (slot * small_ns / 2 - small * each) / (slot - small)
    return {"bytes_per_s": round(slot * 1e9 / (each - latency)), "latency_ns": round(latency)}


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


def switched(switches, **more):
    """GPUs behind switches: (root port, upstream port, downstream ports, GPUs) of each; one NUMA node per switch."""
    out = []
    for node, (port, up, downs, bdfs) in enumerate(switches):
        for down, bdf in zip(downs, bdfs):
            n = len(out)
            out.append(gpu(bdf, n, (0x20000000000 + n * 0x1000000000, 64 << 30), port=port, switch=(up, down), node=node,
                           group=20 + n, **more))
    return out


def small(description, faults, count=2, **more):
    """A minimal two-GPU PCIe host with one kind of fault."""
    bdfs = ["0000:41:00.0", "0000:61:00.0", "0000:81:00.0"][:count]
    ports = ["0000:40:03.1", "0000:60:03.1", "0000:80:03.1"][:count]
    return dict(description=description, gpus=pcie_gpus(bdfs, ports), faults=faults, iommu_units=["ivhd0"],
                cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt",
                    kmsg=["iommu: Default domain type: Passthrough"], **more)


def hidden(gpu):
    """A GPU that a container runtime gave to somebody else: sysfs shows it, node and driver do not."""
    return dict(gpu, hidden=True)


def able(host, *more):
    """The host, with more members in cuda.json for each of its GPUs."""
    return dict(host, gpus=[dict(g, cuda=m) for g, m in zip(host["gpus"], more)])


def said(fault, line):
    """The fault, and the line that the kernel logs when it happens."""
    return dict(fault, kmsg=line)


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


RTX3090 = dict(device=0x2204, sub=(0x1462, 0x3884), cc=[8, 6], sm=82, memory_mib=24576, free_mib=20 * GIB,
               name="NVIDIA GeForce RTX 3090", vbios="94.02.42.80.E2")
RTX4090 = dict(device=0x2684, sub=(0x1043, 0x889A), cc=[8, 9], sm=128, memory_mib=24564, free_mib=20 * GIB,
               name="NVIDIA GeForce RTX 4090", vbios="95.02.18.80.5B")
