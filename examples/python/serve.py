#!/usr/bin/env python3
"""A server in Python. apply() comes first of all: before anything is imported that loads CUDA or NCCL.

usage: serve.py [--host DIR] -- WORKER [ARGS...]        --host: a simulated host, for the server's own tests
"""

import argparse
import os
import sys

import p2psafe


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", help="a simulated host folder in place of this machine")
    parser.add_argument("worker", nargs="+")
    options = parser.parse_args()

    # Puts the vetoes into os.environ, for this process and all that it starts. Never raises for a bad machine; where no report
    # can be made everything is vetoed.
    applied = p2psafe.apply(host_dir=options.host)
    for setting in applied.unenforced:
        print("to be done by hand: %s" % (setting.why or setting.name), file=sys.stderr)

    # From here on: import torch, vllm, ...
    worker = list(options.worker)
    if applied.report is None or not applied.report.allows("custom_all_reduce"):
        worker.append("--disable-custom-all-reduce")
    os.execvp(worker[0], worker)


if __name__ == "__main__":
    main()
