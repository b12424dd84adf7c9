"""Simulated machines made on the fly, and one run of the program on them. Shared by table.py and soak.py."""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

import mkhost  # noqa: E402
import mkhost_table  # noqa: E402

DROPPED = ("P2PSAFE_", "CUDA_", "NCCL_", "XDG_")
RUN_SECONDS = 560  # above every deadline that is asked for


def address(index):
    return f"0000:{0x10 + 8 * index:02x}:00.0"


def describe(gpus, **more):
    """A machine of so many GPUs, each on a root port of its own, in the form of mkhost_table.py."""
    host = copy.deepcopy(mkhost_table.BASE)
    host.update(mkhost_table.small("made by a test", [], count=2))
    host["gpus"] = mkhost_table.pcie_gpus([address(i) for i in range(gpus)], [f"0000:{0x0F + 8 * i:02x}:01.1" for i in range(gpus)])
    host.update(more)
    return host


def write(host, folder):
    mkhost_table.HOSTS["made"] = host
    mkhost.build("made").write(str(folder))


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(DROPPED)}


class Run:
    """What one `p2psafe test --json` said."""

    def __init__(self, program, host, options=()):
        with tempfile.TemporaryDirectory(prefix="p2psafe-machine-") as folder:
            write(host, folder)
            command = [str(program), "--host", folder, "test", "--json", "--no-cache", *options]
            start = time.monotonic()
            try:
                done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=RUN_SECONDS)
                self.exit, out, self.stderr = done.returncode, done.stdout, done.stderr
            except subprocess.TimeoutExpired:
                self.exit, out, self.stderr = None, "", f"no end after {RUN_SECONDS} s"
            self.seconds = time.monotonic() - start
        try:
            self.report = json.loads(out)
        except ValueError:
            self.report = None

    def legs(self):
        """(src, dst, leg) of every leg in the report."""
        for pair in self.report["pairs"] if self.report else []:
            for leg in pair["legs"]:
                yield pair["src"], pair["dst"], leg
