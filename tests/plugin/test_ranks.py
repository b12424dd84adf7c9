"""Several processes of one start: one test, one answer, whatever each of them may see, and never a hang."""

import fcntl
import os
import subprocess
import time
import unittest

from common import BROKEN, HEALTHY, HOSTS, PluginTest, RANKS, VETO


class Ranks(PluginTest):
    def records(self, cache="cache"):
        return sorted(path.name for path in (self.folder / cache).glob("*.json"))

    def agree(self, seen, wanted):
        for one in seen:
            self.assertEqual(one.set(), wanted, one.out)
        self.assertEqual(self.records(), ["1.json"])

    def test_first_start(self):
        for host, wanted in ((HEALTHY, {}), (BROKEN, VETO)):
            with self.subTest(host=host.name):
                for path in (self.folder / "cache").glob("*"):
                    path.unlink()
                seen = self.all([self.environment(self.conf(host))] * RANKS)
                self.agree(seen, wanted)

    def test_each_rank_masked_to_one_gpu(self):
        """As Ray, Slurm and Kubernetes start them: no mask escapes a veto, nor a mask that names nothing."""
        masks = ["0", "1", "2", "3", "", "99", "GPU-nothing", "MIG-nothing"]
        for host, wanted in ((HOSTS / "ok-4xpcie", None), (BROKEN, VETO)):
            with self.subTest(host=host.name):
                for path in (self.folder / "cache").glob("*"):
                    path.unlink()
                conf = self.conf(host)
                if wanted is None:
                    wanted = self.run_loader(self.environment(conf, cache="unmasked")).set()
                    self.assertNotIn("NCCL_P2P_DISABLE", wanted)
                self.agree(self.all([self.environment(conf, CUDA_VISIBLE_DEVICES=mask) for mask in masks]), wanted)

    def test_containers_that_share_a_folder(self):
        """Own process and mount namespaces and own homes, one folder of records."""
        prefix = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork")
        try:
            possible = subprocess.run([*prefix, "true"], capture_output=True, timeout=60).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            possible = False
        conf = self.conf(HOSTS / "f08-one-direction")
        environments = []
        for rank in range(RANKS):
            home = self.folder / ("home%d" % rank)
            home.mkdir()
            environments.append(dict(self.environment(conf), HOME=str(home)))
        seen = self.all(environments, prefix=prefix if possible else ())
        for one in seen:
            self.assertIn("CORRUPT", one.log[0][1])  # as on the host itself: the numbers of processes mean others in here
        self.agree(seen, VETO)

    def test_stopped_holder(self):
        """A holder of the lock that never comes back: its deadline passes, and eight waiters say the same veto."""
        conf = self.conf(HEALTHY)
        cache = self.folder / "cache"
        cache.mkdir(mode=0o700)
        boot = (HEALTHY / "root/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        lock = os.open(cache / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        os.write(lock, b"p2psafe-lock 1 %d %d %s\n" % (os.getpid(), begin + 500_000_000, boot.encode("ascii")))
        seen = self.all([self.environment(conf)] * RANKS)
        self.agree(seen, VETO)
        for one in seen:
            self.assertIn("UNTESTED", one.log[0][1])
            self.assertIn("LOCK_HELD", one.log[0][1])
        # and who comes later, with the lock free again, does not try again: that is for others
        fcntl.flock(lock, fcntl.LOCK_UN)
        self.assertEqual(self.run_loader(self.environment(conf)).set(), VETO)
        self.assertEqual(self.records(), ["1.json"])

    def test_record_of_other_gpus(self):
        """What is kept about another machine is not this one's answer, for no rank."""
        self.assertEqual(self.run_loader(self.environment(self.conf(HEALTHY))).set(), {})
        for one in self.all([self.environment(self.conf(BROKEN))] * RANKS):
            self.assertEqual(one.set(), VETO)
            self.assertIn("CORRUPT", one.log[0][1])
        self.assertEqual(self.records(), ["2.json"])

    def test_places_that_cannot_be_used(self):
        """Writable by all, a file, no folder at all: the answer is the same, each rank tests for itself, nothing is written."""
        conf = self.conf(BROKEN)
        shared = self.folder / "shared"
        shared.mkdir()
        shared.chmod(0o777)
        plain = self.folder / "file"
        plain.write_text("x", encoding="ascii")
        for cache in (shared, plain, plain / "below", "/proc/none/cache", "/dev/null"):
            with self.subTest(cache=str(cache)):
                seen = self.all([dict(self.environment(conf), P2PSAFE_CACHE=str(cache))] * 2)
                for one in seen:
                    self.assertEqual(one.set(), VETO)
        self.assertEqual(list(shared.iterdir()), [])
        self.assertEqual(plain.read_text(encoding="ascii"), "x")

    def test_no_home(self):
        environment = self.environment(self.conf(BROKEN), cache=None)
        del environment["HOME"]
        self.assertEqual(self.run_loader(environment).set(), VETO)


if __name__ == "__main__":
    unittest.main()
