"""Writes a C program that prints every constant and the layout of every struct of the public header, or of another.

usage: gen_golden.py OUT.c [HEADER]
"""

import sys
from pathlib import Path

import header

PRELUDE = """/* Generated from include/p2psafe/p2psafe.h by tests/abi/gen_golden.py. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "p2psafe/p2psafe.h"

#define SIZEOF_MEMBER(type, member) (sizeof(((type *)0)->member))
"""


def main():
    if len(sys.argv) > 2:
        header.HEADER = Path(sys.argv[2])
    lines = [PRELUDE, "static void constants(void)", "{"]
    for name in header.constants():
        lines.append('\tprintf("%s %%" PRId64 "\\n", (int64_t)(%s));' % (name, name))
    lines += ["}", "", "static void layout(void)", "{"]
    for struct, members in header.structs().items():
        kind = "struct " + struct
        lines.append('\tprintf("%s size %%zu align %%zu\\n", sizeof(%s), _Alignof(%s));' % (struct, kind, kind))
        for member in members:
            lines.append(
                '\tprintf("%s.%s offset %%zu size %%zu\\n", offsetof(%s, %s), SIZEOF_MEMBER(%s, %s));'
                % (struct, member, kind, member, kind, member)
            )
    lines += [
        "}",
        "",
        "int main(int argc, char **argv)",
        "{",
        '\tif (argc == 2 && strcmp(argv[1], "constants") == 0)',
        "\t\tconstants();",
        '\telse if (argc == 2 && strcmp(argv[1], "layout") == 0)',
        "\t\tlayout();",
        "\telse",
        "\t\treturn 2;",
        "\treturn fflush(stdout) == 0 ? 0 : 1;",
        "}",
        "",
    ]
    with open(sys.argv[1], "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines))


if __name__ == "__main__":
    main()
