"""The documentation speaks of files that exist: every link, and every path in code style that starts at the top of the tree.

usage: docs.py ROOT
"""

import glob
import re
import sys
from pathlib import Path

TOPS = ("src/", "include/", "tests/", "bindings/", "docs/", "scripts/", "examples/", "cmake/", "packaging/", "pkgconfig/", ".ci/")


def expand(pattern):
    """a/{b,c}.h -> a/b.h, a/c.h"""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    alternatives = found.group(1).split(",")
    return [name for word in alternatives for name in expand(pattern[: found.start()] + word + pattern[found.end() :])]


def paths(text):
    """(line, path, relative to the page?) of everything on a page that names a file."""
    for number, line in enumerate(text.split("\n"), 1):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
            if "://" not in target and not target.startswith("mailto:"):
                yield number, target, True
        for span in re.findall(r"`([^`]+)`", line):
            for word in span.split():
                word = word.rstrip(".,:;)")
                if word.startswith(TOPS) and not re.search(r"[<>$]|\.\.\.", word):
                    yield number, word, False


def missing(root, page):
    problems = []
    for number, name, relative in paths(page.read_text(encoding="utf-8")):
        base = page.parent if relative else root
        for path in expand(name):
            if not glob.glob(str(base / path)):
                problems.append("%s:%d: %s does not exist" % (page.relative_to(root), number, name))
    return problems


def main():
    root = Path(sys.argv[1]).resolve()
    pages = sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md")) + sorted((root / "bindings").rglob("*.md"))
    problems = [problem for page in pages for problem in missing(root, page)]
    for problem in problems:
        print(problem)
    if problems or len(pages) < 5:
        raise SystemExit("%d paths do not exist" % len(problems) if problems else "only %d pages were found" % len(pages))
    print("%d pages name only files that exist" % len(pages))


if __name__ == "__main__":
    main()
