"""Boots one guest and brings home what it saw."""

import dataclasses
import io
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time

import initramfs
import machine
from kernel import Missing

CPU_SECONDS = 120  # of QEMU per start, which needs 10 to 30: a boot that hangs in a loop ends, one on a busy machine goes on
SECONDS = 420  # of the clock, for a boot that hangs idle
TRIES = 2  # an emulated boot may stall; a wrong answer is never tried again
QEMU = "qemu-system-x86_64"
FIRST_UNFIT_AMD = 10  # from this QEMU on, Linux 6.1 does not start with its AMD IOMMU under TCG


@dataclasses.dataclass
class Look:
    """What one step brought: the program's answer, and the guest's other witnesses as text by file name."""

    name: str
    exit: int
    report: dict
    stderr: str
    files: dict


class NotBooted(Exception):
    """The guest did not come to its end; the text is its console."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a boot is made of."""

    program: pathlib.Path
    dma: pathlib.Path
    devices: pathlib.Path
    kernel: pathlib.Path


def qemu_version():
    path = shutil.which(QEMU)
    if path is None:
        raise Missing(f"no {QEMU} here")
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"version (\d+)", text).group(1))


def check_tools(boot, devices):
    """Raises Missing with the reason why this boot cannot be made here."""
    version = qemu_version()
    if boot.iommu == "amd" and version >= FIRST_UNFIT_AMD:
        raise Missing(f"QEMU {version} cannot start this kernel with an AMD IOMMU")
    types = subprocess.run([QEMU, "-device", "help"], capture_output=True, text=True, check=False,
                           env=dict(os.environ, LD_PRELOAD=str(devices))).stdout
    if "fakegpu" not in types:
        raise Missing(f"this {QEMU} does not export its object model (built without modules)")


def run_qemu(command, environment):
    """The console's text; the guest and all it started are gone afterwards."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=environment, start_new_session=True,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5)))
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        out += b"\n(ended after %d s)\n" % SECONDS
    if process.returncode != 0:
        out += b"\n(QEMU ended with %d)\n" % process.returncode
    lines = out.decode("utf-8", "replace").replace("\r", "").splitlines()
    return "\n".join(line for line in lines if "TCG doesn't support requested feature" not in line)


def start_once(boot, parts, folder):
    """{path below /out of the guest: bytes}, and the console."""
    initrd = folder / "initrd.cpio"
    out = folder / "out.tar.gz"
    initrd.write_bytes(initramfs.build(parts.program, parts.dma, parts.kernel, boot.steps))
    environment = dict(os.environ, LD_PRELOAD=str(parts.devices), LAB_SWITCH_ACS="1" if boot.switch_acs else "0",
                       LAB_LINKS=boot.links)
    command = [QEMU] + machine.arguments(boot, parts.kernel / "vmlinuz", initrd, out)
    console = run_qemu(command, environment)
    if "lab: end" not in console:
        raise NotBooted(console)
    with tarfile.open(fileobj=io.BytesIO(out.read_bytes())) as tar:
        return {member.name.removeprefix("./"): tar.extractfile(member).read() for member in tar if member.isfile()}, console


def looks_of(files):
    """The looks in the order of their names in the guest's folder."""
    looks = {}
    for path, data in files.items():
        step, _, name = path.partition("/")
        looks.setdefault(step, {})[name] = data.decode("utf-8", "replace")
    made = {}
    for step, texts in looks.items():
        report = None
        try:
            report = json.loads(texts.get("probe.json", ""))
        except ValueError:
            pass  # judge.py says that there is no report
        made[step] = Look(step, int(texts.get("exit.txt", "-1")), report, texts.get("probe.err", ""), texts)
    return made


def start(boot, parts, keep=None):
    """Boots, at most twice; returns ({step: Look}, console, seconds). keep: a folder for the raw files."""
    begin = time.monotonic()
    for attempt in range(1, TRIES + 1):
        with tempfile.TemporaryDirectory(prefix="p2psafe-qemu-") as scratch:
            try:
                files, console = start_once(boot, parts, pathlib.Path(scratch))
            except NotBooted:
                if attempt == TRIES:
                    raise
                continue
        if keep is not None:
            for path, data in files.items():
                (keep / boot.name / path).parent.mkdir(parents=True, exist_ok=True)
                (keep / boot.name / path).write_bytes(data)
        return looks_of(files), console, time.monotonic() - begin
    raise AssertionError("unreachable")
