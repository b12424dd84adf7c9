#!/usr/bin/env python3
"""Runs every test kernel's PTX text on a CPU and compares what it does with kernels.h and core/word.h, on clean and damaged
memory. What a GPU's memory system adds, tests/gpu/ shows on real GPUs.

  worker_ptx_run.py FILE... [KERNEL...]"""
import struct
import sys

import worker_ptx_measure
from worker_ptx_machine import Kernel, M64, Memory

CTL, RES, A, B = 0x100000000, 0x200000000, 0x300000000, 0x400000000
SIZE = 1 << 14
SEED, OTHER, POISON = 0xa5a5000012345678, 0x0f0f777700001234, 0x1111222233334444
NOT_RUN, DONE, IDLE, NO_GO, TIMEOUT, ABORTED = range(6)
SAMPLES = 32
COMPARED = 24 + 16 * SAMPLES  # in the result of a check
P2S_BARE = 4
ROLE = 96 + 16 * SAMPLES


def word(seed, offset):
    x = seed ^ offset
    for m in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        x ^= x >> 33
        x = x * m & M64
    x ^= x >> 33
    return x ^ 0x5555555555555555 if x in (0, M64) else x


def pattern(seed, size):
    return b"".join(struct.pack("<Q", word(seed, i)) for i in range(size // 8))


class Bench:
    def __init__(self, text):
        self.text = text
        self.fresh()

    def fresh(self):
        self.memory = Memory()
        self.ctl = self.memory.add(CTL, 4096)
        self.res = self.memory.add(RES, 4096)
        self.a = self.memory.add(A, SIZE)
        self.b = self.memory.add(B, SIZE)
        self.a[:] = pattern(POISON, SIZE)
        self.b[:] = pattern(POISON, SIZE)

    def run(self, name, params, grid, block, **more):
        return Kernel(self.text, "p2s_" + name, params, self.memory).run(grid, block, **more)

    def role(self, which):
        names = "status rounds bad flag ok payload_bad polls seen_a seen_b cas elapsed samples".split()
        values = struct.unpack_from("<12Q", self.res, which * ROLE)
        r = dict(zip(names, values))
        first = which * ROLE + 96
        r["sample"] = [struct.unpack_from("<2Q", self.res, first + 16 * i) for i in range(min(values[11], SAMPLES))]
        return r


def same(what, found, wanted):
    if found != wanted:
        raise AssertionError("%s: %r, wanted %r" % (what, found, wanted))


RANGES = [(0, SIZE), (0, 1), (1, 1), (3, 7), (5, 16), (15, 2), (16, 16), (17, 33), (8, 24), (9, 6), (0, 128), (511, 514),
          (7, 4001), (SIZE - 1, 1), (SIZE - 17, 17), (40, 0)]


def run_fill(bench):
    full = pattern(SEED, SIZE)
    for i, (off, n) in enumerate(RANGES):
        bench.fresh()
        want = bytearray(bench.a)
        want[off:off + n] = full[off:off + n]
        bench.run("fill", [A, off, off + n, SEED], *((1, 32) if i % 2 else (2, 64)))
        same("fill %d+%d" % (off, n), bytes(bench.a), bytes(want))


def check_once(bench, region, inside, damage, grid):
    begin, end = region[0], sum(region)
    lo, hi = inside[0], sum(inside)
    bench.fresh()
    bench.a[:] = pattern(OTHER, SIZE)
    bench.a[lo:hi] = pattern(SEED, SIZE)[lo:hi]
    for at in damage:
        bench.a[at] ^= 0x40
    bad = sorted({at // 8 * 8 for at in damage if begin <= at < end})
    bench.res[:24] = struct.pack("<3Q", 0, M64, 0)
    bench.res[COMPARED:COMPARED + 8] = struct.pack("<Q", 1 << 44)
    bench.run("check", [A, begin, end, lo, hi, SEED, OTHER, RES], *grid)
    count, first, samples = struct.unpack_from("<3Q", bench.res)
    what = "check %r %r" % (region, inside)
    same(what, (count, first), (len(bad), bad[0] if bad else M64))
    same(what + " compared", struct.unpack_from("<Q", bench.res, COMPARED)[0], (1 << 44) + (end - begin) // 8)
    found = [struct.unpack_from("<2Q", bench.res, 24 + 16 * i) for i in range(min(samples, SAMPLES))]
    same(what + " samples", len(found), min(len(bad), SAMPLES))
    for at, value in found:
        same(what + " sample", (at in bad, value), (True, struct.unpack_from("<Q", bench.a, at)[0]))
    same(what + " each once", len({at for at, _ in found}), len(found))


def run_check(bench):
    spots = [0, 7, 8, 23, 24, 31, 99, 100, 401, 4096, 4097, 4099, 8191, 8192, SIZE - 9, SIZE - 8, SIZE - 1]
    cases = [((0, SIZE), (0, SIZE)), ((0, SIZE), (4099, 7001)), ((8, 16), (8, 16)), ((8, 8), (8, 8)), ((0, 8), (0, 8)),
             ((24, 1000), (100, 301)), ((16, 4104), (64, 0)), ((4096, 8192), (4097, 1)), ((8, SIZE - 16), (1234, 9000)),
             ((16, 0), (0, 0))]
    for i, (region, inside) in enumerate(cases):
        for damage in ([], spots, range(0, SIZE, 8)):
            check_once(bench, region, inside, damage, ((1, 32), (2, 64), (3, 32))[i % 3])


def run_load(bench):
    words = [(1, 0, SIZE), (1, 8, 8), (1, 24, 4008), (2, 0, 4096), (2, 24, 1048), (2, 8, 0)]
    for mode, off, n in [(0, o, n) for o, n in RANGES] + words:
        bench.fresh()
        bench.b[:] = pattern(SEED, SIZE)
        want = bytearray(bench.a)
        want[off:off + n] = bench.b[off:off + n]
        bench.run("load", [A, B, off, off + n, mode], *((1, 32) if off % 2 else (2, 64)))
        same("load mode %d %d+%d" % (mode, off, n), bytes(bench.a), bytes(want))
        same("load leaves the source", bytes(bench.b), pattern(SEED, SIZE))


def slots(block, base, seed, rounds, words, slot, flag):
    for k in range(rounds):
        s = seed ^ ((k + 1) & 2047) << 49
        for j in list(range(words)) + [flag // 8]:
            struct.pack_into("<Q", block, base + k * slot + j * 8, word(s, k * slot // 8 + j))


def go(bench, after=5000):
    def raise_go():
        same("ready before go", struct.unpack_from("<Q", bench.ctl, 0)[0], 1)
        struct.pack_into("<Q", bench.ctl, 256, 1)
    return {after: raise_go}


def go_then_all(bench, flag):
    """While the reader waits for the first flag it comes, and with it the abort word: all others were there before."""
    struct.pack_into("<Q", bench.a, flag, struct.unpack_from("<Q", bench.a, flag)[0] ^ 1)

    def deliver():
        struct.pack_into("<Q", bench.a, flag, struct.unpack_from("<Q", bench.a, flag)[0] ^ 1)
        struct.pack_into("<Q", bench.ctl, 384, 1)
    both = go(bench)
    both[12000] = deliver
    return both


def mp(bench, dst, src, rounds, words, slot, flag, idiom, at=None, max_ns=10**8, pace=0, **more):
    bench.res[:] = bytes(4096)
    bench.run("mp", [CTL, RES, dst, src, SEED, SEED, rounds, words, slot, flag, idiom, pace, max_ns, 1 << 30], 2, 32,
              at=go(bench) if at is None else at, **more)
    return bench.role(0), bench.role(1)


def run_mp(bench):
    turn = 0
    for idiom in range(4):
        for words, slot, flag in ((1, 64, 8), (2, 64, 56), (5, 72, 64), (31, 256, 248), (33, 512, 504), (64, 528, 512),
                                  (65, 1024, 520)):
            bench.fresh()
            turn += 1
            want = bytearray(bench.a)
            slots(want, 64, SEED, 7, words, slot, flag)
            w, r = mp(bench, A + 64, A + 64, 7, words, slot, flag, idiom, seed=turn, pace=300)
            what = "mp idiom %d words %d" % (idiom, words)
            same(what, (w["status"], w["rounds"], r["status"], r["rounds"], r["bad"], r["samples"]), (DONE, 7, DONE, 7, 0, 0))
            same(what + " bytes", bytes(bench.a), bytes(want))
        # a reader alone, damaged payload; then with a flag that is missing
        for missing in (None, 4):
            bench.fresh()
            slots(bench.a, 64, SEED, 7, 33, 512, 504)
            damage = [64 + 2 * 512, 64 + 2 * 512 + 32 * 8 + 7, 64 + 4 * 512 + 16 * 8 + 3]
            for x in damage:
                bench.a[x] ^= 0x80
            if missing is not None:
                bench.a[64 + missing * 512 + 504] ^= 1
            w, r = mp(bench, 0, A + 64, 7, 33, 512, 504, idiom, max_ns=10**6)
            places = [x // 8 * 8 - 64 for x in damage if missing is None or x < 64 + missing * 512]
            same("mp damaged", (w["status"], r["bad"], sorted(s[0] for s in r["sample"])), (IDLE, len(places), places))
            if missing is None:
                same("mp damaged", (r["status"], r["rounds"]), (DONE, 7))
            else:
                same("mp missing flag", (r["status"], r["rounds"], r["ok"], r["payload_bad"]), (TIMEOUT, missing, 32, 1))
                same("mp missing flag", r["flag"], struct.unpack_from("<Q", bench.a, 64 + missing * 512 + 504)[0])
    # the three ways not to start or not to go on
    bench.fresh()
    w, r = mp(bench, A, A, 2, 4, 64, 56, 0, at={}, tick=10**6)
    same("mp without go", (w["status"], r["status"]), (NO_GO, NO_GO))
    bench.fresh()
    w, r = mp(bench, 0, A, 2, 4, 64, 56, 0, at={5000: lambda: struct.pack_into("<Q", bench.ctl, 384, 1)})
    same("mp aborted before go", (w["status"], r["status"]), (ABORTED, ABORTED))
    bench.fresh()
    both = go(bench)
    both[300000] = lambda: struct.pack_into("<Q", bench.ctl, 384, 1)
    w, r = mp(bench, 0, A, 2, 4, 64, 56, 1, at=both, max_ns=10**12)
    same("mp aborted", (w["status"], r["status"], r["payload_bad"]), (IDLE, ABORTED, 4))
    # also one that finds every message there, and so never waits
    bench.fresh()
    slots(bench.a, 0, SEED, 100, 4, 64, 56)
    w, r = mp(bench, 0, A, 100, 4, 64, 56, 3, at=go_then_all(bench, 56))
    same("mp aborted, never waiting", (w["status"], r["status"], r["rounds"], r["bad"], r["ok"]), (IDLE, ABORTED, 31, 0, 4))


def wide(bench, dst, src, rounds, words, slot, flag, idiom, threads, at=None, max_ns=10**9, pace=0, **more):
    bench.res[:] = bytes(4096)
    bench.run("wide", [CTL, RES, dst, src, SEED, SEED, rounds, words, slot, flag, idiom, pace, max_ns, 1 << 30], 2, threads,
              at=go(bench) if at is None else at, **more)
    return bench.role(0), bench.role(1)


def run_wide(bench):
    turn = 0
    for idiom in (0, 1, 2, 3, 8, 11):
        for threads, words, slot, flag in ((32, 5, 64, 56), (64, 1, 64, 8), (64, 65, 1024, 520), (96, 200, 1640, 1632),
                                           (128, 33, 272, 264)):
            bench.fresh()
            turn += 1
            want = bytearray(bench.a)
            slots(want, 64, SEED, 5, words, slot, flag)
            w, r = wide(bench, A + 64, A + 64, 5, words, slot, flag, idiom, threads, seed=turn, pace=300)
            what = "wide idiom %d words %d threads %d" % (idiom, words, threads)
            same(what, (w["status"], w["rounds"], r["status"], r["rounds"], r["bad"], r["samples"]), (DONE, 5, DONE, 5, 0, 0))
            same(what + " bytes", bytes(bench.a), bytes(want))
        for missing in (None, 4):
            bench.fresh()
            slots(bench.a, 64, SEED, 7, 70, 1024, 1000)
            damage = [64 + 2 * 1024, 64 + 2 * 1024 + 69 * 8 + 7, 64 + 4 * 1024 + 16 * 8 + 3]
            for x in damage:
                bench.a[x] ^= 0x80
            if missing is not None:
                bench.a[64 + missing * 1024 + 1000] ^= 1
            w, r = wide(bench, 0, A + 64, 7, 70, 1024, 1000, idiom, 64, max_ns=10**6)
            places = [x // 8 * 8 - 64 for x in damage if missing is None or x < 64 + missing * 1024]
            same("wide damaged", (w["status"], r["bad"], sorted(s[0] for s in r["sample"])), (IDLE, len(places), places))
            if missing is None:
                same("wide damaged", (r["status"], r["rounds"]), (DONE, 7))
            else:
                same("wide missing flag", (r["status"], r["rounds"], r["ok"], r["payload_bad"]), (TIMEOUT, missing, 69, 1))
    # without fences the same bytes arrive: the control differs only in what it orders
    bench.fresh()
    w, r = wide(bench, A + 64, 0, 5, 65, 1024, 520, P2S_BARE, 64)
    want = bytearray(pattern(POISON, SIZE))
    slots(want, 64, SEED, 5, 65, 1024, 520)
    same("wide bare", (w["status"], r["status"], bytes(bench.a)), (DONE, IDLE, bytes(want)))
    bench.fresh()
    w, r = wide(bench, A, A, 2, 4, 64, 56, 0, 64, at={}, tick=10**6)
    same("wide without go", (w["status"], r["status"]), (NO_GO, NO_GO))
    bench.fresh()
    w, r = wide(bench, 0, A, 2, 4, 64, 56, 0, 64, at={9000: lambda: struct.pack_into("<Q", bench.ctl, 384, 1)})
    same("wide aborted before go", (w["status"], r["status"]), (ABORTED, ABORTED))
    bench.fresh()
    both = go(bench)
    both[300000] = lambda: struct.pack_into("<Q", bench.ctl, 384, 1)
    w, r = wide(bench, 0, A, 2, 4, 64, 56, 1, 64, at=both, max_ns=10**12)
    same("wide aborted", (w["status"], r["status"], r["payload_bad"]), (IDLE, ABORTED, 4))
    bench.fresh()
    slots(bench.a, 0, SEED, 100, 4, 64, 56)
    w, r = wide(bench, 0, A, 100, 4, 64, 56, 11, 64, at=go_then_all(bench, 56))
    same("wide aborted, never waiting", (w["status"], r["status"], r["rounds"], r["bad"], r["ok"]), (IDLE, ABORTED, 31, 0, 4))


def ll_word(seed, slot_word, j, mode):
    w = word(seed, slot_word + j)
    return w if mode == 2 else (w & 0xffffffff) | (word(seed, slot_word) >> 32 << 32)


def ll_slots(block, base, seed, rounds, words, slot, mode):
    for k in range(rounds):
        s = seed ^ ((k + 1) & 2047) << 49
        for j in range(words):
            struct.pack_into("<Q", block, base + k * slot + j * 8, ll_word(s, k * slot // 8, j, mode))


def ll(bench, dst, src, rounds, words, slot, mode, at=None, max_ns=10**9, pace=0, **more):
    bench.res[:] = bytes(4096)
    bench.run("ll", [CTL, RES, dst, src, SEED, SEED, rounds, words, slot, mode, pace, max_ns, 1 << 30], 2, 32,
              at=go(bench) if at is None else at, **more)
    return bench.role(0), bench.role(1)


def run_ll(bench):
    turn = 0
    for mode, words, slot in ((0, 2, 16), (0, 64, 512), (0, 70, 1024), (1, 6, 64), (1, 66, 528), (2, 16, 128), (2, 64, 512),
                              (2, 80, 768)):
        bench.fresh()
        turn += 1
        want = bytearray(bench.a)
        ll_slots(want, 128, SEED, 5, words, slot, mode)
        # words of a line are stored one after the other here: its reader is only run on what is complete
        w, r = ll(bench, A + 128, A + 128 if mode < 2 else 0, 5, words, slot, mode, seed=turn, pace=300)
        what = "ll mode %d words %d" % (mode, words)
        same(what, (w["status"], w["rounds"]), (DONE, 5))
        same(what + " bytes", bytes(bench.a), bytes(want))
        if mode == 2:
            w, r = ll(bench, 0, A + 128, 5, words, slot, mode, seed=turn)
        same(what, (r["status"], r["rounds"], r["bad"], r["samples"]), (DONE, 5, 0, 0))
        # a wrong value in the first word of round 1 and in another of round 3, whose flags are there
        odd = words - 2 if mode == 2 else words - 1
        bench.a[128 + slot] ^= 4
        bench.a[128 + 3 * slot + odd * 8 + 1] ^= 0x10
        w, r = ll(bench, 0, A + 128, 5, words, slot, mode)
        places = [slot, 3 * slot + odd * 8]
        same(what + " damaged", (w["status"], r["status"], r["rounds"], r["bad"]), (IDLE, DONE, 5, 2))
        same(what + " damaged", sorted(r["sample"]), [(p, struct.unpack_from("<Q", bench.a, 128 + p)[0]) for p in places])
        # the flag of the last word of round 4 is missing
        bench.a[128 + 4 * slot + words * 8 - 1] ^= 1
        w, r = ll(bench, 0, A + 128, 5, words, slot, mode, max_ns=10**6, tick=10**4, at=go(bench, 3 * 10**6))
        gone = 16 if mode == 2 else 1
        same(what + " missing", (r["status"], r["rounds"], r["payload_bad"], r["ok"]), (TIMEOUT, 4, gone, words - gone))
    bench.fresh()
    w, r = ll(bench, A, A, 2, 4, 64, 0, at={}, tick=10**6)
    same("ll without go", (w["status"], r["status"]), (NO_GO, NO_GO))
    bench.fresh()
    both = go(bench, 600000)
    both[900000] = lambda: struct.pack_into("<Q", bench.ctl, 384, 1)
    w, r = ll(bench, 0, A, 2, 4, 64, 1, at=both, max_ns=10**12, tick=2000)
    same("ll aborted", (w["status"], r["status"], r["payload_bad"]), (IDLE, ABORTED, 4))


def run_tear(bench):
    tear_poison = SEED ^ OTHER ^ 0x00fe000000000000
    for words in (1, 40, 100):
        bench.fresh()
        for i in range(words + 1):
            struct.pack_into("<Q", bench.a, 64 + i * 8, word(tear_poison, i))
        bench.res[:] = bytes(4096)
        bench.run("tear", [CTL, RES, A + 64, A + 64, words, SEED, OTHER, 40, 10**8, 1 << 30], 2, 32, seed=words, at=go(bench))
        w, r = bench.role(0), bench.role(1)
        same("tear", (w["status"], w["rounds"], r["status"], r["bad"]), (DONE, 40, DONE, 0))
        same("tear power", (r["seen_a"] > 0, r["seen_b"] > 0), (True, True))
        same("tear bytes", [struct.unpack_from("<Q", bench.a, 64 + i * 8)[0] for i in (words - 1, words)],
             [word(OTHER, words - 1), word(SEED, words)])
    for mark in (True, False):
        bench.fresh()
        bench.a[:] = pattern(SEED, SIZE)
        bench.a[160:240] = pattern(OTHER, SIZE)[160:240]
        bench.a[320:360] = pattern(tear_poison, SIZE)[320:360]
        bench.a[404:408] = pattern(OTHER, SIZE)[404:408]
        if not mark:
            bench.a[800] ^= 1
        bench.res[:] = bytes(4096)
        bench.run("tear", [CTL, RES, 0, A, 100, SEED, OTHER, 40, 20000, 1 << 30], 2, 32, at=go(bench))
        w, r = bench.role(0), bench.role(1)
        same("tear prepared", (w["status"], r["status"], r["bad"] == r["rounds"]), (IDLE, DONE if mark else TIMEOUT, True))
        same("tear prepared", {s for s in r["sample"]}, {(400, struct.unpack_from("<Q", bench.a, 400)[0])})
        same("tear prepared", (r["seen_a"], r["seen_b"]), (84 * r["rounds"], 10 * r["rounds"]))


def run_atomic(bench):
    before = struct.unpack_from("<2Q", bench.a, 128)
    bench.run("atomic", [CTL, RES, A + 128, 70, 1000], 1, 32, at=go(bench))
    r = bench.role(0)
    same("atomic", (r["status"], r["rounds"], r["cas"]), (DONE, 32 * 70, 70))
    same("atomic", struct.unpack_from("<2Q", bench.a, 128), ((before[0] + 32 * 70) & M64, (before[1] + 70) & M64))
    bench.fresh()
    bench.run("atomic", [CTL, RES, A + 128, 70, 69], 1, 32, at=go(bench))
    r = bench.role(0)
    same("atomic, attempts", (r["status"], r["cas"]), (TIMEOUT, 69))


def self_test(text):
    """Mutants of the text must be caught."""
    mutants = [("fill", "st.global.u8 [%addr], %x;\nBODY", "BODY"), ("check", "min.s64 %hi, %hi, 8", "min.s64 %hi, %hi, 7"),
               ("check", "add.u32 %r8, %r8, 2; add.u64 %o2", "add.u64 %o2"),
               ("load", "@%p st.global.v2.u64 [%addr], {%x3, %y3};", ""),
               ("mp", "setp.eq.u64 %p, %flag, %w;", "setp.ne.u64 %p, %flag, %w;"),
               ("tear", "setp.eq.u64 %p, %e, %x; @%p bra RKNOWN;", "bra RKNOWN;"),
               ("atomic", "add.u64 %new, %old, 1;", "add.u64 %new, %old, 2;"),
               ("wide", "bar.sync 0;\n\tsetp.ne.u32 %p, %tid32, 0; @%p bra WNEXT;",
                "setp.ne.u32 %p, %tid32, 0; @%p bra WNEXT;"),
               ("ll", "setp.eq.u64 %p, %x, %ex; @%p add.u64 %ok, %ok, 1; @%p bra RTHEN;",
                "add.u64 %ok, %ok, 1; bra RTHEN;")] + worker_ptx_measure.MUTANTS
    for name, old, new in mutants:
        same("mutant of %s applies" % name, old in text, True)
        try:
            KERNELS[name](Bench(text.replace(old, new)))
        except (AssertionError, ValueError, KeyError):
            continue
        raise AssertionError("a mutant of p2s_%s was not caught" % name)


KERNELS = {"fill": run_fill, "check": run_check, "load": run_load, "mp": run_mp, "tear": run_tear, "atomic": run_atomic,
           "wide": run_wide, "ll": run_ll}
KERNELS.update(worker_ptx_measure.KERNELS)


def main():
    text = ""
    for path in [x for x in sys.argv[1:] if x.endswith(".ptx")]:
        with open(path, encoding="ascii") as f:
            text += f.read()
    chosen = [x for x in sys.argv[1:] if not x.endswith(".ptx")]
    for name in chosen or KERNELS:
        KERNELS[name](Bench(text))
        print("p2s_" + name, "ok", flush=True)
    if not chosen:
        self_test(text)
        print("mutants caught")
    return 0


if __name__ == "__main__":
    sys.exit(main())
