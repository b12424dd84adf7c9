#!/usr/bin/env python3
"""Every file that the program may read can be absent, empty, huge, nonsense, a folder, or a link to nowhere.

usage: hostile.py --program PATH [--all] [--seed N] [--seconds N] [HOST ...]

Takes a healthy and a broken host, damages one file, link or folder at a time in a copy, and runs `probe`, for a sample of
them also `test --level quick`. The program must end by itself within its time, with an exit code of its own and with JSON,
its helper must not die, and no damage may improve an answer: nothing is allowed, no pair is right and no IOMMU is off that
was not so before. Without --all a sample is taken, whose seed is printed; the whole takes some minutes."""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

import mkhost  # noqa: E402
import mkhost_base  # noqa: E402

HOSTS = ("ok-4xpcie", "f01-amd-translated-redirect")
TEST_SHARE = 40  # one of so many cases also runs the test
SLOW = float(os.environ.get("P2PSAFE_TEST_SLOW", "1"))
PROBE_SECONDS = 10 * SLOW  # far above what it takes (milliseconds): the machine may be busy
TEST_SECONDS = 60 * SLOW
BETTER = {"translated": ("none", "identity"), "unknown": (), "mixed": ("none", "identity"), "identity": ("none",), "none": ()}
DIED = ("HELPER_DIED", "HELPER_NONSENSE", "HELPER_MISSING", "RUN_FAILED")
GARBAGE = random.Random(1).randbytes(1 << 20)
NUMBERS = (b"-1\n", b"99999999999999999999999999\n", b"0x\n", b"\n\n\n", b"  7", b"nan", b"%s%n%s%n\n", b"identity\0DMA\n",
           b"DMA" * 99)


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def nonsense(path):
    path.write_bytes(random.Random(str(path.name)).choice(NUMBERS))


DAMAGES = {
    "absent": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_bytes(b"0x7fffffff -1 identity DMA " * 38836),
    "binary": lambda path: path.write_bytes(GARBAGE),
    "nonsense": nonsense,
    "folder": lambda path: path.mkdir(),
    "fifo": lambda path: os.mkfifo(path),
    "dangling": lambda path: path.symlink_to("nowhere/at/all"),
    "loop": lambda path: path.symlink_to(path.name),
    "upwards": lambda path: path.symlink_to("../" * 40 + "etc"),
}


def targets(host):
    """Every file, link and folder of root/, and the log."""
    out = [host / "kmsg"] if (host / "kmsg").exists() else []
    for folder, folders, files in os.walk(host / "root"):
        out += [pathlib.Path(folder) / name for name in sorted(folders + files)]
    return out


class Damaged:
    """One path replaced by something else while the context lasts."""

    def __init__(self, path, damage):
        self.path = path
        self.damage = damage
        self.saved = path.with_name(path.name + ".saved")

    def __enter__(self):
        self.path.rename(self.saved)
        DAMAGES[self.damage](self.path)

    def __exit__(self, *_):
        remove(self.path)
        self.saved.rename(self.path)


def ask(program, host, words, seconds):
    answer = Answer(program, host, words, seconds)
    return Answer(program, host, words, seconds) if answer.late() else answer


class Answer:
    """What a run said: wrong is a list of sentences."""

    def __init__(self, program, host, words, seconds):
        self.wrong = []
        self.report = None
        start = time.monotonic()
        child = subprocess.Popen([program, "--host", str(host), "--json", "--no-cache"] + words, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=environment())
        try:
            out, err = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            self.wrong.append(f"did not end within {seconds:g} s")
            return
        self.seconds = time.monotonic() - start
        self.code = child.returncode
        if self.code not in (0, 1, 2, 3, 4):
            self.wrong.append(f"ended with {self.code}: {err.decode('utf-8', 'replace')[-300:]}")
        try:
            self.report = json.loads(out.decode("utf-8")) if self.code in (0, 1, 3) else None
        except ValueError as error:
            self.wrong.append(f"no JSON: {error}")
        if self.report is not None:
            died = [f for f in self.report["findings"] if f["code"] in DIED]
            self.wrong += [f"{f['code']}: {'; '.join(e['text'] for e in f['evidence'])}" for f in died]

    def late(self):
        """The deadline came first: on a busy machine that is an answer."""
        return self.report is not None and any("before the deadline" in text for text in self.wrong)

    def allowed(self):
        return {name for name, c in self.report["decision"]["consumers"].items() if c["allowed"]}

    def right(self):
        return {(p["src"], p["dst"]) for p in self.report["pairs"] if p["verdict"] in ("OK", "DEGRADED")}

    def judge(self, healthy):
        """No better than the undamaged host, whose GPUs are all there is."""
        if self.report is None:
            return
        if healthy.report is None:
            return
        more = self.allowed() - healthy.allowed()
        if more:
            self.wrong.append(f"allows {', '.join(sorted(more))}")
        if self.right() - healthy.right():
            self.wrong.append(f"calls right: {sorted(self.right() - healthy.right())}")
        if len(self.report["gpus"]) > len(healthy.report["gpus"]):
            self.wrong.append("found more GPUs than there are")

    def judge_iommu(self, healthy, damage, path):
        """An absent file may mean that there is no IOMMU; one that cannot be read never does."""
        before = healthy.report["iommu"]["state"]
        if self.report is None or (damage == "absent" and ("iommu" in str(path) or path.name in ("sys", "kernel"))):
            return
        state = self.report["iommu"]["state"]
        if self.report["gpus"] and state in BETTER[before]:
            self.wrong.append(f"IOMMU {before} became {state}")


def environment():
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_", "XDG_"))}
    return dict(keep, HOME="/nonexistent")


def cases(host, everything, rng, count):
    out = [(path, damage) for path in targets(host) for damage in DAMAGES]
    return out if everything or len(out) <= count else rng.sample(out, count)


def run_host(program, name, args, rng, until):
    """Returns how many cases ran and how many were wrong."""
    done = wrong = tested = 0
    with tempfile.TemporaryDirectory(prefix="p2psafe-hostile-") as scratch:
        host = pathlib.Path(scratch) / name
        shutil.copytree(HERE / name, host, symlinks=True)
        healthy = {"probe": Answer(program, host, ["probe"], PROBE_SECONDS),
                   "test": Answer(program, host, ["test", "--level", "quick", "--no-measure"], TEST_SECONDS)}
        for key, answer in healthy.items():
            if answer.wrong:
                raise SystemExit(f"{name} undamaged, {key}: {answer.wrong}")
        for path, damage in cases(host, args.all, rng, args.sample):
            if not args.all and time.monotonic() > until:
                break
            with Damaged(path, damage):
                answers = [("probe", ask(program, host, ["probe"], PROBE_SECONDS))]
                if done % TEST_SHARE == 0:
                    answers.append(("test", ask(program, host, ["test", "--level", "quick", "--no-measure"], TEST_SECONDS)))
                    tested += 1
            done += 1
            for key, answer in answers:
                answer.judge(healthy[key])
                answer.judge_iommu(healthy[key], damage, path)
                if answer.wrong:
                    wrong += 1
                    print(f"FAIL {name}: {path.relative_to(host)} {damage}: {key}: {'; '.join(answer.wrong)}")
    print(f"{name}: {done} damages, {tested} of them with a test, {wrong} wrong")
    return done, wrong


def crowd(description, bdfs):
    """A host of many GPUs, each on a bus of its own."""
    gpus = [mkhost_base.gpu(bdf, i, (0x20000000000 + (i << 37), 64 << 30)) for i, bdf in enumerate(bdfs)]
    return dict(mkhost_base.BASE, description=description, gpus=gpus, kmsg=["booted"])


def run_crowds(program):
    """64 GPUs and more, and PCI domains of 32 bits."""
    wide = ["%x:%02x:%02x.0" % (0xFFFFFFFF - i * 0x01010101, i, 31 - i % 32) for i in range(8)]
    many = ["%04x:%02x:00.0" % (i // 16, i % 16 * 16 + 1) for i in range(64)]
    wrong = 0
    for words, bdfs in (("domains of 32 bits", sorted(wide, key=lambda b: int(b.split(":")[0], 16))), ("64 GPUs", many),
                        ("70 GPUs", many + ["0004:%02x:00.0" % i for i in range(1, 7)])):
        with tempfile.TemporaryDirectory(prefix="p2psafe-crowd-") as scratch:
            mkhost.tree_of(crowd(words, bdfs)).write(scratch)
            answer = Answer(program, scratch, ["probe"], PROBE_SECONDS)
        shown = min(len(bdfs), 64)
        if answer.report is not None:
            found = [g["bdf"] for g in answer.report["gpus"]]
            if found != bdfs[:shown]:
                answer.wrong.append(f"{len(found)} GPUs: {found[:4]} ...")
            if len(answer.report["pairs"]) != shown * (shown - 1):
                answer.wrong.append(f"{len(answer.report['pairs'])} pairs")
        elif not answer.wrong:
            answer.wrong.append(f"no report, exit {answer.code}")
        wrong += bool(answer.wrong)
        print(f"{'FAIL' if answer.wrong else 'ok  '} {words}{': ' if answer.wrong else ''}{'; '.join(answer.wrong)}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--all", action="store_true", help="every damage of every file")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--seconds", type=float, default=50, help="time for a sample")
    parser.add_argument("--sample", type=int, default=400, help="damages of each host")
    parser.add_argument("hosts", nargs="*", default=HOSTS)
    args = parser.parse_args()
    args.program = str(pathlib.Path(args.program).resolve())
    rng = random.Random(args.seed)
    print("everything" if args.all else f"a sample: --seed {args.seed}", flush=True)
    start = time.monotonic()
    wrong = run_crowds(args.program)
    for i, name in enumerate(args.hosts):
        done, bad = run_host(args.program, name, args, rng, start + args.seconds * (i + 1) / len(args.hosts))
        wrong += bad + (done == 0)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
