"""The binary wheels: built from the installed tree, audited, installed with pip into a fresh virtual environment, and used there with
an empty environment. Then the program of the wheel runs in a root folder that holds glibc and nothing else.

usage: wheel.py --build DIR --cmake CMAKE --source DIR
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import bare
from install import BROKEN, HEALTHY, SKIPPED, Failed, run

TOOLS = ("readelf", "strip", "ldd", "patchelf")


def check(right, text):
    if not right:
        raise Failed(text)


class Test:
    def __init__(self, options, folder):
        self.options = options
        self.source = Path(options.source)
        self.folder = Path(folder)
        self.wheels = self.folder / "wheels"
        self.python = self.folder / "venv" / "bin" / "python"
        self.caches = 0

    def cache(self):
        self.caches += 1
        path = self.folder / ("cache-%d" % self.caches)
        path.mkdir(mode=0o700)
        return path

    def build(self):
        tree = self.folder / "tree"
        run([self.options.cmake, "--install", self.options.build, "--prefix", tree])
        maker = [sys.executable, "-B", self.source / "packaging" / "wheel.py", "--tree", tree, "--out", self.wheels]
        print(run(maker), end="")
        again = self.folder / "again"
        run(maker[:-1] + [again])
        names = sorted(path.name for path in self.wheels.iterdir())
        check(len(names) == 3, "wheels: %s" % names)
        for name in names:
            check((self.wheels / name).read_bytes() == (again / name).read_bytes(), "%s is not the same when made again" % name)
        shutil.rmtree(tree)  # whatever is used from now on comes out of the wheels

    def audit(self):
        """The tag is what the files allow, no lower and no higher; the licences are there, and only the helper's wheel is GPL."""
        auditwheel = shutil.which("auditwheel")
        for wheel in sorted(self.wheels.iterdir()):
            content = self.folder / "content" / wheel.name
            with zipfile.ZipFile(str(wheel)) as archive:
                archive.extractall(str(content))
                names = archive.namelist()
                modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
            said = run([sys.executable, "-B", self.source / "packaging" / "elf.py",
                        *(path for path in sorted(content.rglob("*")) if modes.get(str(path.relative_to(content))) == 0o755)])
            tag = said.splitlines()[-1]
            check(wheel.name.endswith("-%s.whl" % tag), "%s carries another tag than its files allow:\n%s" % (wheel.name, said))
            if auditwheel:
                found = run([auditwheel, "show", wheel])
                check('"%s"' % tag in re.sub(r"\s+", " ", found), "auditwheel disagrees with %s:\n%s" % (tag, found))
            metadata = next(content.glob("*.dist-info/METADATA")).read_text(encoding="utf-8")
            licence = re.search(r"^License: (.*)$", metadata, re.MULTILINE).group(1)
            bundled = {Path(name).name for name in names if Path(name).parts[-2] == "lib"}
            texts = {Path(name).name for name in names if "/licenses/" in name}
            check("LICENSE" in texts, "%s: no licence text" % wheel.name)
            if wheel.name.startswith("p2psafe_helper"):
                check(licence == "GPL-2.0-or-later" and "COPYING" in texts, "%s: licence %s" % (wheel.name, licence))
            else:
                check(licence == "MIT", "%s: licence %s" % (wheel.name, licence))
                check(not any("pci" in name or "numa" in name for name in bundled), "GPL in %s: %s" % (wheel.name, bundled))
            for name in bundled - {"libp2psafe.so.1", "libnccl-env-p2psafe.so"}:
                check("%s.copyright" % name in texts, "%s brings %s without its licence" % (wheel.name, name))
        print("the tag is what the files allow (%s); licences are complete" % ("auditwheel agrees" if auditwheel else tag))

    def pip(self, *words):
        environ = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
        return run([sys.executable, "-m", "pip", "--python", self.python, "-q", *words], environ)

    def bare_run(self, *command, wanted=0):
        """In the root folder, with nothing in the environment."""
        done = subprocess.run([str(word) for word in command], env={}, cwd="/", stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=120)
        check(done.returncode == wanted, "%s\nexit %d, wanted %d\n%s" % (command, done.returncode, wanted, done.stdout))
        return done.stdout

    def decide(self, host):
        """What the installed package says: path of its library, allowed?, findings, and every library mapped that is ours."""
        out = self.bare_run(
            self.python, "-I", "-c",
            "import json, p2psafe\n"
            "report = p2psafe.decide(host_dir=%r, cache_dir=%r, level='quick', environment=False)\n"
            "maps = open('/proc/self/maps').read().split()\n"
            "print(json.dumps([p2psafe.load().path, report.allows('nccl_p2p'), [[f.code, [e[-1] for e in f.evidence]] for f in\n"
            "report.findings], sorted({m for m in maps if 'p2psafe' in m.rsplit('/', 1)[-1] or 'jansson' in m})]))"
            % (str(host), str(self.cache())))
        return json.loads(out)

    def use(self):
        run([sys.executable, "-m", "venv", "--without-pip", self.folder / "venv"])
        self.pip("install", "--find-links", self.wheels, "p2psafe[sim]")
        site = next((self.folder / "venv").glob("lib/python*/site-packages")) / "p2psafe"
        for host, allowed in ((HEALTHY, True), (BROKEN, False)):
            path, said, findings, mapped = self.decide(host)
            check(said is allowed, "%s: allowed is %s: %s" % (host.name, said, findings))
            check(path == str(site / "lib" / "libp2psafe.so.1"), "another library was loaded: %s" % path)
            check(mapped == [str(site / "lib" / name) for name in ("libjansson.so.4", "libp2psafe.so.1")], "mapped: %s" % mapped)
        program = self.folder / "venv" / "bin" / "p2psafe"
        for word, wanted in ((HEALTHY, 0), (BROKEN, 1)):
            self.bare_run(program, "--host", word, "test", "--level", "quick", "--no-measure", "--no-cache", wanted=wanted)
        self.bare_run(self.python, "-I", "-m", "p2psafe", "--version")
        print("installed into a fresh environment: package, program and helper are found together")
        self.other_version(site)
        self.without_helper(site)
        self.in_bare_root(site)
        self.pip("uninstall", "-y", "p2psafe", "p2psafe-helper", "p2psafe-sim")
        left = [str(path) for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"] if site.exists() else []
        check(not left, "left behind by pip uninstall: %s" % left)

    def other_version(self, site):
        """A helper of another release: said, and nothing is allowed."""
        helper = site / "libexec" / "p2psafe" / "p2psafe-helper"
        whole = helper.read_bytes()
        spec = importlib.util.spec_from_file_location("p2psafe_backend", str(self.source / "bindings/python/backend.py"))
        backend = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(backend)
        # A compiler may put the text into instructions, four bytes at a time.
        mine = backend.field("version").encode("ascii")[:4]
        other = b"9" + mine[1:]
        check(mine in whole, "the helper does not contain its version")
        helper.write_bytes(whole.replace(mine, other))
        try:
            _, allowed, findings, _ = self.decide(HEALTHY)
            texts = [" ".join(texts) for code, texts in findings if code == "HELPER_MISSING"]
            check(not allowed and texts and other.decode() in texts[0], "a helper of another version: %s %s" % (allowed, findings))
        finally:
            helper.write_bytes(whole)
        print("a helper of another version: denied, HELPER_MISSING, both versions are told")

    def without_helper(self, site):
        folder = site / "libexec"
        folder.rename(site / "aside")
        try:
            _, allowed, findings, _ = self.decide(HEALTHY)
            check(not allowed and "HELPER_MISSING" in [code for code, _ in findings], "without helper: %s %s" % (allowed, findings))
        finally:
            (site / "aside").rename(folder)

    def in_bare_root(self, site):
        why = bare.possible()
        if why is None:
            try:
                root = bare.Root(self.folder / "root")
            except OSError as exc:
                why = str(exc)
        if why is not None:
            print("not run in a bare root: %s" % why)
            return
        root.put(site, "/opt/p2psafe")
        for host, wanted in ((HEALTHY, 0), (BROKEN, 1)):
            root.put(host, "/hosts/" + host.name)
            code, out = root.run("/opt/p2psafe/bin/p2psafe", "--host", "/hosts/" + host.name, "test", "--level", "quick",
                                 "--no-measure", "--no-cache")
            check(code == wanted, "in a root with glibc only: exit %d, wanted %d\n%s" % (code, wanted, out))
        print("in a root folder with glibc, /dev/null and /proc only: right on both hosts")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--source", required=True)
    options = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    missing += [name for name in ("pip", "venv") if importlib.util.find_spec(name) is None]
    if missing:
        print("skipped: not installed: %s" % ", ".join(missing))
        raise SystemExit(SKIPPED)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="p2psafe-wheel-test-") as folder:
        try:
            test = Test(options, folder)
            test.build()
            test.audit()
            test.use()
        except Failed as exc:
            raise SystemExit(str(exc))


if __name__ == "__main__":
    main()
