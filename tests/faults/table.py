#!/usr/bin/env python3
"""The proof table: every fault that the simulator knows, and the leg that must catch it, with the name of the damage.

usage: table.py --program PATH [--ci] [--only TEXT] [--jobs N] [--list]

Each row is a machine of its own, made on the fly, with one thing wrong in one direction: A accesses memory of B. The row says
which leg must say so, how, and what it must say about it; the way back and all other pairs must stay OK. --ci runs a part."""

import argparse
import concurrent.futures
import pathlib
import re
import sys
import time

import machine

A, B, C = (machine.address(i) for i in range(3))
BAD = ("CORRUPT", "HANG", "ERROR")
CONSUMERS = ("nccl_p2p", "custom_all_reduce", "symmetric_memory", "peer_copies")
NVLINK = {"default": {"kind": "nvlink", "bytes_per_s": 200 * 10**9, "latency_ns": 800, "nvlinks": 18}}
PCIE = {"default": {"kind": "pcie"}}
MIB = 1 << 20

# What an effect on the bytes of one transfer is called by who looks at them.
NAMES = {
    "drop": "dropped", "zeros": "zeros", "ones": "ones", "nan": "nan", "mirror": "mirror", "stale": "stale", "bit_flip": "bit_error",
    "shift": "shifted", "misdirect": "misdirected", "alias": "aliased", "torn": "torn", "reorder": "reordered",
}
KEYS = {"shift": {"shift": 3072}, "misdirect": {"target": C}, "alias": {"bit": 12}, "late_error": {"error": 719, "calls": 5},
        "lost": {"error": 719}, "error": {"error": 719}, "bit_flip": {"bits": "0x0000002000000000"}}
SAYS = {"shift": "arrived 3072 bytes behind its place", "alias": "address bit 12 is lost", "bit_flip": "bit 37 of the 8-byte words",
        "misdirect": "bytes appeared in memory of " + C}


def fault(op, effect, **more):
    out = dict(src=A, dst=B, op=op, effect=effect)
    out.update(KEYS.get(effect, {}))
    out.update(more)
    return out


class Row:
    def __init__(self, name, faults, leg, verdict="CORRUPT", damage=None, mapping=None, says=None, level="quick", gpus=3, links=PCIE,
                 ci=False, spoils="pair", options=(), host=None, moves=True, vetoes=CONSUMERS, measure=False, finds=None):
        self.name, self.faults, self.leg, self.verdict = name, faults if isinstance(faults, list) else [faults], leg, verdict
        self.damage = {damage} if isinstance(damage, str) else damage
        self.mapping, self.says, self.level, self.gpus, self.links, self.ci = mapping, says, level, gpus, links, ci
        self.spoils = spoils  # pair: only A>B; both: A and B, whatever they do; call: anybody, but nothing is damage
        # speed: nothing is damage anywhere, and nothing is allowed that `vetoes` names
        # lie: whatever it is called, nothing is allowed that `vetoes` names
        self.options, self.host, self.moves, self.vetoes = list(options), host or {}, moves, vetoes
        self.measure, self.finds = measure, finds  # finds: the code of a finding about A>B


def driver_calls():
    """Every function that the helper calls."""
    text = (pathlib.Path(__file__).resolve().parent / "../../src/helper/cuda_syms.def").read_text(encoding="utf-8")
    return re.findall(r"^P2S_CU_SYM\((\w+),", text, re.M)


def not_to_be_planned():
    """Functions of the simulated driver that no plan reaches: their rows would prove nothing."""
    out = set(driver_calls())
    for path in (pathlib.Path(__file__).resolve().parent / "../../src/sim").glob("api*.c"):
        for name, body in re.findall(r"^P2S_EXPORT CUresult (\w+)\([^)]*\)\n\{(.*?)^\}", path.read_text(encoding="utf-8"), re.M | re.S):
            if "SIM_ENTER();" in body:
                out.discard(name)
    return sorted(out)


def rows():
    out = []
    legs = {"sm_store": "sm_store", "ce_write": "ce_write", "sm_load": "sm_load", "ce_read": "ce_read"}
    # 1. Every effect on every engine, whatever the mapping.
    for op, leg in legs.items():
        reads = op in ("sm_load", "ce_read")
        for effect in ("drop", "zeros", "ones", "nan", "mirror", "stale", "bit_flip", "shift", "misdirect", "alias", "torn"):
            name, says, want = NAMES[effect], SAYS.get(effect), leg
            if effect == "torn" and op == "sm_store":
                want = "tearing_8"
            if effect == "torn" and op == "sm_load":
                continue  # whole when the kernel ends: nobody can see it in a bulk load
            if effect == "drop" and reads:
                name = "dropped"
            if effect == "mirror" and reads:
                continue  # without a private write there is no private copy to read
            if effect == "mirror" and op == "ce_write":
                name = {"dropped", "mirror"}
            if effect == "stale" and not reads:
                name = {"dropped", "stale"}
            if effect == "shift" and reads:
                says = "arrived 3072 bytes before its place"
            if effect == "misdirect" and reads:
                name, says = {"misdirected", "unknown", "stale"}, None
            if effect == "alias" and want == leg:
                name = {"aliased"}
            out.append(Row(f"{op} {effect}", fault(op, effect), want, damage=name, says=says,
                           ci=op in ("sm_store", "ce_read") and effect in ("drop", "bit_flip", "alias", "shift")))
    # 2. Over one mapping only: that mapping is named, the others are not blamed.
    for mapping in ("cumem", "ipc", "peer"):
        for op, leg in legs.items():
            out.append(Row(f"{op} zeros over {mapping}", fault(op, "zeros", mapping=mapping), leg, damage="zeros", mapping=mapping,
                           ci=mapping == "ipc" and op == "ce_write"))
    # 3. Messages: the flag, the payload behind it, both directions of looking.
    for effect, name in (("drop", "dropped"), ("zeros", "zeros"), ("ones", "ones"), ("bit_flip", "bit_error"), ("reorder", "reordered"),
                         ("hang", "dropped")):
        out.append(Row(f"flag {effect}", fault("flag", effect), "mp_push", damage=name, ci=effect == "reorder"))
    # 4. Atomics, where the path has them.
    for effect, name in (("drop", "dropped"), ("zeros", {"zeros", "unknown"}), ("bit_flip", {"unknown", "bit_error"})):
        out.append(Row(f"atomic {effect}", fault("atomic", effect), "atomics", damage=name, links=NVLINK, ci=effect == "drop"))
    # 5. Conditions: above and below a size, a range, a rate, the n-th time, each n-th.
    out += [
        Row("store above 256 KiB", fault("sm_store", "drop", min_bytes=256 << 10), "sm_store", damage="dropped"),
        Row("copy above 512 KiB", fault("ce_write", "drop", min_bytes=512 << 10), "ce_write", damage="dropped", ci=True),
        Row("copy above 8 MiB", fault("ce_write", "zeros", min_bytes=8 * MIB), "ce_write", damage="zeros", level="standard"),
        Row("copy below 64 bytes", fault("ce_write", "drop", max_bytes=63), "sizes", damage="dropped"),
        # Sizes between those that other legs move.
        Row("copies of 9 to 30 KiB", fault("ce_write", "zeros", min_bytes=9 << 10, max_bytes=30 << 10), "sizes", damage="zeros"),
        Row("copies of 100 to 400 KiB", fault("ce_write", "bit_flip", min_bytes=100 << 10, max_bytes=400 << 10), "sizes", damage="bit_error", ci=True),
        Row("reads of 200 to 300 KiB", fault("ce_read", "drop", min_bytes=200 << 10, max_bytes=300 << 10), "sizes", damage="dropped"),
        Row("copies of 3 to 6 MiB", fault("ce_write", "zeros", min_bytes=3 * MIB, max_bytes=6 * MIB), {"sizes", "ce_write"}, damage="zeros",
            level="standard"),
        Row("load below 64 bytes", fault("sm_load", "zeros", max_bytes=63), {"sizes", "sm_load"}, damage="zeros"),
        Row("store in a range", fault("sm_store", "zeros", **{"from": 700000, "to": 700064}), "sm_store", damage="zeros"),
        Row("copy in a range", fault("ce_read", "bit_flip", **{"from": 640 << 10, "to": 704 << 10}), "ce_read", damage="bit_error"),
        Row("one unit in ten thousand", fault("ce_write", "bit_flip", rate=100), "ce_write", damage="bit_error", level="standard"),
        # It lands in one of the three buffers there, of the gpu worker or the peer worker: which one is chance.
        Row("store that arrives, and lands elsewhere too", fault("sm_store", "duplicate", target=C, max_bytes=128, count=1), "sm_store",
            damage="misdirected", says="bytes appeared in memory of " + C, ci=True),
        Row("store over ipc that arrives, and lands elsewhere too", fault("sm_store", "duplicate", target=C, max_bytes=128, count=1, mapping="ipc"),
            "sm_store", damage="misdirected", mapping="ipc", says="bytes appeared in memory of " + C, ci=True),
        Row("store over peer that arrives, and lands elsewhere too", fault("sm_store", "duplicate", target=C, max_bytes=128, count=1, mapping="peer"),
            "sm_store", damage="misdirected", mapping="peer", says="bytes appeared in memory of " + C),
        Row("copy that arrives, and lands elsewhere too", fault("ce_write", "duplicate", target=C, min_bytes=4096, max_bytes=4096, count=1),
            "ce_write", damage="misdirected", mapping="cumem", says="bytes appeared in memory of " + C),
        Row("the fifth copy", fault("ce_write", "zeros", after=4, count=1), {"ce_write", "sizes", "stale"}, damage="zeros"),
        Row("each seventh store", fault("sm_store", "drop", every=7, after=3), {"sm_store", "sizes", "stale"}, damage={"dropped", "stale"}),
        Row("alias at 512 KiB", fault("ce_write", "alias", bit=19), "ce_write", damage="aliased", says="address bit 19 is lost"),
        Row("alias at 8 MiB", fault("sm_store", "alias", bit=23), "sm_store", damage="aliased", says="address bit 23 is lost",
            level="standard"),
        Row("before its place", fault("sm_store", "shift", shift=-24576, **{"from": 65536}), "sm_store", damage="shifted",
            says="arrived 24576 bytes before its place"),
        Row("4096 bytes off is no lost address bit", fault("ce_write", "shift", shift=4096, min_bytes=65536), "ce_write", damage="shifted",
            says="4096 bytes behind its place"),
        # Halves of words that come later: elsewhere than at the start, only where much is stored, here and there, tiny copies.
        Row("torn stores behind the first page", fault("sm_store", "torn", **{"from": 4096}), "tearing_8", damage="torn", ci=True),
        Row("torn stores of 64 KiB and more", fault("sm_store", "torn", min_bytes=65536), "tearing_8", damage="torn"),
        Row("torn loads of 64 KiB and more", fault("sm_load", "torn", min_bytes=65536), "tearing_8", damage="torn"),
        Row("one torn store in a thousand", fault("sm_store", "torn", rate=1000), "tearing_8", damage="torn", ci=True),
        Row("one torn load in a thousand", fault("sm_load", "torn", rate=1000), "tearing_8", damage="torn"),
        Row("torn reads of 8 bytes and less", fault("ce_read", "torn", max_bytes=8), "sizes", damage={"torn", "dropped"}),
        Row("torn copies of 8 bytes and less", fault("ce_write", "torn", max_bytes=8), {"sizes", "ce_flag"}, damage={"torn", "dropped"}),
        Row("under load", fault("ce_write", "zeros", min_active=1), {"ce_flag", "ce_write", "load", "sizes", "stale"}, damage={"zeros", "unknown"}),
    ]
    # Only while others move bytes, too: what passes messages and tears words then.
    out += [Row(f"{op} {effect} under load", fault(op, effect, min_active=2), {"load", "ce_flag"}, damage=damage, level="standard")
            for op, effect, damage in (("flag", "reorder", "reordered"), ("flag", "drop", {"dropped", "stale"}), ("sm_store", "torn", "torn"),
                                       ("sm_load", "torn", "torn"))]
    # 6. Errors, at once and late; crashes; what never comes back; a lost GPU.
    for op, leg in legs.items():
        out.append(Row(f"{op} error", fault(op, "error"), leg, "ERROR", spoils="both", ci=op == "ce_write"))
        out.append(Row(f"{op} late error", fault(op, "late_error"), None, "ERROR", spoils="both"))
        out.append(Row(f"{op} crash", fault(op, "crash"), leg, "ERROR", spoils="both"))
        out.append(Row(f"{op} wedge", fault(op, "wedge"), leg, "HANG", spoils="both", ci=op == "sm_load"))
        out.append(Row(f"{op} lost", fault(op, "lost"), leg, "ERROR", spoils="both", ci=op == "sm_store"))
    # A worker dies in the middle of each leg.
    for op, after, want in (("sm_store", 3, None), ("ce_write", 2, None), ("sm_load", 2, None), ("ce_read", 2, None), ("ce_write", 9, None),
                            ("ce_write", 20, None), ("flag", 5, None), ("flag", 300, None), ("flag", 600, None)):
        out.append(Row(f"{op} crash, time {after}", fault(op, "crash", after=after), want, "ERROR", spoils="both", gpus=2))
    out.append(Row("atomic crash", fault("atomic", "crash", after=1), None, "ERROR", spoils="both", links=NVLINK))
    out.append(Row("flag wedge", fault("flag", "wedge"), "mp_push", "HANG", spoils="both"))
    out.append(Row("fence wedge", fault("fence", "wedge"), {"sm_store", "mp_push"}, "HANG", spoils="both", ci=True))
    # 7. Speed: every byte is right, and the measuring, which compares too, blames nobody. Too fast for the path is told; slower than
    # staging is no permission.
    out.append(Row("slow in every way", [fault(op, "slow", factor=40) for op in legs], None, spoils="speed", moves=False, measure=True,
                   finds="P2P_SLOWER_THAN_STAGED", vetoes=("nccl_p2p", "peer_copies"), ci=True))
    out.append(Row("faster than the link", [fault(op, "fast", factor=100) for op in ("ce_write", "sm_store")], None, spoils="speed", moves=False,
                   measure=True, finds="BANDWIDTH_ABOVE_LINK", vetoes=()))
    # 8. Any call of the driver: an error, late, never. No error is read as success, and none as damage.
    for name in driver_calls():
        def call(text, effect, ci=False, options=(), **more):
            out.append(Row(f"{name} {text}", dict(op="call", name=name, effect=effect, **more), None, None, spoils="call", moves=False, ci=ci,
                           options=options))
        call("fails now and then", "error", error=999, every=3, after=1, ci=name == "cuStreamQuery")
        call("fails once", "error", error=999, after=25, count=1)
        call("always fails", "error", error=999)
        call("is late", "block", ms=60, every=9)
        call("never returns", "hang", after=20, options=["--deadline", "20"], ci=name == "cuMemUnmap")
    # 9. Success is reported and nothing was done: from the start, from the middle, here and there.
    for name in ("cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyAsync", "cuMemcpyPeerAsync"):
        vetoes = ("peer_copies",) if name == "cuMemcpyPeerAsync" else CONSUMERS
        for text, more in (("does nothing", {}), ("does nothing in the end", {"after": 40}), ("now and then does nothing", {"every": 13, "after": 5})):
            if name == "cuMemcpyPeerAsync":
                more = {"every": 2} if more else {}
            out.append(Row(f"{name} {text}", dict(op="call", name=name, effect="drop", **more), None, None, spoils="lie", moves=False,
                           vetoes=vetoes, ci=name == "cuLaunchKernel" and "in the end" in text))
    # What cannot be read is no refusal: a framework that asks later may be offered the mapping.
    out.append(Row("attributes cannot be read", dict(op="call", name="cuDeviceGetAttribute", effect="error"), None, None, spoils="lie",
                   moves=False, vetoes=("nccl_p2p", "symmetric_memory")))
    # Memory that is not given back is not made anew.
    for name, vetoes in (("cuMemFree_v2", ("custom_all_reduce", "peer_copies")), ("cuMemUnmap", ("nccl_p2p", "symmetric_memory")),
                         ("cuIpcCloseMemHandle", ("nccl_p2p", "custom_all_reduce"))):
        out.append(Row(f"{name} is refused", dict(op="call", name=name, effect="error", error=2), None, None, spoils="lie", moves=False,
                       vetoes=vetoes))
    out.append(Row("access is said to be enabled already", dict(op="call", name="cuCtxEnablePeerAccess", effect="error", error=704), None, None,
                   spoils="lie", moves=False, vetoes=("peer_copies",)))
    return out


def legs_of(run, src, dst):
    return [leg for s, d, leg in run.legs() if s == src and d == dst]


def caught(row, run):
    """None when the row's fault is caught as it should be, else a sentence."""
    mine = legs_of(run, A, B)
    legs = {row.leg} if isinstance(row.leg, str) else row.leg
    bad = [leg for leg in mine if leg["verdict"] in BAD]
    for leg in bad:
        if (legs is None or leg["leg"] in legs) and leg["verdict"] == row.verdict and (not row.mapping or leg["mapping"] == row.mapping) and (
                not row.damage or leg["damage"] in row.damage) and (not row.says or re.search(re.escape(row.says), leg["note"] or "")):
            if row.verdict == "CORRUPT" and not leg["detail"]:
                return f"{leg['leg']}: no detail"
            if row.mapping and any(other["mapping"] != row.mapping for other in bad):
                return "another mapping is blamed"
            return None
    seen = "; ".join(f"{leg['leg']} {leg['mapping']} {leg['verdict']} {leg['damage']} '{leg['note']}'" for leg in bad) or "nothing bad"
    return f"wanted {row.leg} {row.verdict} {row.damage or ''} {row.says or ''}, got: {seen}"


def neighbours(row, run):
    """What the fault of A>B did to others."""
    out = []
    for src, dst, leg in run.legs():
        if leg["leg"] == "tearing_128":
            continue  # told, never judged
        concerned = {src, dst} <= {A, B} if row.spoils == "both" else (src, dst) == (A, B)
        if row.spoils == "both" and (src in (A, B) or dst in (A, B)):
            concerned = concerned or leg["verdict"] in ("UNTESTED", "ERROR")
        if row.spoils == "speed" and leg["verdict"] in BAD:
            out.append(f"{src}>{dst} {leg['leg']} {leg['mapping']} {leg['verdict']} {leg['damage']} '{leg['note']}'")
        if row.spoils == "call" and leg["verdict"] == "CORRUPT":
            out.append(f"{src}>{dst} {leg['leg']} {leg['mapping']} CORRUPT {leg['damage']} '{leg['note']}'")
        if not concerned and row.spoils not in ("call", "lie", "speed") and leg["verdict"] in BAD:
            out.append(f"{src}>{dst} {leg['leg']} {leg['mapping']} {leg['verdict']} {leg['damage']} '{leg['note']}'")
    if row.spoils == "pair":
        for src in (A, B, C)[:row.gpus]:
            for dst in (A, B, C)[:row.gpus]:
                mine = legs_of(run, src, dst)
                if src != dst and (src, dst) != (A, B) and not any(leg["verdict"] == "OK" for leg in mine):
                    out.append(f"{src}>{dst}: no leg is OK: {sorted({leg['note'] or leg['verdict'] for leg in mine})}")
    return out


def unproven_permission(run):
    """A consumer may be allowed only where every leg that it needs was judged; here: nothing bad and nothing missing in the pair."""
    out = []
    for name, consumer in run.report["decision"]["consumers"].items():
        if consumer["allowed"] and consumer["verdict"] not in ("OK", "UNTESTED"):
            out.append(f"{name} is allowed with verdict {consumer['verdict']}")
        if consumer["allowed"] and consumer["verdict"] != "OK" and name != "multicast":
            out.append(f"{name} is allowed though {consumer['verdict']}")
    for pair in run.report["pairs"]:
        for leg in pair["legs"]:
            if leg["verdict"] == "OK" and not (leg["rounds"] and leg["bytes"]):
                out.append(f"{leg['leg']} {leg['mapping']} is OK without a byte")
    return out


def judge(row, run):
    if run.report is None:
        return [f"no report, exit {run.exit}: {run.stderr.strip()[-300:]}"]
    out = unproven_permission(run)
    consumers = run.report["decision"]["consumers"]
    if row.moves:
        said = caught(row, run)
        if said:
            out.append(said)
        out += [f"{name} is allowed" for name in row.vetoes if consumers[name]["allowed"] is not False]
        if run.exit != 1:
            out.append(f"exit {run.exit}")
    elif row.spoils == "lie":
        out += [f"{name} is allowed" for name in row.vetoes if consumers[name]["allowed"] is not False]
    elif row.spoils == "speed":
        out += [f"{name} is allowed" for name in row.vetoes if consumers[name]["allowed"] is not False]
        if not any(f["code"] == row.finds and f["subject"] == f"{A}>{B}" for f in run.report["findings"]):
            out.append(f"{row.finds} is not found")
    return out + neighbours(row, run)


def run_row(program, row):
    host = machine.describe(row.gpus, links=row.links, faults=row.faults, **row.host)
    options = ["--level", row.level, "--keep-going", *([] if row.measure else ["--no-measure"]), *row.options]
    if "--deadline" not in row.options:
        options += ["--deadline", "90"]
    run = machine.Run(program, host, options)
    return row, run, judge(row, run)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--ci", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    chosen = [row for row in rows() if (not args.ci or row.ci) and args.only in row.name]
    if args.list:
        for row in chosen:
            print(f"{row.name}: {row.leg or 'whichever leg'} {row.verdict or ''} {row.damage or ''}{' (ci)' if row.ci else ''}")
        return 0
    start, bad = time.monotonic(), 0
    for name in not_to_be_planned():
        print(f"FAIL {name} cannot be told to fail")
        bad += 1
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for row, run, problems in pool.map(lambda row: run_row(args.program, row), chosen):
            print(f"{'FAIL' if problems else 'ok  '} {row.name} ({run.seconds:.1f} s)")
            for line in problems:
                print(f"       {line}")
            bad += bool(problems)
            sys.stdout.flush()
    # The table itself: on a machine in order nothing may pass for caught.
    nothing = run_row(args.program, Row("nothing", [], "sm_store", damage="dropped"))[2]
    if not nothing or not any(line.startswith("wanted") for line in nothing):
        print("FAIL a healthy machine passes for a fault that was caught")
        bad += 1
    print(f"{len(chosen)} faults, {bad} not caught as they should be, {time.monotonic() - start:.0f} s")
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
