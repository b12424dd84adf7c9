"""The package as pip installs it, without network: complete, typed, importable, and able to find a library it is told of."""

import importlib.util
import os
import re
import subprocess
import sys
import unittest
import unittest.mock

import common
from common import HEALTHY, LibraryTest, p2psafe
from p2psafe import __main__ as main
from p2psafe import _library


class Find(LibraryTest):
    def candidates(self, **environ):
        keep = {name: value for name, value in os.environ.items() if name != _library.VARIABLE}
        with unittest.mock.patch.dict(os.environ, dict(keep, **environ), clear=True):
            return _library.candidates()

    def test_a_named_library_is_the_only_one(self):
        self.assertEqual(self.candidates(P2PSAFE_LIBRARY="/nowhere/lib.so"), ["/nowhere/lib.so"])

    def test_without_a_name_the_loader_is_last(self):
        self.assertEqual(self.candidates()[-1], "libp2psafe.so.1")

    def test_what_is_not_the_library_is_refused(self):
        with self.assertRaises(p2psafe.LibraryError):
            p2psafe.load(self.folder / "nothing.so")
        with self.assertRaises(p2psafe.LibraryError) as caught:
            p2psafe.load(self.libc())
        self.assertIn("p2psafe_version_string", str(caught.exception))

    def libc(self):
        with open("/proc/self/maps", encoding="utf-8") as stream:
            found = re.search(r"/\S*/libc[.-]\S*", stream.read())
        self.assertIsNotNone(found)
        return found.group(0)

    def test_another_major_is_refused(self):
        with unittest.mock.patch.object(_library._abi, "ABI_MAJOR", 2):
            with self.assertRaises(p2psafe.LibraryError) as caught:
                _library.Library(common.LIBRARY)
        self.assertIn("needs 2.x", str(caught.exception))

    def test_an_older_level_is_refused(self):
        with unittest.mock.patch.object(_library._abi, "ABI_LEVEL", 4711):
            with self.assertRaises(p2psafe.LibraryError):
                _library.Library(common.LIBRARY)


class Program(LibraryTest):
    def look_from(self, *folders):
        folder = self.folder.joinpath(*folders)
        with unittest.mock.patch.object(main, "__file__", str(folder / "p2psafe" / "__main__.py")):
            return main.program()

    def make(self, *names):
        path = self.folder.joinpath(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        return path.resolve()

    def test_beside_the_library_comes_first(self):
        self.make("tree", "include", "p2psafe", "p2psafe.h")
        built = self.make("tree", "build", "bin", "p2psafe")
        self.assertEqual(self.look_from("tree", "bindings", "python"), built)
        beside = self.make("tree", "bindings", "python", "p2psafe", "bin", "p2psafe")
        self.assertEqual(self.look_from("tree", "bindings", "python"), beside)

    def test_there_may_be_none(self):
        for package in ("/p2psafe", "/no-such-folder/p2psafe", "/no-such-folder/a/p2psafe"):
            with self.subTest(package=package), unittest.mock.patch.object(main, "__file__", package + "/__main__.py"):
                with self.assertRaises(SystemExit) as caught:
                    main.program()
                self.assertEqual(str(caught.exception),
                                 "p2psafe: this installation has no program: %s/bin/p2psafe does not exist" % package)


class Pip(LibraryTest):
    def setUp(self):
        super().setUp()
        if importlib.util.find_spec("pip") is None:
            self.skipTest("pip is not installed for %s" % sys.executable)

    def environ(self, **more):
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environ.update(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INDEX="1", PIP_ROOT_USER_ACTION="ignore", **more)
        return environ

    def run_checked(self, *command, **more):
        result = subprocess.run(
            command, env=self.environ(**more), cwd=str(self.folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def test_install_without_network(self):
        target = self.folder / "site"
        self.run_checked(
            sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--target", str(target),
            str(common.PACKAGE),
        )
        shipped = {path.name for path in (common.PACKAGE / "p2psafe").iterdir() if path.suffix in (".py", ".typed")}
        shipped.add("py.typed")
        self.assertEqual({path.name for path in (target / "p2psafe").iterdir() if path.name != "__pycache__"}, shipped)
        out = self.run_checked(
            sys.executable,
            "-c",
            "import p2psafe, sys\n"
            "report = p2psafe.decide(host_dir=%r, cache_dir=%r, level='quick')\n"
            "print(p2psafe.__file__, p2psafe.version(), report.allows('nccl_p2p'), report.simulated)"
            % (str(HEALTHY), self.cache()),
            PYTHONPATH=str(target),
            P2PSAFE_LIBRARY=common.LIBRARY,
        )
        self.assertTrue(out.startswith(str(target)), out)
        self.assertTrue(out.rstrip().endswith("True True"), out)
        listed = self.run_checked(sys.executable, "-m", "pip", "list", "--path", str(target))
        self.assertIn("p2psafe", listed)

    def test_the_wheel_is_reproducible(self):
        wheels = []
        for name in ("one", "two"):
            folder = self.folder / name
            self.run_checked(
                sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder),
                str(common.PACKAGE),
            )
            wheels += [path.read_bytes() for path in folder.iterdir()]
        self.assertEqual(len(wheels), 2)
        self.assertEqual(wheels[0], wheels[1])


if __name__ == "__main__":
    unittest.main()
