#!/usr/bin/env python3
"""A server in Python. apply() comes first of all: before anything is imported that loads CUDA or NCCL.

usage: serve.py [--host DIR] -- WORKER [ARGS...]        --host: a simulated host, for the server's own tests
"""

import argparse
import os
import sys

import p2psafe

# What the worker, vLLM, must be told where no variable carries a veto. Other programs have other arguments, which are in
# Applied.unenforced as well.
OWN_ARGUMENTS = {"--disable-custom-all-reduce": "", "--compilation-config.pass_config.fuse_allreduce_rms": "false"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", help="a simulated host folder in place of this machine")
    parser.add_argument("worker", nargs="+")
    options = parser.parse_args()

    # Puts the vetoes into os.environ, for this process and all that it starts. Never raises for a bad machine; where no report
    # can be made everything is vetoed.
    applied = p2psafe.apply(host_dir=options.host)
    needed = {} if applied.report is not None else dict(OWN_ARGUMENTS)
    for setting in applied.unenforced:
        if setting.kind == "argument" and setting.name in OWN_ARGUMENTS:
            needed[setting.name] = setting.value
        else:
            print("to be done by hand: %s" % (setting.why or setting.name), file=sys.stderr)

    # From here on: import torch, vllm, ...
    worker = list(options.worker)
    worker += ["%s=%s" % item if item[1] else item[0] for item in needed.items()]
    os.execvp(worker[0], worker)


if __name__ == "__main__":
    main()
