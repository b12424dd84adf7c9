"""Writes a C table of every struct of the public header that carries its size, and of every place where one of an older
release can have ended: behind each of its members.

usage: gen_ends.py OUT.h
"""

import sys

import header

PRELUDE = """/* Generated from include/p2psafe/p2psafe.h by tests/abi/gen_ends.py. */
#include <stddef.h>

#include "p2psafe/p2psafe.h"

#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

struct ends {
	const char *name;
	size_t size;
	size_t count;
	const size_t *end; /* in order; the last is size */
};
"""


def main():
    lines = [PRELUDE]
    sized = {name: members for name, members in header.structs().items() if members[0] == "size"}
    for name, members in sized.items():
        ends = ", ".join("END_OF(struct %s, %s)" % (name, member) for member in members)
        lines.append("static const size_t ends_of_%s[] = {%s};" % (name, ends))
    lines.append("\nstatic const struct ends all_ends[] = {")
    for name in sized:
        lines.append('\t{"%s", sizeof(struct %s), sizeof ends_of_%s / sizeof(size_t), ends_of_%s},' % (name, name, name, name))
    lines += ["};", ""]
    with open(sys.argv[1], "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines))


if __name__ == "__main__":
    main()
