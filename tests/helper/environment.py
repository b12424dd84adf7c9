"""What the workers inherit: nothing of the caller's but the library path, and no way to a server that shares GPUs.

usage: environment.py PROGRAM HOST
"""

import os
import pathlib
import subprocess
import sys
import time

CALLERS = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_MPS_PIPE_DIRECTORY": "/tmp", "CUDA_INJECTION64_PATH": "/nowhere.so", "CUDA_LAUNCH_BLOCKING": "1",
           "HOME": "/", "LD_LIBRARY_PATH": "/nowhere"}
BUILT = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_MODULE_LOADING": "EAGER", "LD_LIBRARY_PATH": CALLERS["LD_LIBRARY_PATH"]}


def environments(parent):
    """Those of the workers below the program that have started."""
    below, out = {parent}, {}
    for _ in range(3):
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                ppid = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
                words = (path / "cmdline").read_bytes().split(b"\0")
                text = (path / "environ").read_bytes()
            except (OSError, IndexError, ValueError):
                continue
            if ppid in below:
                below.add(int(path.name))
                if len(words) > 1 and words[1] in (b"worker", b"nvml") and text:
                    out[words[1].decode()] = dict(part.split("=", 1) for part in text.decode().split("\0") if part)
    return out


def main():
    program, host = sys.argv[1:]
    kept = {k: v for k, v in os.environ.items() if k == "PATH" or "SAN_OPTIONS" in k}
    run = subprocess.Popen([program, "--host", host, "test", "--no-cache", "--no-measure"], env=dict(kept, **CALLERS),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = {}
    until = time.monotonic() + 60
    while run.poll() is None and len(seen) < 2 and time.monotonic() < until:
        seen.update(environments(run.pid))
    run.kill()
    run.wait()
    if set(seen) != {"worker", "nvml"}:
        raise SystemExit("no worker was seen: %s" % sorted(seen))
    for role, environment in seen.items():
        for name, value in environment.items():
            if name in BUILT and value != BUILT[name]:
                raise SystemExit("%s has %s=%s" % (role, name, value))
            if name not in BUILT and not name.startswith(("P2PSAFE_SIM_", "CUDA_MPS_PIPE_DIRECTORY")):
                raise SystemExit("%s has %s=%s" % (role, name, value))
        # without this the driver looks for a server in its usual place, and has one started
        pipes = environment.get("CUDA_MPS_PIPE_DIRECTORY")
        if pipes is None or not pipes.startswith("/proc/") or os.path.lexists(pipes):
            raise SystemExit("%s could become a client of MPS: %s" % (role, pipes))
    print("built")


if __name__ == "__main__":
    main()
