#!/usr/bin/env python3
"""The runner must notice: a wrong report, a wrong exit code, a stray line, a late answer, a child left behind."""

import json
import os
import pathlib
import stat
import tempfile
import textwrap
import unittest

import hostile
import match
import run

REPORT = {
    "simulated": True,
    "gpus": [{"bdf": "0000:01:00.0", "ours": True, "path": [{"kind": "root_port", "width": 16}, {"kind": "endpoint", "width": 8}]},
             {"bdf": "0000:02:00.0", "ours": False}],
    "pairs": [
        {"src": "0000:01:00.0", "dst": "0000:02:00.0", "verdict": "OK", "score": None,
         "bandwidth": {"ce_write": 25000000000, "ce_read": None},
         "sizes": [{"bytes": 4096, "p2p_ns": 1200}, {"bytes": 12288, "p2p_ns": 1500}],
         "legs": [{"leg": "sm_store", "mapping": "cumem", "verdict": "OK"},
                  {"leg": "sm_store", "mapping": "ipc", "verdict": "CORRUPT"}]},
        {"src": "0000:02:00.0", "dst": "0000:01:00.0", "verdict": "CORRUPT", "score": 0, "legs": []},
    ],
    "findings": [],
    "decision": {"vetoes": ["nccl_p2p"], "gpus": ["0000:01:00.0", "0000:02:00.0"],
                 "settings": [{"name": "NCCL_P2P_DISABLE", "value": "1", "applied": True}]},
}


class Match(unittest.TestCase):
    def check(self, expected, count):
        lines = match.differences(expected, REPORT)
        self.assertEqual(len(lines), count, lines)

    def test_subset(self):
        self.check({}, 0)
        self.check({"simulated": True}, 0)
        self.check({"simulated": False}, 1)
        self.check({"absent": None}, 1)
        self.check({"simulated": {"a": 1}}, 1)

    def test_kinds_are_told_apart(self):
        self.check({"simulated": 1}, 1)
        self.check({"pairs": [{"src": "0000:02:00.0", "dst": "0000:01:00.0", "score": False}]}, 1)
        self.check({"pairs": [{"src": "0000:01:00.0", "dst": "0000:02:00.0", "score": 0}]}, 1)
        self.check({"pairs": [{"src": "0000:01:00.0", "dst": "0000:02:00.0", "score": None}]}, 0)

    def test_identity_not_order(self):
        self.check({"gpus": [{"bdf": "0000:02:00.0", "ours": False}, {"bdf": "0000:01:00.0", "ours": True}]}, 0)
        self.check({"gpus": [{"bdf": "0000:02:00.0", "ours": True}]}, 1)
        self.check({"gpus": [{"bdf": "0000:03:00.0"}]}, 1)
        self.check({"pairs": [{"src": "0000:02:00.0", "dst": "0000:01:00.0", "verdict": "OK"}]}, 1)

    def test_a_way_is_in_order(self):
        first = {"bdf": "0000:01:00.0"}
        self.check({"gpus": [dict(first, path=[{"kind": "root_port"}, {"width": 8}])]}, 0)
        self.check({"gpus": [dict(first, path=[{"kind": "endpoint"}, {"kind": "root_port"}])]}, 2)
        self.check({"gpus": [dict(first, path=[{"kind": "root_port"}])]}, 1)
        self.check({"gpus": [{"bdf": "0000:02:00.0", "path": []}]}, 1)

    def test_wildcards_mean_all_and_at_least_one(self):
        self.check({"pairs": [{"src": "*", "dst": "*", "verdict": "OK"}]}, 1)
        self.check({"pairs": [{"src": "0000:01:00.0", "dst": "*", "verdict": "OK"}]}, 0)
        self.check({"findings": [{"code": "*"}]}, 1)

    def test_nested(self):
        leg = {"leg": "sm_store", "mapping": "ipc", "verdict": "CORRUPT"}
        self.check({"pairs": [{"src": "0000:01:00.0", "dst": "0000:02:00.0", "legs": [leg]}]}, 0)
        leg["verdict"] = "OK"
        self.check({"pairs": [{"src": "0000:01:00.0", "dst": "0000:02:00.0", "legs": [leg]}]}, 1)

    def test_numbers_within_bounds(self):
        for bounds, lines in (({"about": 26000000000, "percent": 5}, 0), ({"about": 24000000000, "percent": 5}, 0),
                              ({"about": 26000000000, "percent": 3}, 1), ({"about": 23000000000, "percent": 8}, 1),
                              ({"least": 25000000000}, 0), ({"least": 25000000001}, 1), ({"most": 24999999999}, 1),
                              ({"least": 1, "most": 25000000000}, 0), ({"least": 1, "percent": 5}, 1)):
            self.check({"pairs": [{"src": "0000:01:00.0", "dst": "*", "bandwidth": {"ce_write": bounds}}]}, lines)
        for bounds in ({"least": 0}, {"most": 1}, {"about": 0, "percent": 100}):
            self.check({"pairs": [{"src": "0000:01:00.0", "dst": "*", "bandwidth": {"ce_read": bounds}}]}, 1)
            self.check({"simulated": bounds}, 1)

    def test_rows_by_size(self):
        pair = {"src": "0000:01:00.0", "dst": "0000:02:00.0"}
        self.check({"pairs": [dict(pair, sizes=[{"bytes": 12288, "p2p_ns": {"about": 1450, "percent": 4}}])]}, 0)
        self.check({"pairs": [dict(pair, sizes=[{"bytes": 12288, "p2p_ns": 1200}])]}, 1)
        self.check({"pairs": [dict(pair, sizes=[{"bytes": 65536}])]}, 1)

    def test_other_arrays_match_whole(self):
        self.check({"decision": {"vetoes": ["nccl_p2p"]}}, 0)
        self.check({"decision": {"vetoes": []}}, 1)
        self.check({"decision": {"vetoes": ["nccl_p2p", "multicast"]}}, 1)
        self.check({"decision": {"gpus": ["0000:01:00.0"]}}, 1)
        self.check({"findings": []}, 0)
        self.check({"gpus": []}, 1)

    def test_an_expectation_without_identity_is_refused(self):
        self.check({"gpus": [{"ours": True}]}, 1)


class Runner(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name) / "host"
        self.folder.mkdir()
        self.program = pathlib.Path(scratch.name) / "program"
        (self.folder / "host.json").write_text("{}")

    def fake(self, body):
        """A program that does what body says."""
        self.program.write_text("#!/usr/bin/env python3\nimport json, os, sys, time\n"
                                f"REPORT = json.loads({json.dumps(json.dumps(REPORT))})\n" + textwrap.dedent(body))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def failures(self, expect):
        (self.folder / "expect.json").write_text(json.dumps(expect))
        run.GRACE_SECONDS = 0.3
        with open(os.devnull, "w", encoding="utf-8") as null:
            saved, run.print = getattr(run, "print", print), lambda *words: print(*words, file=null)
            try:
                return run.run_host(self.program, self.folder)
            finally:
                run.print = saved

    def test_right_and_wrong_answers(self):
        self.fake("print(json.dumps(REPORT)); sys.exit(1)")
        step = {"command": ["test"], "exit": 1, "report": {"decision": {"vetoes": ["nccl_p2p"]}}}
        self.assertEqual(self.failures(step), 0)
        self.assertEqual(self.failures([step, step]), 0)
        self.assertEqual(self.failures({**step, "exit": 0}), 1)
        self.assertEqual(self.failures({**step, "report": {"decision": {"vetoes": []}}}), 1)
        self.assertEqual(self.failures({**step, "forbid": ["nccl_p2p"]}), 1)
        self.assertEqual(self.failures({**step, "output": ["pci=noacs"]}), 1)

    def test_must_fail(self):
        self.fake("print(json.dumps(REPORT)); sys.exit(1)")
        right = {"command": ["test"], "exit": 1}
        self.assertEqual(self.failures({**right, "must_fail": True}), 1)
        self.assertEqual(self.failures({"command": ["test"], "exit": 0, "must_fail": True}), 0)
        self.fake("print('no report'); sys.exit(1)")
        self.assertEqual(self.failures({"command": ["test"], "exit": 0, "must_fail": True}), 1)

    def test_remedy_order(self):
        self.fake("REPORT['remedies'] = [{'code': c} for c in ('T0', 'I1', 'A1')]; print(json.dumps(REPORT))")
        self.assertEqual(self.failures({"command": ["test"], "exit": 0, "remedy_order": ["T0", "A1"]}), 0)
        self.assertEqual(self.failures({"command": ["test"], "exit": 0, "remedy_order": ["A1", "I1"]}), 1)
        self.assertEqual(self.failures({"command": ["test"], "exit": 0, "remedy_order": ["I1", "A2"]}), 1)

    def test_cut_cache(self):
        self.fake("""
            path = os.environ['P2PSAFE_CACHE'] + '/1.json'
            REPORT['size'] = os.path.getsize(path) if os.path.exists(path) else None
            open(path, 'w').write('x' * 10)
            print(json.dumps(REPORT))
        """)
        first = {"command": ["decide"], "report": {"size": None}}
        self.assertEqual(self.failures([first, {"command": ["decide"], "report": {"size": 5}, "cut_cache": True}]), 0)
        self.assertEqual(self.failures([first, {"command": ["decide"], "report": {"size": 10}, "cut_cache": True}]), 1)
        self.assertEqual(self.failures({**first, "cut_cache": True}), 1)

    def test_stopped_holder(self):
        run.become_subreaper()
        self.fake("""
            path = os.environ['P2PSAFE_CACHE'] + '/lock'
            if sys.argv[-1] == 'first':
                open(path, 'w').write('lock 1 %d 99' % os.getpid())
                time.sleep(2)
            state = open('/proc/%s/stat' % open(path).read().split()[2]).read().split()[2]
            print(json.dumps(dict(REPORT, state=state)))
        """)
        step = {"command": ["decide"], "report": {"state": "T"}, "stopped_holder": {"command": ["decide", "first"], "exit": 0}}
        self.assertEqual(self.failures(step), 0)
        self.assertEqual(self.failures({**step, "report": {"state": "S"}}), 1)
        self.assertEqual(self.failures({**step, "stopped_holder": {"command": ["decide", "first"], "exit": 1}}), 1)
        self.fake("print(json.dumps(REPORT))")
        self.assertEqual(self.failures({"command": ["decide"], "exit": 0, "stopped_holder": {"command": ["decide"]}}), 1)
        with self.assertRaises(run.Wrong):
            self.failures({**step, "stopped_holder": {"commands": []}})

    def test_not_simulated(self):
        self.fake("REPORT['simulated'] = False; print(json.dumps(REPORT))")
        self.assertEqual(self.failures({"command": ["decide"], "exit": 0}), 1)

    def test_stderr(self):
        self.fake("print(json.dumps(REPORT)); print('a stray line', file=sys.stderr)")
        self.assertEqual(self.failures({"command": ["test"], "exit": 0}), 1)
        self.assertEqual(self.failures({"command": ["test"], "exit": 0, "stderr": ["stray"]}), 0)
        self.assertEqual(self.failures({"command": ["test"], "exit": 0, "stderr": ["stray", "other"]}), 1)

    def test_late(self):
        self.fake("time.sleep(0.4); print(json.dumps(REPORT))")
        self.assertEqual(self.failures({"command": ["test"], "exit": 0, "max_seconds": 0.1 / run.SLOW}), 1)

    def test_child_left_behind(self):
        run.become_subreaper()
        self.fake("""
            if os.fork() == 0:
                os.setsid(); os.close(0); os.close(1); os.close(2); time.sleep(60); os._exit(0)
            print(json.dumps(REPORT))
        """)
        self.assertEqual(self.failures({"command": ["test"], "exit": 0}), 1)
        (self.folder / "host.json").write_text('{"ignore_sigkill_ms": 30000}')
        self.assertEqual(self.failures({"command": ["test"], "exit": 0}), 0)
        self.assertEqual(run.living_children(), {})

    def test_the_environment_is_clean(self):
        self.fake("sys.exit(any(k.startswith(('NCCL_', 'CUDA_')) for k in os.environ) or 'x' not in os.environ.get('X_Y', ''))")
        os.environ["NCCL_P2P_DISABLE"] = "1"
        self.addCleanup(os.environ.pop, "NCCL_P2P_DISABLE")
        self.assertEqual(self.failures({"command": ["env"], "exit": 0, "env": {"X_Y": "x"}}), 0)

    def test_host_and_json_are_added(self):
        self.fake("print(json.dumps({'simulated': True, 'argv': sys.argv[1:]}))")
        host = str(self.folder)
        self.assertEqual(self.failures({"command": ["test"], "report": {"argv": ["--host", host, "--json", "test"]}}), 0)
        self.assertEqual(self.failures({"command": ["env"], "report": {"argv": ["--host", host, "env"]}}), 0)
        other = str(self.folder.parent / "other")
        self.assertEqual(self.failures({"command": ["env"], "host": "other", "report": {"argv": ["--host", other, "env"]}}), 0)

    def test_bad_expectations(self):
        self.fake("print(json.dumps(REPORT))")
        for bad in ([], {}, 7, {"command": []}, {"command": ["test"]}, {"command": ["test"], "exits": 0},
                    {"command": ["test"], "exit": "0"}, {"command": ["test"], "exit": True}, {"command": [1], "exit": 0}):
            with self.assertRaises(run.Wrong, msg=str(bad)):
                self.failures(bad)


class Hostile(unittest.TestCase):
    """What hostile.py must notice in the answer of a program."""

    def answer(self, body, seconds=20):
        with tempfile.TemporaryDirectory() as scratch:
            program = pathlib.Path(scratch) / "program"
            program.write_text("#!/usr/bin/env python3\nimport json, os, sys, time\n" + textwrap.dedent(body))
            program.chmod(0o700)
            return hostile.Answer(str(program), scratch, ["probe"], seconds)

    def report(self, allowed=False, verdict="UNTESTED", state="translated", codes=(), gpus=1):
        report = {"decision": {"consumers": {"nccl_p2p": {"allowed": allowed}}}, "gpus": [{}] * gpus,
                  "pairs": [{"src": "a", "dst": "b", "verdict": verdict}], "iommu": {"state": state},
                  "findings": [{"code": c, "evidence": [{"text": "it ended"}]} for c in codes]}
        return self.answer(f"print(json.dumps(json.loads({json.dumps(json.dumps(report))})))")

    def test_how_it_ended(self):
        self.assertEqual(self.report().wrong, [])
        self.assertEqual(len(self.answer("os.abort()").wrong), 1)
        self.assertEqual(len(self.answer("sys.exit(5)").wrong), 1)
        self.assertEqual(len(self.answer("print('{')").wrong), 1)
        self.assertEqual(len(self.answer("sys.stdout.buffer.write(b'\"\\xff\"')").wrong), 1)
        self.assertEqual(len(self.answer("time.sleep(60)", 0.3).wrong), 1)
        self.assertEqual(len(self.report(codes=["HELPER_DIED"]).wrong), 1)

    def test_no_damage_improves_an_answer(self):
        before = self.report()
        for better in (dict(allowed=True), dict(verdict="OK"), dict(verdict="DEGRADED"), dict(gpus=2)):
            after = self.report(**better)
            after.judge(before)
            self.assertEqual(len(after.wrong), 1, better)
            after = self.report(**better)
            after.judge(after)
            self.assertEqual(after.wrong, [])

    def test_unreadable_is_not_off(self):
        before = self.report()
        group = pathlib.Path("root/sys/kernel/iommu_groups/1/type")
        for state, damage, count in (("none", "loop", 1), ("identity", "text", 1), ("unknown", "loop", 0),
                                     ("mixed", "empty", 0), ("none", "absent", 0)):
            after = self.report(state=state)
            after.judge_iommu(before, damage, group)
            self.assertEqual(len(after.wrong), count, (state, damage))

    def test_every_damage_is_undone(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "file"
            path.write_text("whole")
            for name in hostile.DAMAGES:
                with hostile.Damaged(path, name):
                    self.assertFalse(path.is_file() and path.read_bytes() == b"whole", name)
                self.assertEqual(path.read_text(), "whole")
                self.assertEqual(len(os.listdir(scratch)), 1)


if __name__ == "__main__":
    unittest.main()
