"""Reports of simulated hosts as Python sees them: permission, evidence, threads, log callback, lifetime."""

import copy
import gc
import json
import os
import pickle
import threading
import time
import unittest
import warnings

import common
from common import BROKEN, HEALTHY, LibraryTest, p2psafe, quick

VETOED = ("nccl_p2p", "custom_all_reduce", "symmetric_memory", "peer_copies")


class Healthy(LibraryTest):
    def test_allows_what_was_proven(self):
        report = self.decide(HEALTHY)
        for consumer in VETOED:
            self.assertTrue(report.allows(consumer), consumer)
        self.assertTrue(report.allows(p2psafe.CONSUMER_NCCL_P2P))
        self.assertFalse(report.allows("multicast"))
        self.assertIsNone(report.consumers["multicast"].allowed)
        for unknown in ("", "no such consumer", "NCCL_P2P", "nccl_p2p\0", 0, -1, 99, 2**40):
            self.assertFalse(report.allows(unknown), repr(unknown))
        self.assertEqual(report.transport, "NVLINK")
        self.assertEqual(report.transport.value, p2psafe.TRANSPORT_NVLINK)
        self.assertEqual(report.exit_code, 0)
        self.assertIs(report.simulated, True)
        self.assertNotIn("NCCL_P2P_DISABLE", [setting.name for setting in report.settings])
        self.assertIn("SIMULATED", repr(report))

    def test_getters_and_json_tell_the_same(self):
        report = self.decide(HEALTHY)
        data = report.to_dict()
        self.assertIs(data["simulated"], True)
        self.assertEqual([gpu.address for gpu in report.gpus], [gpu["bdf"] for gpu in data["gpus"]])
        pairs = {(gpu.address, other.address) for gpu in report.gpus for other in report.gpus if gpu is not other}
        told = {(pair["src"], pair["dst"]): pair for pair in data["pairs"]}
        self.assertEqual(pairs, set(told))
        for pair in report.pairs:
            row = told[report.gpus[pair.src].address, report.gpus[pair.dst].address]
            self.assertEqual((pair.verdict, pair.path, pair.transport), (row["verdict"], row["path"], row["transport"]))
            self.assertEqual([(leg.leg, leg.mapping, leg.verdict) for leg in pair.legs],
                             [(leg["leg"], leg["mapping"], leg["verdict"]) for leg in row["legs"]])
            self.assertGreater(len(pair.legs), 0)
        self.assertEqual(set(report.consumers), set(data["decision"]["consumers"]))
        self.assertEqual([f.code for f in report.findings], [f["code"] for f in data["findings"]])
        self.assertEqual([s.name for s in report.settings], [s["name"] for s in data["decision"]["settings"]])

    def test_kept_answer_is_the_same(self):
        cache = self.cache()
        first = p2psafe.decide(host_dir=HEALTHY, cache_dir=cache, **quick())
        second = p2psafe.decide(host_dir=HEALTHY, cache_dir=cache, **quick())
        self.assertFalse(first.kept)
        self.assertTrue(second.kept)
        self.assertEqual([(p.src, p.dst, p.verdict) for p in first.pairs], [(p.src, p.dst, p.verdict) for p in second.pairs])
        self.assertEqual(first.settings, second.settings)

    def test_probe_proves_nothing(self):
        report = p2psafe.probe(host_dir=HEALTHY, environment=False)
        self.assertEqual([gpu.address for gpu in report.gpus], ["0000:00:06.0", "0000:00:07.0"])
        for consumer in report.consumers:
            self.assertFalse(report.allows(consumer))
        self.assertEqual({pair.verdict for pair in report.pairs}, {"UNTESTED"})

    def test_threads_read_one_report(self):
        report = self.decide(HEALTHY)
        wanted = (report.to_json(), report.allows("nccl_p2p"), report.env("shell"))
        answers, failures = [], []

        def read():
            try:
                for _ in range(20):
                    answers.append((report.to_json(), report.allows("nccl_p2p"), report.env("shell")))
                    self.assertEqual(len(report.pairs), 2)
            except BaseException as exc:
                failures.append(exc)

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(answers), 160)
        self.assertEqual(set(answers), {wanted})

    def test_threads_decide_at_once_and_one_tests(self):
        cache, reports, failures = self.cache(), [], []

        def decide():
            try:
                reports.append(p2psafe.decide(host_dir=HEALTHY, cache_dir=cache, **quick()))
            except BaseException as exc:
                failures.append(exc)

        threads = [threading.Thread(target=decide) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual([report.kept for report in reports].count(False), 1)
        self.assertEqual({report.allows("nccl_p2p") for report in reports}, {True})
        self.assertEqual(len({report.env("json") for report in reports}), 1)

    def test_other_threads_run_during_a_call(self):
        entered, left, turns = threading.Event(), threading.Event(), []

        def count():
            entered.wait()
            while not left.is_set():
                turns.append(None)
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        try:
            entered.set()
            self.decide(HEALTHY, no_cache=True)
        finally:
            left.set()
            thread.join()
        # a call that held the interpreter would leave one or two
        self.assertGreater(len(turns), 10)

    def test_report_outlives_its_context_and_strings_outlive_the_report(self):
        context = p2psafe.Context()
        report = context.decide(host_dir=HEALTHY, cache_dir=self.cache(), **quick())
        context.close()
        context.close()
        with self.assertRaises(p2psafe.P2PSafeError):
            context.probe(host_dir=HEALTHY)
        gpus, pairs = report.gpus, report.pairs
        del report, context
        gc.collect()
        self.assertEqual([gpu.address for gpu in gpus], ["0000:00:06.0", "0000:00:07.0"])
        self.assertEqual([pair.verdict for pair in pairs], ["OK", "OK"])


class Broken(LibraryTest):
    def test_denies(self):
        report = self.decide(BROKEN)
        for consumer in VETOED:
            self.assertFalse(report.allows(consumer), consumer)
            self.assertIs(report.consumers[consumer].allowed, False)
        self.assertEqual(report.consumers["nccl_p2p"].verdict, "CORRUPT")
        self.assertGreater(len(report.consumers["nccl_p2p"].failed_legs), 0)
        self.assertEqual(report.transport, "HOST_STAGED")
        self.assertEqual(report.exit_code, 1)
        by_name = {setting.name: setting for setting in report.settings}
        self.assertEqual(by_name["NCCL_P2P_DISABLE"].value, "1")
        self.assertEqual(by_name["NCCL_P2P_DISABLE"].kind, "env")
        self.assertTrue(by_name["NCCL_P2P_DISABLE"].applied)
        self.assertIn("NCCL_P2P_DISABLE=1", report.env("docker"))
        json.loads(report.env("json"))
        with self.assertRaises(p2psafe.P2PSafeError):
            report.env("no such format")

    def test_gpus_of_others_are_listed(self):
        report = self.decide(BROKEN)
        self.assertEqual([gpu.ours for gpu in report.gpus].count(False), 4)
        self.assertEqual(len(report.pairs), 12)


class Log(LibraryTest):
    def test_lines_come_on_the_calling_thread(self):
        seen = []
        p2psafe.decide(
            host_dir=HEALTHY,
            cache_dir=self.cache(),
            log=lambda level, line: seen.append((threading.get_ident(), level, line)),
            **quick()
        )
        self.assertGreater(len(seen), 0)
        self.assertEqual({ident for ident, _, _ in seen}, {threading.get_ident()})
        for _, level, line in seen:
            self.assertIn(level, range(p2psafe.LOG_ERROR, p2psafe.LOG_PROGRESS + 1))
            self.assertNotIn("\n", line)

    def test_a_callback_that_raises_changes_no_answer(self):
        calls = []

        def log(level, line):
            calls.append(line)
            raise KeyError("broken logging")

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = p2psafe.decide(host_dir=HEALTHY, cache_dir=self.cache(), log=log, **quick())
        self.assertTrue(report.allows("nccl_p2p"))
        self.assertEqual(len(calls), 1)
        self.assertEqual([w.category for w in caught], [RuntimeWarning])
        self.assertIn("broken logging", str(caught[0].message))

    def test_an_interrupt_in_a_callback_goes_on_after_the_call(self):
        def log(level, line):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            p2psafe.decide(host_dir=HEALTHY, cache_dir=self.cache(), log=log, **quick())

    def test_the_context_keeps_the_callback_alive(self):
        seen = []
        context = p2psafe.Context(log=lambda level, line: seen.append(line))
        gc.collect()
        context.decide(host_dir=HEALTHY, cache_dir=self.cache(), **quick())
        self.assertGreater(len(seen), 0)

    def test_calling_back_is_refused(self):
        errors = []
        context = p2psafe.Context(log=lambda level, line: errors.append(self.reenter(context)))
        report = context.decide(host_dir=HEALTHY, cache_dir=self.cache(), **quick())
        self.assertTrue(report.allows("nccl_p2p"))
        self.assertGreater(len(errors), 0)
        self.assertEqual(set(errors), {"E_BUSY"})

    def test_a_child_of_fork_is_refused(self):
        context = p2psafe.Context()
        report = context.probe(host_dir=HEALTHY, environment=False)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                context.probe(host_dir=HEALTHY, environment=False)
            except p2psafe.P2PSafeError as exc:
                code = 0 if "fork" in exc.text else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(len(report.gpus), 2)

    def reenter(self, context):
        try:
            context.probe(host_dir=HEALTHY)
        except p2psafe.P2PSafeError as exc:
            return exc.name
        return "no error"


class Words(unittest.TestCase):
    def test_a_word_is_its_text_and_keeps_its_number(self):
        word = p2psafe.Word("unknown", 4711)
        self.assertEqual(word, "unknown")
        self.assertEqual(word.value, 4711)
        for same in (copy.deepcopy(word), pickle.loads(pickle.dumps(word))):
            self.assertEqual((same, same.value), ("unknown", 4711))
        self.assertEqual(json.dumps({"verdict": word}), '{"verdict": "unknown"}')


class Unknown(LibraryTest):
    def test_numbers_of_a_newer_library_stay_numbers(self):
        report = self.decide(HEALTHY)
        word = report._word("verdict", 4711)
        self.assertEqual((word, word.value), ("unknown", 4711))


if __name__ == "__main__":
    unittest.main()
