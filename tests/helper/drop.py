"""What a process of the helper gives up: no core dumps; the host worker also new rights and all capabilities but two.

usage: drop.py HELPER
"""

import os
import re
import resource
import socket
import subprocess
import sys
import time

SOCKET = {"conductor": 3, "host": 4}
KEPT = 1 << 21 | 1 << 2  # CAP_SYS_ADMIN, CAP_DAC_READ_SEARCH


def status_of(helper, role):
    """/proc/PID/status and limits of a role that waits for its first message."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = SOCKET[role]

    def place():
        # not beside pass_fds: the number is fixed
        resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)[1:] * 2)
        os.dup2(theirs.fileno(), number)
        os.set_inheritable(number, True)  # also where it had that number before

    process = subprocess.Popen([helper, role], preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        theirs.close()
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with open("/proc/%d/status" % process.pid, encoding="ascii") as stream:
                status = stream.read()
            with open("/proc/%d/limits" % process.pid, encoding="ascii") as stream:
                limits = stream.read()
            with open("/proc/%d/comm" % process.pid, encoding="ascii") as stream:
                started = stream.read().startswith("p2psafe-helper")
            # it has started and dropped what it drops once it sleeps in its first wait
            if started and re.search(r"^State:\s+S", status, re.MULTILINE):
                return status, limits
            time.sleep(0.02)
        raise SystemExit("%s does not come to wait" % role)
    finally:
        process.kill()
        process.wait()
        ours.close()


def main():
    helper = sys.argv[1]
    for role in SOCKET:
        status, limits = status_of(helper, role)
        core = re.search(r"^Max core file size\s+(\S+)\s+(\S+)", limits, re.MULTILINE).groups()
        # 1: no file, and no pipe either; who may have none has none
        may = [("1", "1")] if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0 else [("1", "1"), ("0", "0")]
        if core not in may:
            raise SystemExit("%s may dump core: %s" % (role, core))
        if role != "host":
            continue
        if not re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE):
            raise SystemExit("the host worker could gain rights:\n" + status)
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            bits = int(re.search(r"^%s:\s+([0-9a-f]+)$" % name, status, re.MULTILINE).group(1), 16)
            if bits & ~KEPT:
                raise SystemExit("the host worker keeps %s %x" % (name, bits))
    print("dropped")


if __name__ == "__main__":
    main()
