"""What an ELF file asks of the system it is loaded on, read with readelf: libraries, and the newest symbol versions of glibc.

usage: elf.py FILE...    prints the lowest manylinux tag that each file, and all of them together, may carry (PEP 600)
"""

import re
import subprocess
import sys
from pathlib import Path

# What manylinux promises to be there and we rely on: the parts of glibc. Everything else is brought along.
GLIBC_LIBRARIES = re.compile(r"^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux[\w.-]*\.so\.\d)$")
# Versions that are not numbers: relative relocations need the linker of glibc 2.36.
NAMED_VERSIONS = {"GLIBC_ABI_DT_RELR": (2, 36)}
# manylinux2014: no tag for a lower glibc is worth having, since no installer in use would choose it.
LOWEST = (2, 17)
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}


class Unfit(Exception):
    """The file cannot be shipped as it is."""


def _readelf(option, path):
    done = subprocess.run(["readelf", option, "-W", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          universal_newlines=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    if done.returncode != 0 or "Error" in done.stderr:
        raise Unfit("%s: readelf %s: %s" % (path, option, done.stderr.strip()))
    return done.stdout


def is_elf(path):
    with open(path, "rb") as stream:
        return stream.read(4) == b"\x7fELF"


def machine(path):
    """The machine as a wheel's tag spells it."""
    found = re.search(r"^\s*Machine:\s*(.*?)\s*$", _readelf("-h", path), re.MULTILINE)
    if found is None or found.group(1) not in MACHINES:
        raise Unfit("%s: no wheel tag is known for the machine %s" % (path, found and found.group(1)))
    return MACHINES[found.group(1)]


def needed(path):
    """Names of the libraries that it needs."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", _readelf("-d", path))


def run_path(path):
    """Its RPATH or RUNPATH, or None."""
    found = re.search(r"\((?:RUNPATH|RPATH)\)\s+Library (?:runpath|rpath): \[([^\]]*)\]", _readelf("-d", path))
    return found.group(1) if found else None


def glibc(path):
    """(major, minor) of the oldest glibc that has every versioned symbol it needs."""
    section = _readelf("-V", path).partition("Version needs section")[2]
    newest = LOWEST
    for name in re.findall(r"Name: (GLIBC_\S+)", section):
        if name in NAMED_VERSIONS:
            newest = max(newest, NAMED_VERSIONS[name])
            continue
        number = re.match(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?$", name)
        if number is None:
            raise Unfit("%s: needs %s, which no other glibc has to offer" % (path, name))
        newest = max(newest, (int(number.group(1)), int(number.group(2))))
    return newest


def tag(paths):
    """The lowest manylinux tag for all of these together. Unfit when they need what is neither among them nor in glibc."""
    paths = [Path(path) for path in paths]
    brought = {path.name for path in paths}
    for path in paths:
        for name in needed(path):
            if name not in brought and not GLIBC_LIBRARIES.match(name):
                raise Unfit("%s needs %s, which is not brought along" % (path.name, name))
    machines = {machine(path) for path in paths}
    if len(machines) != 1:
        raise Unfit("%d machines: %s" % (len(machines), ", ".join(sorted(machines))))
    return "manylinux_%d_%d_%s" % (*max(glibc(path) for path in paths), machines.pop())


def main():
    paths = sys.argv[1:]
    for path in paths:
        print("%-40s glibc %d.%d, needs %s" % (Path(path).name, *glibc(path), " ".join(needed(path))))
    print(tag(paths))


if __name__ == "__main__":
    try:
        main()
    except (Unfit, OSError) as exc:
        raise SystemExit(str(exc))
