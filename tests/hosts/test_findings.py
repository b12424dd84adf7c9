#!/usr/bin/env python3
"""docs/FINDINGS.md, findings.def, remedies.def and the sources name the same codes."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "src/lib/rules"
# Where sources make findings: the call, up to the code.
MAKERS = re.compile(r'(?:p2s_model_find|p2s_link_fact|find|nothing|untested|fact)\(\s*(?:[\w>\-.&*]+,\s*)*"([A-Z][A-Z0-9_]+)"')


def read(path):
    return path.read_text(encoding="utf-8")


def table(heading):
    part = re.search(rf"## {heading}\n.*?(?=\n## |\Z)", read(ROOT / "docs/FINDINGS.md"), re.S).group(0)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return rows[2:]


class Page(unittest.TestCase):
    definition = read(RULES / "findings.def")
    remedies = dict.fromkeys(re.findall(r"(?m)^P2S_REMEDY\((\w+),", read(RULES / "remedies.def")))

    def made(self):
        """Code -> severities of its rules."""
        codes = {}
        for code, severity in re.findall(r"^P2S_(?:FINDING|ELSEWHERE)\((\w+), \w+, (\w+|\")", self.definition, re.M):
            codes.setdefault(code, set()).update({severity.lower()} - {'"'})
        self.assertGreater(len(codes), 60)
        return codes

    def test_every_finding_has_one_row_in_order(self):
        rows = table("Findings")
        self.assertEqual([row[0].strip("`") for row in rows], list(self.made()))
        for code, severity, means, evidence, _ in rows:
            self.assertTrue(means and evidence, code)
            words = set(severity.split(", "))
            self.assertLessEqual(words, {"info", "warning", "error", "danger"}, code)
            self.assertLessEqual(self.made()[code.strip("`")], words, code)

    def test_every_remedy_has_one_row_in_order(self):
        self.assertEqual([row[0] for row in table("Remedies")], list(self.remedies))

    def test_what_to_do_exists(self):
        for row in table("Findings"):
            for word in re.findall(r"\b[A-Z]\d\b", row[4]):
                self.assertIn(word, self.remedies, row[0])

    def test_no_finding_without_a_row(self):
        known = self.made()
        found = set()
        for path in [*(ROOT / "src/lib").rglob("*.c"), *(ROOT / "src/helper").rglob("*.c")]:
            if path.parent != RULES:
                found |= {code for code in MAKERS.findall(read(path)) if "_" in code}
        self.assertGreater(len(found), 10)
        self.assertEqual({code for code in found if code not in known}, set())

    def test_causes_are_findings(self):
        for name in ("explain.def", "causes.def"):
            codes = re.findall(r'^P2S_\w+\("(\w+)"', read(ROOT / "src/cli" / name), re.M)
            self.assertGreater(len(codes), 5)
            for code in codes:
                self.assertIn(code, self.made(), name)

    def test_never_advice(self):
        text = read(RULES / "remedies.def") + read(ROOT / "src/cli/explain.def")
        for word in ("noacs", "pcie_acs_override", "GGML_CUDA_P2P", "amd_iommu=on"):
            self.assertNotIn(word, text)


if __name__ == "__main__":
    unittest.main()
