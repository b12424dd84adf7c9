"""Installs the build into a folder of its own and uses it as others do: pkg-config and the CMake package, C and C++, shared and
static, the program, and the whole tree moved to another place. Helper and simulator must be found from the library's own place.

usage: install.py --build DIR --cmake CMAKE --cc CC --cxx CXX [--flags "..."]
"""

import argparse
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOSTS = HERE.parent / "hosts"
HEALTHY = HOSTS / "ok-2xh200-nvlink"
BROKEN = HOSTS / "s01-founding-host"
SKIPPED = 77


class Failed(Exception):
    pass


def run(command, environ=None, wanted=0):
    """Runs a command; its output. Anything but the wanted status ends the test with everything that was printed."""
    command = [str(word) for word in command]
    result = subprocess.run(
        command,
        env=dict(os.environ, **{name: str(value) for name, value in (environ or {}).items()}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=300,
    )
    if result.returncode != wanted:
        raise Failed("%s\nexit %d, wanted %d\n%s" % (shlex.join(command), result.returncode, wanted, result.stdout))
    return result.stdout


class Tree:
    """An installed tree, wherever it lies."""

    def __init__(self, prefix):
        self.prefix = Path(prefix)
        found = sorted(self.prefix.rglob("libp2psafe.so.1"))
        if len(found) != 1:
            raise Failed("%d files libp2psafe.so.1 below %s" % (len(found), prefix))
        self.lib = found[0].parent
        self.helper = self.prefix / "libexec" / "p2psafe" / "p2psafe-helper"

    def environ(self):
        return {"LD_LIBRARY_PATH": self.lib, "PKG_CONFIG_PATH": self.lib / "pkgconfig", "CMAKE_PREFIX_PATH": self.prefix}

    def pkg_config(self, *words):
        return shlex.split(run(["pkg-config", *words, "p2psafe"], self.environ()))

    def check_complete(self):
        for path in (
            self.prefix / "include" / "p2psafe" / "p2psafe.h",
            self.lib / "libp2psafe.so",
            self.lib / "libp2psafe.a",
            self.lib / "pkgconfig" / "p2psafe.pc",
            self.prefix / "bin" / "p2psafe",
            self.helper,
            self.helper.parent / "sim" / "libcuda.so.1",
            self.helper.parent / "sim" / "libnvidia-ml.so.1",
        ):
            if not path.exists():
                raise Failed("not installed: %s" % path.relative_to(self.prefix))
        headers = sorted(str(path.relative_to(self.prefix / "include")) for path in (self.prefix / "include").rglob("*.h"))
        if headers != ["p2psafe/p2psafe.h"]:
            raise Failed("installed headers: %s" % headers)


class Test:
    def __init__(self, options, folder):
        self.options = options
        self.folder = Path(folder)
        self.caches = 0

    def cache(self):
        self.caches += 1
        path = self.folder / ("cache-%d" % self.caches)
        path.mkdir(mode=0o700)
        return path

    def use(self, tree, program, label):
        """The program must allow on the healthy host and deny on the broken one."""
        run([program, HEALTHY, self.cache(), "allowed"], tree.environ())
        run([program, BROKEN, self.cache(), "denied"], tree.environ())
        print("%s: right on both hosts" % label)

    def compile(self, tree, compiler, source, target, words):
        run([compiler, *shlex.split(self.options.flags), source, "-o", target, *words], tree.environ())
        return target

    def with_pkg_config(self, tree):
        words = tree.pkg_config("--cflags", "--libs")
        if any("jansson" in word for word in words):
            raise Failed("shared linking must not drag jansson along: %s" % words)
        shared = self.compile(tree, self.options.cc, HERE / "app.c", self.folder / "shared", ["-std=c11", *words])
        self.use(tree, shared, "C, pkg-config, shared")
        source = self.folder / "app.cpp"
        shutil.copy(HERE / "app.c", source)
        if shutil.which(self.options.cxx):
            plus = self.compile(tree, self.options.cxx, source, self.folder / "plus", ["-std=c++17", *words])
            self.use(tree, plus, "C++, pkg-config, shared")
        else:
            raise Failed("no C++ compiler: %s" % self.options.cxx)
        # The archive by name, the rest as --static says. A static program finds the helper from its own place.
        rest = [word for word in tree.pkg_config("--static", "--cflags", "--libs") if word != "-lp2psafe"]
        static = self.compile(
            tree,
            self.options.cc,
            HERE / "app.c",
            tree.prefix / "bin" / "static-app",
            ["-std=c11", tree.lib / "libp2psafe.a", *rest],
        )
        if "libp2psafe" in run(["readelf", "-dW", static]):
            raise Failed("the static program still needs the shared library")
        self.use(tree, static, "C, pkg-config, static")
        static.unlink()
        return shared

    def with_cmake(self, tree):
        build = self.folder / "consumer"
        cmake = self.options.cmake
        environ = dict(tree.environ(), CC=self.options.cc, CXX=self.options.cxx)
        flags = ["-DCMAKE_C_FLAGS=" + self.options.flags, "-DCMAKE_CXX_FLAGS=" + self.options.flags]
        run([cmake, "-S", HERE / "project", "-B", build, "-DAPP_SOURCE=%s" % (HERE / "app.c"), *flags], environ)
        run([cmake, "--build", build], environ)
        for name in ("consumer_c", "consumer_cxx"):
            self.use(tree, build / name, "CMake package, " + name)
        shutil.rmtree(build)

    def with_program(self, tree):
        program = tree.prefix / "bin" / "p2psafe"
        common = ["decide", "--level", "quick"]
        run([program, *common, "--host", HEALTHY], dict(tree.environ(), P2PSAFE_CACHE=self.cache()))
        run([program, *common, "--host", BROKEN], dict(tree.environ(), P2PSAFE_CACHE=self.cache()), wanted=1)
        # and without any hint where the library is
        bare = {"P2PSAFE_CACHE": self.cache(), "LD_LIBRARY_PATH": ""}
        run([program, *common, "--host", HEALTHY], bare)
        print("p2psafe: right on both hosts")

    def without_helper(self, tree, program):
        """Proves that the installed helper was used: without it there is none, and nothing is allowed."""
        aside = tree.helper.with_name("aside")
        tree.helper.rename(aside)
        try:
            run([program, HEALTHY, self.cache(), "denied", "HELPER_MISSING"], tree.environ())
        finally:
            aside.rename(tree.helper)
        print("without its helper: denied, HELPER_MISSING")

    def run(self):
        first = self.folder / "first"
        run([self.options.cmake, "--install", self.options.build, "--prefix", first])
        tree = Tree(first)
        tree.check_complete()
        shared = self.with_pkg_config(tree)
        self.without_helper(tree, shared)
        self.with_cmake(tree)
        self.with_program(tree)

        second = self.folder / "elsewhere" / "deeper"
        second.parent.mkdir()
        first.rename(second)
        moved = Tree(second)
        self.use(moved, shared, "moved, the program of before")
        self.without_helper(moved, shared)
        self.with_program(moved)
        self.with_cmake(moved)
        self.check_pkg_config_moved(first, moved)
        self.in_multiarch_folder(moved, shared)

    def in_multiarch_folder(self, tree, program):
        """As Debian lays it out: the library one folder deeper, the helper still in <prefix>/libexec."""
        deeper = tree.prefix / "lib" / "some-linux-gnu"
        deeper.mkdir(parents=True)
        for path in sorted(tree.lib.glob("libp2psafe.so*")):
            path.rename(deeper / path.name)
        self.use(Tree(tree.prefix), program, "library in <prefix>/lib/<architecture>")

    def check_pkg_config_moved(self, first, moved):
        words = moved.pkg_config("--cflags", "--libs")
        if str(first) + "/" in " ".join(words):
            raise Failed("p2psafe.pc still points to the old place: %s" % words)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--flags", default="")
    options = parser.parse_args()
    if shutil.which("pkg-config") is None:
        print("skipped: pkg-config is not installed")
        raise SystemExit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="p2psafe-install-") as folder:
        try:
            Test(options, folder).run()
        except Failed as exc:
            raise SystemExit(str(exc))


if __name__ == "__main__":
    main()
