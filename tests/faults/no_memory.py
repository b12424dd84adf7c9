#!/usr/bin/env python3
"""Each allocation of the program fails once, in turn (no_memory.c): it never crashes, never says more of a bad machine than is
known, prints the whole answer or ends with 4, and what `run` executes has the veto or is not executed.

no_memory.py --program P2PSAFE --preload LIBRARY --host BAD_HOST [--all]

Of each command a part, spread over all of it; --all: every allocation (minutes)."""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import tempfile

SAMPLE = 16
VETO = "NCCL_P2P_DISABLE"
# Arguments; exit codes that may come with an answer: 3 where the record cannot be read
COMMANDS = [
    (["decide"], {1, 3}),
    (["decide", "--json"], {1, 3}),
    (["explain"], {1, 3}),
    (["env"], {0}),
    (["env", "--format", "json", "--strict"], {1, 3}),
    (["run", "--", "/bin/sh", "-c", "echo veto=$%s" % VETO], {0}),
    (["cache", "show"], {0}),
]


class Program:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.environ = dict(os.environ, P2PSAFE_CACHE=str(folder / "cache"), HOME=str(folder))
        self.environ.pop(VETO, None)

    def run(self, arguments, at=None):
        """The process that ended; how many allocations it made; whether one failed."""
        environ, count = dict(self.environ), self.folder / "count"
        if at is not None:
            environ.update(LD_PRELOAD=str(self.args.preload), NO_MEMORY_AT=str(at), NO_MEMORY_COUNT=str(count))
            count.write_bytes(bytes(16))
        done = subprocess.run([self.args.program, "--host", self.args.host, *arguments], env=environ, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        seen, failed = struct.unpack("=qq", count.read_bytes()) if at is not None else (0, 0)
        return done, seen, failed


def problem(done, arguments, codes):
    """What is wrong with an answer; None if nothing is. It is shorter where the report beside the record cannot be read."""
    if done.returncode < 0 or done.returncode > 127:
        return "crashed"
    if arguments[0] == "run":
        return None if done.stdout == "veto=1\n" or (not done.stdout and done.returncode) else "executed without the veto"
    if done.returncode == 4:
        return None
    if done.returncode not in codes:
        return "another exit code"
    if done.stdout[:1] in ("{", "["):
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            return "half a JSON"
        if arguments[0] == "decide" and answer["decision"]["consumers"]["nccl_p2p"]["allowed"] is not False:
            return "allowed"
    if arguments[0] == "env" and VETO not in done.stdout:
        return "no veto"
    if arguments[0] != "cache" and not done.stdout.endswith("\n"):
        return "half an answer"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "preload", "host"):
        parser.add_argument("--" + name, required=True, type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="p2psafe-no-memory-") as folder:
        program = Program(args, pathlib.Path(folder))
        os.mkdir(program.folder / "cache", 0o700)
        program.run(["test", "--no-measure"])
        for arguments, codes in COMMANDS:
            whole, _, _ = program.run(arguments)
            again, seen, _ = program.run(arguments, 0)
            assert whole.returncode in codes and whole.stdout and seen > 20, (arguments, whole, seen)
            assert again.stdout == whole.stdout, "an answer that changes: %s" % arguments
            failed = 0
            step = 1 if args.all else max(seen // SAMPLE, 1)
            for at in range(1, seen + 1, step):
                done, _, met = program.run(arguments, at)
                failed += met
                why = problem(done, arguments, codes)
                if why is not None:
                    wrong += 1
                    print("%s, allocation %d of %d: %s: %d\n%s%s" % (
                        " ".join(arguments), at, seen, why, done.returncode, done.stdout[:600], done.stderr[:600]))
            print("%s: %d allocations, %d failed" % (" ".join(arguments), seen, failed))
            assert failed * 10 >= min(seen, SAMPLE) * 9, "allocations did not fail"
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
