#!/usr/bin/env python3
"""Makes a host folder out of a captured tree: sys/ at its top, dmesg.txt, proc/; only what p2psafe reads.

usage: mkcapture.py TREE HOST_DIR      TREE: a folder or .tar.gz with sys/, proc/ and dmesg.txt

Kept are the NVIDIA GPUs, the bridges above them and their IOMMU groups. Configuration space is kept of bridges only: that
of a GPU without the nvidia driver is never read. expect.json of an existing folder stays; it is written by hand.
"""

import argparse
import os
import pathlib
import re
import shutil
import sys
import tarfile
import tempfile

ATTRIBUTES = ("vendor", "device", "class", "subsystem_vendor", "subsystem_device", "uevent", "numa_node", "resource",
              "power_state", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width",
              "dma_mask_bits", "boot_vga")
BRIDGE_ATTRIBUTES = ("config", "secondary_bus_number", "subordinate_bus_number")
FILES = ("dmesg.txt", "proc/cmdline", "proc/version", "sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name",
         "sys/class/dmi/id/bios_version")
CPUINFO_KEYS = ("vendor_id", "model name", "flags")
# What a boot of a guest says that nobody reads, and that makes the file long.
LOG = re.compile(r"Linux version|Command line|DMI:|iommu|IOMMU|AMD-Vi|DMAR|IVRS|AER|\bACS\b|NVRM|Xid|SEV|SME|Hypervisor"
                 r"|pci 0000:\S+: (\[|reg |bridge window|can't claim|no space|failed to assign|BAR)")


def is_gpu(device):
    return (device / "vendor").read_text().strip() == "0x10de" and (device / "class").read_text().startswith("0x03")


def kept_devices(tree):
    """{address: folder}: the GPUs and every bridge on the way to them."""
    root = tree / "sys/devices"
    keep = {}
    for link in sorted((tree / "sys/bus/pci/devices").iterdir()):
        folder = pathlib.Path(os.path.normpath(link.parent / os.readlink(link)))
        if not is_gpu(folder):
            continue
        keep[folder.name] = folder
        for parent in folder.parents:
            if parent.parent == root:
                break
            keep[parent.name] = parent
    return keep


def copy_file(tree, target, path):
    if (tree / path).is_file():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree / path, target / path)


def copy_link(tree, target, path):
    if (tree / path).is_symlink():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).symlink_to(os.readlink(tree / path))


def copy_device(tree, target, address, folder):
    path = folder.relative_to(tree)
    names = ATTRIBUTES + (() if is_gpu(folder) else BRIDGE_ATTRIBUTES)
    for name in names:
        copy_file(tree, target, path / name)
    copy_link(tree, target, path / "iommu_group")
    if is_gpu(folder):
        copy_link(tree, target, path / "driver")
    copy_link(tree, target, pathlib.Path("sys/bus/pci/devices") / address)


def copy_groups(tree, target, devices):
    """The groups of what is kept, with their members; a member that is not kept would be a link to nothing."""
    for group in sorted((tree / "sys/kernel/iommu_groups").glob("*")):
        members = [member.name for member in (group / "devices").iterdir() if member.name in devices]
        path = group.relative_to(tree)
        if members:
            copy_file(tree, target, path / "type")
        for name in members:
            copy_link(tree, target, path / "devices" / name)


def copy_units(tree, target):
    """The IOMMUs. Without any the folder stays absent, though the kernel makes an empty one: git keeps no empty folder."""
    for unit in sorted((tree / "sys/class/iommu").iterdir()):
        copy_link(tree, target, unit.relative_to(tree))
        for name in ("intel-iommu/version", "intel-iommu/cap", "intel-iommu/ecap", "amd-iommu/cap", "amd-iommu/features"):
            copy_file(tree, target, (unit.resolve() / name).relative_to(tree.resolve()))


def write_cpuinfo(tree, target):
    """The first processor, and of it what is asked for."""
    lines = (tree / "proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    (target / "proc/cpuinfo").write_text("".join(f"{line}\n" for line in lines if line.startswith(CPUINFO_KEYS)))


def convert(tree, target):
    for name in ("sys", "proc"):
        shutil.rmtree(target / name, ignore_errors=True)
    target.mkdir(parents=True, exist_ok=True)
    devices = kept_devices(tree)
    for address, folder in devices.items():
        copy_device(tree, target, address, folder)
    copy_groups(tree, target, devices)
    copy_units(tree, target)
    for path in FILES:
        copy_file(tree, target, path)
    write_cpuinfo(tree, target)
    log = [line for line in (tree / "dmesg.txt").read_text().splitlines() if LOG.search(line)]
    (target / "dmesg.txt").write_text("\n".join(log) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("host", type=pathlib.Path)
    args = parser.parse_args()
    if args.tree.is_dir():
        convert(args.tree.resolve(), args.host)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(args.tree) as tar:
            tar.extractall(scratch, filter="tar")
        convert(pathlib.Path(scratch), args.host)
    return 0


if __name__ == "__main__":
    sys.exit(main())
