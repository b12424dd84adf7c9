"""The gates of this folder can fail: toy libraries with one thing wrong each, which the gate must name, and one that
only grew."""

import argparse
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import abidiff
import baseline
import golden
import header
import symbols

HEADER = """#include <stddef.h>
#include <stdint.h>
#define P2PSAFE_API __attribute__((visibility("default")))
typedef struct p2psafe_report p2psafe_report;
struct p2psafe_thing {
	size_t size;
	int32_t a;
	int32_t b;
};
P2PSAFE_API int32_t p2psafe_first(struct p2psafe_thing *thing);
P2PSAFE_API int32_t p2psafe_second(int32_t number);
P2PSAFE_API int32_t p2psafe_read(const p2psafe_report *report);
"""
SOURCE = """#include "p2psafe.h"
struct inner { int x; };
struct p2psafe_report { struct inner i; struct inner *p; };
P2PSAFE_API int32_t p2psafe_read(const p2psafe_report *report) { return report->i.x; }
P2PSAFE_API int32_t p2psafe_first(struct p2psafe_thing *thing) { return thing->a; }
P2PSAFE_API int32_t p2psafe_second(int32_t number) { return number + 1; }
"""
MAP = "P2PSAFE_1.0 {\n\tglobal:\n\t\tp2psafe_first;\n\t\tp2psafe_second;\n\t\tp2psafe_read;\n\tlocal: *;\n};\n"


class Toy(unittest.TestCase):
    def setUp(self):
        if shutil.which("gcc") is None:
            self.skipTest("gcc is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.header = self.folder / "p2psafe.h"
        patched = mock.patch.object(header, "HEADER", self.header)
        patched.start()
        self.addCleanup(patched.stop)

    def build(self, name, text=HEADER, source=SOURCE, map_text=MAP, flags=()):
        self.header.write_text(text)
        (self.folder / "toy.c").write_text(source)
        self.map = self.folder / "toy.map"
        self.map.write_text(map_text)
        library = self.folder / name
        command = ["gcc", "-g", "-shared", "-fPIC", "-Wl,--version-script=%s" % self.map, "-Wl,-soname,libp2psafe.so.1"]
        subprocess.run([*command, *flags, str(self.folder / "toy.c"), "-o", str(library)], check=True)
        return library


class Symbols(Toy):
    def problems(self, library, sanitized=False):
        options = argparse.Namespace(library=str(library), map=str(self.map), archive=None, sanitized=sanitized)
        # a toy needs no libjansson
        with mock.patch.object(symbols, "NEEDED", {"libc.so.6"}):
            return " ".join(symbols.check(options)[0])

    def test_a_good_library(self):
        self.assertEqual(self.problems(self.build("good.so", flags=["-Wl,--no-as-needed", "-lc"])), "")

    def test_a_function_that_the_map_forgot(self):
        found = self.problems(self.build("a.so", map_text=MAP.replace("\t\tp2psafe_second;\n", "")), sanitized=True)
        self.assertIn("p2psafe_second: in the header but not in the map", found)

    def test_a_function_that_the_header_lacks(self):
        text = HEADER.replace("P2PSAFE_API int32_t p2psafe_second(int32_t number);\n", "")
        found = self.problems(self.build("a.so", text=text, source=SOURCE), sanitized=True)
        self.assertIn("p2psafe_second: in the map but not in the header", found)

    def test_a_map_name_without_a_function(self):
        source = SOURCE.replace("p2psafe_second", "p2psafe_other")
        flags = ["-Wl,--undefined-version"]
        found = self.problems(self.build("a.so", source=source, flags=flags), sanitized=True)
        self.assertIn("p2psafe_second: in the map but not in the library", found)

    def test_a_map_with_a_pattern(self):
        with self.assertRaises(SystemExit):
            self.problems(self.build("a.so", map_text=MAP.replace("p2psafe_second", "p2psafe_*")), sanitized=True)

    def test_another_soname(self):
        found = self.problems(self.build("a.so", flags=["-Wl,-soname,libp2psafe.so.2"]), sanitized=True)
        self.assertIn("SONAME", found)

    def test_a_variable_that_changes(self):
        source = SOURCE.replace("return number + 1;", "static int calls; return number + ++calls;")
        found = self.problems(self.build("a.so", source=source, flags=["-Wl,--no-as-needed", "-lc"]))
        self.assertIn("calls", found)

    def test_what_must_not_be_needed_or_called(self):
        source = SOURCE + "#include <stdlib.h>\nvoid helper(void);\nvoid helper(void) { setenv(\"A\", \"B\", 1); }\n"
        source = source.replace("return number + 1;", "helper(); return number + 1;")
        source = source.replace('#include "p2psafe.h"', '#include "p2psafe.h"\nvoid helper(void);')
        found = self.problems(self.build("a.so", source=source, flags=["-Wl,--no-as-needed", "-lm"]))
        self.assertIn("libm.so.6: in NEEDED", found)
        self.assertIn("setenv", found)


class Abidiff(Toy):
    def setUp(self):
        super().setUp()
        if shutil.which("abidiff") is None or shutil.which("abidw") is None:
            self.skipTest("abigail-tools are not installed")
        self.baseline = self.folder / "base.abi"
        abidiff.write(self.build("base.so"), self.baseline)

    def kept(self, **changed):
        return abidiff.compare(self.build("new.so", **changed), self.baseline)[0]

    def test_the_same(self):
        self.assertTrue(self.kept())

    def test_growth_at_the_end(self):
        text = HEADER.replace("\tint32_t b;\n", "\tint32_t b;\n\tuint64_t c;\n")
        text += "P2PSAFE_API int32_t p2psafe_third(void);\n"
        source = SOURCE + "P2PSAFE_API int32_t p2psafe_third(void) { return 3; }\n"
        self.assertTrue(self.kept(text=text, source=source, map_text=MAP.replace("local", "p2psafe_third; local")))

    def test_the_inside_of_a_handle(self):
        self.assertTrue(self.kept(source=SOURCE.replace("{ int x; }", "{ char *name; int x; }")))

    def test_a_member_in_the_middle(self):
        self.assertFalse(self.kept(text=HEADER.replace("\tint32_t a;\n", "\tint32_t new;\n\tint32_t a;\n")))

    def test_a_member_of_another_type(self):
        self.assertFalse(self.kept(text=HEADER.replace("\tint32_t b;\n", "\tuint32_t b;\n")))

    def test_a_function_that_went(self):
        text = HEADER.replace("P2PSAFE_API int32_t p2psafe_second(int32_t number);\n", "")
        source = SOURCE[: SOURCE.index("P2PSAFE_API int32_t p2psafe_second")]
        self.assertFalse(self.kept(text=text, source=source, map_text=MAP.replace("\t\tp2psafe_second;\n", "")))

    def test_a_struct_that_shrank(self):
        source = SOURCE.replace("thing->a", "thing->b")
        self.assertFalse(self.kept(text=HEADER.replace("\tint32_t a;\n", ""), source=source))

    def test_another_signature(self):
        text = HEADER.replace("p2psafe_second(int32_t number)", "p2psafe_second(int64_t number)")
        source = SOURCE.replace("p2psafe_second(int32_t number) { return", "p2psafe_second(int64_t number) { return (int32_t)")
        self.assertFalse(self.kept(text=text, source=source))


class Golden(unittest.TestCase):
    OLD = {"P2PSAFE_A": "1", "P2PSAFE_B": "2", "p2psafe_t": "size 16 align 8", "p2psafe_t.a": "offset 8 size 4"}

    def compare(self, grows=False, **changed):
        now = dict(self.OLD)
        for name, value in changed.items():
            name = name.replace("__", ".")
            if value is None:
                del now[name]
            else:
                now[name] = value
        return golden.compare(now, self.OLD, grows)

    def test_the_same(self):
        self.assertEqual(self.compare(), [])

    def test_what_never_passes(self):
        moved, smaller = {"p2psafe_t__a": "offset 12 size 4"}, {"p2psafe_t": "size 8 align 8"}
        for changed in ({"P2PSAFE_A": None}, {"P2PSAFE_A": "2"}, moved, smaller):
            self.assertEqual(len(self.compare(**changed)), 1, changed)
            self.assertEqual(len(self.compare(grows=True, **changed)), 1, changed)

    def test_growth_wants_a_refreshed_file(self):
        for changed in ({"P2PSAFE_C": "3"}, {"p2psafe_t": "size 24 align 8"}):
            self.assertEqual(len(self.compare(**changed)), 1, changed)
        self.assertEqual(self.compare(grows=True, p2psafe_t="size 24 align 8"), [])

    def test_a_name_twice(self):
        with self.assertRaises(SystemExit):
            golden.parse("A 1\nA 2\n")


class Baseline(unittest.TestCase):
    FIRST = {
        "functions": {"p2psafe_a": ("int32_t", "int32_t number, const char *text"), "p2psafe_b": ("void", "void")},
        "structs": {"p2psafe_bdf": ["domain"], "p2psafe_s": ["size"]},
        "opaque": ["p2psafe_o"],
    }
    CONSUMER = "p2psafe_o *o; struct p2psafe_s s; p2psafe_a(1, 0); p2psafe_b(); /* p2psafe_new */"

    def changed(self, **functions):
        return baseline.problems(self.FIRST["functions"], dict(self.FIRST["functions"], **functions))

    def test_the_same_and_another_name_of_a_parameter(self):
        self.assertEqual(self.changed(p2psafe_new=("void", "void")), [])
        self.assertEqual(self.changed(p2psafe_a=("int32_t", "int32_t count, const char *text")), [])

    def test_a_function_that_went_or_changed(self):
        first = self.FIRST["functions"]
        self.assertEqual(baseline.problems(first, {"p2psafe_a": first["p2psafe_a"]}), ["p2psafe_b is gone"])
        self.assertEqual(len(self.changed(p2psafe_a=("int32_t", "int64_t number, const char *text"))), 1)
        self.assertEqual(len(self.changed(p2psafe_a=("int32_t", "int32_t number"))), 1)
        self.assertEqual(len(self.changed(p2psafe_b=("int32_t", "void"))), 1)

    def test_a_consumer_that_leaves_out_or_knows_too_much(self):
        self.assertEqual(baseline.unused(self.CONSUMER, self.FIRST), [])
        for missing in ("p2psafe_a", "p2psafe_b", "p2psafe_s"):
            self.assertEqual(len(baseline.unused(self.CONSUMER.replace(missing, "x"), self.FIRST)), 1, missing)
        self.assertEqual(len(baseline.unused(self.CONSUMER + "p2psafe_new();", self.FIRST)), 1)


if __name__ == "__main__":
    unittest.main()
