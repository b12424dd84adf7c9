"""Two copies of the library in one process, from two installed trees: the second has a helper that is of no use.

usage: copies.py PROGRAM LIBRARY HELPER HOST_DIR
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def tree(top, library):
    """An installed tree with the library, without a helper; its folder of helpers."""
    libexec = top / "libexec" / "p2psafe"
    libexec.mkdir(parents=True)
    (top / "lib").mkdir()
    shutil.copy(library, top / "lib" / "libp2psafe.so.1")
    return libexec


def main():
    program, library, helper, host = sys.argv[1:5]
    with tempfile.TemporaryDirectory(prefix="p2psafe-abi-") as name:
        folder = Path(name)
        (tree(folder / "good", library) / "p2psafe-helper").symlink_to(helper)
        useless = tree(folder / "other", library) / "p2psafe-helper"
        useless.write_text("#!/bin/sh\nexit 0\n")
        useless.chmod(0o755)
        libraries = [folder / top / "lib" / "libp2psafe.so.1" for top in ("good", "other")]
        caches = [folder / "first", folder / "second"]
        environ = dict(os.environ, SECOND_CACHE=str(caches[1]))
        raise SystemExit(subprocess.run([program, "two", *libraries, host, caches[0]], env=environ).returncode)


if __name__ == "__main__":
    main()
