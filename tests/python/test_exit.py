"""The end of the interpreter while threads are still inside the library: nothing is freed under them."""

import subprocess
import sys
import unittest

from common import BROKEN, LibraryTest

# An exit handler that was registered before the first object of the library runs after weakref's own, as one of a server that
# registered it at its start.
PROGRAM = r'''
import atexit, os, sys, threading

def wait():
    thread.join(120)
    assert answers and answers[0].exit_code == 1, answers
    assert report.exit_code == 1 and report.consumers["nccl_p2p"].verdict == "UNTESTED", report
    os.write(1, b"both answered")

atexit.register(wait)
import p2psafe

host, cache = sys.argv[1:]
asked = dict(host_dir=host, cache_dir=cache, environment=False, level="quick")
report = p2psafe.probe(**asked)
inside, ending, answers = threading.Event(), threading.Event(), []

def log(level, line):
    inside.set()
    ending.wait(120)

context = p2psafe.Context(log=log)
thread = threading.Thread(target=lambda: answers.append(context.test(**asked)), daemon=True)
thread.start()
assert inside.wait(120)
atexit.register(ending.set)  # the first to run: the call goes on while the others do
'''


class Exit(LibraryTest):
    def test_a_thread_inside_a_call(self):
        # what is freed is overwritten, so that using it shows
        done = subprocess.run(["env", "MALLOC_PERTURB_=165", sys.executable, "-c", PROGRAM, str(BROKEN), self.cache()],
                              capture_output=True, text=True, check=False, timeout=240)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "both answered", ""))


if __name__ == "__main__":
    unittest.main()
