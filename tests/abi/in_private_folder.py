"""Runs a program with a fresh private folder as its last argument, and removes the folder afterwards.

usage: in_private_folder.py PROGRAM [ARGUMENTS...]
"""

import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory(prefix="p2psafe-abi-") as folder:
    raise SystemExit(subprocess.run(sys.argv[1:] + [folder]).returncode)
