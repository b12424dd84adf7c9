"""Programs of today with the library of an older release in its place (gen_old.py): one that uses what that library has finds it
as it expects; one that uses more does not start, and the linker says which function is missing.

usage: older.py OLD_LIBRARY OLD_HEADER CONSUMER PROGRAM HEALTHY_HOST BROKEN_HOST
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import header
import symbols


def run(*command, **environ):
    return subprocess.run(command, env=dict(os.environ, **environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main():
    library, old_header, consumer, program, *hosts = sys.argv[1:]
    today = set(header.functions())
    header.HEADER = Path(old_header)
    old = set(header.functions())
    found = symbols.difference("the older header", old, "its library", set(symbols.dynamic_symbols(library)))
    if not today - old:
        found.append("nothing is newer than the older header: nothing is tested")
    wanted = {"LD_LIBRARY_PATH": str(Path(library).parent)}
    for path in (consumer, program):  # both are linked against today's
        loaded = run(path, **wanted, LD_TRACE_LOADED_OBJECTS="1").stdout
        if not re.search(r"libp2psafe\.so\.1 => %s " % re.escape(library), loaded):
            found.append("%s does not load the older library:\n%s" % (path, loaded))

    with tempfile.TemporaryDirectory(prefix="p2psafe-abi-") as folder:
        done = run(consumer, *hosts, folder, **wanted)
        print(done.stdout, end="")
        if done.returncode != 0:
            found.append("with the older library the consumer ended with %d:\n%s" % (done.returncode, done.stderr))

    for arguments in (["--version"], ["--host", hosts[0], "probe"], ["--host", hosts[0], "--no-cache", "run", "--", "/bin/echo", "went on"]):
        done = run(program, *arguments, **wanted)
        missing = re.search(r"undefined symbol: (p2psafe_\w+)", done.stderr)
        if done.returncode == 0 or done.stdout or missing is None or missing.group(1) not in today - old:
            found.append("%s: ended with %d\n%s%s" % (arguments, done.returncode, done.stdout, done.stderr))
    for text in found:
        print(text)
    if found:
        raise SystemExit(1)
    print("%d functions are not in the older library" % len(today - old))


if __name__ == "__main__":
    main()
