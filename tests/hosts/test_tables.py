#!/usr/bin/env python3
"""What people read of a measured test is what the report says: every table of numbers, cell by cell.

usage: test_tables.py PROGRAM
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "x-narrow-sockets")
PROGRAM = os.path.abspath(sys.argv.pop(1))
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as cache:
            env = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_"))}
            env["P2PSAFE_CACHE"] = cache

            def run(*words):
                done = subprocess.run([PROGRAM, "--host", HOST, *words], env=env, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, universal_newlines=True, timeout=150)
                assert done.returncode == 1 and not done.stderr, done.stderr
                return done.stdout

            cls.text = run("test", "--level", "quick", "--deadline", "120")
            cls.report = json.loads(run("decide", "--level", "quick", "--json"))
        assert cls.report["kept"]["hit"]
        cls.index = {g["bdf"]: i for i, g in enumerate(cls.report["gpus"])}

    def section(self, title):
        """The lines below a title, up to an empty one, in words."""
        lines = self.text.splitlines()
        at = next((i for i, line in enumerate(lines) if line.startswith(title)), None)
        self.assertIsNotNone(at, title)
        end = lines.index("", at)
        return [line.split() for line in lines[at + 1:end]]

    def matrix(self, title, number, show):
        """number: of a pair of the report; show: as it is printed."""
        rows = self.section(title)[1:]
        self.assertEqual(len(rows), len(self.index))
        for p in self.report["pairs"]:
            cell = rows[self.index[p["src"]]][1 + self.index[p["dst"]]]
            self.assertEqual(cell, show(number(p)), (title, p["src"], p["dst"]))

    def test_matrices(self):
        def gbs(v):
            return "%.1f" % (v / 1e9)

        self.matrix("Write, GB/s", lambda p: max(p["bandwidth"]["ce_write"], p["bandwidth"]["sm_store"]), gbs)
        self.matrix("Read, GB/s", lambda p: max(p["bandwidth"]["ce_read"], p["bandwidth"]["sm_load"]), gbs)
        self.matrix("Write while every pair", lambda p: p["bandwidth"]["loaded"], gbs)
        self.matrix("Limit of the narrowest", lambda p: p["limit_bytes_per_s"], gbs)
        self.matrix("Store and flag until seen", lambda p: p["latency"]["store_flag_ns"], str)
        self.matrix("Load, there and back", lambda p: p["latency"]["load_ns"], str)
        self.matrix("Score", lambda p: p["score"], str)

    def test_sizes(self):
        slowest = min(self.report["pairs"], key=lambda p: max(p["bandwidth"]["ce_write"], p["bandwidth"]["sm_store"]))
        rows = {}
        for words in self.section("Sizes, ")[1:]:
            rows[int(words[0]) * UNITS[words[1]]] = words[2:]
        self.assertEqual(sorted(rows), [r["bytes"] for r in slowest["sizes"]])
        self.assertIn(12288, rows)
        sooner = set()
        for r in slowest["sizes"]:
            cells = rows[r["bytes"]]
            self.assertEqual(cells[0], "%.1f" % (r["p2p_bytes_per_s"] / 1e9))
            self.assertEqual(cells[1], str(r["p2p_ns"]))
            if r["staged_ns"] is None:
                self.assertEqual(cells[2:], ["-", "-"])
                continue
            self.assertEqual(cells[2], "%.1f" % (r["staged_bytes_per_s"] / 1e9))
            self.assertEqual(cells[3], str(r["staged_ns"]))
            self.assertEqual(cells[4], "peer" if r["p2p_ns"] < r["staged_ns"] else "staged")
            sooner.add(cells[4])
        self.assertEqual(sooner, {"peer", "staged"})
        self.assertIsNone(slowest["p2p_wins_from_bytes"])

    def test_staged(self):
        staged = {(self.index[s["a"]], self.index[s["b"]]): s for s in self.report["staged"]}
        rows = self.section("Staged through host memory")[1:]
        self.assertEqual(len(rows), len(staged))
        for words in rows:
            s = staged[int(words[0]), int(words[1])]
            b = s["bandwidth"]
            self.assertEqual(words[2:5], ["%.1f" % (b[k] / 1e9) for k in ("ce_write", "ce_read", "both_ways")])
            self.assertEqual(words[5], str(s["latency"]["store_flag_ns"]))

    def test_host_links(self):
        rows = self.section("Host memory, GB/s")[1:]
        for words, g in zip(rows, self.report["gpus"]):
            link = g["host_link"]
            keys = ("to_host_bytes_per_s", "from_host_bytes_per_s", "both_ways_bytes_per_s")
            self.assertEqual(words[1:4], ["%.1f" % (link[k] / 1e9) for k in keys])
            self.assertEqual(words[4], "-")  # a node that nobody named
            self.assertEqual(words[5:], ["%.1f" % (g[k] / 1e9) for k in ("all_to_one_bytes_per_s", "one_to_all_bytes_per_s")])


if __name__ == "__main__":
    unittest.main()
