"""A bare system in a folder: glibc's own files, /dev/null, /proc and nothing else. What runs in it brought everything along."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

GLIBC = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")


# A mount namespace of its own, so that nothing stays mounted. $1 is the folder, the rest a command.
ENTER = 'root=$1; shift; mount --rbind /proc "$root/proc" && exec chroot "$root" "$@"'


def possible():
    """None, or why no such system can be made here."""
    if os.geteuid() != 0:
        return "not root"
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "proc"))
        try:
            done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --rbind /proc "$1"', "sh", os.path.join(folder, "proc")],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        except OSError as exc:
            return str(exc)
    return None if done.returncode == 0 else done.stdout.decode("utf-8", "replace").strip()


def _loader(program):
    """The interpreter that an ELF program names."""
    said = subprocess.run(["readelf", "-lW", str(program)], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    return Path(re.search(r"program interpreter: ([^\]]+)\]", said).group(1))


def _libraries(program):
    said = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", said, re.MULTILINE))


class Root:
    def __init__(self, folder):
        self.folder = Path(folder)
        for name in ("dev", "tmp", "lib", "proc"):
            (self.folder / name).mkdir(parents=True)
        self.put(_loader("/bin/true"), _loader("/bin/true"))
        libc = Path(_libraries("/bin/true")["libc.so.6"])
        for name in GLIBC:
            if (libc.parent / name).is_file():
                self.put(libc.parent / name, libc.parent / name)
        os.mknod(str(self.folder / "dev" / "null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.chmod(str(self.folder / "dev" / "null"), 0o666)

    def put(self, source, target):
        """Copies a file or a folder to an absolute path in the system."""
        place = self.folder / str(target).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if Path(source).is_dir():
            shutil.copytree(str(source), str(place), symlinks=True)
        else:
            shutil.copy(str(Path(source).resolve()), str(place))

    def run(self, *command, timeout=120):
        """(exit status, output) of a command in the system, with nothing in its environment."""
        words = ["unshare", "-m", "sh", "-c", ENTER, "sh", str(self.folder), *(str(word) for word in command)]
        done = subprocess.run(words, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, stdin=subprocess.DEVNULL, check=False, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        return done.returncode, done.stdout
