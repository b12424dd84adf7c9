#!/usr/bin/env python3
"""What makes a kept permission old does not make a kept failure old: the kernel log, a recheck, damage in the folder.

usage: failures.py PATH_OF_P2PSAFE HOST_OF_FOUR_GPUS

Two of the GPUs are enough, and three where it matters which: each pair costs time.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
HOST = ""
ZEROS = {"src": "0000:01:00.0", "dst": "0000:21:00.0", "op": ["ce_write", "sm_store"], "effect": "zeros", "min_bytes": 4096}
FELL = "NVRM: Xid (PCI:0000:21:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
NVLINK = "NVRM: Xid (PCI:0000:21:00): 145, RLW_RXPIPE Fatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001)"
TWO = ("--gpus", "0000:01:00.0,0000:21:00.0")
THREE = ("--gpus", "0000:01:00.0,0000:21:00.0,0000:61:00.0")
QUICK = ("--level", "quick", *TWO)
TEST = ("test", "--no-measure", *QUICK)


class Failures(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.base = pathlib.Path(scratch.name)
        self.cache = self.base / "cache"
        self.cache.mkdir(mode=0o700)
        self.host = self.base / "host"
        shutil.copytree(HOST, self.host, symlinks=True)
        self.lines = ["6,100,1000000,-;iommu: Default domain type: Passthrough"]
        self.set_log()

    def set_faults(self, *faults):
        self.set_cuda(lambda cuda: cuda.update(faults=list(faults)))

    def set_cuda(self, change):
        path = self.host / "cuda.json"
        cuda = json.loads(path.read_text())
        change(cuda)
        path.write_text(json.dumps(cuda))

    def set_log(self, *messages):
        for message in messages:
            self.lines.append(f"6,{100 + len(self.lines)},{1000000 + 5000 * len(self.lines)},-;{message}")
        (self.host / "kmsg").write_text("\n".join(self.lines) + "\n")

    def ask(self, *words):
        """Exit code, permission for NCCL, and where a kept answer came from or why there was none."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_", "XDG_"))}
        env.update({"P2PSAFE_CACHE": str(self.cache), "HOME": str(self.base)})
        done = subprocess.run([PROGRAM, "--host", str(self.host), *words, "--json"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, env=env, timeout=120)
        self.assertIn(done.returncode, (0, 1, 3), done.stderr)
        report = json.loads(done.stdout)
        allowed = report["decision"]["consumers"]["nccl_p2p"]["allowed"]
        self.assertEqual(allowed, done.returncode == 0, done.stdout)
        return done.returncode, allowed, report["kept"]

    def passes(self, *words):
        code, _, kept = self.ask(*words)
        self.assertEqual(code, 0, kept)
        return kept

    def vetoes(self, *words):
        code, allowed, kept = self.ask(*words)
        self.assertEqual((code, allowed), (1, False), kept)
        return kept

    def keep_a_failure(self):
        self.set_faults(ZEROS)
        self.vetoes(*TEST)
        self.set_faults()

    def test_a_grave_line_and_a_pass(self):
        self.keep_a_failure()
        self.set_log(FELL)
        self.passes(*TEST, "--keep-going")
        self.assertIn("1 of 3 passing", self.vetoes("decide", *QUICK)["reason"])

    def test_a_recheck_that_tests_nothing(self):
        """The recheck refuses the record, and no risky test runs on a GPU that fell off; a pass afterwards is the first one."""
        self.keep_a_failure()
        self.set_log(FELL)
        self.vetoes("decide", "--recheck", *QUICK)
        self.vetoes("decide", *QUICK)
        self.lines.clear()
        self.set_log("the log was cleared")
        self.passes(*TEST)
        self.assertIn("1 of 3 passing", self.vetoes("decide", *QUICK)["reason"])

    def test_a_line_of_nvlink_after_a_pass(self):
        """A run that passed has no failure in its own evidence; the record beside it has."""
        self.keep_a_failure()
        self.vetoes("decide", "--level", "standard", *TWO)
        self.set_log(NVLINK)
        self.passes("test", "--no-measure", "--level", "standard", *TWO)
        self.assertIn("2 of 3 passing", self.vetoes("decide", *QUICK)["reason"])

    def test_another_card(self):
        """What failed between others stays; the new card did not fail."""
        test = ("test", "--no-measure", "--level", "quick", *THREE)
        self.set_faults(ZEROS)
        self.vetoes(*test)
        self.set_faults()
        self.set_cuda(lambda cuda: cuda["gpus"][3].update(uuid="GPU-00000000-1111-2222-3333-444444444444"))
        self.passes(*test)
        self.assertIn("1 of 3 passing", self.vetoes("decide", *QUICK)["reason"])
        self.set_cuda(lambda cuda: cuda["gpus"][1].update(uuid="GPU-00000000-1111-2222-3333-555555555555"))
        self.passes(*test)
        self.passes("decide", *QUICK)

    def test_a_desktop_that_starts(self):
        """The card is the same: what was allowed is tested again, and what failed stays."""
        self.keep_a_failure()
        self.set_cuda(lambda cuda: cuda["gpus"][1].update(display_active=True))
        self.passes(*TEST)
        self.assertIn("1 of 3 passing", self.vetoes("decide", *QUICK)["reason"])
        shutil.rmtree(self.cache)
        self.cache.mkdir(mode=0o700)
        self.passes(*TEST)
        self.set_cuda(lambda cuda: cuda["gpus"][1].update(display_active=False))
        kept = self.passes("decide", "--recheck", *QUICK)
        self.assertEqual((kept["hit"], kept["reason"]), (False, "the display of 0000:21:00.0 changed"))

    def test_a_permission_does_get_old(self):
        self.passes(*TEST)
        self.set_log(FELL)
        kept = self.ask("decide", "--recheck", *QUICK)[2]
        self.assertEqual((kept["hit"], "Xid 79" in kept["reason"]), (False, True))
        self.assertFalse(self.ask("decide", *QUICK)[1])


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    HOST = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
