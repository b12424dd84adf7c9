"""merge(): worst over nodes, and nothing that is damaged, newer, forged or twice gives a permission."""

import json
import unittest

import common
import schema
from common import BROKEN, HEALTHY, HOSTS, LibraryTest, p2psafe, quick

SCHEMA = json.loads((common.ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
CONSUMERS = ("nccl_p2p", "custom_all_reduce", "symmetric_memory", "peer_copies")


class Merge(LibraryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.texts = {}

    def text(self, host):
        if host not in self.texts:
            self.texts[host] = self.decide(HOSTS / host).to_json()
        return self.texts[host]

    def settings(self, report):
        return {s.name: s.value for s in report.settings}

    def allowed(self, report):
        return {name for name in CONSUMERS if report.allows(name)}

    def test_all_healthy(self):
        report, codes = p2psafe.merge([self.text("ok-2xh200-nvlink"), self.text("ok-2xh200-nvlink"), self.text("one-gpu")])
        self.assertEqual(codes, [0, 0, 0])
        self.assertEqual(self.allowed(report), set(CONSUMERS))
        self.assertEqual((report.exit_code, report.settings, report.gpus, report.simulated), (0, [], [], True))
        self.assertEqual(report.transport, "NVLINK")
        data = report.to_dict()
        self.assertEqual(schema.problems(data, SCHEMA, SCHEMA), [])

    def test_nodes_of_one_gpu_take_nothing_away(self):
        report, codes = p2psafe.merge([self.text("one-gpu")])
        self.assertEqual((codes, report.exit_code, report.settings), ([0], 0, []))
        self.assertEqual(self.allowed(report), set())

    def test_the_worst_node_counts_wherever_it_stands(self):
        good, bad = self.text("ok-2xh200-nvlink"), self.text("s01-founding-host")
        for texts in ([good, bad], [bad, good], [good, bad, good]):
            report, codes = p2psafe.merge(texts)
            self.assertEqual(sorted(set(codes)), [0, 1])
            self.assertEqual(self.allowed(report), set())
            self.assertEqual(report.exit_code, 1)
            self.assertEqual(self.settings(report)["NCCL_P2P_DISABLE"], "1")
            self.assertEqual(report.consumers["nccl_p2p"].verdict, "CORRUPT")
            self.assertEqual(report.transport, "HOST_STAGED")

    def test_damaged_reports_veto(self):
        good = self.text("ok-2xh200-nvlink")
        newer = json.dumps(dict(json.loads(good), schema=2))
        for bad in (None, "", "{}", "[]", "nonsense", good[: len(good) // 2], newer, good.encode() + b"\0", good + "x"):
            report, codes = p2psafe.merge([good, bad])
            self.assertEqual(codes, [0, 4], bad if bad is None else bad[:40])
            self.assertEqual((self.allowed(report), report.exit_code), (set(), 3))
            self.assertEqual(self.settings(report)["NCCL_P2P_DISABLE"], "1")
            self.assertNotIn("NCCL_P2P_LEVEL", self.settings(report))
        with self.assertRaises(p2psafe.P2PSafeError):
            p2psafe.merge([])

    def test_a_report_without_its_consumers_vetoes(self):
        single = json.loads(self.text("one-gpu"))
        joined = {"schema": 1, "gpus": [], "pairs": [], "decision": {"joined": 1, "transport": "NVLINK", "consumers": {}, "vetoes": [],
                                                                   "settings": [], "exit_code": 0}}
        for report in (single, joined):
            names = list(report["decision"]["consumers"])
            for left in ([], names[1:]):
                report["decision"]["consumers"] = {name: single["decision"]["consumers"].get(name) for name in left}
                with self.subTest(joined=report is joined, left=left):
                    answer, _ = p2psafe.merge([json.dumps(report), self.text("ok-2xh200-nvlink")])
                    self.assertEqual(self.allowed(answer), set())
                    self.assertEqual(self.settings(answer).get("NCCL_P2P_DISABLE"), "1")

    def test_nothing_tested_vetoes(self):
        for host in ("no-driver", "driver-too-old", "f14-view-a"):
            report, codes = p2psafe.merge([self.text("ok-2xh200-nvlink"), self.text(host)])
            self.assertEqual(codes, [0, 3], host)
            self.assertEqual((self.allowed(report), report.exit_code), (set(), 3), host)

    def test_never_better_than_the_report_says_itself(self):
        """A flipped word, a missing leg, a missing key: judged again from the legs, and denied where the node denied."""
        data = json.loads(self.text("ok-2xh200-nvlink"))

        def changed(change):
            copy = json.loads(json.dumps(data))
            change(copy)
            return json.dumps(copy)

        def no_legs(d):
            d["pairs"][0]["legs"] = []

        def corrupt(d):
            next(leg for leg in d["pairs"][1]["legs"] if leg["leg"] == "sm_store")["verdict"] = "CORRUPT"

        def unknown(d):
            next(leg for leg in d["pairs"][1]["legs"] if leg["leg"] == "sm_store")["verdict"] = "FINE"

        def denied(d):
            d["decision"]["consumers"]["nccl_p2p"]["allowed"] = False

        def no_consumer(d):
            del d["decision"]["consumers"]["nccl_p2p"]

        def no_pairs(d):
            d["pairs"] = []

        def no_code(d):
            del d["decision"]["exit_code"]
            d["decision"]["gpus"] = []
            d["pairs"] = []

        for change in (no_legs, corrupt, unknown, denied, no_consumer, no_pairs, no_code):
            report, _ = p2psafe.merge([self.text("ok-2xh200-nvlink"), changed(change)])
            self.assertFalse(report.allows("nccl_p2p"), change.__name__)
            self.assertIn("NCCL_P2P_DISABLE", self.settings(report), change.__name__)

        def legs_of_a_bad_node(d):
            for name in CONSUMERS:
                d["decision"]["consumers"][name]["allowed"] = True
            d["decision"].update(vetoes=[], exit_code=0)

        bad = json.loads(self.text("s01-founding-host"))
        legs_of_a_bad_node(bad)
        report, codes = p2psafe.merge([json.dumps(bad)])
        self.assertEqual((codes, self.allowed(report)), ([1], set()))

    def test_levels_meet_at_the_nearest(self):
        host = HOSTS / "x-far-pairs"
        for _ in range(3):  # a near pair can be left untested where this machine is busy, and then there is no level
            cache = self.cache()
            p2psafe.test(host_dir=host, cache_dir=cache, **quick(keep_going=True))
            far = p2psafe.decide(host_dir=host, cache_dir=cache, level="quick").to_json()
            near = [p for p in json.loads(far)["pairs"] if p["src"][5] == p["dst"][5]]
            left = [p for p in near if p["verdict"] == "UNTESTED"]
            if not left:
                break
        self.assertEqual([(p["src"], p["dst"], [leg for leg in p["legs"] if leg["verdict"] != "OK"]) for p in left], [])
        self.assertEqual({p["verdict"] for p in near}, {"OK"})
        self.assertEqual([s["name"] for s in json.loads(far)["decision"]["settings"]][0], "NCCL_P2P_LEVEL", far)
        report, codes = p2psafe.merge([far, self.text("ok-2xh200-nvlink")])
        self.assertEqual(codes, [1, 0])
        self.assertEqual(self.settings(report)["NCCL_P2P_LEVEL"], "PXB")
        self.assertNotIn("NCCL_P2P_DISABLE", self.settings(report))
        self.assertFalse(report.allows("nccl_p2p"))
        report, _ = p2psafe.merge([far, self.text("s01-founding-host")])
        self.assertEqual(self.settings(report)["NCCL_P2P_DISABLE"], "1")
        self.assertNotIn("NCCL_P2P_LEVEL", self.settings(report))
        # a node that does not say that its NCCL sees the same paths
        silent = json.loads(far)
        silent["decision"]["settings"] = [s for s in silent["decision"]["settings"] if s["name"] != "NCCL_P2P_LEVEL"]
        report, _ = p2psafe.merge([json.dumps(silent)])
        self.assertEqual(self.settings(report)["NCCL_P2P_DISABLE"], "1")

    def test_torn_lines_of_one_node_cost_all(self):
        report, codes = p2psafe.merge([self.text("ok-2xh200-nvlink"), self.decide(HOSTS / "x-torn-lines")])
        self.assertEqual((codes, report.exit_code), ([0, 0], 0))
        self.assertEqual(self.settings(report), {"NCCL_PROTO": "^LL128"})
        # what the node itself does about them counts where it does not say why
        silent = dict(json.loads(self.text("x-torn-lines")), findings=[])
        report, _ = p2psafe.merge([self.text("ok-2xh200-nvlink"), json.dumps(silent)])
        self.assertEqual(self.settings(report), {"NCCL_PROTO": "^LL128"})

    def vetoing(self, report):
        return {(s.name, s.value) for s in report.settings if not s.gives_permission}

    def covers(self, stricter, laxer):
        """Does the first set take away all that the second does? No peer transfers at all is more than only some, or one protocol less."""
        left = laxer - stricter
        if ("NCCL_P2P_DISABLE", "1") in stricter:
            left = {s for s in left if s[0] not in ("NCCL_P2P_LEVEL", "NCCL_PROTO")}
        return not left

    def test_a_joined_report_is_joined_as_its_nodes_would_be(self):
        hosts = ("one-gpu", "ok-2xh200-nvlink", "ok-4xpcie", "x-torn-lines", "s01-founding-host", "no-driver")
        joined = {host: p2psafe.merge([self.text(host)])[0] for host in hosts}
        for a in hosts:
            self.assertEqual(schema.problems(joined[a].to_dict(), SCHEMA, SCHEMA), [], a)
            again, codes = p2psafe.merge([joined[a]])
            self.assertEqual((codes, again.exit_code), ([joined[a].exit_code], joined[a].exit_code), a)
            self.assertEqual(self.allowed(again), self.allowed(joined[a]), a)
            for b in hosts:
                flat, _ = p2psafe.merge([self.text(a), self.text(b)])
                for texts in ([joined[a], self.text(b)], [self.text(b), joined[a]], [joined[a], joined[b]]):
                    deep, codes = p2psafe.merge(texts)
                    self.assertEqual(self.allowed(deep), self.allowed(flat), (a, b))
                    self.assertTrue(self.covers(self.vetoing(deep), self.vetoing(flat)), (a, b, deep.settings))
                    self.assertTrue(self.covers(self.vetoing(flat), self.vetoing(deep)), (a, b, deep.settings))
                    self.assertEqual((deep.exit_code, deep.transport), (flat.exit_code, flat.transport), (a, b))
                    self.assertEqual({n: c.verdict for n, c in deep.consumers.items()},
                                     {n: c.verdict for n, c in flat.consumers.items()}, (a, b))

    def test_a_joined_report_is_never_better_than_it_says(self):
        good = self.text("ok-2xh200-nvlink")
        data = p2psafe.merge([good, good])[0].to_dict()
        bad = p2psafe.merge([good, self.text("s01-founding-host")])[0].to_dict()

        def denied(d):
            d["decision"]["consumers"]["nccl_p2p"]["allowed"] = False

        def vetoed(d):
            d["decision"]["vetoes"] = ["nccl_p2p"]

        def verdict(d):
            d["decision"]["consumers"]["nccl_p2p"]["verdict"] = "CORRUPT"

        def no_consumer(d):
            del d["decision"]["consumers"]["nccl_p2p"]

        def code(d):
            d["decision"]["exit_code"] = 1

        def no_code(d):
            del d["decision"]["exit_code"]

        def no_settings(d):
            del d["decision"]["settings"]

        def no_vetoes(d):
            del d["decision"]["vetoes"]

        def unmarked(d):  # neither GPUs nor a word about joined nodes: nobody knows what was tested
            del d["decision"]["joined"]

        def nothing_joined(d):
            d["decision"]["joined"] = 0

        def disabled(d):
            d["decision"]["settings"] = [s for s in bad["decision"]["settings"] if s["name"] == "NCCL_P2P_DISABLE"]

        def has_gpus(d):  # a report with GPUs is proven by its pairs or not at all
            d["gpus"] = json.loads(good)["gpus"]

        for change in (denied, vetoed, verdict, no_consumer, code, no_code, no_settings, no_vetoes, unmarked, nothing_joined, disabled,
                       has_gpus):
            copy = json.loads(json.dumps(data))
            change(copy)
            for texts in ([json.dumps(copy)], [json.dumps(copy), good], [good, json.dumps(copy)]):
                report, _ = p2psafe.merge(texts)
                self.assertFalse(report.allows("nccl_p2p"), change.__name__)
                self.assertIn(("NCCL_P2P_DISABLE", "1"), self.vetoing(report), change.__name__)

    def test_a_veto_that_only_a_joined_report_knows_vetoes_everything(self):
        good = self.text("ok-2xh200-nvlink")
        data = p2psafe.merge([good])[0].to_dict()
        for name, value in (("NCCL_OF_TOMORROW", "0"), ("NCCL_PROTO", "^LL128,^LL"), ("PATH", "/tmp")):
            data["decision"]["settings"] = [{"consumer": "nccl_p2p", "kind": "env", "name": name, "value": value, "applied": True,
                                             "why": "a veto", "scope": "job", "gives_permission": False}]
            report, codes = p2psafe.merge([json.dumps(data), good])
            self.assertEqual((codes, self.allowed(report), report.exit_code), ([4, 0], set(), 3), name)
            self.assertNotIn((name, value), self.vetoing(report))
            self.assertIn(("NCCL_P2P_DISABLE", "1"), self.vetoing(report))


if __name__ == "__main__":
    unittest.main()
