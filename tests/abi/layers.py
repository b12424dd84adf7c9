"""The layer rules of docs/ARCHITECTURE.md, checked over the #includes and the identifiers of the sources.

usage: layers.py [ROOT] | layers.py --self-test
The self-test plants one violation of every rule in a small tree and demands that exactly that rule speaks.
"""

import re
import sys
import tempfile
from pathlib import Path

MAX_LINES = 800
PUBLIC = "p2psafe"  # include/p2psafe

# Area -> areas that it may include, beside itself and the public header. "*": everything of src/lib.
MAY_INCLUDE = {
    "lib/core": set(),
    "lib/evidence": {"lib/core"},
    "lib/score": {"lib/core", "lib/evidence"},
    "lib/rules": {"lib/core", "lib/evidence", "lib/score"},
    "lib/choose": {"lib/core", "lib/evidence", "lib/score", "lib/rules"},
    "lib/inventory": {"lib/core", "lib/evidence"},
    "lib/iommu": {"lib/core", "lib/evidence", "lib/inventory"},
    "lib/emit": {"lib/core", "lib/evidence", "lib/rules", "lib/choose", "lib/ipc"},
    "lib/ipc": {"lib/core", "lib/evidence", "lib/inventory"},
    "lib/kept": {"lib/core", "lib/evidence", "lib/emit", "lib/inventory", "lib/ipc", "lib/rules"},
    "lib/frameworks": {"lib/core", "lib/kept"},
    "lib/api": {"*"},
    "helper": {"lib/core", "lib/evidence", "lib/ipc"},
    "sim": {"lib/core", "lib/ipc", "helper"},
    "cli": {"lib/core", "lib/evidence"},
    "plugin": set(),
}
# What others may see of an area that two programs share.
SHARED_FILES = {
    ("helper", "lib/ipc"): {"proto.h", "proto.def", "codec.h", "codec_struct.h", "codec_table.h"},
    ("cli", "lib/core"): {"fsroot.h", "bdf.h"},  # gather reads what the library reads
    ("cli", "lib/evidence"): {"log.h"},
    ("lib/emit", "lib/ipc"): {"proto.h"},  # the version text
    ("sim", "lib/ipc"): {"codec.h", "codec_struct.h", "codec_table.h"},
    ("sim", "helper"): {"kernels.h", "kernels_measure.h", "control.h", "cuda_abi.h", "nvml_abi.h", "cuda_syms.def"},
}

PURE = {"lib/score", "lib/rules", "lib/choose"}
IMPURE_INCLUDES = re.compile(
    r"^(unistd|time|fcntl|dirent|poll|signal|pthread|spawn|dlfcn|ftw|glob|syslog|threads|sys/.*|linux/.*|jansson)\.h$"
)
IMPURE_PROJECT = {"core/fsroot.h", "ipc/codec.h", "ipc/proto.h"}
IMPURE_CALLS = set(
    """open openat creat read write pread pwrite close fopen fdopen freopen fclose fread fwrite fgets fputs fgetc
    getc putc getchar putchar puts gets printf fprintf vprintf vfprintf dprintf scanf fscanf perror remove rename tmpfile
    getline stat
    fstat lstat access opendir readdir time clock clock_gettime gettimeofday localtime gmtime getenv secure_getenv setenv rand
    random srand getrandom getpid fork execve system popen mmap ioctl socket p2s_now_ns""".split()
)
IMPURE_PREFIX = ("p2s_fsroot_", "p2s_codec_")

# The server's process never meets a driver: no header of one, and no declaration either.
DRIVER_INCLUDES = re.compile(r"(^|/)(cuda\w*|nvml|nvidia[\w-]*|pci/\w+|pci|numa\w*|nccl|helper/.*|sim/.*)\.(h|def)$")
DRIVER_NAMES = re.compile(
    r"^(cu[A-Z]\w*|CU(result|device|context|stream|event|module|function|deviceptr)\w*|nvml[A-Z]\w*"
    r"|numa_(available|alloc\w*|run_\w*|bind))$"
)


def strip(text):
    """The code without comments and without what is inside string and character literals; line breaks stay."""

    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return "\n" * token.count("\n") or " "
        return token[0] + token[0]

    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.DOTALL)


def includes(text):
    """(line number, "quote" or "angle", name) of every include."""
    text = re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group(0).count("\n"), text, flags=re.DOTALL)
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r'\s*#\s*(?:include|define\s+\w+_FILE)\s*(["<])([^">]+)[">]', line)
        if found:
            yield number, "quote" if found.group(1) == '"' else "angle", found.group(2)


def area_of(path):
    """Area of a path below src/, or None."""
    parts = path.parts
    if parts[0] == "lib":
        return "lib/" + parts[1] if len(parts) > 2 else "lib"
    return parts[0] if len(parts) > 1 else None


class Checker:
    def __init__(self, root):
        self.root = Path(root)
        self.src = self.root / "src"
        self.problems = []
        self.files = 0

    def say(self, path, line, rule, text):
        self.problems.append((rule, "%s:%d: %s" % (path.relative_to(self.root), line, text)))

    def resolve(self, path, name):
        """Path below src/ of a project include, PUBLIC, or None for a system header."""
        for folder in (path.parent, self.src / "lib", self.src, self.root / "include"):
            target = folder / name
            if target.is_file():
                target = target.resolve()
                if (self.root / "include").resolve() in target.parents:
                    return PUBLIC
                try:
                    return target.relative_to(self.src.resolve())
                except ValueError:
                    return None
        return None

    def check_file(self, path):
        self.files += 1
        text = path.read_text(encoding="utf-8", errors="replace")
        inside = path.relative_to(self.src)
        area = area_of(inside)
        if area not in MAY_INCLUDE:
            self.say(path, 1, "unknown-area", "no rule for this place; name its layer in tests/abi/layers.py")
            return
        for line, kind, name in includes(text):
            self.check_include(path, area, line, kind, name)
        code = strip(text)
        for line, content in enumerate(code.split("\n"), 1):
            if area in PURE:
                for call in re.findall(r"\b([A-Za-z_]\w*)\s*\(", content):
                    if call in IMPURE_CALLS or call.startswith(IMPURE_PREFIX):
                        self.say(path, line, "pure", "%s() in %s, which does no I/O and reads no clock" % (call, area))
            if area.startswith("lib/"):
                for word in re.findall(r"[A-Za-z_]\w*", content):
                    if DRIVER_NAMES.match(word):
                        self.say(path, line, "driver", "%s: the library knows no driver interface" % word)

    def check_include(self, path, area, line, kind, name):
        if area.startswith("lib/") and DRIVER_INCLUDES.search(name):
            self.say(path, line, "driver", "includes %s: the library knows no driver interface" % name)
        if area in PURE and (IMPURE_INCLUDES.match(name) or name in IMPURE_PROJECT):
            self.say(path, line, "pure", "includes %s in %s, which does no I/O and reads no clock" % (name, area))
        target = self.resolve(path, name)
        if target == PUBLIC:
            return
        if target is None:
            if kind == "quote":
                self.say(path, line, "missing", "includes %s, which does not exist" % name)
            return
        other = area_of(target)
        if other == area:
            return
        allowed = MAY_INCLUDE[area]
        if other not in allowed and not ("*" in allowed and other and other.startswith("lib/")):
            self.say(path, line, "layer", "%s may not include %s (%s)" % (area, other, name))
        shared = SHARED_FILES.get((area, other))
        if shared is not None and target.name not in shared:
            only = ", ".join(sorted(shared))
            self.say(path, line, "layer", "%s may not include %s (%s): only %s" % (area, other, name, only))

    def check_length(self):
        for folder in ("src", "include", "tests", "bindings", "scripts", "examples"):
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in (".c", ".h", ".py", ".def", ".sh", ".cpp") and path.is_file():
                    count = path.read_text(encoding="utf-8", errors="replace").count("\n")
                    if count > MAX_LINES:
                        self.say(path, count, "length", "%d lines; a file has at most %d" % (count, MAX_LINES))

    def run(self):
        for path in sorted(self.src.rglob("*")):
            if path.suffix in (".c", ".h", ".def") and path.is_file():
                self.check_file(path)
        self.check_length()
        return self.problems


HEALTHY = {
    "include/p2psafe/p2psafe.h": "",
    "src/lib/core/buf.h": '#include "p2psafe/p2psafe.h"\n',
    "src/lib/core/fsroot.h": "",
    "src/lib/ipc/proto.h": '#include "ipc/codec.h"\n',
    "src/lib/ipc/codec.h": "",
    "src/lib/ipc/run.h": "",
    "src/lib/score/score.c": '#include "core/buf.h"\n/* open() in a comment */ const char *s = "read(";\n',
    "src/lib/rules/rules.c": "",
    "src/lib/kept/record.h": "",
    "src/lib/api/api.c": '#include "kept/record.h"\n#include "ipc/run.h"\n',
    "src/helper/main.c": '#include "ipc/proto.h"\n#include <pci/pci.h>\nint cuInit(unsigned);\n',
    "src/helper/worker.h": "",
    "src/cli/main.c": '#include "p2psafe/p2psafe.h"\n#include "cli.h"\n',
    "src/cli/cli.h": "",
}
VIOLATIONS = [
    ("layer", "src/lib/core/bad.c", '#include "kept/record.h"\n'),
    ("layer", "src/lib/score/bad.c", '#include "kept/record.h"\n'),
    ("layer", "src/lib/kept/bad.c", '#include "api/api.c"\n'),
    ("layer", "src/helper/bad.c", '#include "ipc/run.h"\n'),
    ("layer", "src/helper/bad.c", '#include "kept/record.h"\n'),
    ("layer", "src/cli/bad.c", '#include "core/buf.h"\n'),
    ("layer", "src/cli/bad.c", '#include "../lib/core/buf.h"\n'),
    ("pure", "src/lib/score/bad.c", "#include <time.h>\n"),
    ("pure", "src/lib/rules/bad.c", "#include <sys/stat.h>\n"),
    ("pure", "src/lib/choose/bad.c", '#include "core/fsroot.h"\n'),
    ("pure", "src/lib/choose/bad.c", "int f(void) { return fopen(0, 0) != 0; }\n"),
    ("pure", "src/lib/rules/bad.c", "long f(void) { return clock_gettime(0, 0); }\n"),
    ("driver", "src/lib/api/bad.c", "#include <cuda.h>\n"),
    ("driver", "src/lib/inventory/bad.c", "#include <pci/pci.h>\n"),
    ("driver", "src/lib/core/bad.h", "int cuInit(unsigned flags);\n"),
    ("driver", "src/lib/emit/bad.h", "typedef int nvmlReturn_t;\n"),
    ("missing", "src/cli/bad.c", '#include "nowhere.h"\n'),
    ("length", "src/cli/bad.c", "\n" * (MAX_LINES + 1)),
    ("length", "tests/unit/bad.py", "\n" * (MAX_LINES + 1)),
    ("unknown-area", "src/extra/bad.c", "\n"),
]


def self_test():
    for rule, name, text in [(None, "src/cli/good.c", "\n")] + VIOLATIONS:
        with tempfile.TemporaryDirectory() as folder:
            for path, content in list(HEALTHY.items()) + [(name, text)]:
                target = Path(folder) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(content, encoding="utf-8")
            spoken = {found for found, _ in Checker(folder).run()}
            wanted = {rule} if rule else set()
            if spoken != wanted:
                raise SystemExit("planted %s in %s: %r\nwanted %s, got %s" % (rule, name, text[:60], wanted, spoken))
    print("%d planted violations found, a clean tree is clean" % len(VIOLATIONS))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    checker = Checker(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
    problems = checker.run()
    for _, text in problems:
        print(text)
    if problems:
        raise SystemExit("%d violations" % len(problems))
    if checker.files < 10:
        raise SystemExit("only %d files were read: nothing is proven" % checker.files)
    print("%d files keep the layer rules" % checker.files)


if __name__ == "__main__":
    main()
