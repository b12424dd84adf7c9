#!/usr/bin/env python3
"""Puts a Debian kernel into a folder: vmlinuz and pci-stub.ko, nothing else is needed and nothing is installed.

usage: kernel.py [--folder DIR] [--package NAME]     default folder: .cache/qemu of the source tree

Prints the kernel's release. With the kernel there already it needs no network. Exit code 77: not to be had here, and why.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".cache" / "qemu"
META = "linux-image-amd64"  # depends on the kernel of this Debian release
STUB = "kernel/drivers/pci/pci-stub.ko"


class Missing(Exception):
    """Something that the machine does not have and that is not our fault."""


def tool(name):
    path = shutil.which(name)
    if path is None:
        raise Missing(f"no {name} here: the kernel comes from a Debian package")
    return path


def package_name():
    """The versioned package that the meta package depends on."""
    done = subprocess.run([tool("apt-cache"), "depends", META], capture_output=True, text=True, check=False)
    found = re.search(r"Depends: (linux-image-[0-9]\S*)", done.stdout)
    if found is None:
        raise Missing(f"apt knows no package {META} (not Debian, or no package list: apt-get update)")
    return found.group(1)


def unpack(deb, folder):
    """vmlinuz and pci-stub.ko out of the package, under a name that holds the release; whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        subprocess.run([tool("dpkg-deb"), "-x", str(deb), scratch], check=True)
        top = pathlib.Path(scratch)
        images = list(top.glob("boot/vmlinuz-*"))
        if len(images) != 1:
            raise Missing(f"{deb.name} holds no kernel")
        release = images[0].name.removeprefix("vmlinuz-")
        ready = top / "ready"
        ready.mkdir()
        shutil.move(images[0], ready / "vmlinuz")
        for stub in top.glob(f"**/{release}/{STUB}*"):
            shutil.move(stub, ready / stub.name)
        target = folder / release
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(ready, target)
    return release


def kernels(folder):
    """{release: folder} of what is there."""
    return {path.parent.name: path.parent for path in folder.glob("*/vmlinuz")}


def fetch(folder=FOLDER, package=None):
    """The folder of the kernel, got if need be."""
    have = kernels(folder)
    if package is None and have:
        return have[max(have)]
    name = package or package_name()
    release = name.removeprefix("linux-image-")
    if release in have:
        return have[release]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        done = subprocess.run([tool("apt-get"), "download", "-qq", name], cwd=scratch, capture_output=True, text=True,
                              check=False)
        debs = list(pathlib.Path(scratch).glob("*.deb"))
        if done.returncode != 0 or not debs:
            why = done.stderr.strip().splitlines()
            raise Missing(f"apt-get download {name} failed: {why[-1] if why else 'no word why'}")
        return folder / unpack(debs[0], folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--package", help="another kernel, such as linux-image-6.12.95+deb12-amd64 of the backports")
    args = parser.parse_args()
    try:
        print(fetch(args.folder, args.package).name)
    except Missing as missing:
        print(f"no kernel: {missing}", file=sys.stderr)
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
