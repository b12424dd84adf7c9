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


if __name__ == "__main__":
    unittest.main()
