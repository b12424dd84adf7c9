"""The public header stands alone: C11 and C++17, every warning an error, no padding in any struct, gcc and clang. Proves
first that the check can fail: a copy with a hole in a struct must be refused by every compiler.

usage: headers.py
"""

import os
import shutil
import subprocess
import tempfile

import header

FLAGS = ["-Wall", "-Wextra", "-Wpadded", "-pedantic", "-Werror", "-fsyntax-only"]
COMPILERS = [("gcc", "c"), ("clang", "c"), ("g++", "c++"), ("clang++", "c++")]
STANDARD = {"c": "-std=c11", "c++": "-std=c++17"}
SUFFIX = {"c": ".c", "c++": ".cpp"}


def program(structs):
    # clang lays a struct out, and so sees its holes, only when its size is asked for
    lines = ['#include "p2psafe/p2psafe.h"', '#include "p2psafe/p2psafe.h"']
    lines += ["extern char size_of_%s[sizeof(struct %s)];" % (name, name) for name in structs]
    return "\n".join(lines) + "\n"


def compiles(compiler, language, include, structs, folder):
    source = os.path.join(folder, "alone" + SUFFIX[language])
    with open(source, "w", encoding="utf-8") as stream:
        stream.write(program(structs))
    return subprocess.run(
        [compiler, STANDARD[language], *FLAGS, "-I", include, source],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )


def plant_hole(folder):
    """A copy of the header whose error struct has a hole; returns its include folder."""
    include = os.path.join(folder, "include")
    os.makedirs(os.path.join(include, "p2psafe"))
    text = header.HEADER.read_text(encoding="utf-8")
    changed = text.replace("\tint32_t os_error;", "\tint16_t os_error;", 1)
    if changed == text:
        raise SystemExit("cannot plant a hole: os_error was not found")
    with open(os.path.join(include, "p2psafe", "p2psafe.h"), "w", encoding="utf-8") as stream:
        stream.write(changed)
    return include


def main():
    structs = list(header.structs())
    seen = 0
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        bad = plant_hole(folder)
        for compiler, language in COMPILERS:
            if shutil.which(compiler) is None:
                print("%s: not installed" % compiler)
                continue
            seen += 1
            result = compiles(compiler, language, str(header.HEADER.parents[1]), structs, folder)
            print("%s %s: %s" % (compiler, STANDARD[language], "clean" if result.returncode == 0 else "REFUSED"))
            if result.returncode != 0:
                failed = True
                print(result.stdout)
            if compiles(compiler, language, bad, structs, folder).returncode == 0:
                failed = True
                print("%s: accepted a struct with a hole, so its answer above means nothing" % compiler)
    if failed or seen < 2:
        raise SystemExit("failed" if failed else "fewer than two compilers are installed")


if __name__ == "__main__":
    main()
