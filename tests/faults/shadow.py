#!/usr/bin/env python3
"""Every mode of the shadow window must be caught, and rightly named; the way back must stay OK.

usage: shadow.py --build DIR [--real] [--only MODE] [--out DIR]

Without --real: over the simulated driver, on a machine made on the fly. With --real: over the driver of this machine, on its first
two GPUs. What the modes do: src/sim/shadow_window.c. At last nothing is damaged and no kernel loads: copies must be proven all the
same, and nothing else permitted."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import machine

BIG = 32 << 20
BAD = ("CORRUPT", "HANG", "ERROR")

# mode, more words of shadow.conf, legs that may catch it, names, level, the only mapping that may be blamed
MODES = [
    ("mirror", "", {"sm_store"}, {"mirror"}, "quick", None),
    ("drop", "", {"sm_store"}, {"dropped"}, "quick", None),
    ("stale", "", {"sm_load", "ce_read", "stale", "sizes"}, {"stale"}, "standard", None),
    ("zeros", "", {"sm_store"}, {"zeros"}, "quick", None),
    ("bit", "above=1048576", {"sm_store", "ce_write"}, {"bit_error"}, "standard", None),
    ("swap", "above=65536", {"sm_store", "ce_write"}, {"shifted"}, "quick", None),
    ("late", "", {"sm_store"}, {"dropped"}, "quick", None),
    ("misdirect", "", {"sm_store"}, {"misdirected"}, "quick", None),
    ("reorder", "", {"mp_push"}, {"reordered"}, "quick", None),
    ("torn", "", {"tearing_8"}, {"torn"}, "quick", None),
    ("drop", f"above={BIG}", {"sm_store", "ce_write", "sizes"}, {"dropped"}, "standard", None),
    ("zeros", "mapping=ipc", {"sm_store"}, {"zeros"}, "quick", "ipc"),
    ("mirror", "mapping=peer", {"sm_store"}, {"mirror"}, "quick", "peer"),
    ("zeros", "kernels=no", {"ce_write"}, {"zeros"}, "quick", None),
    ("bit", "kernels=no above=65536", {"ce_write"}, {"bit_error"}, "standard", None),
]


def run(build, folder, conf, options, host, out):
    """The report of one test under the wrapper."""
    wrapper = pathlib.Path(folder) / "libcuda-shadow.so.1"
    if not wrapper.exists():
        shutil.copy(build / "libexec/p2psafe/sim/libcuda-shadow.so.1", wrapper)
    (pathlib.Path(folder) / "shadow.conf").write_text(conf + "\n", encoding="ascii")
    command = [str(build / "bin/p2psafe")] + (["--host", host] if host else []) + [
        "test", "--json", "--no-cache", "--keep-going", "--no-measure", "--deadline", "90", "--cuda-library", str(wrapper), *options]
    done = subprocess.run(command, env=machine.environment(), capture_output=True, text=True, timeout=180)
    if out:
        out.write_text(done.stdout, encoding="utf-8")
    try:
        return done.returncode, json.loads(done.stdout), done.stderr
    except ValueError:
        return done.returncode, None, done.stderr


def judge(row, src, dst, code, report, stderr):
    mode, _, legs, names, _, mapping = row
    if report is None:
        return [f"no report, exit {code}: {stderr.strip()[-300:]}"]
    out, bad = [], []
    for pair in report["pairs"]:
        for leg in pair["legs"]:
            if leg["verdict"] not in BAD or leg["leg"] == "tearing_128":
                continue
            text = f"{leg['leg']} {leg['mapping']} {leg['verdict']} {leg['damage']} '{leg['note']}'"
            if (pair["src"], pair["dst"]) != (src, dst):
                out.append(f"{pair['src']}>{pair['dst']} is blamed: {text}")
            elif mapping and leg["mapping"] != mapping:
                out.append(f"another mapping is blamed: {text}")
            else:
                bad.append((leg, text))
    if not any(leg["leg"] in legs and leg["verdict"] == "CORRUPT" and leg["damage"] in names and leg["detail"] for leg, _ in bad):
        notes = sorted({f"{leg['leg']} {leg['verdict']} {leg['note']}" for p in report["pairs"] for leg in p["legs"] if leg["verdict"] != "OK"})
        out.append(f"wanted {sorted(legs)} CORRUPT {sorted(names)}, got: {'; '.join(t for _, t in bad) or notes[:8]}")
    if any(c["allowed"] for c in report["decision"]["consumers"].values()):
        out.append("something is allowed")
    if code != 1:
        out.append(f"exit {code}")
    return out


def without_kernels(src, dst, code, report, stderr):
    """Nothing is damaged, no kernel loads: copies are proven, and nothing else."""
    if report is None:
        return [f"no report, exit {code}: {stderr.strip()[-300:]}"]
    allowed = sorted(name for name, c in report["decision"]["consumers"].items() if c["allowed"])
    out = [] if allowed == ["peer_copies"] else [f"allowed: {allowed}"]
    for pair in report["pairs"]:
        fine = {leg["leg"] for leg in pair["legs"] if leg["verdict"] == "OK" and leg["mapping"] == "peer"}
        if not {"ce_write", "ce_read", "sizes", "stale"} <= fine or fine - {"ce_write", "ce_read", "sizes", "stale", "load"}:
            out.append(f"{pair['src']}>{pair['dst']}: over peer OK are {sorted(fine)}")
        out += [f"{pair['src']}>{pair['dst']} {leg['leg']} {leg['verdict']} '{leg['note']}'" for leg in pair["legs"]
                if leg["verdict"] in BAD]
    return out


def two_gpus(build):
    done = subprocess.run([str(build / "bin/p2psafe"), "probe", "--json"], env=machine.environment(), capture_output=True, text=True,
                          timeout=60)
    gpus = [g["bdf"] for g in json.loads(done.stdout)["gpus"] if g["ours"]]
    return gpus[:2] if len(gpus) >= 2 else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    failed, count = 0, 0
    with tempfile.TemporaryDirectory(prefix="p2psafe-shadow-") as folder:
        if args.real:
            gpus, host, driver = two_gpus(args.build), None, ""
            if gpus is None:
                print("fewer than two GPUs here: skipped")
                return 77
        else:
            gpus, host = [machine.address(0), machine.address(1)], os.path.join(folder, "host")
            machine.write(machine.describe(2), host)
            driver = f" driver={args.build.resolve() / 'libexec/p2psafe/sim/libcuda.so.1'}"
        src, dst = gpus
        rows = [(row, judge) for row in MODES]
        rows.append((("mirror", f"kernels=no above={2**62}", (), (), "standard", None), lambda row, *rest: without_kernels(*rest)))
        for row, judged in rows:
            name = " ".join(row[:2]).strip()
            if args.only not in name:
                continue
            conf = f"src={src} dst={dst} mode={row[0]} {row[1]}{driver}"
            start = time.monotonic()
            out = args.out / f"shadow-{name.replace(' ', '-').replace('=', '-')}.json" if args.out else None
            problems = judged(row, src, dst, *run(args.build, folder, conf, ["--level", row[4], "--gpus", ",".join(gpus)], host, out))
            print(f"{'FAIL' if problems else 'ok  '} {name} ({time.monotonic() - start:.1f} s)")
            for line in problems[:6]:
                print(f"       {line}")
            failed += bool(problems)
            count += 1
            sys.stdout.flush()
    print(f"{count} ways of damage, {failed} not caught as they should be")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
