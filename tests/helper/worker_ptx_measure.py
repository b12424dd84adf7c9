"""What the kernels of kernels_measure.ptx do, by their text: see worker_ptx_run.py. Times are those of the machine's clock."""
import struct

CTL, RES, A, B = 0x100000000, 0x200000000, 0x300000000, 0x400000000
SIZE = 1 << 14
SEED = 0xa5a5000012345678
M64 = (1 << 64) - 1
DONE, NO_GO, TIMEOUT, ABORTED = 1, 3, 4, 5


def same(what, found, wanted):
    if found != wanted:
        raise AssertionError("%s: %r, wanted %r" % (what, found, wanted))


def fresh(bench):
    bench.fresh()
    bench.res[:] = bytes(4096)


def raise_word(bench, at):
    return lambda: struct.pack_into("<Q", bench.ctl, at, 1)


def run_gate(bench):
    for at, status in ((256, DONE), (384, ABORTED), (None, NO_GO)):
        fresh(bench)
        bench.run("gate", [CTL, RES, 77, 10**6, 1 << 30], 1, 32, at={} if at is None else {2000: raise_word(bench, at)},
                  tick=10000 if at is None else 1)
        role = bench.role(0)
        same("gate", (role["status"], role["seen_a"], role["polls"] > 0), (status, 77, True))
        same("gate is ready", struct.unpack_from("<Q", bench.ctl, 0)[0], 1)
    fresh(bench)
    bench.run("gate", [CTL, RES, 77, 10**15, 50], 1, 32, at={})
    role = bench.role(0)
    same("gate, polls", (role["status"], role["polls"]), (NO_GO, 51))


def run_pump(bench):
    for grid, block in ((1, 32), (2, 64), (3, 32)):
        for size in (SIZE, 16, 0, 4112, 8 * 16 * grid * block, 8 * 16 * grid * block + 16):
            for loops in (0, 1, 3):
                fresh(bench)
                bench.b[:] = bytes(i * 7 & 255 for i in range(SIZE))
                size = min(size, SIZE)
                want = bytearray(bench.a)
                want[:size if loops else 0] = bench.b[:size if loops else 0]
                bench.run("pump", [A, B, size, loops], grid, block)
                same("pump %d" % size, bytes(bench.a), bytes(want))


def run_chase(bench):
    for region, stride, count, block in ((SIZE, 128, 200, 0), (4096, 64, 100, 2), (1024, 512, 3, 1)):
        fresh(bench)
        bench.run("chase", [A, RES, region, stride, count, block, 0], 3, 32)
        role = bench.role(0)
        same("chase", (role["status"], role["rounds"], role["seen_a"]), (DONE, count, (64 + count) * stride % region))
        same("chase has a time", role["elapsed"] > 0, True)


def run_issue(bench):
    for count, rounds in ((1, 1), (64, 3), (1000, 2), (0, 2), (5, 0)):
        fresh(bench)
        want = bytearray(bench.a)
        for i in range(count if rounds else 0):
            struct.pack_into("<2Q", want, 16 * i, count - i, rounds - 1)
        bench.run("issue", [A, RES, count, rounds], 1, 32)
        role = bench.role(0)
        same("issue", (role["status"], role["rounds"]), (DONE, rounds))
        same("issue bytes", bytes(bench.a), bytes(want))


def pong(bench, first, rounds, warm, at, **more):
    bench.run("pong", [CTL, RES, A, B, SEED, rounds, warm, first, more.pop("max_ns", 10**9), 1 << 30], 1, 32, at=at, **more)
    return bench.role(0)


def run_pong(bench):
    # the other side, played by the clock: answers what it sees in a, from its own place
    class Peer:
        def __init__(self, damaged=None):
            self.damaged, self.next = damaged, 1

        def __call__(self):
            if struct.unpack_from("<Q", bench.a, 0)[0] == self.next and \
                    struct.unpack_from("<Q", bench.a, 128)[0] == self.next ^ SEED:
                value = self.next ^ SEED ^ (self.next == self.damaged)
                struct.pack_into("<Q", bench.b, 128, value)
                struct.pack_into("<Q", bench.b, 0, self.next)
                self.next += 1

    for damaged, warm in ((None, 0), (None, 2), (3, 1)):
        fresh(bench)
        peer = Peer(damaged)
        at = {3000: raise_word(bench, 256)}
        at.update({4000 + 200 * i: peer for i in range(200)})
        role = pong(bench, 1, 5, warm, at)
        same("pong", (role["status"], role["rounds"], role["bad"], role["flag"]), (DONE, 5, int(damaged is not None), 5))
        same("pong sent", struct.unpack_from("<Q", bench.a, 0)[0], 5)
        same("pong has a time", role["elapsed"] > 0, True)
    # the one that answers: the first message is there, the second is not
    fresh(bench)
    struct.pack_into("<Q", bench.b, 0, 1)
    struct.pack_into("<Q", bench.b, 128, 1 ^ SEED)
    role = pong(bench, 0, 5, 0, {3000: raise_word(bench, 256)}, max_ns=10**5)
    same("pong lost", (role["status"], role["rounds"], role["flag"]), (TIMEOUT, 1, 1))
    same("pong answered", struct.unpack_from("<Q", bench.a, 0)[0], 1)
    fresh(bench)
    role = pong(bench, 1, 5, 0, {3000: raise_word(bench, 256), 9000: raise_word(bench, 384)}, max_ns=10**15)
    same("pong aborted", (role["status"], role["rounds"]), (ABORTED, 0))
    fresh(bench)
    role = pong(bench, 1, 5, 0, {3000: raise_word(bench, 384)})
    same("pong aborted before go", (role["status"], role["rounds"]), (ABORTED, 0))
    fresh(bench)
    role = pong(bench, 0, 5, 0, {}, tick=10**6)
    same("pong without go", (role["status"], role["rounds"]), (NO_GO, 0))


KERNELS = {"gate": run_gate, "pump": run_pump, "chase": run_chase, "issue": run_issue, "pong": run_pong}
MUTANTS = [("gate", "setp.gt.u64 %p, %polls, %maxi; @%p bra OPEN;", ""),
           ("pump", "st.global.v2.u64 [%d], {%x6, %y6};", ""),
           ("chase", "and.b64 %o, %o, %mask; add.u64 %next, %src, %o;\n\tmad.wide.u32 %a, %w, %zero, %next;\n\tsub.u64 %left, "
                     "%left, 1; setp.ne.u64 %p, %left, 0; @%p bra STEP;",
            "and.b64 %o, %o, %mask; add.u64 %next, %src, %o;\n\tsub.u64 %left, %left, 1; setp.ne.u64 %p, %left, 0; @%p bra "
            "STEP;"),
           ("issue", "st.global.v2.u64 [%a], {%left, %k};", "st.global.v2.u64 [%a], {%k, %left};"),
           ("pong", "setp.eq.u64 %p, %x, %k; @%p bra GOOD;", "bra GOOD;")]
