"""The package with an older library (tests/abi/gen_old.py): it says which function is missing and vetoes. And with one whose
structs end sooner than ours: what that library does not know reads as unknown, and never as more than it knows."""

import os
import unittest

import common
from common import BROKEN, HEALTHY, LibraryTest, apply_quietly, p2psafe, quick
from p2psafe import _abi, _apply, _library

OLD = os.environ.get("P2PSAFE_OLD_LIBRARY", "")


class OlderTest(LibraryTest):
    def setUp(self):
        super().setUp()
        if not os.path.isfile(OLD):
            self.fail("P2PSAFE_OLD_LIBRARY does not name the older library")


class Older(OlderTest):
    def missing(self):
        cdll = _library.ctypes.CDLL(OLD)
        return [name for name in _abi.PROTOTYPES if not hasattr(cdll, name)]

    def test_no_answer_and_the_reason(self):
        for call in (p2psafe.decide, p2psafe.test, p2psafe.probe):
            with self.assertRaises(p2psafe.LibraryError) as caught:
                call(library=OLD, host_dir=HEALTHY, cache_dir=self.cache(), **quick())
            self.assertIn("%s has no function %s" % (OLD, self.missing()[0]), str(caught.exception))
        with self.assertRaises(p2psafe.LibraryError):
            p2psafe.merge(["{}"], library=OLD)

    def test_apply_vetoes_everything(self):
        environ = {"NCCL_P2P_DISABLE": "0"}
        applied, texts = apply_quietly(None, environ, library=OLD, host_dir=HEALTHY, cache_dir=self.cache(), **quick())
        self.assertIsNone(applied.report)
        self.assertEqual(environ, {name: value for name, value in _apply.FULL_VETO.items() if value is not None})
        self.assertIn(self.missing()[0], " ".join(texts))


class Both(_library.Library):
    """The older library, and for functions that it lacks today's, which stands behind it."""

    def _declare(self, cdll, names):
        today = _library.ctypes.CDLL(common.LIBRARY)
        for name in names:
            self._functions[name] = function = getattr(cdll if hasattr(cdll, name) else today, name)
            function.restype, function.argtypes = _abi.PROTOTYPES[name]


class ShorterStructs(OlderTest):
    def decide(self, host, **more):
        path = os.path.abspath(OLD)
        _library._loaded[path] = Both(path)
        self.addCleanup(_library._loaded.pop, path, None)
        return p2psafe.decide(library=path, host_dir=host, cache_dir=self.cache(), **quick(**more))

    def test_the_answer_is_the_same(self):
        for host, allowed in ((HEALTHY, True), (BROKEN, False)):
            report = self.decide(host)
            for consumer in ("nccl_p2p", "custom_all_reduce", "symmetric_memory", "peer_copies"):
                self.assertIs(report.allows(consumer), allowed, consumer)
            self.assertFalse(report.allows("multicast") or report.allows("no such"))
            self.assertEqual(report.exit_code, 0 if allowed else 1)
            self.assertIs(all(pair.verdict == "OK" for pair in report.pairs), allowed)

    def test_what_it_does_not_know_is_unknown(self):
        report = self.decide(HEALTHY, measure=True)
        for gpu in report.gpus:
            self.assertEqual((gpu.to_host_bytes_per_s, gpu.all_to_one_bytes_per_s, gpu.host_node), (None, None, None))
            self.assertNotEqual(gpu.address, "")
        for pair in report.pairs:
            self.assertGreater(pair.ce_write_bytes_per_s, 0)
            self.assertEqual((pair.both_ways_bytes_per_s, pair.load_ns, pair.efficiency, pair.sizes), (None, None, None, ()))
            self.assertEqual({leg.note for leg in pair.legs}, {""})
        for setting in self.decide(BROKEN).settings:
            self.assertEqual(setting.scope, "unknown")

    def test_what_it_would_not_do_is_refused(self):
        with self.assertRaises(p2psafe.P2PSafeError) as caught:
            self.decide(HEALTHY, placement_file=self.folder / "placement")
        self.assertEqual(caught.exception.name, "E_NEWER")


if __name__ == "__main__":
    unittest.main()
