#!/usr/bin/env python3
"""How fast it is: one table, each row with both of its sides measured in this run.

usage: table.py --build BUILD [--nvbandwidth PATH] [--repeat N] [--scale] [--brief]

Rows on kept records and schedules run on simulated hosts, the former also on this machine's own GPUs where there are two; the
rest needs these. A row without what it needs says so. --nvbandwidth compares with that program; --scale adds 16 to the 2, 4
and 8 simulated GPUs (a minute); --brief makes few rounds and fails only when a number could not be had: times are judged by
people, on a quiet machine.

Exit: 0, also when a bar is missed (the table says so); 1 when something did not work.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = os.path.join(os.path.dirname(HERE), "hosts")
GB = 1e9


class Failed(Exception):
    pass


class Bench:
    def __init__(self, args):
        self.args = args
        self.bin = os.path.join(args.build, "bin")
        self.p2psafe = os.path.join(self.bin, "p2psafe")
        self.rows = []
        self.failed = 0
        self.top = tempfile.mkdtemp(prefix="p2psafe-bench-")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_"))}
        self.repeat = args.repeat or (1 if args.brief else 5)

    # ---- running ----

    def run(self, command, cache, ok=(0, 1), **more):
        env = dict(self.env, P2PSAFE_CACHE=cache, **more)
        start = time.monotonic()
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              timeout=300)
        took = time.monotonic() - start
        if done.returncode not in ok:
            raise Failed("%s: exit %d: %s" % (" ".join(command), done.returncode, done.stderr.strip()[-300:]))
        return done.stdout, took

    def cache(self, name):
        path = os.path.join(self.top, name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def report(self, cache, *words):
        text, took = self.run([self.p2psafe] + list(words) + ["--json"], cache)
        return json.loads(text), took

    def cost(self, mode, count, *words, **env):
        command = [os.path.join(self.bin, "kept_cost"), mode, str(count)] + list(words)
        text, _ = self.run(command, env.pop("cache"), ok=(0,), **env)
        found = re.match(r"median_us ([\d.]+) low_us ([\d.]+) high_us ([\d.]+)", text)
        if found is None:
            raise Failed("kept_cost said: %s" % text)
        return float(found.group(1))

    # ---- the table ----

    def row(self, what, ours, other, ratio, bar, met):
        """ours, other, ratio: text, "" for none. met: None not judged."""
        self.rows.append((what, ours, other, ratio, bar, {True: "yes", False: "NO", None: "-"}[met]))

    def absent(self, what, bar, why):
        self.rows.append((what, why, "", "", bar, "-"))

    def guard(self, what, bar, task, *words):
        try:
            task(*words)
        except (Failed, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as e:
            self.failed += 1
            self.absent(what, bar, "FAILED: %s" % e)

    def show(self):
        heads = ("what", "measured", "compared with", "ratio", "bar", "met")
        rows = [heads] + self.rows
        width = [max(len(r[i]) for r in rows) for i in range(len(heads))]
        for k, r in enumerate(rows):
            print("| " + " | ".join(r[i].ljust(width[i]) for i in range(len(heads))) + " |")
            if k == 0:
                print("|" + "|".join("-" * (w + 2) for w in width) + "|")


def ms(seconds):
    return "%.0f ms" % (seconds * 1000)


def kept_rows(b, where, host):
    """host None: this machine."""
    cache = b.cache("kept-" + where)
    on = ["--host", host] if host else []
    report, _ = b.report(cache, "test", "--no-measure", "--deadline", "120", *on)
    gpus = len(report["decision"]["gpus"])
    name = "%s, %d GPUs" % (where, gpus)
    us = b.cost("call", 20 if b.args.brief else 500, cache, *([host] if host else []), cache=cache)
    b.row("kept record, call in the process: " + name, "%.0f us" % us, "", "", "500 us", us <= 500)
    count = 3 if b.args.brief else 50
    nothing = b.cost("process", count, b.p2psafe, "--version", cache=cache)
    whole = b.cost("process", count, b.p2psafe, "decide", *on, cache=cache)
    b.row("kept record, whole `p2psafe decide`: " + name, "%.1f ms" % (whole / 1000),
          "%.1f ms, `p2psafe --version`" % (nothing / 1000), "%.1f" % (whole / nothing), "5 ms", whole <= 5000)


def schedule_rows(b, counts):
    """Modelled time of what the GPUs do while bulk legs run, and while they are measured; the CPU time of a simulated test says
    nothing."""
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))
    import mkhost
    import mkhost_table

    phases = {"bulk_device": "modelled time of the bulk phase", "measure_device": "modelled time of measuring"}
    times = {phase: {} for phase in phases}
    for n in counts:
        host = mkhost_table.host("ok-8xpcie")
        host["gpus"] = mkhost_table.pcie_gpus(["%04x:01:00.0" % i for i in range(n)], ["%04x:00:01.1" % i for i in range(n)],
                                              sm=4)
        top = os.path.join(b.top, "scale-%d" % n)
        mkhost.tree_of(host).write(top)
        report, _ = b.report(b.cache("scale-cache-%d" % n), "test", "--level", "quick", "--deadline", "280", "--host", top)
        for phase in phases:
            times[phase][n] = report["timing_ms"].get(phase)
        if report["deadline_hit"] or not all(t[n] for t in times.values()):
            raise Failed("%d simulated GPUs: deadline %s, timing %s" % (n, report["deadline_hit"], report["timing_ms"]))
    first = counts[0]
    for phase, what in phases.items():
        t = times[phase]
        worst = max(t[n] / (n - 1) for n in t) / (t[first] / (first - 1))
        b.row(what, ", ".join("%d GPUs %d ms" % (n, t[n]) for n in counts), "n-1 rounds as of %d" % first, "%.2f" % worst,
              "1.5: linear in n", worst <= 1.5)


def median_of(b, task):
    return statistics.median(task() for _ in range(b.repeat))


def floor_seconds(b):
    text, _ = b.run([os.path.join(b.bin, "floor")], b.cache("floor"), ok=(0, 77))
    found = re.search(r"floor: (\d+) GPUs, ([\d.]+) ms", text)
    return float(found.group(2)) / 1000 if found else None


def real_rows(b, floor):
    cache = b.cache("real")
    b.report(cache, "test", "--no-measure")  # device nodes, JIT cache
    quick = median_of(b, lambda: b.report(cache, "test", "--no-measure", "--level", "quick")[1])
    b.row("quick, no measuring", ms(quick), ms(floor) + ", floor", "%.2f" % (quick / floor), "1.3", quick <= 1.3 * floor)
    reports = []

    def standard_once():
        report, took = b.report(cache, "test", "--no-measure")
        reports.append(report)
        return took

    standard = median_of(b, standard_once)
    n = len(reports[0]["decision"]["gpus"])
    most = 2 * floor + (0.25 * (n - 1) if n > 2 else 0)
    b.row("standard, no measuring", ms(standard), ms(floor) + ", floor", "%.2f" % (standard / floor),
          "2" if n == 2 else "2 and %d times 0.25 s" % (n - 1), standard <= most)
    first = statistics.median(r["timing_ms"]["first_contact"] for r in reports) / (n * (n - 1))
    b.row("first contact, per directed pair", "%.1f ms" % first, "", "", "3 ms", first <= 3)
    kernels = [r["timing_ms"]["kernels"] for r in reports if "kernels" in r["timing_ms"]]
    if kernels:
        b.row("kernels of the test loaded, slowest worker", "%.0f ms" % max(kernels), "", "", "150 ms", max(kernels) <= 150)
    measured = []

    def measured_once():
        report, took = b.report(cache, "test")
        measured.append(report)
        return took

    with_numbers = median_of(b, measured_once)
    b.row("measuring on top", ms(with_numbers - standard), ms(standard) + ", standard", "%.2f" % (with_numbers / standard),
          "1500 ms" if n == 2 else "1500 ms for two GPUs", with_numbers - standard <= 1.5 if n == 2 else None)
    free = min(g["free_bytes"] or 0 for g in reports[0]["gpus"] if g["ours"])
    most_bytes = min(1 << 30, free // 20)
    largest = max(l["coverage"]["max_handle"] or 0 for p in reports[0]["pairs"] for l in p["legs"])
    b.row("largest buffer of a leg", "%d MiB" % (largest >> 20), "%d MiB, min(1 GiB, 5%% of free)" % (most_bytes >> 20),
          "%.2f" % (largest / most_bytes if most_bytes else 0), "1", largest <= most_bytes)
    return measured[-1]


def best(report, kind):
    found = [p["bandwidth"][kind] for p in report["pairs"] if p["bandwidth"][kind]]
    return statistics.median(found) if found else None


def nvbandwidth_number(b, test):
    """The median of its matrix, in its own unit."""
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "gpu"))
    import measure

    try:
        return measure.matrix(b.args.nvbandwidth, test, b.env)
    except SystemExit as e:
        raise Failed(str(e))


def speed_rows(b, report):
    against = (
        ("copy engine, write", "ce_write", "device_to_device_memcpy_write_ce", 0.98),
        ("copy engine, read", "ce_read", "device_to_device_memcpy_read_ce", 0.98),
        ("SMs, store", "sm_store", "device_to_device_memcpy_write_sm", 1.0),
        ("SMs, load", "sm_load", "device_to_device_memcpy_read_sm", 1.0),
    )
    for what, kind, test, least in against:
        ours = best(report, kind)
        bar = "at least %.2f of nvbandwidth" % least if least < 1 else "not below nvbandwidth"
        if ours is None:
            b.absent(what, bar, "not measured")
        elif not b.args.nvbandwidth:
            b.row(what, "%.1f GB/s" % (ours / GB), "no nvbandwidth given", "", bar, None)
        else:
            other = nvbandwidth_number(b, test)
            b.row(what, "%.1f GB/s" % (ours / GB), "%.1f GB/s, nvbandwidth" % other, "%.3f" % (ours / GB / other), bar,
                  ours / GB >= least * other)
    loads = [p["latency"]["load_ns"] for p in report["pairs"] if p["latency"]["load_ns"]]
    within = "within 5% of nvbandwidth"
    if not loads:
        b.absent("load latency", within, "not measured")
    elif not b.args.nvbandwidth:
        b.row("load latency", "%.0f ns" % statistics.median(loads), "no nvbandwidth given", "", within, None)
    else:
        other = nvbandwidth_number(b, "device_to_device_latency_sm")
        ours = statistics.median(loads)
        b.row("load latency", "%.0f ns" % ours, "%.0f ns, nvbandwidth" % other, "%.3f" % (ours / other), within,
              abs(ours / other - 1) <= 0.05)


def verified_rows(b, report):
    """What a leg says of a whole buffer, from the first byte of poison to the last one checked, against the speed alone."""
    for leg, what in (("sm_store", "SM"), ("ce_write", "copy-engine")):
        rates = [l["verified_bytes_per_s"] for p in report["pairs"] for l in p["legs"]
                 if l["leg"] == leg and l["verified_bytes_per_s"]]
        alone = best(report, leg)
        if not rates or not alone:
            b.absent("verified %s bytes" % what, "0.85", "no transfer was large enough")
            continue
        rate = statistics.median(rates)
        b.row("verified %s bytes" % what, "%.1f GB/s, poison, move, check" % (rate / GB),
              "%.1f GB/s, move alone" % (alone / GB), "%.2f" % (rate / alone), "0.85", rate >= 0.85 * alone)


def code_rows(b):
    """Loading of code, from the worker's own operations."""
    text, _ = b.run([os.path.join(b.bin, "two_gpus"), os.path.join(b.bin, "worker_process")], b.cache("two"), ok=(0, 77),
                    CUDA_CACHE_DISABLE="1")
    modules = [int(w) for w in re.findall(r"module (\d+) us", text)]
    if modules:
        b.row("code of all kernels loaded, nothing cached", "%.0f ms" % (max(modules) / 1000), "", "", "150 ms",
              max(modules) <= 150000)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--nvbandwidth")
    parser.add_argument("--repeat", type=int, default=0)
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--brief", action="store_true")
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    b = Bench(args)
    try:
        hosts = ("ok-2xh200-nvlink",) if args.brief else ("ok-2xh200-nvlink", "ok-8xpcie")
        for host in hosts:
            b.guard("kept record: simulated " + host, "500 us, 5 ms", kept_rows, b, "simulated", os.path.join(HOSTS, host))
        if not args.brief:
            counts = (2, 4, 8, 16) if args.scale else (2, 4, 8)
            b.guard("modelled time of bulk legs and measuring", "linear in n", schedule_rows, b, counts)
        floor = None if args.brief else floor_seconds(b)
        if floor is None:
            b.absent("rows on real GPUs", "", "no usable driver here" if not args.brief else "left out")
        else:
            floor = statistics.median([floor] + [floor_seconds(b) for _ in range(b.repeat)])
            b.guard("kept record: this machine", "500 us, 5 ms", kept_rows, b, "this machine", None)
            found = []
            b.guard("times of the test", "", lambda: found.append(real_rows(b, floor)))
            if found:
                b.guard("speeds", "", speed_rows, b, found[0])
                b.guard("verified bytes", "0.85", verified_rows, b, found[0])
            b.guard("kernels", "150 ms", code_rows, b)
        b.show()
    finally:
        shutil.rmtree(b.top, ignore_errors=True)
    return 1 if b.failed else 0


if __name__ == "__main__":
    sys.exit(main())
