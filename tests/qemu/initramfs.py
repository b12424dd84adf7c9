"""The guest's file system: busybox, lspci and setpci, the program under test with its libraries, init and the steps."""

import pathlib
import re
import shutil
import subprocess

from kernel import Missing

GUEST = pathlib.Path(__file__).resolve().parent / "guest"
DRIVER_NAME = (b"\0pci-stub\0", b"\0nvidia\0\0\0")  # the same length: only a string of the module changes
SIGNED = b"~Module signature appended~\n"
PASSWD = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"


def entry(name, mode, data, number):
    """One file in the "newc" format of cpio (Linux, Documentation/driver-api/early-userspace/buffer-format.rst)."""
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    head += b"\0" * (-len(head) % 4)
    return head + data + b"\0" * (-len(data) % 4)


def archive(files):
    """{path: (mode, bytes)} as an initramfs, with every folder on the way."""
    folders = sorted({str(parent) for path in files for parent in pathlib.PurePosixPath(path).parents} - {"."})
    parts = [entry(folder, 0o040755, b"", number) for number, folder in enumerate(folders, 1)]
    for number, (path, (mode, data)) in enumerate(sorted(files.items()), len(parts) + 1):
        parts.append(entry(path, mode, data, number))
    return b"".join(parts) + entry("TRAILER!!!", 0, b"", 0)


def binary(name):
    path = shutil.which(name)
    if path is None:
        raise Missing(f"no {name} here")
    return pathlib.Path(path).resolve()


def libraries(programs):
    """The shared libraries of these programs, loader included, under the names they are asked for."""
    found = set()
    for program in programs:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        found.update(re.findall(r"(?:=> )?(/\S+) \(0x", done.stdout))
        lost = re.findall(r"(\S+) => not found", done.stdout)
        if lost:
            raise FileNotFoundError(f"{program} needs {', '.join(lost)}")
    return found


def unsigned(data):
    """A module without its signature, which does not fit a changed module; Debian's kernel takes unsigned ones."""
    if not data.endswith(SIGNED):
        return data
    end = len(data) - len(SIGNED)
    length = int.from_bytes(data[end - 4:end], "big")  # Linux, include/linux/module_signature.h: 12 bytes, the last 4 a length
    return data[:end - 12 - length]


def stub_driver(folder):
    """The kernel's pci-stub module under the name nvidia."""
    module = folder / "pci-stub.ko"
    packed = folder / "pci-stub.ko.xz"
    if packed.exists():
        module.write_bytes(subprocess.run(["xz", "-dc", str(packed)], capture_output=True, check=True).stdout)
    data = module.read_bytes()
    if data.count(DRIVER_NAME[0]) != 1:
        raise ValueError(f"{module}: the driver's name occurs {data.count(DRIVER_NAME[0])} times, expected once")
    return unsigned(data).replace(*DRIVER_NAME)


def build(program, dma, kernel, steps):
    """The archive for one boot. program: bin/p2psafe of a build or an installation, with lib and libexec beside it."""
    top = program.parent.parent
    helper = top / "libexec" / "p2psafe" / "p2psafe-helper"
    library = top / "lib" / "libp2psafe.so.1"
    tools = {name: binary(name) for name in ("lspci", "setpci")}
    files = {
        "init": (0o100755, (GUEST / "init").read_bytes()),
        "bin/busybox": (0o100755, binary("busybox").read_bytes()),
        "bin/sh": (0o120777, b"busybox"),
        "usr/bin/dma": (0o100755, dma.read_bytes()),
        "etc/passwd": (0o100644, PASSWD.encode()),
        "etc/group": (0o100644, GROUP.encode()),
        "lab/nvidia.ko": (0o100644, stub_driver(kernel)),
        "lab/steps": (0o100644, " ".join(steps).encode()),
        "p2psafe/bin/p2psafe": (0o100755, program.read_bytes()),
        "p2psafe/lib/libp2psafe.so.1": (0o100755, library.read_bytes()),
        "p2psafe/libexec/p2psafe/p2psafe-helper": (0o100755, helper.read_bytes()),
    }
    for folder in ("proc", "sys", "dev"):
        files[f"{folder}/.keep"] = (0o100644, b"")
    for step in steps:
        files[f"lab/{step}.sh"] = (0o100644, (GUEST / "steps" / f"{step}.sh").read_bytes())
    for name, path in tools.items():
        files[f"usr/bin/{name}"] = (0o100755, path.read_bytes())
    for path in libraries([*tools.values(), dma, program, library, helper]):
        if "libp2psafe" not in path:
            files[path.lstrip("/")] = (0o100755, pathlib.Path(path).read_bytes())
    return archive(files)
