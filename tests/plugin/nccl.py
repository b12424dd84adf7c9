"""The real NCCL loads the plugin. It does so for ncclGetUniqueId, which needs no GPU. Exits 77 where no NCCL with this
interface is installed, or where it cannot run."""

import ctypes.util
import glob
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HOSTS = Path(__file__).resolve().parents[1] / "hosts"
PLUGIN = os.environ["P2PSAFE_PLUGIN_UNDER_TEST"]
PROGRAM = os.environ["P2PSAFE_PLUGIN_UNIQUE_ID"]
FIRST = 22807  # NCCL 2.28.7
PLACES = (
    "/usr/lib/*/libnccl.so.2", "/usr/lib64/libnccl.so.2", "/usr/local/lib/libnccl.so.2", "/usr/local/cuda*/lib*/libnccl.so.2",
    sys.prefix + "/lib/python*/site-packages/nvidia/nccl/lib/libnccl.so.2",
    "/usr/local/lib/python*/dist-packages/nvidia/nccl/lib/libnccl.so.2",
)


def find():
    found = [path for place in PLACES for path in sorted(glob.glob(place))]
    if not found and ctypes.util.find_library("nccl"):
        found = ["libnccl.so.2"]
    return found


def call(library, folder, **more):
    environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "lo", **more}
    for name in ("ASAN_OPTIONS", "LD_LIBRARY_PATH"):
        if name in os.environ:
            environment.setdefault(name, os.environ[name])
    return subprocess.run([PROGRAM, library], env=environment, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                          errors="replace", timeout=100)


def main():
    with tempfile.TemporaryDirectory(prefix="p2psafe-nccl-") as folder:
        usable = None
        for library in find():
            done = call(library, folder, NCCL_DEBUG="")
            if done.returncode == 0 and int(done.stdout.split()[1].rstrip(",")) >= FIRST:
                usable = library
                break
        if usable is None:
            print("skipped: no NCCL of 2.28.7 or newer that runs here; looked at %s" % (find() or "nothing"))
            return 77
        print(done.stdout.strip(), usable)
        conf = Path(folder, "test.conf")
        conf.write_text("host_dir=%s\n" % (HOSTS / "s01-founding-host"), encoding="utf-8")
        conf.chmod(0o644)
        nccl_conf = Path(folder, "nccl.conf")
        nccl_conf.write_text("NCCL_ENV_PLUGIN=p2psafe\nP2PSAFE_TEST_CONF=%s\n" % conf, encoding="utf-8")
        beside = os.path.dirname(PLUGIN)
        cache = {"P2PSAFE_CACHE": folder + "/cache"}
        asked = {**cache, "P2PSAFE_TEST_CONF": str(conf)}
        ways = {
            "by path": {**asked, "NCCL_ENV_PLUGIN": PLUGIN},
            "by name": {**asked, "NCCL_ENV_PLUGIN": "p2psafe", "LD_LIBRARY_PATH": beside},
            "by a line in nccl.conf": {**cache, "NCCL_CONF_FILE": str(nccl_conf), "LD_LIBRARY_PATH": beside},
        }
        failed = 0
        for way, environment in ways.items():
            done = call(usable, folder, **environment)
            text = done.stdout + done.stderr
            good = (done.returncode == 0 and "external env plugin" in text and "Using p2psafe" in text and
                    "NCCL is kept off peer-to-peer: CORRUPT" in text and "unsupported" not in text)
            print("%s: %s" % (way, "ok" if good else "FAILED\n" + text))
            failed += not good
        done = call(usable, folder, **ways["by path"], P2PSAFE_PLUGIN="0")
        quiet = done.returncode == 0 and "Using p2psafe" in done.stdout and "kept off" not in done.stdout + done.stderr
        print("switched off: %s" % ("ok" if quiet else "FAILED\n" + done.stdout + done.stderr))
        return 1 if failed or not quiet else 0


if __name__ == "__main__":
    sys.exit(main())
