#!/usr/bin/env python3
"""Measures this machine with `p2psafe test` and lays the numbers beside their bars and, where it is given, beside nvbandwidth.

usage: measure.py --build BUILD [--nvbandwidth PATH] [--runs N] [--out DIR] [--host DIR]

--host: a simulated machine, whose times are not judged: that tries this program where there is no GPU. Changes nothing on the
machine. Exit: 0 all bars kept, 1 a bar missed or something did not work, 77 no two GPUs here.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

GB = 1e9
# what of a pair, nvbandwidth's test, our unit, bar: a range of our number divided by its number
COMPARED = [
    ("bandwidth", "ce_write", "device_to_device_memcpy_write_ce", GB, (0.98, None)),
    ("bandwidth", "ce_read", "device_to_device_memcpy_read_ce", GB, (0.98, None)),
    ("bandwidth", "sm_store", "device_to_device_memcpy_write_sm", GB, (1.0, None)),
    ("bandwidth", "sm_load", "device_to_device_memcpy_read_sm", GB, (1.0, None)),
    ("bandwidth", "both_ways", "device_to_device_bidirectional_memcpy_write_ce", GB, (0.98, None)),
    ("latency", "load_ns", "device_to_device_latency_sm", 1, (0.95, 1.05)),
]
HOST = [("from_host_bytes_per_s", "host_to_device_memcpy_ce"), ("to_host_bytes_per_s", "device_to_host_memcpy_ce")]


class Bars:
    def __init__(self):
        self.missed = 0

    def say(self, what, value, bar, met):
        self.missed += not met
        print("%-58s %-26s bar %-18s %s" % (what, value, bar, "yes" if met else "NO"))


def run(command, env, ok=(0, 1)):
    start = time.monotonic()
    p = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300,
                       check=False)
    took = time.monotonic() - start
    if p.returncode not in ok:
        sys.exit("%s: exit %d: %s" % (" ".join(command), p.returncode, p.stderr.strip()[-400:]))
    return p.stdout, took


def middle(reports, get):
    values = [get(r) for r in reports]
    return None if None in values else statistics.median(values)


def matrix(path, name, env):
    """nvbandwidth's numbers of one test: the median of what is in its matrix."""
    text, _ = run([path, "-j", "-t", name], env, ok=(0,))
    tests = json.loads(text[text.index("{"):])["nvbandwidth"]["testcases"]
    cells = [float(x) for t in tests if t["name"] == name for rows in t.values() if isinstance(rows, list) for row in rows
             for x in (row if isinstance(row, list) else []) if re.fullmatch(r"[\d.]+", str(x))]
    if not cells:
        raise ValueError(name + " gave no number")
    return statistics.median(cells)


def show(reports):
    last = reports[-1]
    for i, p in enumerate(last["pairs"]):
        print("%s>%s %s %s" % (p["src"], p["dst"], p["path"], p["verdict"]))
        for group in ("bandwidth", "latency"):
            for key, value in sorted(p[group].items()):
                values = [r["pairs"][i][group][key] for r in reports]
                unit = 1 if group == "latency" else GB
                print("  %-14s %s" % (key, " ".join("-" if v is None else "%.1f" % (v / unit) for v in values)))
        for row in p["sizes"]:
            print("  %9d bytes: p2p %s, staged %s" % (row["bytes"], *(
                "-" if row[k + "_bytes_per_s"] is None else
                "%7.2f GB/s %8d ns" % (row[k + "_bytes_per_s"] / GB, row[k + "_ns"] or 0) for k in ("p2p", "staged"))))
    for s in last["staged"]:
        print("staged", s["a"], s["b"], s["verdict"], s["bandwidth"], s["latency"])
    for g in last["gpus"]:
        print("gpu", g["bdf"], {k: g.get(k) for k in ("host_link", "all_to_one_bytes_per_s", "one_to_all_bytes_per_s", "link")})
    print("findings", [(f["code"], f["subject"], [e["text"] for e in f["evidence"]][:1]) for f in last["findings"]])
    for r in reports:
        print("timing_ms", r["timing_ms"])


def own_bars(bars, reports, gpus, real):
    if gpus == 2 and real:
        ms = middle(reports, lambda r: r["timing_ms"].get("measure"))
        bars.say("measuring, two GPUs", "%s ms" % ms, "1500 ms", ms is not None and ms <= 1500)
    ms = max(r["timing_ms"].get("kernels", 10**6) for r in reports)
    if real:
        bars.say("kernels of the tests loaded, slowest worker and run", "%d ms" % ms, "150 ms", ms <= 150)
    for i, p in enumerate(reports[0]["pairs"]):
        if p["verdict"] != "OK":
            continue
        what = "%s>%s: " % (p["src"], p["dst"])
        missing = [k for g in ("bandwidth", "latency") for k, v in p[g].items() if v is None]
        bars.say(what + "every number is there", "missing: " + ", ".join(missing) if missing else "all", "all", not missing)
        for key in ("ce_write", "ce_read", "sm_store", "sm_load"):
            values = [r["pairs"][i]["bandwidth"][key] for r in reports]
            if None in values or len(values) < 2:
                continue
            spread = (max(values) - min(values)) / max(values)
            bars.say(what + key + " is the same each time", "%.1f %%" % (100 * spread), "3 %", spread <= 0.03)


def compare(bars, reports, path, env):
    for group, key, name, unit, (low, high) in COMPARED:
        try:
            theirs = matrix(path, name, env)
        except (ValueError, KeyError) as e:
            bars.say("%s against %s" % (key, name), str(e)[:26], "", False)
            continue
        ours = [r["pairs"][i][group][key] for r in reports for i, p in enumerate(r["pairs"]) if p["verdict"] == "OK"]
        if not ours or None in ours:
            bars.say("%s against %s" % (key, name), "not measured", "", False)
            continue
        ours = statistics.median(ours) / unit
        ratio = ours / theirs
        bars.say("%s against %s" % (key, name), "%.1f / %.1f = %.3f" % (ours, theirs, ratio),
                 "%.2f to %s" % (low, high if high else "any"), ratio >= low and (high is None or ratio <= high))
    for key, name in HOST:
        theirs = matrix(path, name, env)
        ours = [g["host_link"][key] for r in reports for g in r["gpus"] if g.get("host_link") and g["host_link"].get(key)]
        if ours:
            print("%s: %.1f against %s %.1f" % (key, statistics.median(ours) / GB, name, theirs))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--nvbandwidth")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out")
    parser.add_argument("--host")
    args = parser.parse_args()
    p2psafe = os.path.join(args.build, "bin", "p2psafe")
    bars = Bars()
    with tempfile.TemporaryDirectory() as cache:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_"))}
        env["P2PSAFE_CACHE"] = cache
        reports = []
        for i in range(args.runs):
            text, took = run([p2psafe, "test", "--json"] + (["--host", args.host] if args.host else []), env, ok=(0, 1, 3))
            reports.append(json.loads(text))
            if args.out:
                with open(os.path.join(args.out, "measure-%d.json" % i), "w") as f:
                    f.write(text)
            print("run %d: %.2f s" % (i, took))
            if len(reports[-1]["pairs"]) == 0:
                print("no two GPUs here")
                return 77
        show(reports)
        own_bars(bars, reports, len({p["src"] for p in reports[-1]["pairs"]}), not args.host)
        if args.nvbandwidth:
            compare(bars, reports, args.nvbandwidth, env)
    print("all bars kept" if not bars.missed else "%d missed" % bars.missed)
    return 1 if bars.missed else 0


if __name__ == "__main__":
    sys.exit(main())
