"""The mirror of the C interface: structs as the C compiler lays them out, constants and prototypes as the header says."""

import ctypes
import os
import re
import subprocess
import unittest

import common  # noqa: F401 - sets the paths
import header
from p2psafe import _abi, constants

GOLDEN_PROGRAM = os.environ.get("P2PSAFE_GOLDEN_PROGRAM", "")


def printed_layout():
    """Name -> numbers, as a C program compiled against the header prints them."""
    text = subprocess.run(
        [GOLDEN_PROGRAM, "layout"], check=True, stdout=subprocess.PIPE, universal_newlines=True
    ).stdout
    found = {}
    for line in text.splitlines():
        name, first, a, second, b = line.split()
        found[name] = {first: int(a), second: int(b)}
    return found


class Layout(unittest.TestCase):
    def test_every_struct_as_the_compiler_lays_it_out(self):
        self.assertTrue(os.path.isfile(GOLDEN_PROGRAM), "P2PSAFE_GOLDEN_PROGRAM does not name the golden program")
        ours = {}
        for name, struct in _abi.STRUCTS.items():
            ours[name] = {"size": ctypes.sizeof(struct), "align": ctypes.alignment(struct)}
            for member, _ in struct._fields_:
                field = getattr(struct, member)
                ours["%s.%s" % (name, member)] = {"offset": field.offset, "size": field.size}
        self.assertEqual(printed_layout(), ours)

    def test_no_struct_has_a_hole(self):
        for name, struct in _abi.STRUCTS.items():
            end = 0
            for member, _ in struct._fields_:
                field = getattr(struct, member)
                self.assertEqual(field.offset, end, "%s.%s" % (name, member))
                end = field.offset + field.size
            self.assertEqual(end, ctypes.sizeof(struct), name)


class Constants(unittest.TestCase):
    def test_equal_the_header(self):
        wanted = {
            name[len("P2PSAFE_") :]: value
            for name, value in header.values().items()
            if not name.startswith("P2PSAFE_VERSION_")
        }
        ours = {name: value for name, value in vars(constants).items() if name.isupper()}
        self.assertGreater(len(wanted), 100)
        self.assertEqual(wanted, ours)

    def test_flags_do_not_overlap(self):
        flags = [value for name, value in vars(constants).items() if name.startswith("FLAG_")]
        self.assertEqual(sum(flags), len(flags) and 2 ** len(flags) - 1)

    def test_versions_agree(self):
        values = header.values()
        self.assertEqual(values["P2PSAFE_VERSION_MAJOR"], _abi.ABI_MAJOR)
        self.assertLessEqual(_abi.ABI_LEVEL, values["P2PSAFE_VERSION_MINOR"])
        release = "%d.%d.%d" % tuple(values["P2PSAFE_VERSION_" + part] for part in ("MAJOR", "MINOR", "PATCH"))
        self.assertEqual(common.p2psafe.__version__, release)
        project = (common.PACKAGE / "pyproject.toml").read_text(encoding="utf-8")
        self.assertIn('version = "%s"' % release, project)


# C spelling (without names and const) -> what the mirror must say
C_TYPES = {
    "void": None,
    "int32_t": ctypes.c_int32,
    "int32_t *": ctypes.POINTER(ctypes.c_int32),
    "size_t": ctypes.c_size_t,
    "char *": ctypes.c_char_p,
    "char **": ctypes.POINTER(ctypes.c_void_p),
    "void *": ctypes.c_void_p,
    "p2psafe_log_fn": _abi.LogFn,
    "p2psafe_context *": ctypes.c_void_p,
    "p2psafe_context **": ctypes.POINTER(ctypes.c_void_p),
    "p2psafe_report *": ctypes.c_void_p,
    "p2psafe_report **": ctypes.POINTER(ctypes.c_void_p),
}


def c_type(declaration, named):
    words = re.sub(r"\bconst\b", " ", declaration)
    if named:
        words = re.sub(r"\b\w+\s*$", "", words)
    words = " ".join(words.replace("*", " * ").split()).replace("* *", "**")
    struct = re.match(r"struct (p2psafe_\w+) \*$", words)
    if struct:
        return ctypes.POINTER(_abi.STRUCTS[struct.group(1)])
    return C_TYPES[words]


class Prototypes(unittest.TestCase):
    def test_equal_the_header(self):
        declared = header.functions()
        self.assertEqual(set(declared), set(_abi.PROTOTYPES))
        for name, (result, parameters) in declared.items():
            restype, argtypes = _abi.PROTOTYPES[name]
            self.assertEqual(restype, c_type(result, named=False), "%s: result" % name)
            wanted = [] if parameters == "void" else [c_type(p, named=True) for p in parameters.split(",")]
            if name == "p2psafe_string_free":
                wanted = [ctypes.c_void_p]  # c_char_p would be converted and its address lost
            self.assertEqual(argtypes, wanted, "%s: parameters" % name)


if __name__ == "__main__":
    unittest.main()
