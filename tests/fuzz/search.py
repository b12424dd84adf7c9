#!/usr/bin/env python3
"""Lets libFuzzer search for as long as it is told, every target at once, and says what it did.

usage: search.py --build BUILD [--seconds 60] [--jobs 1] [--targets NAME,...] [--out DIR] [--merge]
       search.py --build BUILD --pack DIR       a folder that runs on another Linux machine of the same architecture:
       DIR/search.py [--seconds 600] [--jobs 4] ...

Each target runs as so many processes over one shared corpus, at first its folders below corpus/ and found/. A process that ends early
(a crash, a leak, an input that takes too long) leaves its input in OUT/crashes and is started anew. BUILD is a build folder of clang
(libFuzzer). Exits 1 if anything was found.
--merge afterwards writes the fewest inputs that reach, with corpus/, as much as all that were found, to OUT/merged: the next found/.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOADER = HERE / "lib" / "ld-linux-x86-64.so.2"
RESTARTS = 50
EXECUTED = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.M)
PULSE = re.compile(r"^#(\d+)\s.*?cov: (\d+)", re.M)
SANITIZER = "quarantine_size_mb=16:allocator_release_to_os_interval_ms=500:detect_leaks="


class Place:
    """Where targets and corpora are: a build folder, or a packed one."""

    def __init__(self, build):
        self.bin = (Path(build) if build else HERE) / "bin"
        self.corpus = HERE / "corpus"
        self.found = HERE / "found"

    def names(self):
        found = (re.fullmatch(r"fuzz_(\w+)_search", p.name) for p in self.bin.iterdir())
        return sorted(m.group(1) for m in found if m)

    def folders(self, name):
        return [str(d / name) for d in (self.corpus, self.found) if (d / name).is_dir()]

    def command(self, name):
        program = [str(self.bin / ("fuzz_%s_search" % name))]
        if LOADER.exists():
            program[:0] = [str(LOADER), "--library-path", str(LOADER.parent)]
        return program


def environment(leaks=True):
    shm = os.access("/dev/shm", os.W_OK)
    return dict(os.environ, ASAN_OPTIONS=SANITIZER + "%d" % leaks, TMPDIR="/dev/shm" if shm else tempfile.gettempdir())


def leaks_can_be_seen(place, name):
    """LeakSanitizer stops its own process to look at it, which some containers forbid."""
    done = subprocess.run([*place.command(name), "-runs=1", *place.folders(name)], env=environment(), capture_output=True, text=True,
                          errors="replace", check=False)
    if done.returncode != 0 and "LeakSanitizer has encountered a fatal error" not in done.stderr:
        sys.exit("%s does not run here:\n%s" % (name, done.stderr[-2000:]))
    return done.returncode == 0


class Worker:
    """One process of a target, and those that follow it."""

    def __init__(self, place, name, number, arguments, env):
        self.place, self.name, self.number, self.arguments, self.env = place, name, number, arguments, env
        self.executions = self.edges = self.ended = 0
        self.cpu = 0.0

    def run(self):
        until = time.monotonic() + self.arguments.seconds
        for attempt in range(RESTARTS):
            left = int(until - time.monotonic())
            if left < 1:
                break
            log = self.arguments.out / "logs" / ("%s-%d-%d" % (self.name, self.number, attempt))
            self.ended += self.once(log, left, attempt) != 0
            self.count(log)
        return self

    def once(self, log, left, attempt):
        found = self.arguments.out / "found" / self.name
        crashes = self.arguments.out / "crashes" / (self.name + "-")
        command = [*self.place.command(self.name), "-max_total_time=%d" % left, "-max_len=16384", "-timeout=20", "-rss_limit_mb=3000",
                   "-print_final_stats=1", "-seed=%d" % (self.number * RESTARTS + attempt + self.arguments.seed),
                   "-artifact_prefix=%s" % crashes, str(found), *self.place.folders(self.name)]
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=self.env, cwd=str(self.arguments.out))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu += usage.ru_utime + usage.ru_stime
        return process.returncode

    def count(self, log):
        text = log.read_text(errors="replace")
        executed = EXECUTED.search(text)
        pulses = PULSE.findall(text)
        self.executions += int(executed.group(1)) if executed else max([int(n) for n, _ in pulses], default=0)
        self.edges = max([self.edges] + [int(edges) for _, edges in pulses])


def search(place, names, arguments):
    for folder in ("found", "crashes", "logs"):
        (arguments.out / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        (arguments.out / "found" / name).mkdir(exist_ok=True)
    leaks = leaks_can_be_seen(place, names[0])
    if not leaks:
        print("leaks cannot be looked for here")
    env = environment(leaks)
    workers = [Worker(place, name, number, arguments, env) for name in names for number in range(arguments.jobs)]
    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(Worker.run, workers))


def merge(place, names, arguments):
    def one(name):
        to = arguments.out / "merged" / name
        seeds = [p.name for p in (place.corpus / name).iterdir()]
        shutil.copytree(place.corpus / name, to)  # what it reaches counts as reached
        subprocess.run([*place.command(name), "-set_cover_merge=1", "-use_counters=0", "-max_len=16384", str(to), *place.folders(name),
                        str(arguments.out / "found" / name)], env=environment(False), capture_output=True, check=False)
        for seed in seeds:
            (to / seed).unlink()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, names))


def report(names, workers, arguments):
    rows = []
    print("%-14s %14s %9s %9s %7s %7s %8s" % ("target", "executions", "per CPU s", "CPU min", "edges", "corpus", "crashes"))
    for name in names:
        mine = [w for w in workers if w.name == name]
        cpu = sum(w.cpu for w in mine)
        row = {"target": name, "executions": sum(w.executions for w in mine), "cpu_s": round(cpu, 1), "edges": max(w.edges for w in mine),
               "corpus": sum(1 for _ in (arguments.out / "found" / name).iterdir()),
               "crashes": sorted(p.name for p in (arguments.out / "crashes").glob(name + "-*")), "ended_early": sum(w.ended for w in mine)}
        rows.append(row)
        print("%-14s %14d %9d %9.1f %7d %7d %8d" % (name, row["executions"], row["executions"] / max(cpu, 0.1), cpu / 60, row["edges"],
                                                    row["corpus"], max(len(row["crashes"]), row["ended_early"])))
    (arguments.out / "summary.json").write_text(json.dumps({"seconds": arguments.seconds, "jobs": arguments.jobs, "targets": rows}, indent=1))
    for row in rows:
        for crash in row["crashes"]:
            print("found: %s" % (arguments.out / "crashes" / crash))
    return any(row["crashes"] or row["ended_early"] for row in rows)


def libraries(program):
    """The loader and the libraries that a program needs."""
    text = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return {Path(p) for p in re.findall(r"(/\S+\.so\S*)", text)}


def pack(place, names, to):
    (to / "bin").mkdir(parents=True)
    (to / "lib").mkdir()
    needed = set()
    for name in names:
        program = place.bin / ("fuzz_%s_search" % name)
        needed |= libraries(program)
        subprocess.run(["strip", "-o", str(to / "bin" / program.name), str(program)], check=True)
        for folder in (place.corpus, place.found):
            if (folder / name).is_dir():
                shutil.copytree(folder / name, to / folder.name / name)
    for library in needed:
        shutil.copy(library, to / "lib" / library.name)
    shutil.copy(__file__, to / "search.py")
    size = sum(p.stat().st_size for p in to.rglob("*") if p.is_file())
    print("%s: %d targets, %.1f MiB" % (to, len(names), size / 2**20))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", help="build folder; not needed in a packed folder")
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=1, help="processes per target")
    parser.add_argument("--targets", help="comma-separated; all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--merge", action="store_true")
    arguments = parser.parse_args()
    place = Place(arguments.build)
    names = place.names() if place.bin.is_dir() else []
    if arguments.targets:
        names = [n for n in names if n in arguments.targets.split(",")]
    if not names:
        sys.exit("no fuzz_*_search in %s: build with clang" % place.bin)
    if arguments.pack:
        pack(place, names, arguments.pack)
        return
    arguments.out = Path(arguments.out or tempfile.mkdtemp(prefix="p2psafe-search-")).resolve()
    workers = search(place, names, arguments)
    found = report(names, workers, arguments)
    if arguments.merge:
        merge(place, names, arguments)
    print("everything is in %s" % arguments.out)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
