#!/usr/bin/env python3
"""`env` and `run` with --write-caches: files of vLLM and SGLang, exit codes, and that a simulated answer stays where it was
told to be.

usage: test_caches.py PATH_OF_P2PSAFE
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
HOSTS = pathlib.Path(__file__).resolve().parent
BROKEN = str(HOSTS / "s01-founding-host")
HEALTHY = str(HOSTS / "ok-2xh200-nvlink")


class Caches(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.home = pathlib.Path(scratch.name) / "home"
        self.home.mkdir()
        self.own = pathlib.Path(scratch.name) / "own"  # the caller's
        self.own.mkdir()
        (pathlib.Path(scratch.name) / "cache").mkdir(mode=0o700)

    def call(self, *words, mask="0,1"):
        ours = ("P2PSAFE_", "CUDA_", "NCCL_", "XDG_", "VLLM_", "SGLANG_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        environment.update({"HOME": str(self.own), "P2PSAFE_CACHE": str(self.home.parent / "cache"),
                            "CUDA_VISIBLE_DEVICES": mask})
        done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env=environment, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def file(self, framework):
        return self.home / ".cache" / framework / "gpu_p2p_access_cache_for_0,1.json"

    def test_env(self):
        ask = ("--host", BROKEN, "--write-caches", "--home", str(self.home))
        code, out, err = self.call("env", *ask)
        self.assertEqual(code, 0, err)
        self.assertIn("export NCCL_P2P_DISABLE='1'", out)
        for framework in ("vllm", "sglang"):
            self.assertIn("cache of %s: written: %s" % (framework, self.file(framework)), err)
            self.assertFalse(any(json.loads(self.file(framework).read_text()).values()))
        self.assertEqual(self.call("env", "--strict", *ask)[0], 1)
        self.file("vllm").write_text('{"0->1": true, "1->0": true}')
        code, _, err = self.call("env", *ask)
        self.assertEqual(code, 1)
        self.assertIn("cache of vllm: foreign", err)
        self.assertIn("cache of sglang: same", err)
        code, _, err = self.call("env", "--force", *ask)
        self.assertEqual(code, 0)
        self.assertIn("cache of vllm: written", err)
        code, out, err = self.call("env", "--host", HEALTHY, "--write-caches", "--home", str(self.home))
        self.assertEqual(code, 0)
        self.assertIn("cache of vllm: removed", err)
        self.assertFalse(self.file("vllm").exists())
        self.assertEqual(list(self.own.iterdir()), [])

    def test_run(self):
        show = ("--", "cat", str(self.file("sglang")))
        ask = ("run", "--host", BROKEN, "--write-caches", "--home", str(self.home))
        code, out, _ = self.call(*ask, *show)
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(out)["0->1"], False)
        self.file("vllm").write_text("{}")
        self.assertEqual(self.call(*ask, "--", "true")[0], 0)  # it always executes
        code, out, err = self.call(*ask, "--require-enforced", "--", "echo", "executed")
        self.assertNotEqual(code, 0)
        self.assertEqual(out, "")

    def test_a_mask_of_one(self):
        code, _, err = self.call("env", "--host", BROKEN, "--write-caches", "--home", str(self.home), mask="3")
        self.assertEqual(code, 0)
        self.assertIn("cache of vllm: nothing", err)
        self.assertEqual(list(self.home.iterdir()), [])

    def test_refused(self):
        code, out, err = self.call("env", "--host", BROKEN, "--write-caches")
        self.assertEqual(code, 1)
        self.assertIn("simulated", err)
        self.assertIn("NCCL_P2P_DISABLE", out)  # the settings are printed all the same
        for words in (("env", "--force"), ("run", "--home", "/x", "--", "true"), ("test", "--write-caches")):
            self.assertEqual(self.call(*words)[0], 2, words)
        code, _, _ = self.call("env", "--gpus", "0000:99:00.0", "--host", BROKEN, "--write-caches", "--home", str(self.home))
        self.assertEqual(code, 2)
        self.assertEqual(list(self.home.iterdir()) + list(self.own.iterdir()), [])


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
