"""A caller that may write short files only: shared memory counts as a file. The soft limit is the caller's and is raised; below
a hard one nothing can be tested, and the helper says so instead of being killed.

usage: file_size.py PROGRAM HOST
"""

import json
import os
import resource
import subprocess
import sys

LIMIT = 4096  # as much as a worker needs to start, less than a driver needs
NO_WORKER = 1024


def ask(program, host, soft, hard):
    def narrow():
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    environment = {k: v for k, v in os.environ.items() if not k.startswith("P2PSAFE_")}
    done = subprocess.run([program, "--host", host, "test", "--level", "quick", "--no-measure", "--no-cache", "--json"],
                          preexec_fn=narrow, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)
    report = json.loads(done.stdout)
    return done.returncode, report, {finding["code"] for finding in report["findings"]}


def main():
    program, host = sys.argv[1:]
    status, report, codes = ask(program, host, LIMIT, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    if status != 0 or not report["decision"]["consumers"]["nccl_p2p"]["allowed"]:
        raise SystemExit("a soft limit on file sizes spoils the test: exit %d, %s" % (status, sorted(codes)))
    for limit in (LIMIT, NO_WORKER):
        status, report, codes = ask(program, host, limit, limit)
        if "HELPER_DIED" in codes or "HELPER_MISSING" in codes:
            raise SystemExit("a hard limit on file sizes ends the helper: exit %d, %s" % (status, sorted(codes)))
        allowed = [name for name, c in report["decision"]["consumers"].items() if c["allowed"]]
        if allowed or status not in (1, 3):
            raise SystemExit("nothing can be tested below a hard limit, and %s are allowed: exit %d" % (allowed, status))
    if "ulimit -f" not in json.dumps(report):
        raise SystemExit("the limit that keeps workers from starting is not named: %s" % json.dumps(report["pairs"]))


if __name__ == "__main__":
    main()
