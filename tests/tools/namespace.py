"""Commands that see a machine of tests/hosts where the kernel shows the real one, so that what is refused to simulated machines
can be tested without a GPU: a mount namespace of our own with that machine's /sys, and folders that are empty and read-only."""

import os
import subprocess

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private")
MOUNTS = """
mount --bind "$1" /sys
shift
while [ "$1" != -- ]; do
	mount -t tmpfs -o mode=755 tmpfs "$1"
	mount -o remount,ro "$1"
	shift
done
shift
exec "$@"
"""


def why_not():
    """Why this cannot be done here; None: it can."""
    if os.path.exists("/dev/nvidiactl"):
        return "a driver is here: nothing may look as if its GPUs were others"
    try:
        done = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], stdin=subprocess.DEVNULL, capture_output=True,
                              encoding="utf-8", errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else "no mount namespace of our own: " + done.stderr.strip()


def prefix(host, *empty):
    """What to put before a command. empty: folders that are to be empty and read-only. The system's place of records always is."""
    return [*UNSHARE, "bash", "-euc", MOUNTS, "bash", str(host / "root" / "sys"), "/var/cache", *(str(path) for path in empty), "--"]
