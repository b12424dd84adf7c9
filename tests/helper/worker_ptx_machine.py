"""A small machine that runs the PTX text of the test kernels on a CPU, thread by thread.

It knows the opcodes of worker_ptx.py's allow-list and no others. Registers that were never written, addresses outside the
given memory and misaligned accesses are errors. Memory is sequentially consistent: it says nothing about fences."""
import random
import re

M64 = (1 << 64) - 1
LANES = 32
WARP_WIDE = ("bar.warp.sync", "shfl.sync.idx.b32", "shfl.sync.bfly.b32", "vote.sync.any.pred")
BLOCK_WIDE = ("bar.sync", "bar.red.or.pred")


class Memory:
    """Segments of bytes at fixed addresses."""

    def __init__(self):
        self.segments = []

    def add(self, base, size):
        block = bytearray(size)
        self.segments.append((base, block))
        return block

    def find(self, addr, size, align):
        if addr % align:
            raise ValueError("misaligned access at %#x" % addr)
        for base, block in self.segments:
            if base <= addr and addr + size <= base + len(block):
                return block, addr - base
        raise ValueError("access outside of memory at %#x" % addr)

    def load(self, addr, size, align=None):
        block, at = self.find(addr, size, align or size)
        return int.from_bytes(block[at:at + size], "little")

    def store(self, addr, size, value, align=None):
        block, at = self.find(addr, size, align or size)
        block[at:at + size] = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


class Thread:
    def __init__(self, grid, block, block_id, tid, clock):
        self.r = {"%tid.x": tid, "%ctaid.x": block_id, "%ntid.x": block, "%nctaid.x": grid}
        self.pc = 0
        self.lane = tid % LANES
        self.clock = clock
        self.waiting = None  # set by warp-wide instructions until all lanes have come
        self.ended = False


def signed(v):
    return v - (1 << 64) if v >> 63 else v


def getter(text):
    """A function that reads an operand in a thread."""
    if text == "%globaltimer":
        return lambda t: t.clock()
    if text.startswith("%"):
        return lambda t: t.r[text]
    value = int(text, 0) & M64
    return lambda t: value


def address(text):
    m = re.fullmatch(r"\[(%\w+)(?:\+(\d+))?\]", text)
    base, offset = m.group(1), int(m.group(2) or 0)
    return lambda t: (t.r[base] + offset) & M64


def registers(text):
    return [x.strip() for x in text.strip("{}").split(",")]


BINARY = {
    "add.u64": lambda a, b: a + b & M64,
    "add.u32": lambda a, b: a + b & 0xffffffff,
    "sub.u64": lambda a, b: a - b & M64,
    "mul.lo.u64": lambda a, b: a * b & M64,
    "mul.lo.u32": lambda a, b: a * b & 0xffffffff,
    "and.b64": lambda a, b: a & b,
    "or.b64": lambda a, b: a | b,
    "xor.b64": lambda a, b: a ^ b,
    "or.pred": lambda a, b: a | b,
    "shl.b64": lambda a, b: a << b & M64 if b < 64 else 0,
    "shr.u64": lambda a, b: a >> b if b < 64 else 0,
    "min.u64": min,
    "min.s64": lambda a, b: min(signed(a), signed(b)) & M64,
    "max.s64": lambda a, b: max(signed(a), signed(b)) & M64,
}
COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
           "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}


def split_operands(text):
    out, depth, word = [], 0, ""
    for ch in text:
        depth += (ch in "{[") - (ch in "}]")
        if ch == "," and depth == 0:
            out.append(word.strip())
            word = ""
        else:
            word += ch
    return out + [word.strip()] if word.strip() else out


def compile_memory(op, args, memory):
    size = 8 if op.endswith("64") else 4 if op.endswith("32") else 1
    if op.startswith("ld."):
        at, dst = address(args[1]), registers(args[0])

        def load(t):
            a = at(t)
            memory.find(a, size * len(dst), size * len(dst))
            for i, name in enumerate(dst):
                t.r[name] = memory.load(a + i * size, size)
        return load
    if op.startswith("st."):
        at, src = address(args[0]), [getter(x) for x in registers(args[1])]

        def store(t):
            a = at(t)
            memory.find(a, size * len(src), size * len(src))
            for i, get in enumerate(src):
                memory.store(a + i * size, size, get(t))
        return store
    red = op.startswith("red.")
    at, values = address(args[0 if red else 1]), [getter(x) for x in args[1 if red else 2:]]

    def atomic(t):
        a = at(t)
        old = memory.load(a, 8)
        if ".cas." in op:
            memory.store(a, 8, values[1](t) if old == values[0](t) else old)
        elif ".min." in op:
            memory.store(a, 8, min(old, values[0](t)))
        else:
            memory.store(a, 8, old + values[0](t))
        if not red:
            t.r[args[0]] = old
    return atomic


def compile_plain(op, args, params, memory):
    if op == "ld.param.u64":
        name = args[1].strip("[]")
        return lambda t: t.r.__setitem__(args[0], params[name] & M64)
    if op.split(".")[0] in ("ld", "st", "atom", "red"):
        return compile_memory(op, args, memory)
    if op in ("fence.acq_rel.sys", "membar.sys"):
        return lambda t: None
    if op in BINARY:
        f, a, b = BINARY[op], getter(args[1]), getter(args[2])
        return lambda t: t.r.__setitem__(args[0], f(a(t), b(t)))
    if op == "mad.lo.u32":
        a, b, c = (getter(x) for x in args[1:])
        return lambda t: t.r.__setitem__(args[0], a(t) * b(t) + c(t) & 0xffffffff)
    if op == "mad.wide.u32":
        a, b, c = (getter(x) for x in args[1:])
        return lambda t: t.r.__setitem__(args[0], a(t) * b(t) + c(t) & M64)
    if op == "not.b64":
        a = getter(args[1])
        return lambda t: t.r.__setitem__(args[0], a(t) ^ M64)
    if op == "selp.b64":
        a, b, p = (getter(x) for x in args[1:])
        return lambda t: t.r.__setitem__(args[0], a(t) if p(t) else b(t))
    if op in ("mov.u64", "mov.u32", "cvt.u64.u32", "cvt.u32.u64", "cvta.to.global.u64"):
        a, mask = getter(args[1]), 0xffffffff if "u32" in op else M64
        return lambda t: t.r.__setitem__(args[0], a(t) & mask)
    m = re.fullmatch(r"setp\.(\w\w)(?:\.(and|or))?\.u\d\d", op)
    if m:
        f, a, b = COMPARE[m.group(1)], getter(args[1]), getter(args[2])
        if m.group(2) is None:
            return lambda t: t.r.__setitem__(args[0], f(a(t), b(t)))
        c, both = getter(args[3]), m.group(2) == "and"
        return lambda t: t.r.__setitem__(args[0], (f(a(t), b(t)) and c(t)) if both else (f(a(t), b(t)) or c(t)))
    raise ValueError("unknown opcode " + op)


class Kernel:
    """One .entry of the text, compiled for one launch."""

    def __init__(self, text, name, params, memory):
        entry = re.search(r"\.visible \.entry %s\((.*?)\)\s*\{(.*?)\n\}" % name, text, re.S)
        names = re.findall(r"\.param \.u64 (\w+)", entry.group(1))
        if len(names) != len(params):
            raise ValueError("%s takes %d arguments" % (name, len(names)))
        self.code, self.labels = [], {}
        values = dict(zip(names, params))
        for line in entry.group(2).split("\n"):
            line = re.sub(r"//.*", "", line).strip()
            m = re.match(r"([A-Z][A-Z0-9]*):$", line)
            if m:
                self.labels[m.group(1)] = len(self.code)
                continue
            for s in line.split(";"):
                s = s.strip()
                if s and not s.startswith("."):
                    self.code.append(self.compile(s, values, memory))

    @staticmethod
    def compile(s, values, memory):
        guard = None
        m = re.match(r"@(!?)(%\w+) (.*)", s)
        if m:
            guard, s = (m.group(2), m.group(1) == "!"), m.group(3)
        op, _, rest = s.partition(" ")
        args = split_operands(rest)
        if op in ("bra", "ret") or op in WARP_WIDE or op in BLOCK_WIDE:
            return guard, op, args
        return guard, None, compile_plain(op, args, values, memory)

    def step(self, t):
        """One instruction of one thread. Returns False when the thread cannot go on now."""
        guard, op, what = self.code[t.pc]
        if guard is not None and bool(t.r[guard[0]]) == guard[1]:
            t.pc += 1
            return True
        if op is None:
            what(t)
        elif op == "bra":
            t.pc = self.labels[what[0]]
            return True
        elif op == "ret":
            t.ended = True
            return False
        else:
            t.waiting = (t.pc, op, what)
            return False
        t.pc += 1
        return True

    def release(self, warp):
        """Lets a warp go on when all its lanes wait at the same warp-wide instruction."""
        if any(t.waiting is None for t in warp):
            if any(t.ended for t in warp) and all(t.ended or t.waiting for t in warp):
                raise ValueError("a lane ended while others wait for it")
            return
        if len({t.waiting[0] for t in warp}) != 1:
            raise ValueError("lanes wait at different places: %s" % sorted({(t.waiting[0], t.waiting[1]) for t in warp}))
        _, op, args = warp[0].waiting
        if op.startswith("shfl.sync."):
            lane = getter(args[2])
            values = [warp[i ^ lane(t) if "bfly" in op else lane(t)].r[args[1]] for i, t in enumerate(warp)]
            for t, value in zip(warp, values):
                t.r[args[0]] = value
        elif op in ("vote.sync.any.pred", "bar.red.or.pred"):
            any_of = any(t.r[args[1 if op.startswith("vote") else 2]] for t in warp)
            for t in warp:
                t.r[args[0]] = any_of
        for t in warp:
            t.waiting = None
            t.pc += 1

    def run(self, grid, block, seed=1, tick=40, at=None, limit=4000000):
        """Runs the grid with random interleaving. at: {nanoseconds: function} called when the clock passes."""
        rng = random.Random(seed)
        now = [1000]
        events = sorted((at or {}).items())

        def clock():
            now[0] += tick
            return now[0]

        threads = [Thread(grid, block, b, i, clock) for b in range(grid) for i in range(block)]
        warps = [threads[i:i + LANES] for i in range(0, len(threads), LANES)]
        blocks = [threads[i:i + block] for i in range(0, len(threads), block) for _ in range(block // LANES)]
        home = {id(w): b for w, b in zip(warps, blocks)}
        steps = 0
        live = list(warps)
        while live:
            warp = rng.choice(live)
            progress = False
            for t in rng.sample(warp, len(warp)):
                if t.ended or t.waiting:
                    continue
                progress = True
                for _ in range(rng.randint(1, 40)):
                    steps += 1
                    if not self.step(t):
                        break
            while events and now[0] >= events[0][0]:
                events.pop(0)[1]()
            if not progress or all(t.waiting for t in warp):
                whole = any(t.waiting and t.waiting[1] in BLOCK_WIDE for t in warp)
                self.release(home[id(warp)] if whole else warp)
            if all(t.ended for t in warp):
                live.remove(warp)
            if steps > limit:
                raise ValueError("does not end")
        return steps
