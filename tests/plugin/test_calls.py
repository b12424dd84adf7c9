"""The plugin's calls: what NCCL sees on a healthy and on a broken machine, and that nothing else happens to its process."""

import os
import subprocess
import unittest

from common import BROKEN, HEALTHY, HOSTS, PluginTest, PROGRAM, SANITIZED, VETO


class Calls(PluginTest):
    def test_healthy(self):
        environment = self.environment(self.conf(HEALTHY), NCCL_P2P_LEVEL="PIX", NCCL_PROTO="Simple", NCCL_DEBUG="")
        for interface in ("v1", "v2"):
            seen = self.run_loader(environment, interface=interface)
            self.assertEqual(seen.set(), {"NCCL_P2P_LEVEL": "PIX", "NCCL_PROTO": "Simple", "NCCL_DEBUG": ""})
        self.assertEqual(len(seen.log), 1)
        self.assertEqual(seen.log[0][0], "warn")
        self.assertIn("SIMULATED", seen.log[0][1])
        self.assertIn("kept answer: peer-to-peer is safe for NCCL", seen.log[0][1])

    def test_broken(self):
        environment = self.environment(self.conf(BROKEN), NCCL_P2P_DISABLE="0", NCCL_NVLS_ENABLE="1", NCCL_P2P_LEVEL="SYS",
                                       NCCL_DEBUG="WARN")
        wanted = dict(VETO, NCCL_P2P_LEVEL="SYS", NCCL_DEBUG="WARN")
        for answer in ("fresh", "kept"):
            seen = self.run_loader(environment)
            self.assertEqual(seen.set(), wanted, answer)
            self.assertEqual([level for level, _ in seen.log], ["warn"])
            for part in ("SIMULATED", "NCCL is kept off peer-to-peer", "CORRUPT", "0000:01:00.0>0000:11:00.0",
                         "NCCL_P2P_DISABLE=1", "P2PSAFE_PLUGIN=0"):
                self.assertIn(part, seen.log[0][1], answer)
            self.assertEqual(seen.err, "")
        # without a logger the line goes to stderr, once, and can be switched off
        seen = self.run_loader(environment, interface="v1")
        self.assertEqual(seen.set(), wanted)
        self.assertEqual(seen.err.count("\n"), 1)
        self.assertTrue(seen.err.startswith("p2psafe: warning: SIMULATED"), seen.err)
        seen = self.run_loader(dict(environment, P2PSAFE_LOG="none"), interface="v1")
        self.assertEqual((seen.set(), seen.err), (wanted, ""))

    def test_one_bad_direction_vetoes(self):
        seen = self.run_loader(self.environment(self.conf(HOSTS / "f08-one-direction")))
        self.assertEqual(seen.set(), VETO)

    def test_a_protocol_is_taken_away(self):
        environment = self.environment(self.conf(HOSTS / "x-torn-lines"))
        self.assertEqual(self.run_loader(environment).set(), {"NCCL_PROTO": "^LL128"})
        seen = self.run_loader(dict(environment, NCCL_PROTO="LL128,LL"))
        self.assertEqual(seen.set(), {"NCCL_PROTO": "LL"})
        self.assertIn("peer-to-peer is safe for NCCL; NCCL is told NCCL_PROTO=^LL128", seen.log[0][1])

    def test_a_level(self):
        """Near pairs are good, far ones are not: a level, unless the user wants less, or has a topology of his own."""
        host = HOSTS / "x-far-pairs"
        environment = self.environment(self.conf(host))
        made = subprocess.run([PROGRAM, "test", "--keep-going", "--no-measure", "--host", host], env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=200)
        self.assertEqual(made.returncode, 1, made.stderr)
        vetoes = {"NCCL_WIN_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}
        for user, told in ((None, "PXB"), ("SYS", "PXB"), ("NVL", "NVL"), ("LOC", "LOC"), ("nonsense", "PXB")):
            seen = self.run_loader(environment if user is None else dict(environment, NCCL_P2P_LEVEL=user))
            self.assertEqual(seen.set(), dict(vetoes, NCCL_P2P_LEVEL=told), user)
            self.assertIn("NCCL's peer-to-peer is limited: CORRUPT", seen.log[0][1])
        self.assertEqual(self.run_loader(dict(environment, NCCL_TOPO_FILE="/some/file")).set(), VETO)

    def test_one_gpu_and_none(self):
        self.assertEqual(self.run_loader(self.environment(self.conf(HOSTS / "one-gpu"))).set(), {})
        seen = self.run_loader(self.environment(self.conf(HOSTS / "no-gpu")))
        self.assertEqual(seen.set(), VETO)
        self.assertIn("NO_GPU", seen.log[0][1])
        seen = self.run_loader(self.environment(self.conf(HOSTS / "no-driver")))
        self.assertEqual(seen.set(), VETO)

    def test_switched_off(self):
        environment = self.environment(self.conf(BROKEN), P2PSAFE_PLUGIN="0", NCCL_P2P_DISABLE="0")
        for interface in ("v1", "v2"):
            seen = self.run_loader(environment, interface=interface)
            self.assertEqual((seen.set(), seen.log, seen.err), ({"NCCL_P2P_DISABLE": "0"}, [], ""))
        self.assertFalse((self.folder / "cache").exists())  # not even asked
        seen = self.run_loader(dict(environment, P2PSAFE_PLUGIN="1"))
        self.assertEqual(seen.set(), VETO)

    def test_untested_may_pass_and_bad_may_not(self):
        passing = {"P2PSAFE_ON_UNTESTED": "pass"}
        self.assertEqual(self.run_loader(self.environment(self.conf(BROKEN), cache="a", **passing)).set(), VETO)
        old = self.conf(HOSTS / "driver-too-old", name="old.conf")
        self.assertEqual(self.run_loader(self.environment(old, cache="b")).set(), VETO)
        self.assertEqual(self.run_loader(self.environment(old, cache="b", **passing)).set(), {})
        seen = self.run_loader(self.environment(old, cache="b", P2PSAFE_ON_UNTESTED="perhaps"))
        self.assertEqual(seen.set(), VETO)
        self.assertIn("P2PSAFE_ON_UNTESTED=perhaps", seen.log[0][1])

    def test_every_order_of_calls(self):
        """Without init, with two, from threads, after a fork, closed and opened again: always the same."""
        for host, wanted in ((HEALTHY, {}), (BROKEN, VETO)):
            conf = self.conf(host)
            for interface in ("v1", "v2"):
                for command in ("early", "twice", "threads", "reload", "fork", "clean"):
                    with self.subTest(host=host.name, interface=interface, command=command):
                        seen = self.run_loader(self.environment(conf, cache=host.name), command, interface)
                        self.assertEqual(seen.set(), wanted)
                        told = len(seen.log) + seen.err.count("p2psafe: warning")
                        self.assertEqual(told, 1, seen.out + seen.err)

    def test_logger_that_asks(self):
        seen = self.run_loader(self.environment(self.conf(BROKEN), NCCL_DEBUG="INFO"), "recursive", "v2")
        self.assertEqual(seen.set(), dict(VETO, NCCL_DEBUG="INFO"))

    def test_first_start_from_threads(self):
        """No record yet: eight threads of one process make one test."""
        seen = self.run_loader(self.environment(self.conf(BROKEN)), "threads")
        self.assertEqual(seen.set(), VETO)
        records = sorted(path.name for path in (self.folder / "cache").glob("*.json"))
        self.assertEqual(records, ["1.json"])

    @unittest.skipIf(SANITIZED, "the sanitizers' allocator does not survive a fork beside a thread")
    def test_fork_while_deciding(self):
        seen = self.run_loader(self.environment(self.conf(BROKEN)), "fork-deciding")
        self.assertEqual(seen.set(), VETO)
        self.assertIn("during ", seen.out)

    def test_clean_on_a_first_start(self):
        seen = self.run_loader(self.environment(self.conf(BROKEN)), "clean", "v2")
        self.assertEqual(seen.set(), VETO)

    def test_nobody_reads_stderr(self):
        """A pipe without a reader, a full one, a full disk and a closed descriptor cost the line, not the process."""
        environment = self.environment(self.conf(BROKEN))
        gone, gone_end = os.pipe()
        os.close(gone)
        full, full_end = os.pipe()
        os.set_blocking(full_end, False)
        try:
            while True:
                os.write(full_end, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(full_end, True)
        for target in ("2>&%d" % gone_end, "2>&%d" % full_end, "2>&-", "2>/dev/full"):
            shell = ("bash", "-c", 'exec "$@" ' + target, "bash")
            seen = self.finish(self.start(environment, interface="v1", prefix=shell, pass_fds=(gone_end, full_end)))
            self.assertEqual((seen.code, seen.set()), (0, VETO), target)
        for descriptor in (gone_end, full_end, full):
            os.close(descriptor)


if __name__ == "__main__":
    unittest.main()
