"""The first release is kept: today's header has every function of the first one with the same parameters, every constant
with the same number and every member in the same place, and consumer.c uses all of these functions and no newer one.

usage: baseline.py BASELINE_HEADER CONSUMER.c BASELINE_PROGRAM TODAYS_PROGRAM (the programs print constants and layout)
"""

import re
import subprocess
import sys
from pathlib import Path

import golden
import header


def printed(program, what):
    return golden.parse(subprocess.run([program, what], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout)


def of_header(path, reader):
    kept, header.HEADER = header.HEADER, Path(path)
    try:
        return reader()
    finally:
        header.HEADER = kept


def types(function):
    """(result, parameters) without the parameters' names, which are nobody's business."""
    result, parameters = function
    return result.strip(), [re.sub(r"\b\w+$", "", parameter.strip()).strip() for parameter in parameters.split(",")]


def problems(old, new):
    """Functions that went or changed. Both: name -> (result, parameters)."""
    found = ["%s is gone" % name for name in old if name not in new]
    for name in old:
        if name in new and types(old[name]) != types(new[name]):
            found.append("%s was %s, is %s" % (name, old[name], new[name]))
    return found


def unused(consumer, first):
    """What the consumer does not use of the first release, and what it uses beyond it."""
    used = set(re.findall(r"\bp2psafe_\w+", re.sub(r"/\*.*?\*/", " ", consumer, flags=re.DOTALL)))
    found = ["consumer.c does not use %s" % name for name in sorted(set(first["functions"]) - used)]
    found += ["consumer.c does not use struct %s" % name for name in sorted(set(first["structs"]) - used - {"p2psafe_bdf"})]
    known = set(first["functions"]) | set(first["structs"]) | set(first["opaque"])
    return found + ["%s is newer than the first release" % name for name in sorted(used - known)]


def main():
    path, consumer, old_program, new_program = sys.argv[1:5]
    first = {what: of_header(path, getattr(header, what)) for what in ("functions", "structs", "opaque")}
    found = problems(first["functions"], header.functions())
    found += unused(Path(consumer).read_text(encoding="utf-8"), first)
    counts = []
    for what in ("constants", "layout"):
        old = printed(old_program, what)
        counts.append(len(old))
        found += [text for text in golden.compare(printed(new_program, what), old, grows=True) if " is new" not in text]
    for text in found:
        print(text)
    if found or not first["functions"] or not all(counts):
        raise SystemExit(1)
    print("%d functions, %d constants and %d lines of layout as in the first release" % (len(first["functions"]), *counts))


if __name__ == "__main__":
    main()
