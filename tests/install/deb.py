"""The Debian packages: made by CPack, split by licence, installed by dpkg into a folder of their own, and used there.

usage: deb.py --build DIR --cpack CPACK --source DIR --cc CC
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import bare
from install import HERE, SKIPPED, Failed, run

TOOLS = ("dpkg", "dpkg-deb", "dpkg-shlibdeps", "readelf", "gzip")
PACKAGES = {"libp2psafe1", "libp2psafe-dev", "p2psafe-helper", "p2psafe-tools", "p2psafe-sim", "python3-p2psafe"}
OPTIONAL = {"libnccl-env-p2psafe"}
# What lintian may say, and why that stays.
ACCEPTED = {
    "bogus-mail-host": "the address is the packager's: -DP2PSAFE_MAINTAINER",
    "bogus-mail-host-in-debian-changelog": "the same address",
    "maintscript-calls-ldconfig": "CPack writes these scripts; the effect is that of the trigger",
    "pkg-config-unavailable-for-cross-compilation": "a build for another prefix than /usr has no folder per architecture",
    "sharedobject-in-library-directory-missing-soname": "a plugin: NCCL opens it by its file's name, nothing links it",
}


def check(right, text):
    if not right:
        raise Failed(text)


class Test:
    def __init__(self, options, folder):
        self.options = options
        self.source = Path(options.source)
        self.folder = Path(folder)
        self.root = self.folder / "root"
        self.debs = {}

    def build(self):
        config = Path(self.options.build) / "CPackConfig.cmake"
        out = self.folder / "packages"
        run([self.options.cpack, "-G", "DEB", "--config", config, "-B", out])
        for path in sorted(out.glob("*.deb")):
            self.debs[self.field(path, "Package")] = path
        names = set(self.debs)
        check(PACKAGES <= names <= PACKAGES | OPTIONAL, "packages: %s" % sorted(names))
        print("made: %s" % ", ".join(sorted(names)))

    @staticmethod
    def field(path, name):
        return run(["dpkg-deb", "-f", path, name]).strip()

    def contents(self):
        """Who owns which file; who needs what; the licence of each."""
        owner = {}
        version = self.field(self.debs["libp2psafe1"], "Version")
        for name, path in self.debs.items():
            tree = self.folder / "trees" / name
            tree.mkdir(parents=True)
            run(["dpkg-deb", "-x", path, tree])
            for file in sorted(item for item in tree.rglob("*") if item.is_file() or item.is_symlink()):
                inside = str(file.relative_to(tree))
                check(inside not in owner, "%s is in %s and in %s" % (inside, owner.get(inside), name))
                owner[inside] = name
                check(file.is_symlink() or not file.stat().st_mode & 0o022, "%s: %s may be written by others" % (name, inside))
                if not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF":
                    needs = run(["readelf", "-dW", file])
                    check("RUNPATH" not in needs and "RPATH" not in needs, "%s has a run path" % inside)
                    gpl = re.findall(r"\[(lib(?:pci|numa)[^\]]*)\]", needs)
                    check(not gpl or name == "p2psafe-helper", "%s of %s needs %s" % (inside, name, gpl))
            licence = (tree / "usr/share/doc" / name / "copyright").read_text(encoding="utf-8")
            check(("License: GPL-2.0+" in licence) == (name == "p2psafe-helper"), "licence of %s" % name)
            check((tree / "usr/share/doc" / name / "changelog.gz").is_file(), "no changelog in %s" % name)
            depends = self.field(path, "Depends")
            if name != "p2psafe-helper":
                ours = {"libp2psafe-dev": "libp2psafe1", "python3-p2psafe": "libp2psafe1"}.get(name, "p2psafe-helper")
                check("%s (= %s)" % (ours, version) in depends, "%s depends on: %s" % (name, depends))
            for library, wanted in (("libpci3", {"p2psafe-helper"}), ("libnuma1", {"p2psafe-helper"})):
                check((library in depends) == (name in wanted), "%s depends on: %s" % (name, depends))
        check(not any(re.search(r"^usr/lib/(?:[^/]+/)?libcuda|libnvidia-ml", inside) and "/sim/" not in inside for inside in owner),
              "the simulated driver lies where a loader would find it")
        print("%d files, each in one package; only p2psafe-helper is GPL and needs libpci" % len(owner))

    def lintian(self):
        if shutil.which("lintian") is None:
            print("lintian is not installed")
            return
        done = subprocess.run(["lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "none", *map(str, self.debs.values())],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                              universal_newlines=True)
        left = [line for line in re.findall(r"^[EW]: .*$", done.stdout, re.MULTILINE) if line.split()[2] not in ACCEPTED]
        check(not left, "lintian:\n" + "\n".join(left))
        print("lintian: nothing but the %d accepted notes" % len(ACCEPTED))

    def install(self):
        """dpkg with a data base of its own. Dependencies outside are not there, so they are forced; ours must be met."""
        admin = self.root / "var/lib/dpkg"
        for name in ("info", "updates", "triggers"):
            (admin / name).mkdir(parents=True)
        for name in ("status", "available"):
            (admin / name).touch()
        command = ["dpkg", "--root", self.root, "--force-depends", "--force-script-chrootless", "--no-triggers", "--log=/dev/null"]
        tools = {"DPKG_MAINTSCRIPT_DEBUG": "0", "DPKG_ROOT": self.root}
        said = run([*command, "--unpack", *self.debs.values()], tools)
        for name in self.debs:
            check("Unpacking %s" % name in said, "dpkg did not unpack %s:\n%s" % (name, said))
        status = run(["dpkg-query", "--admindir", admin, "-W", "-f", "${Package} ${Status}\n"])
        check(len(re.findall(r" install ok unpacked$", status, re.MULTILINE)) == len(self.debs), status)
        print("installed by dpkg into a folder of its own")

    def use_program(self):
        """In a root folder with glibc, our packages and the libraries that they depend on."""
        why = bare.possible()
        if why is None:
            try:
                root = bare.Root(self.root)
            except OSError as exc:
                why = str(exc)
        if why is not None:
            print("not run in a root folder: %s" % why)
            return
        helper = self.root / "usr/libexec/p2psafe/p2psafe-helper"
        for line in run(["ldd", helper]).splitlines():
            found = re.match(r"\s*(\S+) => (/\S+)", line)
            if found and not (self.root / found.group(2).lstrip("/")).exists():
                root.put(found.group(2), found.group(2))
        hosts = "/usr/share/p2psafe/hosts/"
        for host, wanted in (("ok-2xh200-nvlink", 0), ("ok-8xpcie", 0), ("s01-founding-host", 1)):
            words = ["test", "--level", "quick", "--no-measure", "--no-cache"]
            code, out = root.run("/usr/bin/p2psafe", "--host", hosts + host, *words)
            check(code == wanted, "%s: exit %d, wanted %d\n%s" % (host, code, wanted, out))
        print("the program: right on the three hosts of p2psafe-sim")

    def library(self):
        return next(self.root.glob("usr/lib/**/libp2psafe.so.1"))

    def use_python(self):
        host = self.root / "usr/share/p2psafe/hosts/s01-founding-host"
        run([sys.executable, "-B", "-c",
             "import p2psafe; assert not p2psafe.decide(host_dir=%r, level='quick', environment=False).allows('nccl_p2p')\n"
             "assert p2psafe.decide(host_dir=%r, level='quick', environment=False).allows('nccl_p2p')"
             % (str(host), str(host.parent / "ok-2xh200-nvlink"))],
            {"PYTHONPATH": self.root / "usr/lib/python3/dist-packages", "P2PSAFE_LIBRARY": self.library()})
        print("the Python package: right on both hosts")

    def use_development(self):
        flags = run(["pkg-config", "--cflags", "--libs", "p2psafe"], {"PKG_CONFIG_PATH": self.library().parent / "pkgconfig"}).split()
        check(any(str(self.root) in flag for flag in flags), "p2psafe.pc does not follow its place: %s" % flags)
        program = self.folder / "app"
        run([self.options.cc, "-std=c11", HERE / "app.c", "-o", program, *flags])
        cache = self.folder / "cache"
        cache.mkdir(mode=0o700)
        hosts = self.root / "usr/share/p2psafe/hosts"
        run([program, hosts / "ok-2xh200-nvlink", cache, "allowed"], {"LD_LIBRARY_PATH": self.library().parent})
        print("libp2psafe-dev: a program is built and right")

    def unit(self):
        text = (self.root / "usr/lib/systemd/system/p2psafe.service").read_text(encoding="utf-8")
        named = re.search(r"^ExecStart=(\S+) decide", text, re.MULTILINE).group(1)
        prefix = re.search(r"^CMAKE_INSTALL_PREFIX:PATH=(.*)$", (Path(self.options.build) / "CMakeCache.txt").read_text(), re.MULTILINE)
        if prefix.group(1) == "/usr":
            check((self.root / named.lstrip("/")).is_file(), "the boot unit runs %s, which no package has" % named)
        else:
            print("not checked: the boot unit's path, since this build is for %s" % prefix.group(1))


def main():
    parser = argparse.ArgumentParser()
    for name in ("--build", "--cpack", "--source", "--cc"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print("skipped: not installed: %s" % ", ".join(missing))
        raise SystemExit(SKIPPED)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="p2psafe-deb-") as folder:
        os.chmod(folder, 0o755)
        try:
            test = Test(options, folder)
            test.build()
            test.contents()
            test.lintian()
            test.install()
            test.unit()
            test.use_python()
            test.use_development()
            test.use_program()
        except Failed as exc:
            raise SystemExit(str(exc))


if __name__ == "__main__":
    main()
