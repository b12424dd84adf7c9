"""python -m p2psafe, and the command that a binary wheel installs: becomes the program that belongs to the library."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def program() -> Path:
    """The program beside the library of this package, else the one of the source tree that the package lies in."""
    package = Path(__file__).resolve().parent
    places = [package / "bin" / "p2psafe"]
    source = package.parents[2] if len(package.parents) > 2 else package
    if (source / "include" / "p2psafe" / "p2psafe.h").is_file():
        places.append(source / "build" / "bin" / "p2psafe")
    for place in places:
        if place.is_file():
            return place
    raise SystemExit("p2psafe: this installation has no program: %s does not exist" % places[0])


def main() -> None:
    path = program()
    try:
        os.execv(str(path), ["p2psafe"] + sys.argv[1:])
    except OSError as exc:
        # 4 as the program itself: no report could be made
        print("p2psafe: cannot execute %s: %s" % (path, exc.strerror), file=sys.stderr)
        raise SystemExit(4)


if __name__ == "__main__":
    main()
