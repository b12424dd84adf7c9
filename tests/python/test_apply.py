"""apply(): vetoes reach os.environ in time, permission never does, and too late is an error."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import common
from common import BROKEN, HEALTHY, LIBRARY, LibraryTest, apply_quietly, p2psafe, quick
from checkers import BOTH
from p2psafe import _apply
from p2psafe._report import Setting, Word

sys.path.insert(0, str(common.HOSTS.parent / "tools"))
import namespace  # noqa: E402

REPORTS = {}
SIMULATED_CUDA = Path(LIBRARY).parent.parent / "libexec" / "p2psafe" / "sim" / "libcuda.so.1"


class Apply(LibraryTest):
    def setUp(self):
        super().setUp()
        patched = mock.patch.dict(os.environ)
        patched.start()
        self.addCleanup(patched.stop)
        for name in _apply.FULL_VETO:
            os.environ.pop(name, None)

    def test_healthy_host_changes_nothing(self):
        before = dict(os.environ)
        applied, texts = apply_quietly(host_dir=HEALTHY, cache_dir=self.cache(), **quick())
        self.assertIsNotNone(applied.report)
        self.assertIsNone(applied.error)
        self.assertEqual((applied.set, applied.unset), ({}, ()))
        self.assertFalse(applied.vetoed)
        self.assertEqual(dict(os.environ), before)
        self.assertTrue(any("SIMULATED" in text for text in texts), texts)

    def test_broken_host_is_vetoed_even_against_the_user(self):
        os.environ["NCCL_P2P_DISABLE"] = "0"
        os.environ["GGML_CUDA_P2P"] = "1"
        applied, _ = apply_quietly(host_dir=BROKEN, cache_dir=self.cache(), **quick())
        self.assertTrue(applied.vetoed)
        self.assertEqual(os.environ["NCCL_P2P_DISABLE"], "1")
        self.assertEqual(os.environ["NCCL_WIN_ENABLE"], "0")
        self.assertNotIn("GGML_CUDA_P2P", os.environ)
        self.assertIn("GGML_CUDA_P2P", applied.unset)
        for name, value in applied.set.items():
            self.assertEqual(os.environ[name], value)
        seen = subprocess.run(
            [sys.executable, "-c", "import os; print(os.environ['NCCL_P2P_DISABLE'])"], stdout=subprocess.PIPE, check=True
        )
        self.assertEqual(seen.stdout.strip(), b"1")
        self.assertGreater(len(applied.unenforced), 0)

    def test_a_report_that_is_given_is_used(self):
        report = self.decide(BROKEN)
        environ = {"GGML_CUDA_P2P": "1", "HOME": "/root"}
        applied, _ = apply_quietly(report, environ)
        self.assertIs(applied.report, report)
        self.assertEqual(environ["NCCL_P2P_DISABLE"], "1")
        self.assertEqual(environ["HOME"], "/root")
        self.assertNotIn("GGML_CUDA_P2P", environ)
        self.assertNotIn("NCCL_P2P_DISABLE", os.environ)

    def test_no_report_means_the_full_veto(self):
        for broken in ({"host_dir": self.folder / "nowhere"}, {"host_dir": HEALTHY, "gpus": "0000:ff:00.0"}):
            environ = {"GGML_CUDA_P2P": "1"}
            applied, texts = apply_quietly(None, environ, environment=False, **broken)
            self.assertIsNone(applied.report)
            self.assertIsInstance(applied.error, p2psafe.P2PSafeError)
            self.assertEqual(environ["NCCL_P2P_DISABLE"], "1")
            self.assertNotIn("GGML_CUDA_P2P", environ)
            self.assertTrue(any("no report" in text for text in texts), texts)
            self.assertIn("--disable-custom-all-reduce", [setting.name for setting in applied.unenforced])

    def test_no_library_means_the_full_veto(self):
        environ = {"GGML_CUDA_P2P": "1"}
        applied, texts = apply_quietly(None, environ, library=self.folder / "libp2psafe.so.1")
        self.assertIsInstance(applied.error, p2psafe.LibraryError)
        self.assertEqual(environ, {name: value for name, value in _apply.FULL_VETO.items() if value is not None})
        self.assertTrue(any("no report" in text for text in texts), texts)

    def test_own_full_veto_equals_the_librarys(self):
        variables, unenforced = _apply._full_veto(LIBRARY)
        self.assertEqual(variables, _apply.FULL_VETO)
        told = {setting.name: setting for setting in unenforced}
        self.assertEqual(told["--disable-custom-all-reduce"].kind, "argument")
        self.assertEqual(told["--disable-custom-all-reduce"].kind.value, p2psafe.SETTING_ARGUMENT)
        self.assertEqual(told["--disable-custom-all-reduce"].consumer.value, p2psafe.CONSUMER_CUSTOM_ALL_REDUCE)
        self.assertEqual(told["--compilation-config.pass_config.fuse_allreduce_rms"].value, "false")
        self.assertEqual({setting.kind for setting in unenforced}, {"argument", "yaml", "advice"})
        self.assertIn("NCCL_P2P_DISABLE", _apply.FULL_VETO)

    def test_the_decision_asks_for_a_marker_and_the_environment(self):
        # What happens without a marker is the library's own test: a simulated host cannot take a machine down.
        seen = []

        def decide(context, options):
            seen.append(options)
            return self.report

        self.report = self.decide(HEALTHY)
        with mock.patch.object(p2psafe.Context, "decide", decide):
            apply_quietly(None, {}, level="quick")
        self.assertEqual(len(seen), 1)
        self.assertEqual(seen[0].flags(), p2psafe.FLAG_REQUIRE_MARKER | p2psafe.FLAG_ENVIRONMENT)
        self.assertEqual(seen[0].level, "quick")

    def test_never_gives_permission(self):
        with self.assertRaises(ValueError):
            p2psafe.apply(environ={}, promote=True)
        report = self.decide(HEALTHY)
        nccl = Word("nccl_p2p", p2psafe.CONSUMER_NCCL_P2P)
        env, unset = Word("env", p2psafe.SETTING_ENV), Word("unset", p2psafe.SETTING_UNSET)
        permits = [
            Setting(nccl, env, "NCCL_P2P_LEVEL", "SYS", True, "measured", gives_permission=True),
            Setting(nccl, unset, "NCCL_P2P_DISABLE", "", True, "measured", gives_permission=True),
        ]
        restricts = [Setting(nccl, env, "NCCL_PROTO", "^LL128", True, "16-byte words tear")]
        with mock.patch.object(type(report), "settings", new_callable=mock.PropertyMock, return_value=permits + restricts):
            environ = {"NCCL_P2P_DISABLE": "1"}
            applied, _ = apply_quietly(report, environ)
        self.assertEqual(environ, {"NCCL_P2P_DISABLE": "1", "NCCL_PROTO": "^LL128"})
        self.assertEqual(applied.skipped, tuple(permits))


    def report_of(self, host):
        """Each host is decided once for all of these; a report never changes."""
        if host not in REPORTS:
            REPORTS[host] = self.decide(host)
        return REPORTS[host]

    def test_caches_are_written_when_asked_for(self):
        home = self.folder / "home"
        home.mkdir()
        os.environ["CUDA_VISIBLE_DEVICES"] = "4,6"
        for name in ("XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "SGLANG_CACHE_DIR"):
            os.environ.pop(name, None)
        applied, _ = apply_quietly(self.report_of(BROKEN))
        self.assertEqual((applied.caches, list(home.iterdir())), ((), []))
        for state in ("written", "same"):
            applied, texts = apply_quietly(self.report_of(BROKEN), write_caches=True, home=home)
            self.assertEqual([(c.framework, c.state) for c in applied.caches], [("vllm", state), ("sglang", state)])
            self.assertEqual([text for text in texts if "hear" in text], [])
        for name, checker in BOTH.items():
            for rank in (0, 1):
                environ = {"HOME": str(home), "CUDA_VISIBLE_DEVICES": "4,6"}
                self.assertFalse(checker(environ, 2).may_use_custom_all_reduce(rank, 2), name)
        # what was vetoed and no longer is
        applied, _ = apply_quietly(self.report_of(HEALTHY), write_caches=True, home=home)
        self.assertEqual({c.state for c in applied.caches}, {"removed"})
        self.assertEqual([path for path in home.rglob("*") if path.is_file()], [])

    def test_a_cache_of_others_is_a_warning(self):
        path = self.folder / ".cache/vllm/gpu_p2p_access_cache_for_0,1.json"
        path.parent.mkdir(parents=True)
        text = json.dumps({"0->0": True, "0->1": True, "1->0": True, "1->1": True})
        path.write_text(text, encoding="utf-8")
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
        os.environ.pop("VLLM_CACHE_ROOT", None)
        os.environ.pop("XDG_CACHE_HOME", None)
        applied, texts = apply_quietly(self.report_of(BROKEN), write_caches=True, home=self.folder)
        self.assertEqual([c.state for c in applied.caches], ["foreign", "written"])
        self.assertTrue(any("vllm does not hear the answer" in t and str(path) in t for t in texts), texts)
        self.assertEqual(path.read_text(encoding="utf-8"), text)
        self.assertEqual(os.environ["NCCL_P2P_DISABLE"], "1")

    def test_caches_without_a_report_or_a_library(self):
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
        os.environ.pop("VLLM_CACHE_ROOT", None)
        os.environ.pop("XDG_CACHE_HOME", None)
        applied, _ = apply_quietly(None, host_dir=self.folder / "nowhere", write_caches=True, home=self.folder)
        self.assertIsNone(applied.report)
        self.assertEqual([c.state for c in applied.caches], ["written", "written"])
        self.assertFalse(BOTH["vllm"]({"HOME": str(self.folder), "CUDA_VISIBLE_DEVICES": "0,1"}, 2).may_use_custom_all_reduce(0, 2))
        applied, texts = apply_quietly(None, library=self.folder / "libp2psafe.so.1", write_caches=True, home=self.folder)
        self.assertEqual((applied.caches, applied.set["NCCL_P2P_DISABLE"]), ((), "1"))
        self.assertTrue(any("caches of frameworks are not written" in text for text in texts), texts)
        # a simulated answer never goes to a home that nobody named
        applied, texts = apply_quietly(self.report_of(BROKEN), write_caches=True)
        self.assertEqual(applied.caches, ())
        self.assertTrue(any("caches of frameworks are not written" in text for text in texts), texts)

    def test_caches_are_for_this_process(self):
        for wrong in ({"environ": {}, "write_caches": True}, {"home": self.folder}):
            with self.assertRaises(ValueError):
                p2psafe.apply(self.report_of(BROKEN), **wrong)

    def test_what_the_user_took_away_stays(self):
        far = self.cache()
        host = common.HOSTS / "x-far-pairs"
        p2psafe.test(host_dir=host, cache_dir=far, **quick(keep_going=True))
        home = {"HOME": str(self.folder)}
        for user, left in (("NVL", "NVL"), ("0", "0"), ("SYS", "PXB"), ("loc", "PXB"), ("C2C", "PXB"), ("", "PXB"), (None, "PXB"), ("4", "PXB")):
            environ = dict(home) if user is None else dict(home, NCCL_P2P_LEVEL=user)
            # whether NCCL finds its topology itself is known only where the environment may be read
            with mock.patch.dict(os.environ, home):
                apply_quietly(None, environ, host_dir=host, cache_dir=far, level="quick")
            self.assertEqual(environ["NCCL_P2P_LEVEL"], left, user)
            self.assertNotIn("NCCL_P2P_DISABLE", environ)
            self.assertEqual(environ["NCCL_WIN_ENABLE"], "0")
        environ = dict(home)
        apply_quietly(None, environ, environment=False, host_dir=host, cache_dir=far, level="quick")
        self.assertEqual(environ["NCCL_P2P_DISABLE"], "1")
        # nobody looked at what NCCL will find there
        for other in ({}, {"HOME": "/elsewhere"}, dict(home, NCCL_TOPO_FILE="/t.xml"), dict(home, NCCL_CONF_FILE="/c"),
                      dict(home, NCCL_TOPO_FILE="/t.xml", NCCL_P2P_LEVEL="NVL")):
            environ = dict(other)
            with mock.patch.dict(os.environ, home):
                apply_quietly(None, environ, host_dir=host, cache_dir=far, level="quick")
            self.assertEqual(environ["NCCL_P2P_DISABLE"], "1", other)
            self.assertEqual(environ.get("NCCL_P2P_LEVEL"), other.get("NCCL_P2P_LEVEL"))
        torn = self.decide(common.HOSTS / "x-torn-lines")
        for user, left in (("Simple", "Simple"), ("LL,Simple", "LL,Simple"), ("^LL128,LL", "^LL128,LL"), ("LL128", "^LL128"),
                           ("^LL", "^LL128"), ("^^LL128", "^LL128"), ("allreduce:LL128", "^LL128"), (None, "^LL128")):
            environ = {} if user is None else {"NCCL_PROTO": user}
            apply_quietly(torn, environ)
            self.assertEqual(environ, {"NCCL_PROTO": left})


class NoPlace(LibraryTest):
    """On what looks like a real machine (a simulated one needs no marker): without a place for one there is no test."""

    SCRIPT = (
        "import json, p2psafe\n"
        "applied = p2psafe.apply(environ={})\n"
        "print(json.dumps([applied.set, [f.code for f in applied.report.findings], applied.report.simulated]))\n"
    )

    def ranks(self, home, *empty):
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(common.PACKAGE), "P2PSAFE_LIBRARY": LIBRARY}
        environ.update({name: os.environ[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS") if name in os.environ})
        if home is not None:
            environ["HOME"] = str(home)
        command = [*namespace.prefix(HEALTHY, *empty), sys.executable, "-B", "-c", self.SCRIPT]
        started = [
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
            for _ in range(4)
        ]
        seen = []
        for process in started:
            out, err = process.communicate(timeout=200)
            self.assertEqual(process.returncode, 0, err)
            variables, codes, simulated = json.loads(out)
            self.assertEqual(variables, {name: value for name, value in _apply.FULL_VETO.items() if value is not None})
            self.assertFalse(simulated)
            seen.append(codes)
        return seen

    def test_every_rank_hears_the_same_veto(self):
        why_not = namespace.why_not()
        if why_not is not None:
            self.skipTest(why_not)
        home = self.folder / "home"
        home.mkdir()
        for codes in self.ranks(home, home) + self.ranks(None):
            self.assertIn("NO_MARKER", codes)
            self.assertNotIn("DRIVER_MISSING", codes)
        for codes in self.ranks(home):
            self.assertIn("DRIVER_MISSING", codes)
            self.assertNotIn("NO_MARKER", codes)


class TooLate(LibraryTest):
    def script(self, body):
        """Runs body in a fresh Python; its output."""
        environ = dict(os.environ, PYTHONPATH=str(common.PACKAGE))
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", body], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def test_after_libcuda_is_mapped(self):
        self.assertTrue(SIMULATED_CUDA.is_file(), "no simulated libcuda at %s" % SIMULATED_CUDA)
        out = self.script(
            "import ctypes, os, p2psafe\n"
            "ctypes.CDLL(%r)\n"
            "before = dict(os.environ)\n"
            "try:\n"
            "    p2psafe.apply(host_dir=%r, cache_dir=%r, level='quick')\n"
            "except RuntimeError as exc:\n"
            "    print(type(exc).__name__, exc, dict(os.environ) == before)\n"
            "environ = {}\n"
            "p2psafe.apply(environ=environ, host_dir=%r, cache_dir=%r, level='quick')\n"
            "print(environ['NCCL_P2P_DISABLE'])\n"
            % (str(SIMULATED_CUDA), str(BROKEN), self.cache(), str(BROKEN), self.cache())
        )
        lines = out.splitlines()
        self.assertTrue(lines[0].startswith("TooLateError "), out)
        self.assertIn("libcuda.so.1", lines[0])
        self.assertTrue(lines[0].endswith("True"), out)
        self.assertEqual(lines[1], "1")

    def test_this_process_is_in_time(self):
        self.assertEqual(_apply.mapped_readers(), [])

    def test_reads_the_maps(self):
        maps = self.folder / "maps"
        maps.write_text(
            "7f0000000000-7f0000001000 r--p 00000000 08:01 1    /usr/lib/libcudart.so.12\n"
            "7f0000002000-7f0000003000 r--p 00000000 08:01 2    /opt/my libs/libnccl.so.2.28.9 (deleted)\n"
            "7f0000003000-7f0000004000 r-xp 00000000 08:01 2    /opt/my libs/libnccl.so.2.28.9 (deleted)\n"
            "7f0000004000-7f0000005000 rw-p 00000000 00:00 0 \n"
            "7f0000005000-7f0000006000 r-xp 00000000 08:01 3    /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04\n"
            "7ffe00000000-7ffe00001000 r-xp 00000000 00:00 0    [vdso]\n"
        )
        self.assertEqual(
            _apply.mapped_readers(str(maps)),
            ["/opt/my libs/libnccl.so.2.28.9 (deleted)", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"],
        )

    def test_maps_that_cannot_be_read_are_too_late(self):
        with mock.patch.object(_apply, "mapped_readers", side_effect=PermissionError("maps")):
            with self.assertRaises(p2psafe.TooLateError):
                p2psafe.apply()

    def test_loaded_while_the_test_ran(self):
        report = self.decide(BROKEN)
        with mock.patch.dict(os.environ), mock.patch.object(
            _apply, "mapped_readers", side_effect=[[], ["/usr/lib/libcuda.so.1"]]
        ):
            with self.assertRaises(p2psafe.TooLateError):
                p2psafe.apply(report)


if __name__ == "__main__":
    unittest.main()
