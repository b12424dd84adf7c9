#!/usr/bin/env python3
"""Whole runs in a build with ThreadSanitizer: no process of a run reports anything.

races.py --program P2PSAFE --planted PLANTED_RACE --reports FOLDER --hosts TESTS/HOSTS [--all]

--all: every host of the folder, with measuring (minutes); there a single report is an error."""
import argparse
import pathlib
import subprocess
import sys

# Two GPUs, with measuring; damage; workers that die. Those that hang take longer: --all.
TRIES = 3  # what shows in only one run of these is printed and kept (seen-race.*), and no reason to stop a busy machine
RUNS = [("ok-2xh200-nvlink", []), ("x-stale", ["--no-measure"]), ("x-crash", ["--no-measure"])]


def reports(folder):
    return sorted(folder.glob("race.*"))


def look(args, host, options):
    """What is wrong with one run, as text."""
    done = subprocess.run([args.program, "--host", args.hosts / host, "--no-cache", "test", *options],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    found = reports(args.reports)
    said = "\n".join(f.read_text(errors="replace") for f in found)
    for one in found:
        one.rename(one.with_name("seen-" + one.name))
    return f"no answer ({done.returncode})\n{done.stdout}" if "SIMULATED" not in done.stdout else said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "planted", "reports", "hosts"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    args.reports.mkdir(parents=True, exist_ok=True)
    for old in reports(args.reports):
        old.unlink()
    subprocess.run([args.planted], timeout=60)
    if not reports(args.reports):
        print("a planted race is not reported")
        return 1
    for old in reports(args.reports):
        old.unlink()
    runs = RUNS
    if args.all:
        runs = [(h.name, []) for h in sorted(args.hosts.iterdir()) if (h / "cuda.json").exists()]
    for host, options in runs:
        seen = 0
        for attempt in range(1 if args.all else TRIES):
            wrong = look(args, host, options)
            print(f"{host}: {wrong or 'nothing'}", flush=True)
            seen += bool(wrong)
            if not wrong and attempt == 0:
                break
        if seen > (0 if args.all else 1):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
