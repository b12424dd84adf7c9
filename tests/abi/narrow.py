"""A folder that everybody may read, with a good and a bad host and a copy of the helper and its simulated driver; then narrow
in it.

usage: narrow.py NARROW HELPER GOOD_HOST BAD_HOST [CASE]
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    program, helper, good, bad = sys.argv[1:5]
    with tempfile.TemporaryDirectory(prefix="p2psafe-narrow-") as name:
        folder = Path(name)
        os.chmod(folder, 0o755)
        shutil.copytree(good, folder / "good", symlinks=True)
        shutil.copytree(bad, folder / "bad", symlinks=True)
        shutil.copytree(Path(helper).parent, folder / "helper", symlinks=True)
        (folder / "cache").mkdir(mode=0o755)
        raise SystemExit(subprocess.run([program, folder, *sys.argv[5:]]).returncode)


if __name__ == "__main__":
    main()
