"""Compares what the golden program prints with the file in the tree. Until the next release things may be added; what is there
never goes and never changes.

usage: golden.py PROGRAM constants|layout GOLDEN [--write]
"""

import subprocess
import sys


def parse(text):
    """First word (the name) -> the rest of the line."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name in found:
            raise SystemExit("%s occurs twice" % name)
        found[name] = rest
    return found


def compare(now, golden, grows):
    """Sentences about what is wrong. grows: a name may be added, and a struct's size may rise."""
    problems = []
    for name, value in golden.items():
        if name not in now:
            problems.append("%s is gone (was %s)" % (name, value))
        elif now[name] != value and not (grows and _may_change(name, value, now[name])):
            problems.append("%s changed from %s to %s" % (name, value, now[name]))
    for name in now:
        if name not in golden:
            problems.append("%s is new: refresh the golden file in the commit that adds it" % name)
    return problems


def _may_change(name, old, new):
    """A release number, and the size of a struct that only became longer."""
    if name in ("P2PSAFE_VERSION_MINOR", "P2PSAFE_VERSION_PATCH"):
        return True
    old_words, new_words = old.split(), new.split()
    return (
        "." not in name
        and old_words[0] == new_words[0] == "size"
        and int(new_words[1]) > int(old_words[1])
        and old_words[2:] == new_words[2:]
    )


def main():
    program, what, golden_path = sys.argv[1:4]
    printed = subprocess.run([program, what], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    now = parse(printed)
    if not now:
        raise SystemExit("%s %s printed nothing" % (program, what))
    if "--write" in sys.argv[4:]:
        try:
            with open(golden_path, encoding="utf-8") as stream:
                old = parse(stream.read())
        except FileNotFoundError:
            old = {}
        problems = [p for p in compare(now, old, grows=True) if " is new" not in p]
        if not problems:
            with open(golden_path, "w", encoding="utf-8") as stream:
                stream.write(printed)
    else:
        with open(golden_path, encoding="utf-8") as stream:
            problems = compare(now, parse(stream.read()), grows=False)
    for problem in problems:
        print(problem)
    if problems:
        raise SystemExit(1)
    print("%d lines of %s as recorded" % (len(now), what))


if __name__ == "__main__":
    main()
