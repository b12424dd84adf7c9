#!/usr/bin/env python3
"""Workers killed at any moment of a test: a report comes, in time, and permits nothing that was not wholly tested.

usage: kill.py --build DIR [--real] [--runs N] [--seed N]"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import machine

DEADLINE = 30


def workers(parent):
    """Processes below the program that run a GPU's work."""
    below, out = {parent}, []
    for _ in range(3):
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                ppid = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
                words = (path / "cmdline").read_bytes().split(b"\0")
            except (OSError, IndexError, ValueError):
                continue
            pid = int(path.name)
            if ppid in below and pid not in below:
                below.add(pid)
                if len(words) > 1 and words[1] == b"worker":
                    out.append(pid)
    return out


def one(build, host, delay, rng):
    command = [str(build / "bin/p2psafe")] + (["--host", host] if host else []) + [
        "test", "--json", "--no-cache", "--no-measure", "--level", "standard", "--deadline", str(DEADLINE)]
    start = time.monotonic()
    run = subprocess.Popen(command, env=machine.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    victim, found = None, []
    while run.poll() is None and not found and time.monotonic() - start < 5:
        found = workers(run.pid)
    end = time.monotonic() + delay
    while run.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    if run.poll() is None and found:
        victim = rng.choice(found)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            victim = None
    out, err = run.communicate(timeout=DEADLINE + 20)
    seconds = time.monotonic() - start
    problems = []
    try:
        report = json.loads(out)
    except ValueError:
        return victim, seconds, {}, [f"no report, exit {run.returncode}: {err.strip()[-300:]}"]
    if seconds > DEADLINE + 1:
        problems.append(f"took {seconds:.1f} s")
    verdicts = {}
    for pair in report["pairs"]:
        for leg in pair["legs"]:
            verdicts[leg["verdict"]] = verdicts.get(leg["verdict"], 0) + 1
            if leg["verdict"] in ("CORRUPT", "HANG") and leg["leg"] != "tearing_128":
                problems.append(f"{pair['src']}>{pair['dst']} {leg['leg']} {leg['verdict']}: '{leg['note']}'")
            if leg["verdict"] == "ERROR":
                verdicts["by leg"] = leg["leg"]
    for name, consumer in report["decision"]["consumers"].items():
        if consumer["allowed"] and consumer["verdict"] != "OK":
            problems.append(f"{name} is allowed though {consumer['verdict']}")
    return victim, seconds, verdicts, problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--span", type=float, default=0.35, help="kill within so many seconds after the workers are there")
    args = parser.parse_args()
    rng, bad, hit = random.Random(args.seed), 0, 0
    with tempfile.TemporaryDirectory(prefix="p2psafe-kill-") as folder:
        host = None
        if not args.real:
            host = os.path.join(folder, "host")
            machine.write(machine.describe(2), host)
        for i in range(args.runs):
            delay = args.span * i / args.runs
            victim, seconds, verdicts, problems = one(args.build, host, delay, rng)
            hit += victim is not None
            bad += bool(problems)
            print(f"{'FAIL' if problems else 'ok  '} killed after {delay:.2f} s: {'yes' if victim else 'too late'}, {seconds:.1f} s, {verdicts}")
            for line in problems[:6]:
                print(f"       {line}")
            sys.stdout.flush()
    print(f"{args.runs} runs, {hit} with a killed worker, {bad} not as they should be")
    return 1 if bad or not hit else 0


if __name__ == "__main__":
    sys.exit(main())
