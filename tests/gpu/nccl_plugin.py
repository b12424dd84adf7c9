"""The NCCL plugin with PyTorch on real GPUs: two ranks, all-reduce, which transport NCCL chose, whether the sums are right, and
what the start costs. Healthy by variable and by /etc/nccl.conf, first starts of both ranks at once with and without masks,
vetoes by a damaging wrapper around libcuda, no place for a record, and a topology file of ours.

usage: nccl_plugin.py BUILD_DIR [OUT_DIR]; the build may come from another machine. Exits 77 without two GPUs or PyTorch. Takes
two minutes at most. Changes nothing that stays: a line is added to /etc/nccl.conf for one start, and taken out again.
"""

import ctypes
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

WORLD = 2
LIMIT_S = 90  # of one start: the library's own deadline is 20 s plus 2 s per GPU
CONF = Path("/etc/nccl.conf")

failures = []


def check(good, what):
    print("  %s: %s" % ("ok" if good else "FAILED", what), flush=True)
    if not good:
        failures.append(what)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def rank_main(rank, port, device):
    """What one rank does. PyTorch is imported already, CUDA and NCCL have not begun."""
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(device)
    torch.ones(1, device="cuda")
    begin = time.perf_counter()
    dist.init_process_group("nccl", rank=rank, world_size=WORLD, device_id=torch.device("cuda", device))
    data = torch.ones(1024, device="cuda")
    dist.all_reduce(data)
    torch.cuda.synchronize()
    start_ms = (time.perf_counter() - begin) * 1e3
    wrong = 0
    for count in (1, 1 << 10, 1 << 20, 1 << 24):
        base = torch.arange(count, device="cuda", dtype=torch.float32) % 1021
        for _ in range(2):
            data = base * (rank + 1)
            dist.all_reduce(data)
            wrong += int((data != base * (WORLD * (WORLD + 1) // 2)).sum())
    torch.cuda.synchronize()
    print("RESULT " + json.dumps({"rank": rank, "start_ms": round(start_ms, 1), "wrong": wrong}), flush=True)
    dist.destroy_process_group()


class Start:
    """One start of all ranks: what they printed and what they found."""

    def __init__(self, texts, codes):
        self.texts, self.codes = texts, codes
        self.text = "\n".join(texts)
        self.results = [json.loads(m) for m in re.findall(r"RESULT (\{.*\})", self.text)]
        self.transports = sorted(set(re.findall(r"via ([A-Z0-9]+)", self.text)))
        self.ms = max((r["start_ms"] for r in self.results), default=None)
        self.whole = len(self.results) == WORLD and not any(codes)
        self.right = self.whole and all(r["wrong"] == 0 for r in self.results)
        self.loaded = sum("Using p2psafe" in text for text in texts)
        self.warned = sum("kept off peer-to-peer" in text for text in texts)


def start(folder, environment, masked=False):
    """Forks the ranks from this process, which has PyTorch but no CUDA."""
    port = free_port()
    pids, files = [], []
    for rank in range(WORLD):
        files.append(tempfile.TemporaryFile(dir=folder))
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.dup2(files[rank].fileno(), 1)
                os.dup2(files[rank].fileno(), 2)
                os.environ.update(environment)
                if masked:
                    os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
                rank_main(rank, port, 0 if masked else rank)
                code = 0
            except BaseException as exc:  # noqa: B902: whatever it is, the parent must read of it
                print("rank %d: %r" % (rank, exc), flush=True)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        pids.append(pid)
    codes = [None] * WORLD
    end = time.monotonic() + LIMIT_S
    while None in codes and time.monotonic() < end:
        for i, pid in enumerate(pids):
            if codes[i] is None:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    codes[i] = os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    for i, pid in enumerate(pids):
        if codes[i] is None:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            codes[i] = -1
    texts = []
    for file in files:
        file.seek(0)
        texts.append(file.read().decode("utf-8", "replace"))
        file.close()
    return Start(texts, codes)


class Machine:
    def __init__(self, build, out):
        self.build, self.out = Path(build), out
        self.plugin = self.build / "lib" / "libnccl-env-p2psafe.so"
        self.program = self.build / "bin" / "p2psafe"
        self.scratch = Path(tempfile.mkdtemp(prefix="p2psafe-nccl-"))

    def cache(self):
        path = Path(tempfile.mkdtemp(prefix="cache-", dir=self.scratch))
        path.chmod(0o700)
        return path

    def environment(self, cache=None, plugin=True, **more):
        # multicast stays off in every start: it is not what is looked at
        environment = {"NCCL_DEBUG": "INFO", "NCCL_NVLS_ENABLE": "0"}
        if plugin:
            environment["NCCL_ENV_PLUGIN"] = str(self.plugin)
        if cache is not None:
            environment["P2PSAFE_CACHE"] = str(cache)
        environment.update(more)
        return environment

    def start(self, what, environment, masked=False):
        print("\n== " + what, flush=True)
        done = start(self.scratch, environment, masked)
        with open(self.out / "nccl_plugin.log", "a", encoding="utf-8") as log:
            log.write("\n== %s\n%s\n" % (what, done.text))
        print("  transports %s, start %s ms, exits %s" % (done.transports, done.ms, done.codes))
        if not done.whole:
            print(done.text[-3000:])
        for line in done.text.splitlines():
            if "p2psafe: warning" in line or "NCCL WARN" in line:
                print("  " + line[:300])
                break
        check(done.right, what + ": every sum right")
        return done

    def shadow(self):
        """The wrapper around libcuda that loses what the first GPU stores into the second, and the file that names it."""
        report = json.loads(subprocess.run([self.program, "probe", "--json"], stdout=subprocess.PIPE, timeout=60).stdout)
        ours = [g["bdf"] for g in report["gpus"] if g["ours"]]
        folder = self.scratch / "shadow"
        folder.mkdir()
        library = folder / "libcuda-shadow.so.1"
        shutil.copy(self.build / "libexec/p2psafe/sim/libcuda-shadow.so.1", library)
        (folder / "shadow.conf").write_text("src=%s dst=%s\n" % (ours[0], ours[1]), encoding="ascii")
        conf = folder / "test.conf"
        conf.write_text("cuda_library=%s\n" % library, encoding="utf-8")
        conf.chmod(0o644)
        return conf


def records(cache):
    return sorted(path.name for path in cache.glob("*.json"))


def init_times(plugin, cache):
    """Init of the plugin with a kept record, each time in a fresh process: microseconds."""
    script = ("import ctypes, sys, time\n"
              "byte = ctypes.c_uint8\n"
              "Init = ctypes.CFUNCTYPE(ctypes.c_int, byte, byte, byte, ctypes.c_char_p)\n"
              "class V1(ctypes.Structure): _fields_ = [('name', ctypes.c_char_p), ('init', Init)]\n"
              "p = V1.in_dll(ctypes.CDLL(sys.argv[1]), 'ncclEnvPlugin_v1')\n"
              "t = time.perf_counter(); rc = p.init(2, 28, 9, b''); print(rc, round((time.perf_counter() - t) * 1e6))\n")
    environment = dict(os.environ, P2PSAFE_CACHE=str(cache))
    times = []
    for _ in range(7):
        done = subprocess.run([sys.executable, "-c", script, str(plugin)], env=environment, stdout=subprocess.PIPE,
                              encoding="ascii", timeout=60, check=True)
        code, us = done.stdout.split()
        if code != "0":
            check(False, "init returns success")
        times.append(int(us))
    return times


def with_nccl_conf(machine, cache):
    if os.geteuid() != 0:
        print("\n== /etc/nccl.conf: skipped, needs root")
        return
    before = CONF.read_bytes() if CONF.exists() else None
    try:
        line = ("NCCL_ENV_PLUGIN=%s\n" % machine.plugin).encode()
        CONF.write_bytes((before + b"\n" if before else b"") + line)
        done = machine.start("healthy, by a line in /etc/nccl.conf", machine.environment(cache, plugin=False))
    finally:
        if before is None:
            CONF.unlink()
        else:
            CONF.write_bytes(before)
    check(done.loaded == WORLD and done.transports == ["P2P"], "/etc/nccl.conf: both ranks load the plugin, NCCL says P2P")
    check((CONF.read_bytes() if CONF.exists() else None) == before, "/etc/nccl.conf is as it was")


def healthy(machine):
    plain = [machine.start("no plugin", machine.environment(plugin=False)) for _ in range(3)]
    check(plain[0].transports == ["P2P"], "without the plugin NCCL says P2P: else nothing below says anything")
    cache = machine.cache()
    done = machine.start("healthy, first start of both ranks at once", machine.environment(cache))
    check(done.loaded == WORLD and done.transports == ["P2P"] and not done.warned, "first start: NCCL says P2P, nobody warns")
    check(records(cache) == ["1.json"], "first start: one test, one record (%s)" % records(cache))
    kept = [machine.start("healthy, kept record", machine.environment(cache)) for _ in range(3)]
    check(all(k.transports == ["P2P"] and k.loaded == WORLD for k in kept), "kept record: NCCL says P2P")
    before, after = (statistics.median([s.ms or 0 for s in starts]) for starts in (plain[1:], kept))
    print("  start of communication: %.1f ms without, %.1f ms with the plugin" % (before, after))
    times = init_times(machine.plugin, cache)
    print("  init of the plugin with a kept record, us: %s, median %d" % (times, statistics.median(times)))
    check(statistics.median(times) <= 5000, "init with a kept record takes at most 5 ms (the bar in C is 500 us)")
    with_nccl_conf(machine, cache)
    masked = machine.cache()
    done = machine.start("healthy, first start, each rank masked to its own GPU", machine.environment(masked), masked=True)
    check(done.transports == ["P2P"] and not done.warned, "masked: NCCL says P2P on both ranks")
    check(records(masked) == ["1.json"], "masked: one test, one record (%s)" % records(masked))


def vetoed(machine):
    conf = machine.shadow()
    for masked in (False, True):
        what = "vetoed, first start of both ranks at once%s" % (", each masked to its own GPU" if masked else "")
        cache = machine.cache()
        done = machine.start(what, machine.environment(cache, P2PSAFE_TEST_CONF=str(conf)), masked)
        check("P2P" not in done.transports and "SHM" in done.transports, what + ": NCCL says SHM")
        check(done.warned == WORLD, what + ": each rank says why, once")
        check(records(cache) == ["1.json"], what + ": one test, one record (%s)" % records(cache))
    done = machine.start("vetoed, switched off", machine.environment(cache, P2PSAFE_TEST_CONF=str(conf), P2PSAFE_PLUGIN="0"))
    check(done.transports == ["P2P"] and not done.warned, "P2PSAFE_PLUGIN=0: NCCL says P2P as without the plugin")
    done = machine.start("no place for a record", machine.environment("/proc/none"))
    check("P2P" not in done.transports and "NO_MARKER" in done.text, "no place: no test, NCCL says SHM, NO_MARKER is told")


def placed(machine):
    """A topology file of ours, which NCCL must read without a word and find all GPUs in, where the file says."""
    report = json.loads(subprocess.run([machine.program, "probe", "--json"], stdout=subprocess.PIPE, timeout=60).stdout)
    ours = [g["bdf"] for g in report["gpus"] if g["ours"]]
    place, file, dump = (machine.scratch / name for name in ("placement", "topology.xml", "dump.xml"))
    place.write_text("".join("%s 0\n" % bdf for bdf in ours), encoding="ascii")
    cache = machine.cache()
    text = subprocess.run([machine.program, "env", "--level", "quick", "--placement", place, "--topology", file],
                          env=dict(os.environ, P2PSAFE_CACHE=str(cache)), stdout=subprocess.PIPE, encoding="utf-8", timeout=90).stdout
    check("NCCL_TOPO_FILE" in text and file.exists(), "a placement file is made and named")
    files = {"NCCL_TOPO_FILE": str(file), "NCCL_TOPO_DUMP_FILE": str(dump)}
    done = machine.start("a topology file of ours", machine.environment(plugin=False, **files))
    check("XML" not in "".join(line for line in done.text.splitlines() if "WARN" in line), "NCCL reads the file without a warning")
    found = {}
    root = ElementTree.parse(dump).getroot() if dump.exists() else ElementTree.Element("none")
    for cpu in root.iter("cpu"):
        for device in cpu.iter("pci"):
            if device.find("gpu") is not None:
                found[device.get("busid")] = cpu.get("numaid")
    check(found == {bdf: "0" for bdf in ours[:WORLD]}, "NCCL has each GPU where the file says: %s" % found)


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    begin = time.monotonic()
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp(prefix="p2psafe-out-"))
    machine = Machine(sys.argv[1], out)
    if not machine.plugin.is_file():
        print("skipped: %s is not built" % machine.plugin)
        return 77
    try:
        ctypes.CDLL("libcuda.so.1")
        import torch
        import torch.distributed  # noqa: F401: before the forks

        gpus = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, encoding="utf-8", timeout=60).stdout
        count = len(re.findall(r"^GPU ", gpus, re.M))
    except (OSError, ImportError) as exc:
        print("skipped: %s" % exc)
        return 77
    if count < WORLD:
        print("skipped: %d GPUs" % count)
        return 77
    print("PyTorch %s, NCCL %s, %d GPUs" % (torch.__version__, torch.cuda.nccl.version(), count))
    for name in list(os.environ):
        if name.startswith(("NCCL_", "P2PSAFE_", "CUDA_VISIBLE")):
            del os.environ[name]
    try:
        healthy(machine)
        vetoed(machine)
        placed(machine)
    finally:
        shutil.rmtree(machine.scratch, ignore_errors=True)
    print("\nafter %.0f s: %s" % (time.monotonic() - begin, "FAILED: " + "; ".join(failures) if failures else "all as expected"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
