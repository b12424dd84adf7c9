"""Machines whose bytes are right and whose speeds are not."""

from mkhost_base import *


def measured(description, gpus=None, **more):
    """Gen4 GPUs on root ports of their own, nothing damaged."""
    bdfs = ["0000:41:00.0", "0000:61:00.0"]
    return dict(description=description, gpus=gpus or pcie_gpus(bdfs, ["0000:40:03.1", "0000:60:03.1"]), iommu_units=["ivhd0"],
                cmdline="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet iommu=pt",
                kmsg=["iommu: Default domain type: Passthrough"],
                nvml=more.pop("nvml", {"p2p_nvlink": "NS"}), **more)


def four():
    """Two GPUs on each of two sockets."""
    bdfs = ["0000:01:00.0", "0000:21:00.0", "0000:81:00.0", "0000:a1:00.0"]
    ports = ["0000:00:01.1", "0000:20:01.1", "0000:80:01.1", "0000:a0:01.1"]
    return [dict(g, node=i // 2) for i, g in enumerate(pcie_gpus(bdfs, ports, sm=4))]


def across(bytes_per_s):
    """Links between the sockets."""
    near, far = ["0000:01:00.0", "0000:21:00.0"], ["0000:81:00.0", "0000:a1:00.0"]
    return [{"src": a, "dst": b, "bytes_per_s": bytes_per_s} for x, y in ((near, far), (far, near)) for a in x for b in y]


HOSTS = {
    "x-too-fast": measured("Peer copies are done sooner than any Gen4 link could carry them, and every compared byte is right.",
                           faults=[{"op": ["ce_write", "ce_read"], "effect": "fast", "factor": 4}]),
    "x-too-fast-guest": measured("The same in a guest, whose links are what its hypervisor draws.", hypervisor=True,
                                 faults=[{"op": ["ce_write", "ce_read"], "effect": "fast", "factor": 4}]),
    "x-nvlink-in-name": measured("NVML counts four NVLinks between the two, and the bytes go as slowly as over PCIe.",
                                 links={"default": {"kind": "nvlink", "nvlinks": 4, "bytes_per_s": 24000000000}},
                                 nvml={"link_bytes_per_s": 14062500000}),
    "x-slower-than-staging": measured("Peers at 2 GB/s, staging at 13 GB/s, as on a workstation of three cards.",
                                      links={"default": {"kind": "pcie", "bytes_per_s": 2000000000}},
                                      staged={"bytes_per_s": 26300000000}),
    "x-half-lanes": measured("One card has trained eight of its sixteen lanes.",
                             gpus=[dict(g, width_now=8 if i == 0 else 16) for i, g in enumerate(pcie_gpus(
                                 ["0000:41:00.0", "0000:61:00.0"], ["0000:40:03.1", "0000:60:03.1"]))],
                             links={"default": {"kind": "pcie", "bytes_per_s": 13000000000}},
                             staged={"bytes_per_s": 13000000000}),
    "x-slow-link": measured("One card's link goes at half its speed also while transfers run; the other only when idle.",
                            loaded={"0000:40:03.1": (3, 16), "0000:41:00.0": (3, 16), "0000:60:03.1": (4, 16),
                                    "0000:61:00.0": (4, 16)},
                            links={"default": {"kind": "pcie", "bytes_per_s": 13000000000}},
                            staged={"bytes_per_s": 13000000000}),
    "x-narrow-sockets": measured("The link between the sockets carries a quarter of what pairs within one reach.", gpus=four(),
                                 links={"default": {"kind": "pcie", "bytes_per_s": 25000000000}, "pairs": across(5000000000)},
                                 staged={"bytes_per_s": 20000000000}),
    "x-hang-measured": measured("An engine that was right in every leg and does not come back from the large copies that are timed.",
                                gpus=four(), links={"default": {"kind": "pcie", "bytes_per_s": 25000000000}},
                                faults=[{"src": "0000:01:00.0", "dst": "0000:21:00.0", "op": "ce_write", "effect": "wedge",
                                         "min_bytes": 12 << 20}]),
    "x-collapse": measured("The link between the sockets breaks down as soon as more than one transfer crosses it.",
                           gpus=four(),
                           links={"default": {"kind": "pcie", "bytes_per_s": 25000000000},
                                  "uplinks": [{"gpus": ["0000:81:00.0", "0000:a1:00.0"], "bytes_per_s": 25000000000,
                                               "lost_percent": 90}]}),
}
