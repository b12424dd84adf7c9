#!/usr/bin/env python3
"""Makes the simulated hosts below tests/hosts: cuda.json, host.json, kmsg and the root/ tree of each.

usage: mkhost.py [--check] [NAME ...]      without names: all

The descriptions are in mkhost_table.py. expect.json is written by hand and never touched. --check writes nothing and fails
when a tree differs from what would be made."""

import json
import os
import shutil
import struct
import sys
import tempfile

import mkhost_table

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = os.path.join(os.path.dirname(HERE), "hosts")

PARAMS = """ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
InitializeSystemMemoryAllocations: 1
UsePageAttributeTable: 4294967295
EnableMSI: 1
EnablePCIeGen3: 0
MemoryPoolSize: 0
KMallocHeapMaxSize: 0
VMallocHeapMaxSize: 0
IgnoreMMIOCheck: 0
EnableStreamMemOPs: 0
EnableUserNUMAManagement: 1
NvLinkDisable: 0
RmProfilingAdminOnly: 1
PreserveVideoMemoryAllocations: 0
EnableS0ixPowerManagement: 0
S0ixPowerManagementVideoMemoryThreshold: 256
DynamicPowerManagement: 3
DynamicPowerManagementVideoMemoryThreshold: 200
RegisterPCIDriver: 1
EnablePCIERelaxedOrderingMode: 0
EnableResizableBar: 0
EnableGpuFirmware: 18
EnableGpuFirmwareLogs: 2
EnableDbgBreakpoint: 0
OpenRmEnableUnsupportedGpus: 1
DmaRemapPeerMmio: 1
ImexChannelCount: 2048
CreateImexChannel0: 0
GrdmaPciTopoCheckOverride: 0
CoherentGPUMemoryMode: ""
RegistryDwords: "%s"
RegistryDwordsPerDevice: ""
RmMsg: ""
GpuBlacklist: ""
TemporaryFilePath: ""
ExcludedGpus: ""
"""

MEM64 = 0x14220C  # IORESOURCE flags as sysfs prints them: 64-bit prefetchable memory
MEM32 = 0x40200
WINDOW64 = 0x102201
WINDOW32 = 0x200


class Tree:
    """Files of one host, collected before any is written."""

    def __init__(self):
        self.files = {}
        self.links = {}
        self.dirs = set()

    def put(self, path, data):
        self.files[path] = data if isinstance(data, bytes) else data.encode()

    def line(self, path, text):
        self.put(path, "%s\n" % text)

    def link(self, path, target):
        """A relative link to another path of the tree."""
        self.links[path] = os.path.relpath(target, os.path.dirname(path))

    def write(self, top):
        for d in self.dirs:
            os.makedirs(os.path.join(top, d), exist_ok=True)
        for path, data in self.files.items():
            full = os.path.join(top, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as f:
                f.write(data)
        for path, target in self.links.items():
            full = os.path.join(top, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            os.symlink(target, full)
        # git keeps no empty folders. Those of IOMMU units and drivers need a file; an empty list of units is no folder at all.
        for d in self.dirs:
            full = os.path.join(top, d)
            if os.path.isdir(full) and not os.listdir(full):
                if os.path.basename(os.path.dirname(full)) in ("iommu", "drivers"):
                    open(os.path.join(full, "uevent"), "w").close()
                else:
                    os.rmdir(full)


def pcie_capability(config, at, kind, speed, width, after, now):
    config[at] = 0x10
    config[at + 1] = after
    struct.pack_into("<H", config, at + 2, 2 | kind << 4)
    struct.pack_into("<I", config, at + 12, speed | width << 4)  # link capabilities
    struct.pack_into("<H", config, at + 18, speed | now << 4)  # link status


def windows(config, regions):
    """A bridge's memory window below 4 GiB and its 64-bit prefetchable one."""
    for index, at in ((14, 0x20), (15, 0x24)):
        start, size, _ = regions.get(index, (0x100000, 0, 0))  # base above limit: closed
        end = start + size - 1 if size else 0
        wide = 1 if index == 15 else 0
        struct.pack_into("<HH", config, at, start >> 16 & 0xFFF0 | wide, end >> 16 & 0xFFF0 | wide)
        if wide:
            struct.pack_into("<II", config, 0x28, start >> 32, end >> 32)


def resizable_bar(config, at, size_mib, max_mib):
    """The capability of BAR 1: bit 4 + n of the first register stands for 2^n MiB."""
    struct.pack_into("<I", config, at, 0x0015 | 1 << 16)
    struct.pack_into("<I", config, at + 4, sum(1 << n + 4 for n in range(6, max_mib.bit_length())) & 0xFFFFFFFF)
    struct.pack_into("<I", config, at + 8, 1 | 1 << 5 | (size_mib.bit_length() - 1) << 8)


def config_space(dev, size):
    """Header, PCI Express capability, the hypervisor's P2P capability, ACS, Resizable BAR."""
    c = bytearray(4096)
    bridge = dev.get("bridge")
    struct.pack_into("<HHHH", c, 0, dev["vendor"], dev["device"], 0x0407, 0x0010)
    c[8] = 0xA1
    struct.pack_into("<I", c, 8, 0xA1 | dev["class"] << 8)
    c[14] = 1 if bridge else 0
    if bridge:
        c[0x18], c[0x19], c[0x1A] = dev["bus"], dev["secondary"], dev["secondary"]
        windows(c, dev["regions"])
    else:
        struct.pack_into("<HH", c, 0x2C, dev["sub_vendor"], dev["sub_device"])
    c[0x34] = 0x60
    clique = dev.get("clique")
    pcie_capability(c, 0x60, dev.get("port_type", 4) if bridge else 0, dev["gen"], 16, 0xC8 if clique is not None else 0,
                    dev.get("width_now", 16))
    if clique is not None:
        c[0xC8:0xD0] = bytes([0x09, 0, 8]) + b"P2P" + bytes([clique << 3, 0])
    acs = dev.get("acs")
    more = 0x2A0 if acs is not None else 0x300 if dev.get("rebar_mib") else 0
    struct.pack_into("<I", c, 0x100, 0x0001 | 1 << 16 | more << 20)  # AER
    if acs is not None:
        struct.pack_into("<I", c, 0x2A0, 0x000D | 1 << 16)
        struct.pack_into("<HH", c, 0x2A4, 0x005F, acs)
    elif dev.get("rebar_mib"):
        resizable_bar(c, 0x300, dev["bar1_mib"], dev["rebar_mib"])
    return bytes(c[:size])


def resource(regions, lines):
    out = []
    for i in range(lines):
        start, size, flags = regions.get(i, (0, 0, 0))
        out.append("0x%016x 0x%016x 0x%016x" % (start, start + size - 1 if size else 0, flags))
    return "\n".join(out) + "\n"


SPEEDS = {1: "2.5 GT/s PCIe", 3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}


def add_device(tree, host, path, bdf, dev):
    """The sysfs folder of a device, and the links that name it."""
    tree.line(path + "/vendor", "0x%04x" % dev["vendor"])
    tree.line(path + "/device", "0x%04x" % dev["device"])
    tree.line(path + "/class", "0x%06x" % dev["class"])
    tree.line(path + "/revision", "0xa1")
    tree.line(path + "/subsystem_vendor", "0x%04x" % dev.get("sub_vendor", 0))
    tree.line(path + "/subsystem_device", "0x%04x" % dev.get("sub_device", 0))
    tree.line(path + "/numa_node", dev["node"])
    tree.line(path + "/enable", 1)
    tree.line(path + "/dma_mask_bits", dev.get("dma_mask_bits", 32 if dev.get("bridge") else 47))
    for word in ("current", "max"):
        tree.line("%s/%s_link_speed" % (path, word), dev.get("link_text", SPEEDS[dev["gen"]]))
        width = dev.get("width_now", 16) if word == "current" else 16
        tree.line("%s/%s_link_width" % (path, word), 0 if "link_text" in dev else width)
    if "boot_vga" in dev:
        tree.line(path + "/boot_vga", dev["boot_vga"])
    tree.put(path + "/resource", resource(dev.get("regions", {}), 17 if dev.get("bridge") else 13))
    tree.put(path + "/config", config_space(dev, host["config_bytes"]))
    tree.link("root/sys/bus/pci/devices/" + bdf, path)
    if dev.get("driver"):
        driver = "root/sys/bus/pci/drivers/" + dev["driver"]
        tree.dirs.add(driver)
        tree.link(path + "/driver", driver)
        tree.link("%s/%s" % (driver, bdf), path)
    group = dev.get("group")
    if group is not None:
        folder = "root/sys/kernel/iommu_groups/%d" % group
        tree.line(folder + "/type", dev.get("group_type", host["group_type"]))
        tree.link(path + "/iommu_group", folder)
        tree.link("%s/devices/%s" % (folder, bdf), path)


def gpu_device(gpu):
    bar = gpu["bar1"]
    if "regions" in gpu:
        regions = gpu["regions"]
    else:
        regions = {0: (0xA0000000 + (gpu["minor"] << 24), 16 << 20, MEM32), 1: (bar[0], bar[1], MEM64),
                   3: (bar[0] + bar[1], 32 << 20, MEM64)}
    dev = dict(vendor=0x10DE, device=gpu["device"], sub_vendor=gpu["sub"][0], sub_device=gpu["sub"][1], node=gpu["node"],
               gen=gpu["gen"], driver=gpu["driver"], regions=regions)
    dev["class"] = gpu["class"]
    for key in ("group", "group_type", "boot_vga", "clique", "dma_mask_bits", "link_text", "width_now", "rebar_mib"):
        if gpu.get(key) is not None:
            dev[key] = gpu[key]
    dev["bar1_mib"] = bar[1] >> 20
    return dev


def bridge_regions(below):
    """The windows that hold the BARs of the devices below."""
    out = {}
    for index, high in ((14, False), (15, True)):
        held = [(start, start + size) for one in below for start, size, _ in one.values()
                if size and (start >> 32 != 0) == high]
        if held:
            start = min(h[0] for h in held) & ~0xFFFFF
            out[index] = (start, (max(h[1] for h in held) + 0xFFFFF & ~0xFFFFF) - start, WINDOW64 if high else WINDOW32)
    return out


def bus_of(bdf):
    return int(bdf.split(":")[-2], 16)


def bridges_of(gpu):
    """Root port, then upstream and downstream port of each switch on the way to the GPU."""
    if gpu.get("port") is None:
        return []
    return [gpu["port"]] + list(gpu.get("switch", ()))


def add_gpu(tree, host, gpu):
    bdf = gpu["bdf"]
    chain = bridges_of(gpu)
    path = "root/sys/devices/pci" + (chain[0] if chain else bdf).rsplit(":", 1)[0]
    for k, bridge in enumerate(chain):
        path += "/" + bridge
        below = [g for g in host["gpus"] if bridge in bridges_of(g)]
        if below[0]["bdf"] != bdf:
            continue  # was made for the first GPU below it
        dev = dict(vendor=host["port_id"][0], device=host["port_id"][1], node=gpu["node"], gen=gpu["gen"], bridge=True,
                   bus=bus_of(bridge), secondary=bus_of(chain[k + 1] if k + 1 < len(chain) else bdf), driver="pcieport",
                   port_type=4 if k == 0 else 5 if k % 2 else 6, acs=gpu.get("acs", host["acs"]),
                   regions=bridge_regions([gpu_device(g)["regions"] for g in below]), width_now=gpu.get("width_now", 16))
        dev["class"] = 0x060400
        if gpu.get("group") is not None:
            dev.update(group=gpu["group"] + 100 * (k + 1), group_type=gpu.get("group_type", host["group_type"]))
        add_device(tree, host, path, bridge, dev)
    path += "/" + bdf
    add_device(tree, host, path, bdf, gpu_device(gpu))
    if gpu["driver"] != "nvidia" or gpu.get("hidden"):
        return
    tree.put("root/dev/nvidia%d" % gpu["minor"], "")
    if not host["tells_gpus"]:
        return
    tree.put("root/proc/driver/nvidia/gpus/%s/information" % bdf,
             "Model: \t\t %s\nIRQ:   \t\t 64\nGPU UUID: \t %s\nVideo BIOS: \t %s\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n"
             "DMA Mask: \t 0xfffffffffffff\nBus Location: \t %s\nDevice Minor: \t %d\nGPU Firmware: \t %s\nGPU Excluded:\t No\n"
             % (gpu["name"], gpu["uuid"], gpu["vbios"], bdf, gpu["minor"], host["driver_version"]))


def driver_text(host):
    version = host["driver_version"]
    if host["flavour"] == "open":
        first = "NVRM version: NVIDIA UNIX Open Kernel Module for %s  %s  Release Build  (builder@)  " % (host["arch"], version)
    else:
        first = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Thu Oct  6 21:38:55 UTC 2022" % version
    return first + "\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"


def cpuinfo(host):
    if host["arch"] == "aarch64":
        one = "processor\t: %d\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd evtstrm aes sha1 sha2 crc32 atomics sve\n\n"
        return "".join(one % i for i in range(2))
    flags = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat clflush mmx fxsr sse sse2 ht syscall nx lm avx2"
    for more in ([host["cpu_flags"]] if host["cpu_flags"] else []) + (["hypervisor"] if host["hypervisor"] else []):
        flags += " " + more
    vendor = "AuthenticAMD" if host["cpu"].startswith("AMD") else "GenuineIntel"
    one = "processor\t: %d\nvendor_id\t: %s\nmodel name\t: %s\nflags\t\t: %s\n\n"
    return "".join(one % (i, vendor, host["cpu"], flags) for i in range(2))


def add_system(tree, host):
    p = "root/proc/"
    tree.line(p + "cmdline", host["cmdline"])
    tree.line(p + "version", "Linux version %s (builder@) (gcc 12.2.0) #1 SMP PREEMPT_DYNAMIC" % host["kernel"])
    tree.put(p + "cpuinfo", cpuinfo(host))
    tree.line(p + "sys/kernel/osrelease", host["kernel"])
    tree.line(p + "sys/kernel/random/boot_id", host["boot_id"])
    tree.line(p + "sys/kernel/dmesg_restrict", 0)
    tree.put(p + "meminfo", "MemTotal:%16d kB\n" % (host["memory_gib"] << 20))
    # git keeps no empty folder: this file shows that /sys is there, so that an absent class means "no IOMMU driver"
    tree.line("root/sys/kernel/uevent_seqnum", 4711)
    tree.dirs.add("root/sys/class/iommu")
    tree.dirs.add("root/sys/bus/pci/devices")
    tree.dirs.add("root/dev")
    for name in host["iommu_units"]:
        unit = "root/sys/devices/virtual/iommu/" + name
        tree.dirs.add(unit)
        tree.link("root/sys/class/iommu/" + name, unit)
    for path, text in host["extra"].items():
        tree.line("root" + path, text)
    nodes = max([g["node"] for g in host["gpus"]] + [0]) + 1
    for n in range(nodes):
        tree.line("root/sys/devices/system/node/node%d/cpulist" % n, "%d-%d" % (n * 32, n * 32 + 31))
        tree.line("root/sys/devices/system/node/node%d/distance" % n, " ".join("10" if m == n else "32" for m in range(nodes)))
    tree.line("root/sys/devices/system/node/online", "0-%d" % (nodes - 1) if nodes > 1 else "0")
    if host["dmi"]:
        for name, text in zip(("sys_vendor", "product_name", "bios_version"), host["dmi"]):
            tree.line("root/sys/class/dmi/id/" + name, text)
    if host["driver_version"]:
        tree.put(p + "driver/nvidia/version", driver_text(host))
        tree.put(p + "driver/nvidia/params", PARAMS % host["registry"])
        tree.line("root/sys/module/nvidia/version", host["driver_version"])
        tree.line("root/sys/module/nvidia/srcversion", host["srcversion"])
        tree.put("root/dev/nvidiactl", "")
        tree.put("root/dev/nvidia-uvm", "")
    if host.get("bridge"):
        dev = dict(vendor=host["bridge"][0], device=host["bridge"][1], node=-1, gen=3, sub_vendor=0x1AF4, sub_device=0x1100)
        dev["class"] = 0x060000
        add_device(tree, host, "root/sys/devices/pci0000:00/0000:00:00.0", "0000:00:00.0", dev)


def cuda_json(host):
    cuda = dict(driver_api=host["driver_api"])
    for key in ("init_error", "mutant", "seed", "missing_symbols"):
        if host.get(key):
            cuda[key] = host[key]
    cuda["gpus"] = []
    for g in host["gpus"]:
        if g["driver"] != "nvidia" or g.get("hidden"):
            continue
        one = dict(bdf=g["bdf"], uuid=g["uuid"], name=g["name"], minor=g["minor"], cc=g["cc"], sm_count=g["sm"],
                   memory_bytes=g["memory_mib"] << 20, free_bytes=g["free_mib"] << 20)
        one.update(g.get("cuda", {}))
        cuda["gpus"].append(one)
    cuda["links"] = host["links"]
    for key in ("staged", "nvml", "faults"):
        if host.get(key):
            cuda[key] = host[key]
    return cuda


def build(name):
    return tree_of(mkhost_table.host(name))


def tree_of(host):
    tree = Tree()
    meta = dict(description=host["description"], source=host["source"])
    meta.update(host["meta"])
    tree.put("host.json", json.dumps(meta, indent=1) + "\n")
    if host["driver_api"]:
        tree.put("cuda.json", json.dumps(cuda_json(host), indent=1) + "\n")
    for bdf, (gen, width) in host.get("loaded", {}).items():
        tree.line("loaded/sys/bus/pci/devices/%s/current_link_speed" % bdf, SPEEDS[gen])
        tree.line("loaded/sys/bus/pci/devices/%s/current_link_width" % bdf, width)
    if host["kmsg"] is not None:
        tree.put("kmsg", "".join("6,%d,%d,-;%s\n" % (100 + i, 1000000 + i * 5000, t) for i, t in enumerate(host["kmsg"])))
    add_system(tree, host)
    for gpu in host["gpus"]:
        add_gpu(tree, host, gpu)
    return tree


def same(a, b):
    """Both trees, without expect.json."""
    def walk(top):
        out = {}
        for folder, dirs, files in os.walk(top):
            for f in files + [d for d in dirs if os.path.islink(os.path.join(folder, d))]:
                full = os.path.join(folder, f)
                rel = os.path.relpath(full, top)
                if rel != "expect.json":
                    out[rel] = os.readlink(full) if os.path.islink(full) else open(full, "rb").read()
        return out
    return walk(a) == walk(b)


def main(argv):
    check = "--check" in argv
    names = [a for a in argv if a != "--check"] or sorted(mkhost_table.HOSTS)
    bad = []
    for name in names:
        target = os.path.join(HOSTS, name)
        with tempfile.TemporaryDirectory() as tmp:
            build(name).write(tmp)
            if check:
                if not same(tmp, target):
                    bad.append(name)
                continue
            os.makedirs(target, exist_ok=True)
            for old in ("root", "loaded", "cuda.json", "host.json", "kmsg"):
                full = os.path.join(target, old)
                if os.path.isdir(full):
                    shutil.rmtree(full)
                elif os.path.exists(full):
                    os.unlink(full)
            build(name).write(target)
    for name in bad:
        print("%s differs from its description: run tests/tools/mkhost.py %s" % (name, name))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
