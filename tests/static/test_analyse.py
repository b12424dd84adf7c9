#!/usr/bin/env python3
"""analyse.py itself: what is new, what is not said any more, and to which function a line belongs."""
import pathlib
import tempfile
import unittest

import analyse

KEY = ("gcc", "analyzer-malloc-leak", "src/a.c", "one")


class Analyse(unittest.TestCase):
    def test_a_new_note_is_an_error(self):
        wrong = analyse.compare({KEY: "src/a.c:1: leak"}, {}, "gcc")
        self.assertEqual(len(wrong), 1)
        self.assertIn("new: src/a.c:1: leak", wrong[0])

    def test_a_line_that_nothing_says_is_an_error(self):
        self.assertEqual(len(analyse.compare({}, {KEY: "because"}, "gcc")), 1)
        self.assertEqual(analyse.compare({}, {KEY: "because"}, "cppcheck"), [])

    def test_accepted(self):
        self.assertEqual(analyse.compare({KEY: "leak"}, {KEY: "because"}, "gcc"), [])
        self.assertEqual(analyse.compare({KEY: "leak"}, {KEY[:2] + ("src/*", "*"): "because"}, "gcc"), [])

    def test_another_function_or_check_is_not_accepted(self):
        for other in (KEY[:3] + ("two",), ("gcc", "analyzer-free-of-non-heap") + KEY[2:], ("gcc", "*") + KEY[2:]):
            self.assertEqual(len(analyse.compare({KEY: "leak"}, {other: "because"}, "gcc")), 2)

    def test_each_line_has_a_reason(self):
        self.assertEqual(analyse.listed("# said\n\n" + " ".join(KEY) + " | because\n"), {KEY: "because"})
        for text in ("gcc check src/a.c one", "gcc check src/a.c one |", "gcc check src/a.c | because",
                     "lint check src/a.c one | because", " ".join(KEY) + " | a\n" + " ".join(KEY) + " | b"):
            with self.assertRaises(ValueError):
                analyse.listed(text)

    def test_the_function_of_a_line(self):
        source = "int x = 1;\nint one(int a,\n        int b)\n{\n\treturn 1;\n}\nint y;\nstatic int two(void)\n{\n\treturn 2;\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.c")
            path.write_text(source)
            found = [analyse.function_at(path, n) for n in (1, 5, 7, 10)]
        self.assertEqual(found, ["-", "one", "-", "two"])

    def test_notes(self):
        text = ("3 warnings generated.\nsrc/lib/core/buf.c:1:2: warning: a leak of [x] [CWE-401] [-Wanalyzer-malloc-leak]\n"
                "src/lib/core/buf.c:1:2: warning: again [check-a,check-b]\n"
                "src/lib/core/buf.c:1:2: note: not one [check-c]\n")
        self.assertEqual([k[1] for k in analyse.notes_in(text, "gcc")], ["analyzer-malloc-leak", "check-a"])

    def test_versions(self):
        self.assertTrue(analyse.same_version("12", "12"))
        self.assertTrue(analyse.same_version("14.0.6", "14"))
        self.assertFalse(analyse.same_version("2.1", "2.10"))
        self.assertFalse(analyse.same_version("2.101", "2.10"))

    def test_the_list_of_this_tree_can_be_read(self):
        self.assertGreater(len(analyse.listed(analyse.LISTED.read_text())), 5)


if __name__ == "__main__":
    unittest.main()
