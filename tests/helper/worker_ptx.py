#!/usr/bin/env python3
"""Checks kernels.ptx against an allow-list of opcodes, and with ptxas where it is installed.

A newer assembler accepts instructions that PTX 6.4 or sm_70 do not have, although the file says so in its header; an old
driver would then refuse the kernels in the field. So the text itself is checked.

  worker_ptx.py allow FILE...     header, opcodes, no local or shared memory, line length
  worker_ptx.py ptxas FILE...     assembles for every architecture that this ptxas knows (exit 77: no ptxas)
"""
import os
import re
import shutil
import subprocess
import sys

# opcode with its modifiers -> what PTX 6.4 on sm_70 guarantees. A pattern per line, matched whole.
ALLOWED = [
    r"ld\.param\.u64",
    r"ld\.global(\.v2)?\.(u64|u8)|ld\.global\.u32",
    r"ld\.(relaxed|acquire)\.(sys|gpu)\.global\.u64",
    r"ld\.volatile\.global(\.v2)?\.u64",
    r"st\.global(\.v2)?\.(u64|u8)",
    r"st\.(relaxed|release)\.sys\.global\.u64",
    r"st\.volatile\.global(\.v2)?\.u64",
    r"fence\.acq_rel\.sys",
    r"membar\.sys",
    r"atom\.global\.add\.u64",
    r"atom\.sys\.global\.add\.u64",
    r"atom\.sys\.global\.cas\.b64",
    r"red\.global\.(add|min)\.u64",
    r"bar\.warp\.sync|bar\.sync|bar\.red\.or\.pred|vote\.sync\.any\.pred",
    r"shfl\.sync\.(idx|bfly)\.b32",
    r"cvta\.to\.global\.u64",
    r"cvt\.u64\.u32",
    r"cvt\.u32\.u64",
    r"mov\.u(32|64)",
    r"add\.u(32|64)|sub\.u64",
    r"mul\.lo\.u(32|64)|mad\.lo\.u32|mad\.wide\.u32",
    r"min\.(u64|s64)|max\.s64",
    r"and\.b64|or\.b64|xor\.b64|not\.b64|or\.pred",
    r"shl\.b64|shr\.u64",
    r"selp\.b64",
    r"setp\.(eq|ne|lt|le|gt|ge)(\.(and|or))?\.u(32|64)",
    r"bra|ret",
]
SPECIAL = {"%tid.x", "%ctaid.x", "%ntid.x", "%nctaid.x", "%globaltimer"}
DIRECTIVES = {".version 6.4", ".target sm_70", ".address_size 64"}
KERNELS = {"kernels.ptx": ["fill", "check", "load", "mp", "tear", "atomic"], "kernels_messages.ptx": ["wide", "ll"],
           "kernels_measure.ptx": ["gate", "pump", "chase", "issue", "pong"]}
ARCHES = ["70", "75", "80", "86", "87", "89", "90", "100", "103", "120", "121"]


def statements(text):
    """Yields (line number, statement) of the code, comments gone."""
    for number, line in enumerate(text.split("\n"), 1):
        code = re.sub(r"//.*", "", line).strip()
        for part in code.split(";"):
            part = re.sub(r"^[A-Z][A-Z0-9]*:", "", part.strip()).strip()
            if part:
                yield number, part


def check_text(text, kernels):
    errors = []
    allowed = re.compile("|".join("(?:%s)" % p for p in ALLOWED))
    seen = set()
    for number, line in enumerate(text.split("\n"), 1):
        if len(line.expandtabs(4)) > 128:
            errors.append("%d: longer than 128 columns" % number)
    for number, s in statements(text):
        if s in DIRECTIVES:
            seen.add(s)
            continue
        if s in "{}()" or s.startswith(".visible .entry p2s_") or re.fullmatch(r"(\.param \.u64 p_\w+(, )?)+[,)]?", s):
            continue
        if re.match(r"\.reg \.(pred|u32|u64) ", s):
            continue
        s = re.sub(r"^@!?%\w+ ", "", s)
        opcode = s.split()[0]
        if not allowed.fullmatch(opcode):
            errors.append("%d: %s is not on the list" % (number, opcode))
        for name in re.findall(r"%\w+\.\w+", s):
            if name not in SPECIAL:
                errors.append("%d: special register %s" % (number, name))
    errors += ["missing: " + d for d in sorted(DIRECTIVES - seen)]
    for kernel in kernels:
        if not re.search(r"^// p2s_%s: .*\n(//.*\n)*\.visible \.entry p2s_%s\(" % (kernel, kernel), text, re.M):
            errors.append("p2s_%s lacks the comment that says what it proves" % kernel)
        elif "prove" not in text.split("// p2s_%s: " % kernel, 1)[1].split(".visible", 1)[0]:
            errors.append("the comment of p2s_%s does not say what it proves" % kernel)
    return errors


def self_test():
    """The check must notice what it is there for."""
    good = ".version 6.4\n.target sm_70\n.address_size 64\n"
    for bad in ("ld.global.nc.u64 %x, [%y];", "mbarrier.init.shared.b64 [%x], 1;", "st.local.u64 [%x], %y;",
                "multimem.ld_reduce.global.add.u64 %x, [%y];", ".local .b8 depot[8];", "mov.u64 %x, %clock.y;"):
        found = check_text(good + bad, ["mp"])
        if not any(": " in e and not e.startswith(("missing", "the comment", "p2s_")) for e in found):
            return ["not noticed: " + bad]
    if not any(e.startswith("missing") for e in check_text(good.replace("6.4", "8.0"), [])):
        return ["a newer .version was not noticed"]
    return []


def assemble(path):
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.access(ptxas, os.X_OK):
        print("no ptxas here")
        return 77
    done = []
    for arch in ARCHES:
        p = subprocess.run([ptxas, "-v", "-arch=sm_" + arch, path, "-o", os.devnull], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        if p.returncode and re.search(r"not defined for option|Unsupported|is not (?:a )?supported|deprecated", p.stdout):
            continue
        if p.returncode:
            print("sm_%s:\n%s" % (arch, p.stdout))
            return 1
        frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", p.stdout)
        if len(frames) != len(KERNELS[os.path.basename(path)]) or any(f != ("0", "0", "0") for f in frames):
            print("sm_%s: a kernel uses a stack or spills, or is missing:\n%s" % (arch, p.stdout))
            return 1
        done.append(arch)
    print("assembled for sm_" + ", sm_".join(done))
    return 0 if done else 1


def main():
    mode, paths = sys.argv[1], sys.argv[2:]
    if mode == "ptxas":
        return max([assemble(path) for path in paths], default=2)
    errors = self_test()
    if sorted(os.path.basename(path) for path in paths) != sorted(KERNELS):
        errors.append("files must be: " + " ".join(KERNELS))
    for path in paths:
        with open(path, encoding="ascii") as f:
            errors += check_text(f.read(), KERNELS.get(os.path.basename(path), []))
    print("\n".join(errors) if errors else "ok")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
