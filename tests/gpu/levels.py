#!/usr/bin/env python3
"""Every level, several times, on a machine in order, and again while another program uses one of the GPUs: no false alarm, and the other
program keeps what it has.

usage: levels.py --build DIR [--host DIR] [--runs N] [--soak SECONDS] [--only levels|neighbours] [--out DIR]

Without --host: this machine's GPUs. With it: a simulated host, to test this script."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

BAD = ("CORRUPT", "HANG", "ERROR")
DROPPED = ("P2PSAFE_", "NCCL_")
GIB = 1 << 30


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(DROPPED)}


class Machine:
    def __init__(self, args):
        self.build, self.out = args.build.resolve(), args.out
        self.host = ["--host", str(args.host)] if args.host else []
        self.driver = [str(self.build / "libexec/p2psafe/sim/libcuda.so.1"), str(args.host)] if args.host else []

    def p2psafe(self, *options):
        return [str(self.build / "bin/p2psafe"), *self.host, *options]

    def gpus(self):
        done = subprocess.run(self.p2psafe("probe", "--json"), env=environment(), capture_output=True, text=True, timeout=60)
        return [g["bdf"] for g in json.loads(done.stdout)["gpus"] if g["ours"]]

    def test(self, name, *options):
        start = time.monotonic()
        done = subprocess.run(self.p2psafe("test", "--json", "--no-cache", "--no-measure", *options), env=environment(),
                              capture_output=True, text=True, timeout=600)
        seconds = time.monotonic() - start
        if self.out:
            (self.out / f"{name}.json").write_text(done.stdout, encoding="utf-8")
        try:
            return done.returncode, json.loads(done.stdout), seconds
        except ValueError:
            return done.returncode, None, seconds

    def neighbour(self, gpu, kind, percent):
        command = [str(self.build / "bin/neighbour"), str(self.build / "bin/worker_process"), gpu, kind, str(percent), "120", *self.driver]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())


def told(report):
    """What one run covered, in a line."""
    legs = [leg for pair in report["pairs"] for leg in pair["legs"]]
    sweep = [f"{leg['coverage']['bytes'] / GIB:.1f} of {leg['coverage']['of_bytes'] / GIB:.1f} GiB" if leg["verdict"] == "OK" else
             f"{leg['verdict']} ({leg['note']})" for leg in legs if leg["leg"] == "sweep"]
    return (f"{sum(leg['bytes'] for leg in legs) / GIB:.1f} GiB in {sum(leg['rounds'] for leg in legs)} rounds"
            + (f", sweep {sorted(set(sweep))}" if sweep else "") + f", {report['timing_ms']}")


def problems(code, report, seconds, whole):
    """What a machine in order must not show. whole: nobody else is there, so everything must be OK."""
    if report is None:
        return [f"no report, exit {code}"]
    out = [f"exit {code}"] if code not in ((0,) if whole else (0, 1)) else []
    for pair in report["pairs"]:
        for leg in pair["legs"]:
            if leg["leg"] == "tearing_128" or (leg["leg"] == "atomics" and leg["verdict"] == "UNSUPPORTED"):
                continue
            if leg["verdict"] in BAD or (whole and leg["verdict"] != "OK" and leg["leg"] != "sweep"):
                out.append(f"{pair['src']}>{pair['dst']} {leg['leg']} {leg['mapping']} {leg['verdict']} {leg['damage']} '{leg['note']}'")
    for name, consumer in report["decision"]["consumers"].items():
        if consumer["allowed"] and consumer["verdict"] != "OK":
            out.append(f"{name} is allowed though {consumer['verdict']}")
    if report["deadline_hit"]:
        out.append("deadline hit")
    return out


def show(name, seconds, wrong, report):
    print(f"{'FAIL' if wrong else 'ok  '} {name} ({seconds:.1f} s)")
    for line in wrong[:8]:
        print(f"       {line}")
    if report is not None:
        print(f"       {told(report)}")
    sys.stdout.flush()
    return bool(wrong)


def levels(m, runs, soak):
    failed = 0
    for level, more in (("quick", []), ("standard", []), ("thorough", ["--soak", str(soak)])):
        for i in range(runs):
            code, report, seconds = m.test(f"level-{level}-{i + 1}", "--level", level, *more)
            failed += show(f"{level}, run {i + 1}", seconds, problems(code, report, seconds, True), report)
    return failed


def neighbours(m):
    """One program that leaves 3% of a GPU's memory, one that leaves almost none, one that computes all the time."""
    gpu, failed = m.gpus()[0], 0
    for kind, percent, level in (("memory", 97, "standard"), ("compute", 20, "standard"), ("compute", 20, "quick"), ("memory", 97, "thorough")):
        name = f"{level} beside {kind} {percent}%"
        other = m.neighbour(gpu, kind, percent)
        ready = other.stdout.readline().strip()
        if not ready.startswith("ready"):
            failed += show(name, 0, [f"the neighbour does not start: {ready}"], None)
            other.kill()
            continue
        code, report, seconds = m.test(f"beside-{kind}-{percent}-{level}", "--level", level, "--deadline", "60")
        wrong = problems(code, report, seconds, kind == "memory")
        said = other.communicate()[0].strip()
        if other.returncode != 0 or not said.endswith("all right"):
            wrong.append(f"harm to the neighbour: exit {other.returncode}, {said}")
        if report and level == "thorough" and not m.host and any(
                leg["leg"] == "sweep" and leg["verdict"] == "OK" for pair in report["pairs"] for leg in pair["legs"] if gpu in (pair["src"], pair["dst"])):
            wrong.append("memory of a GPU in use was swept")
        failed += show(name, seconds, wrong, report)
        print(f"       {ready}; {said}")
        if report:
            print(f"       findings {sorted({f['code'] for f in report['findings']})}")
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--host", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--soak", type=float, default=3)
    parser.add_argument("--only", choices=("levels", "neighbours"))
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    m = Machine(args)
    if len(m.gpus()) < 2:
        print("fewer than two GPUs here: skipped")
        return 77
    failed = 0
    if args.only != "neighbours":
        failed += levels(m, args.runs, args.soak)
    if args.only != "levels":
        failed += neighbours(m)
    print(f"{failed} runs not as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
