"""Makes the binary wheels from an installed tree:

  p2psafe         MIT               the Python package, libp2psafe.so.1 and the program
  p2psafe-helper  GPL-2.0-or-later  the helper program, which links libpci
  p2psafe-sim     MIT               the simulated driver, for tests of other programs

All three fill one folder, so that the library finds its helper by the same rule as everywhere: ../libexec/p2psafe/ beside it. What
is not part of glibc is brought along with its licence. The tag is the lowest that the symbols of all files allow.

usage: wheel.py --tree PREFIX --out DIR        PREFIX: what `cmake --install BUILD --prefix PREFIX` made
Needs readelf and strip (binutils), ldd, patchelf, and on Debian and Ubuntu dpkg-query for the licences.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import elf

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PYTHON = ROOT / "bindings" / "python"

GPL_2 = Path("/usr/share/common-licenses/GPL-2")


class Part:
    """One file of ours: where it lies in the tree (a glob), in the package, and where from there its libraries are."""

    def __init__(self, glob, folder, run_path, optional=False):
        self.glob = glob
        self.folder = folder
        self.run_path = run_path
        self.optional = optional


class Spec:
    def __init__(self, name, summary, licence, requires, parts, libraries, with_python=False):
        self.name = name
        self.summary = summary
        self.licence = licence
        self.requires = requires
        self.parts = parts
        self.libraries = libraries  # folder for what is brought along
        self.with_python = with_python


SPECS = (
    Spec(
        "p2psafe",
        None,
        "MIT",
        ["p2psafe-helper == {version}", "p2psafe-sim == {version} ; extra == 'sim'"],
        [
            Part("lib*/**/libp2psafe.so.1", "lib", "$ORIGIN"),
            Part("bin/p2psafe", "bin", "$ORIGIN/../lib"),
            Part("lib*/**/libnccl-env-p2psafe.so", "lib", "$ORIGIN", optional=True),
        ],
        "lib",
        with_python=True,
    ),
    Spec(
        "p2psafe-helper",
        "The helper program of libp2psafe: tests GPU peer-to-peer transfers in processes of its own",
        "GPL-2.0-or-later",
        [],
        [Part("libexec/p2psafe/p2psafe-helper", "libexec/p2psafe", "$ORIGIN/lib")],
        "libexec/p2psafe/lib",
    ),
    Spec(
        "p2psafe-sim",
        "A simulated driver for libp2psafe: what a program does on broken and healthy machines, without a GPU",
        "MIT",
        ["p2psafe-helper == {version}"],
        [
            Part("libexec/p2psafe/sim/libcuda.so.1", "libexec/p2psafe/sim", "$ORIGIN/lib"),
            Part("libexec/p2psafe/sim/libnvidia-ml.so.1", "libexec/p2psafe/sim", "$ORIGIN/lib"),
        ],
        "libexec/p2psafe/sim/lib",
    ),
)


def backend():
    """The build backend of the Python package, which knows its files and the form of a wheel."""
    spec = importlib.util.spec_from_file_location("p2psafe_backend", str(PYTHON / "backend.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          universal_newlines=True)
    if done.returncode != 0:
        raise elf.Unfit("%s: exit %d\n%s" % (" ".join(str(word) for word in command), done.returncode, done.stdout))
    return done.stdout


def where(path):
    """name -> file of the libraries that a file would load here."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", path), re.MULTILINE))


def debian_package(path):
    """(package, version) that a system library comes from."""
    real = Path(path).resolve()
    for name in (real, Path("/" + str(real).split("/usr/", 1)[-1]) if str(real).startswith("/usr/") else real):
        done = subprocess.run(["dpkg-query", "-S", str(name)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                              universal_newlines=True)
        if done.returncode == 0:
            package = done.stdout.split(": ", 1)[0]
            return package, run("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package)
    raise elf.Unfit("%s: no package owns it, so there is no licence text to ship with it" % real)


class Builder:
    def __init__(self, tree, out, work):
        self.tree = Path(tree)
        self.out = Path(out)
        self.work = Path(work)
        self.backend = backend()
        self.version = self.backend.field("version")

    def stage(self, source, folder, stripped):
        target = self.work / folder / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(source), str(target))
        target.chmod(0o755)
        if stripped:
            run("strip", "--strip-unneeded", target)
        return target

    def own_files(self, spec):
        for part in spec.parts:
            found = sorted(path for path in self.tree.glob(part.glob) if path.is_file())
            if len(found) != 1:
                if not found and part.optional:
                    continue
                raise elf.Unfit("%d files %s below %s, expected one" % (len(found), part.glob, self.tree))
            yield part, found[0]

    def bring_along(self, spec, staged, ours):
        """Copies what the staged files need beyond glibc and this wheel; returns (file, origin, licence text)."""
        brought = {}
        waiting = list(staged)
        while waiting:
            for name in elf.needed(waiting.pop()):
                if elf.GLIBC_LIBRARIES.match(name) or name in ours or name in brought:
                    continue
                found = self.places.get(name)
                if found is None:
                    raise elf.Unfit("%s is nowhere on this system" % name)
                package, origin = debian_package(found)
                target = self.work / spec.name / "p2psafe" / spec.libraries / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(Path(found).resolve()), str(target))
                target.chmod(0o755)
                run("patchelf", "--set-rpath", "$ORIGIN", target)
                text = Path("/usr/share/doc/%s/copyright" % package.split(":")[0]).read_text(encoding="utf-8")
                brought[name] = (target, origin, text)
                waiting.append(target)
        return brought

    def licences(self, spec, brought):
        entries = [("LICENSE", (ROOT / "LICENSE").read_text(encoding="utf-8"))]
        if spec.licence.startswith("GPL-2.0"):
            entries.append(("COPYING", GPL_2.read_text(encoding="utf-8")))
        if brought:
            lines = ["Libraries of others in this wheel, built by Debian from the source package and version named:", ""]
            lines += ["%s: %s" % (name, origin) for name, (_, origin, _) in sorted(brought.items())]
            entries.append(("BUNDLED", "\n".join(lines) + "\n"))
        entries += [("%s.copyright" % name, text) for name, (_, _, text) in sorted(brought.items())]
        return entries

    def build(self, spec):
        base = self.work / spec.name
        self.places = {}
        staged = []
        for part, source in self.own_files(spec):
            self.places.update(where(source))
            target = self.stage(source, Path(spec.name) / "p2psafe" / part.folder, True)
            run("patchelf", "--set-rpath", part.run_path, target)
            staged.append(target)
        brought = self.bring_along(spec, staged, {path.name for path in staged})
        files = staged + [path for path, _, _ in brought.values()]
        tag = "py3-none-" + elf.tag(files)
        entries = [(str(path.relative_to(base)), path.read_bytes(), True) for path in sorted(files)]
        if spec.with_python:
            entries += [(name, data, False) for name, data in self.backend.package_entries()]
        info = "%s-%s.dist-info" % (spec.name.replace("-", "_"), self.version)
        entries += [
            ("%s/licenses/%s" % (info, name), text.encode("utf-8"), False) for name, text in self.licences(spec, brought)
        ]
        requires = [line.format(version=self.version) for line in spec.requires]
        metadata = self.backend.metadata(spec.name, spec.summary, spec.licence, requires, spec.with_python)
        entries.append(("%s/METADATA" % info, metadata.encode("utf-8"), False))
        entries.append(("%s/WHEEL" % info, self.backend.wheel_file(tag, False).encode("ascii"), False))
        if spec.with_python:
            points = "[console_scripts]\np2psafe = p2psafe.__main__:main\n"
            entries.append(("%s/entry_points.txt" % info, points.encode("ascii"), False))
        name = "%s-%s-%s.whl" % (spec.name.replace("-", "_"), self.version, tag)
        self.backend.write_wheel(str(self.out / name), entries, info)
        print("%s: %s, brings %s" % (name, spec.licence, ", ".join(sorted(brought)) or "nothing"))
        return self.out / name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="p2psafe-wheel-") as work:
        builder = Builder(options.tree, options.out, work)
        for spec in SPECS:
            builder.build(spec)


if __name__ == "__main__":
    try:
        main()
    except (elf.Unfit, OSError) as exc:
        raise SystemExit(str(exc))
