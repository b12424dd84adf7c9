"""Every function of the C interface, called through the mirror: with NULL, with numbers nobody knows, and as it is meant."""

import ctypes
import json
import unittest

import common
from common import HEALTHY, LibraryTest
from p2psafe import _abi
from p2psafe._library import Library, decode, new_error

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


class Recorder:
    """A library that remembers which functions were called."""

    def __init__(self, library):
        self.library = library
        self.called = set()

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*args):
            self.called.add(name)
            return function(*args)

        return call


def sized(struct):
    value = struct()
    value.size = ctypes.sizeof(struct)
    return value


class Functions(LibraryTest):
    def setUp(self):
        super().setUp()
        self.lib = Library(common.LIBRARY)

    def test_every_function(self):
        lib = Recorder(self.lib)
        self.totals(lib)
        self.nulls(lib)
        context = ctypes.c_void_p()
        err = new_error()
        self.assertEqual(lib.p2psafe_context_new(ctypes.byref(context), _abi.LogFn(), None, ctypes.byref(err)), 0)
        options = _abi.Options()
        lib.p2psafe_options_init(ctypes.byref(options), ctypes.sizeof(options))
        self.assertEqual(options.size, ctypes.sizeof(options))
        options.host_dir = str(HEALTHY).encode()
        options.cache_dir = self.cache().encode()
        options.level = _abi.LEVEL_QUICK
        for function in ("p2psafe_probe", "p2psafe_test", "p2psafe_decide"):
            report = ctypes.c_void_p()
            status = getattr(lib, function)(context, ctypes.byref(options), ctypes.byref(report), ctypes.byref(err))
            self.assertEqual(status, 0, "%s: %s" % (function, err.text))
            self.read(lib, report)
            lib.p2psafe_report_free(report)
        text = ctypes.c_void_p()
        self.assertEqual(lib.p2psafe_cache_path(context, ctypes.byref(options), ctypes.byref(text), None), 0)
        self.assertNotEqual(ctypes.string_at(text.value), b"")
        lib.p2psafe_string_free(text)
        self.assertEqual(lib.p2psafe_cache_show(context, ctypes.byref(options), ctypes.byref(text), None), 0)
        self.assertTrue(ctypes.string_at(text.value).startswith(b"{"))
        lib.p2psafe_string_free(text)
        self.assertGreater(lib.p2psafe_cache_clear(context, ctypes.byref(options), None), 0)
        lib.p2psafe_context_free(context)
        self.assertEqual(set(_abi.PROTOTYPES), lib.called)

    def totals(self, lib):
        self.assertRegex(decode(lib.p2psafe_version_string()), r"^1\.\d+\.\d+$")
        self.assertGreaterEqual(lib.p2psafe_abi_level(), 0)
        self.assertGreater(lib.p2psafe_record_schema(), 0)
        self.assertGreater(lib.p2psafe_protocol(), 0)
        self.assertEqual(lib.p2psafe_has(b"decide"), 1)
        self.assertEqual(lib.p2psafe_has(b"no such feature"), 0)
        self.assertEqual(lib.p2psafe_has(None), 0)
        self.assertEqual(decode(lib.p2psafe_status_name(_abi.E_CONFIG)), "E_CONFIG")
        for number in (INT_MIN, INT_MAX, 4711):
            self.assertEqual(decode(lib.p2psafe_status_name(number)), "E_UNKNOWN")
            for name in _abi.PROTOTYPES:
                if name.endswith("_name") and "_from_" not in name and name != "p2psafe_status_name":
                    self.assertEqual(decode(getattr(lib, name)(number)), "unknown", name)
        for name in ("consumer", "level", "format"):
            from_name = getattr(lib, "p2psafe_%s_from_name" % name)
            to_name = getattr(lib, "p2psafe_%s_name" % name)
            for raw in (None, b"", b"no such word", b"unknown"):
                self.assertEqual(from_name(raw), 0, name)
            for number in range(1, 4):
                self.assertEqual(from_name(to_name(number)), number, name)

    def nulls(self, lib):
        null = ctypes.c_void_p()
        err = new_error()
        self.assertEqual(lib.p2psafe_context_new(None, _abi.LogFn(), None, ctypes.byref(err)), _abi.E_INVALID)
        self.assertEqual(err.code, _abi.E_INVALID)
        self.assertNotEqual(err.text, b"")
        lib.p2psafe_context_free(None)
        lib.p2psafe_report_free(None)
        lib.p2psafe_string_free(None)
        for consumer in (0, 1, 5, 99, INT_MIN, INT_MAX):
            self.assertEqual(lib.p2psafe_report_allows(None, consumer), 0)
            self.assertIsNone(lib.p2psafe_report_failed_leg(None, consumer, 0))
            self.assertLess(lib.p2psafe_report_consumer(None, consumer, ctypes.byref(sized(_abi.ConsumerInfo))), 0)
        self.assertEqual(lib.p2psafe_report_exit_code(None), 4)
        self.assertEqual(lib.p2psafe_report_transport(None), _abi.TRANSPORT_NONE)
        self.assertEqual(lib.p2psafe_report_is_simulated(None), 0)
        self.assertEqual(lib.p2psafe_report_is_kept(None), 0)
        for name in ("setting", "gpu", "pair", "finding", "staged"):
            self.assertEqual(getattr(lib, "p2psafe_report_%s_count" % name)(None), 0)
            self.assertLess(getattr(lib, "p2psafe_report_%s" % name)(None, 0, None), 0)
        self.assertLess(lib.p2psafe_report_leg(None, 0, 0, None), 0)
        self.assertLess(lib.p2psafe_report_size(None, 0, 0, None), 0)
        self.assertEqual(lib.p2psafe_report_about(None, ctypes.byref(sized(_abi.About))), _abi.E_INVALID)
        room = (ctypes.c_int32 * 64)()
        group = ctypes.byref(sized(_abi.Group))
        self.assertEqual(lib.p2psafe_report_group(None, room, 2, group), _abi.E_INVALID)
        self.assertEqual(lib.p2psafe_report_group_allows(None, room, 2, 1), 0)
        self.assertEqual(lib.p2psafe_report_best_group(None, 0, 2, room, group), _abi.E_INVALID)
        self.assertEqual(lib.p2psafe_report_island_count(None), 0)
        for name in ("island", "order"):
            self.assertEqual(getattr(lib, "p2psafe_report_" + name)(None, 2, room, 64), _abi.E_INVALID)
        self.assertEqual(lib.p2psafe_report_partition(None, room, 64), _abi.E_INVALID)
        self.assertIsNone(lib.p2psafe_report_evidence_source(None, 0, 0))
        self.assertIsNone(lib.p2psafe_report_evidence_text(None, 0, 0))
        self.assertLess(lib.p2psafe_report_json(None, ctypes.byref(null), ctypes.byref(err)), 0)
        self.assertFalse(null.value)
        for call in (lib.p2psafe_probe, lib.p2psafe_test, lib.p2psafe_decide, lib.p2psafe_cache_path, lib.p2psafe_cache_show):
            self.assertEqual(call(None, None, ctypes.byref(null), ctypes.byref(err)), _abi.E_INVALID)
            self.assertFalse(null.value)
        self.assertEqual(lib.p2psafe_cache_clear(None, None, ctypes.byref(err)), _abi.E_INVALID)
        self.assertEqual(lib.p2psafe_merge(None, 1, None, ctypes.byref(null), ctypes.byref(err)), _abi.E_INVALID)
        for count in (0, -1, INT_MAX):
            self.assertEqual(lib.p2psafe_merge(ctypes.byref(null), count, None, ctypes.byref(null), None), _abi.E_INVALID)
        # no report: the full veto, in every format
        for number in range(_abi.FORMAT_SHELL, _abi.FORMAT_SYSTEMD_UNIT + 1):
            text = ctypes.c_void_p()
            self.assertEqual(lib.p2psafe_report_env(None, number, ctypes.byref(text), ctypes.byref(err)), 0)
            self.assertIn(b"NCCL_P2P_DISABLE", ctypes.string_at(text.value))
            lib.p2psafe_string_free(text)
        for number in (0, -1, 99):
            self.assertEqual(lib.p2psafe_report_env(None, number, ctypes.byref(null), ctypes.byref(err)), _abi.E_INVALID)

        self.caches(lib, None, None)

    def caches(self, lib, report, home):
        """Caches of frameworks below a home of our own; without one this process's environment is not asked either."""
        caches = sized(_abi.Caches)
        text = ctypes.c_void_p()
        err = new_error()
        none = _abi.Caches()
        self.assertEqual(lib.p2psafe_report_write_caches(report, ctypes.byref(none), None, ctypes.byref(err)), _abi.E_SIZE)
        caches.flags = 1 << 40
        self.assertEqual(lib.p2psafe_report_write_caches(report, ctypes.byref(caches), None, None), _abi.E_NEWER)
        caches.flags = 0
        if report is not None:
            self.assertEqual(lib.p2psafe_report_write_caches(report, ctypes.byref(caches), None, None), _abi.E_CONFIG)
            caches.home = home
        unheard = lib.p2psafe_report_write_caches(report, ctypes.byref(caches), ctypes.byref(text), ctypes.byref(err))
        self.assertEqual(unheard, 2 if report is None else 0, err.text)  # no home, no number of GPUs: nothing can be written
        states = {entry["state"] for entry in json.loads(ctypes.string_at(text.value))}
        if report is None:
            self.assertEqual(states, {"failed"})
        elif lib.p2psafe_report_allows(report, _abi.CONSUMER_CUSTOM_ALL_REDUCE):
            self.assertLessEqual(states, {"removed", "nothing"})
        else:
            self.assertLessEqual(states, {"written", "same"})
        lib.p2psafe_string_free(text)

    def read(self, lib, report):
        """Every getter inside and outside its range."""
        self.assertIn(lib.p2psafe_report_exit_code(report), (0, 1, 3))
        self.assertEqual(lib.p2psafe_report_is_simulated(report), 1)
        self.assertIn(lib.p2psafe_report_is_kept(report), (0, 1))
        self.assertGreater(lib.p2psafe_report_transport(report), 0)
        self.assertEqual(lib.p2psafe_report_allows(report, 99), 0)
        for name, struct in (
            ("setting", _abi.Setting), ("gpu", _abi.Gpu), ("pair", _abi.Pair), ("finding", _abi.Finding), ("staged", _abi.Staged)
        ):
            getter = getattr(lib, "p2psafe_report_" + name)
            count = getattr(lib, "p2psafe_report_%s_count" % name)(report)
            for i in range(count):
                self.assertEqual(getter(report, i, ctypes.byref(sized(struct))), 0, name)
            for i in (-1, count, INT_MAX, INT_MIN):
                self.assertEqual(getter(report, i, ctypes.byref(sized(struct))), _abi.E_RANGE, name)
            if count:
                self.assertEqual(getter(report, 0, ctypes.byref(struct())), _abi.E_SIZE, name)
                self.assertLess(getter(report, 0, None), 0, name)
        self.assertEqual(lib.p2psafe_report_gpu_count(report), 2)
        self.assertEqual(lib.p2psafe_report_pair_count(report), 2)
        leg = sized(_abi.Leg)
        self.assertEqual(lib.p2psafe_report_leg(report, 2, 0, ctypes.byref(leg)), _abi.E_RANGE)
        self.assertEqual(lib.p2psafe_report_leg(report, 0, -1, ctypes.byref(leg)), _abi.E_RANGE)
        size = sized(_abi.Size)
        for i in (-1, 64, INT_MAX, INT_MIN):
            self.assertEqual(lib.p2psafe_report_size(report, 0, i, ctypes.byref(size)), _abi.E_RANGE)
        about = sized(_abi.About)
        self.assertEqual(lib.p2psafe_report_about(report, ctypes.byref(about)), 0)
        self.assertGreater(about.created_unix, 0)
        self.assertIn(about.level, (_abi.LEVEL_QUICK, _abi.LEVEL_STANDARD))
        for text in (about.kernel, about.driver_version, about.iommu_text, about.kept_reason):
            self.assertIsNotNone(text)
        self.assertEqual(lib.p2psafe_report_about(report, ctypes.byref(_abi.About())), _abi.E_SIZE)
        self.assertLess(lib.p2psafe_report_about(report, None), 0)
        info = sized(_abi.ConsumerInfo)
        self.assertEqual(lib.p2psafe_report_consumer(report, _abi.CONSUMER_NCCL_P2P, ctypes.byref(info)), 0)
        self.assertEqual(info.consumer, _abi.CONSUMER_NCCL_P2P)
        self.assertEqual(lib.p2psafe_report_consumer(report, 99, ctypes.byref(info)), _abi.E_INVALID)
        self.assertIsNone(lib.p2psafe_report_failed_leg(report, _abi.CONSUMER_NCCL_P2P, INT_MAX))
        self.assertIsNone(lib.p2psafe_report_evidence_source(report, INT_MAX, 0))
        self.assertIsNone(lib.p2psafe_report_evidence_text(report, 0, -1))
        self.groups(lib, report)
        self.caches(lib, report, str(self.folder).encode())
        text = ctypes.c_void_p()
        self.assertEqual(lib.p2psafe_report_json(report, ctypes.byref(text), None), 0)
        self.assertTrue(ctypes.string_at(text.value).startswith(b"{"))
        lib.p2psafe_string_free(text)


    def groups(self, lib, report):
        """The host has two GPUs; nothing is proven by a probe."""
        pair, room = (ctypes.c_int32 * 2)(0, 1), (ctypes.c_int32 * 64)()
        group = sized(_abi.Group)
        ok = lib.p2psafe_report_exit_code(report) == 0
        self.assertEqual(lib.p2psafe_report_group(report, pair, 2, ctypes.byref(group)), 0)
        self.assertEqual(group.verdict, _abi.VERDICT_OK if ok else _abi.VERDICT_UNTESTED)
        self.assertEqual(lib.p2psafe_report_group_allows(report, pair, 2, _abi.CONSUMER_NCCL_P2P), int(ok))
        self.assertEqual(lib.p2psafe_report_group_allows(report, pair, 2, 0), 0)
        self.assertEqual(lib.p2psafe_report_group_allows(report, pair, 1, _abi.CONSUMER_NCCL_P2P), 0)
        self.assertEqual(lib.p2psafe_report_group_allows(report, None, 2, _abi.CONSUMER_NCCL_P2P), 0)
        for gpus, status in (((0, 0), _abi.E_INVALID), ((0, 2), _abi.E_RANGE), ((-1, 0), _abi.E_RANGE), ((INT_MAX, 0), _abi.E_RANGE)):
            named = (ctypes.c_int32 * 2)(*gpus)
            self.assertEqual(lib.p2psafe_report_group(report, named, 2, ctypes.byref(group)), status)
            self.assertEqual(lib.p2psafe_report_group_allows(report, named, 2, _abi.CONSUMER_NCCL_P2P), 0)
        self.assertEqual(lib.p2psafe_report_group(report, pair, 1, ctypes.byref(group)), _abi.E_INVALID)
        self.assertEqual(lib.p2psafe_report_group(report, pair, 2, ctypes.byref(_abi.Group())), _abi.E_SIZE)
        best = lib.p2psafe_report_best_group(report, 0, 2, room, ctypes.byref(group))
        self.assertEqual(best, 0 if ok else _abi.E_RANGE)
        self.assertEqual(lib.p2psafe_report_best_group(report, 0, 3, room, None), _abi.E_RANGE)
        self.assertEqual(lib.p2psafe_report_best_group(report, 0, 1, room, None), _abi.E_INVALID)
        self.assertEqual(lib.p2psafe_report_best_group(report, 99, 2, room, None), _abi.E_INVALID)
        self.assertEqual(lib.p2psafe_report_island_count(report), 1 if ok else 2)
        self.assertEqual(lib.p2psafe_report_island(report, 0, room, 64), 2 if ok else 1)
        self.assertEqual(lib.p2psafe_report_island(report, 0, room, 0), _abi.E_INVALID)
        for i in (-1, 2, INT_MAX, INT_MIN):
            self.assertEqual(lib.p2psafe_report_island(report, i, room, 64), _abi.E_RANGE)
        self.assertEqual(lib.p2psafe_report_partition(report, room, 64), 1 if ok else 2)
        self.assertEqual((room[0], room[1]), (0, 0) if ok else (0, 1))
        self.assertEqual(lib.p2psafe_report_partition(report, room, 1), _abi.E_INVALID)
        self.assertEqual(lib.p2psafe_report_order(report, 2, room, 64), int(ok))
        self.assertEqual((room[0], room[1]), (0, 1))
        self.assertEqual(lib.p2psafe_report_order(report, 2, room, 1), _abi.E_INVALID)
        self.assertEqual(lib.p2psafe_report_order(report, 1, room, 64), _abi.E_INVALID)


class Errors(LibraryTest):
    def refused(self, **options):
        with self.assertRaises(common.p2psafe.P2PSafeError) as caught:
            common.p2psafe.probe(environment=False, **options)
        error = caught.exception
        self.assertNotEqual(error.text, "")
        self.assertNotIn("\n", error.text)
        self.assertIn(error.name, str(error))
        return error

    def test_host_folder_that_is_none(self):
        error = self.refused(host_dir=self.folder / "nowhere")
        self.assertEqual((error.code, error.name), (_abi.E_CONFIG, "E_CONFIG"))

    def test_gpu_that_is_not_there(self):
        error = self.refused(host_dir=HEALTHY, gpus=["0000:ff:1f.0"])
        self.assertEqual(error.name, "E_CONFIG")

    def test_empty_gpu_list(self):
        self.assertIn(self.refused(host_dir=HEALTHY, gpus=[]).name, ("E_CONFIG", "E_INVALID"))

    def test_level_nobody_knows(self):
        self.assertEqual(self.refused(host_dir=HEALTHY, level=99).code, _abi.E_INVALID)
        with self.assertRaises(ValueError):
            common.p2psafe.probe(host_dir=HEALTHY, level="reckless")

    def test_options_that_do_not_exist(self):
        with self.assertRaises(TypeError):
            common.p2psafe.probe(host_dirr=HEALTHY)
        for bad in ("a\0b", b"a\0b"):
            with self.assertRaises(ValueError):
                common.p2psafe.probe(host_dir=bad)
        for deadline in (0, -1, float("nan"), float("inf")):
            with self.assertRaises((ValueError, OverflowError)):
                common.p2psafe.probe(host_dir=HEALTHY, deadline=deadline)


if __name__ == "__main__":
    unittest.main()
