#!/usr/bin/env python3
"""Healthy machines with random shapes, seeds and timings: no leg, pair or consumer may be anything but OK.

usage: soak.py --program PATH [--runs N] [--max-gpus N] [--seed N] [--jobs N] [--seconds N] [--measured PERCENT] [--keep FILE]

Before a release: tests/faults/soak.py --program build/bin/p2psafe --runs 1000
A failure prints the seed of its machine: --seed S --runs 1 makes the same machine again."""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import sys
import time

import machine


def healthy(seed, max_gpus, measured):
    """A machine in order and the options of its test."""
    r = random.Random(seed)
    gpus = r.choice([n for n in (2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12, 16) if n <= max_gpus])
    kind = r.choice(["pcie", "pcie", "nvlink"])
    speed = r.choice([12, 25, 50]) if kind == "pcie" else r.choice([100, 200, 395])
    link = dict(kind=kind, bytes_per_s=speed * 10**9, latency_ns=r.randint(300, 6000), granularity=r.choice([8, 16, 32, 128]),
                reorder=r.random() < 0.8, nvlinks=18 if kind == "nvlink" else 0)
    if r.random() < 0.3:
        link["native_atomics"] = r.randint(0, 1)
    pairs = []
    for _ in range(r.randint(0, gpus)):
        a, b = r.sample(range(gpus), 2)
        pairs.append(dict(src=machine.address(a), dst=machine.address(b), latency_ns=r.randint(300, 9000),
                          bytes_per_s=r.randint(speed // 2, speed) * 10**9, granularity=r.choice([8, 16, 32, 128]),
                          reorder=r.random() < 0.5))
    host = machine.describe(gpus, links={"default": link, "pairs": pairs}, seed=r.randint(1, 2**40),
                            staged={"bytes_per_s": r.randint(2, speed // 4) * 10**9, "latency_ns": r.randint(12000, 40000)},
                            nvml={} if kind == "nvlink" else {"p2p_nvlink": "NS"})
    for g in host["gpus"]:
        g["free_mib"] = r.choice([1, 2, 4, 20]) * 1024
        g["sm"] = r.choice([4, 16, 84, 132])
    # a deadline far beyond what it takes: CPUs may be few
    options = ["--level", r.choice(["quick", "quick", "standard"]), "--deadline", str(100 + 25 * gpus)]
    if r.random() * 100 >= measured:
        options.append("--no-measure")
    if r.random() < 0.2:
        options.append("--keep-going")
    return gpus, kind, host, options


def wrong(run, gpus, native):
    """What is not as it must be on a healthy machine."""
    if run.report is None:
        return [f"no report, exit {run.exit}: {run.stderr.strip()[-300:]}"]
    out = [] if run.exit == 0 else [f"exit {run.exit}: {sorted({f['code'] for f in run.report['findings']})}"]
    if len(run.report["pairs"]) != gpus * (gpus - 1):
        out.append(f"{len(run.report['pairs'])} pairs")
    for src, dst, leg in run.legs():
        if leg["leg"] == "atomics" and leg["verdict"] == "UNSUPPORTED" and not native:
            continue
        if leg["leg"] == "tearing_128":
            continue  # told, never judged: links of smaller pieces tear
        if leg["verdict"] != "OK":
            out.append(f"{src}>{dst} {leg['leg']} {leg['mapping']}: {leg['verdict']} {leg['damage']} {leg.get('note', '')}")
    for pair in run.report["pairs"]:
        if pair["verdict"] != "OK":
            out.append(f"{pair['src']}>{pair['dst']}: pair {pair['verdict']}")
        if not pair["legs"]:
            out.append(f"{pair['src']}>{pair['dst']}: no leg ran")
    for one in run.report["staged"]:
        if one["verdict"] != "OK":
            out.append(f"staged {one['a']} {one['b']}: {one['verdict']}")
    if run.report["deadline_hit"]:
        out.append("deadline hit")
    if run.stderr:
        out.append(f"stderr: {run.stderr.strip()[-300:]}")
    return out


def one(program, seed, max_gpus, measured):
    gpus, kind, host, options = healthy(seed, max_gpus, measured)
    native = host["links"]["default"].get("native_atomics", kind == "nvlink")
    run = machine.Run(program, host, options)
    return seed, gpus, kind, options, run, wrong(run, gpus, native)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--max-gpus", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1, help="of the first machine; the next has the next")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0, help="start no more after so long")
    parser.add_argument("--measured", type=int, default=50, help="percent of the runs that measure, too")
    parser.add_argument("--keep", type=pathlib.Path, help="reports of failures, one JSON per line")
    args = parser.parse_args()
    start, bad, done, shapes = time.monotonic(), 0, 0, collections.Counter()
    slowest = 0.0

    def guarded(seed):
        if args.seconds and time.monotonic() - start > args.seconds:
            return None
        return one(args.program, seed, args.max_gpus, args.measured)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for result in pool.map(guarded, range(args.seed, args.seed + args.runs)):
            if result is None:
                continue
            seed, gpus, kind, options, run, problems = result
            done += 1
            shapes[gpus] += 1
            slowest = max(slowest, run.seconds)
            if problems:
                bad += 1
                print(f"seed {seed}: {gpus} GPUs, {kind}, {' '.join(options)}: {run.seconds:.1f} s")
                for line in problems[:6]:
                    print(f"    {line}")
                if args.keep:
                    with args.keep.open("a", encoding="utf-8") as f:
                        f.write(json.dumps(dict(seed=seed, report=run.report)) + "\n")
            sys.stdout.flush()
    print(f"{done} healthy machines ({', '.join(f'{n} GPUs: {c}' for n, c in sorted(shapes.items()))}): {bad} false alarms, "
          f"{time.monotonic() - start:.0f} s, slowest {slowest:.1f} s")
    return 1 if bad or not done else 0


if __name__ == "__main__":
    sys.exit(main())
