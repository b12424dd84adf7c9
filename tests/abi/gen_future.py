"""Writes the public header of a release that does not exist yet: every struct that carries its size has two members more.

usage: gen_future.py OUT.h
"""

import re
import sys

import header

MEMBERS = "\tuint64_t future_number;\n\tconst char *future_text;\n"


def main():
    text = header.HEADER.read_text(encoding="utf-8")
    sized = [name for name, members in header.structs().items() if members[0] == "size"]
    for name in sized:
        body = re.compile(r"(struct %s \{\n.*?\n)(\};)" % name, flags=re.DOTALL)
        text, changed = body.subn(r"\1%s\2" % MEMBERS, text, count=1)
        if changed != 1:
            raise SystemExit("struct %s was not found as it is written in the header" % name)
    with open(sys.argv[1], "w", encoding="utf-8") as stream:
        stream.write(text)


if __name__ == "__main__":
    main()
