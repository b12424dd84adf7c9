#!/usr/bin/env python3
"""A machine whose libraries lie where only LD_LIBRARY_PATH says, behind as many other folders as a module system puts there: every
process of a simulated run finds them there, too.

usage: library_path.py --program PATH"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import machine
from kill import workers

LIBRARY = "libjansson.so.4"
# Somebody's kernels never come back: the workers are there as long as they are looked at.
FAULT = {"op": "sm_store", "effect": "wedge"}


def mapped(pid):
    """Where a process has the library from; None while it has not."""
    try:
        found = re.search(rf"(/\S*/{re.escape(LIBRARY)}\S*)$", pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"), re.M)
    except OSError:
        return None
    return found and pathlib.Path(found.group(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, type=pathlib.Path)
    args = parser.parse_args()
    listed = subprocess.run(["ldd", str(args.program)], capture_output=True, text=True, timeout=60).stdout
    system = re.search(rf"{re.escape(LIBRARY)} => (\S+)", listed)
    if not system:
        print(f"{args.program} needs no {LIBRARY}: nothing is proven")
        return 1
    with tempfile.TemporaryDirectory(prefix="p2psafe-libraries-") as folder:
        own = pathlib.Path(folder).resolve() / "libraries"
        own.mkdir()
        shutil.copy(pathlib.Path(system.group(1)).resolve(), own / LIBRARY)
        host = os.path.join(folder, "host")
        machine.write(machine.describe(2, faults=[FAULT]), host)
        path = ":".join([f"/opt/modules/{i:03d}/lib64" for i in range(100)] + [str(own)])
        run = subprocess.Popen([str(args.program), "--host", host, "test", "--json", "--no-cache", "--no-measure", "--deadline", "60"],
                               env=dict(machine.environment(), LD_LIBRARY_PATH=path), stdout=subprocess.DEVNULL)
        seen, end = {}, time.monotonic() + 50
        while run.poll() is None and time.monotonic() < end and len(seen) < 2:
            seen.update((pid, path) for pid, path in ((pid, mapped(pid)) for pid in workers(run.pid)) if path)
            time.sleep(0.005)
        run.wait(timeout=120)
    wrong = sorted({str(path) for path in seen.values() if path.parent != own})
    print(f"{len(seen)} workers seen, exit {run.returncode}" + (f", from elsewhere: {wrong}" if wrong else ""))
    return 0 if len(seen) >= 2 and not wrong and run.returncode == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
