"""Builds the wheel of p2psafe: pure Python files in a zip archive (PEP 517, PEP 427). Standard library only.

packaging/wheel.py of the source tree uses the same functions for the wheels that bring library and helper along.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "p2psafe"
SOURCES = ("backend.py", "pyproject.toml", "README.md")


#: (name in the archive, content, is it executed?)
Entry = Tuple[str, bytes, bool]


def field(name: str) -> str:
    """One string of the [project] table: Python 3.8 has no TOML reader."""
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as stream:
        found = re.search(r'^%s = "([^"]*)"$' % re.escape(name), stream.read(), re.MULTILINE)
    if found is None:
        raise RuntimeError("pyproject.toml has no %s" % name)
    return found.group(1)


def _package_files() -> List[str]:
    found = []
    for folder, folders, names in os.walk(os.path.join(HERE, PACKAGE)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if not name.endswith(".pyc"):
                found.append(os.path.relpath(os.path.join(folder, name), HERE))
    return found


def package_entries() -> List[Tuple[str, bytes]]:
    """The Python files."""
    entries = []
    for name in _package_files():
        with open(os.path.join(HERE, name), "rb") as stream:
            entries.append((name.replace(os.sep, "/"), stream.read()))
    return entries


def metadata(
    name: str, summary: Optional[str] = None, licence: str = "MIT", requires: Sequence[str] = (), with_readme: bool = True
) -> str:
    """METADATA of a wheel of this release."""
    head = [
        "Metadata-Version: 2.1",
        "Name: %s" % name,
        "Version: %s" % field("version"),
        "Summary: %s" % (summary or field("description")),
        "License: %s" % licence,
        "Requires-Python: %s" % field("requires-python"),
    ]
    head += ["Provides-Extra: %s" % extra for extra in re.findall(r"extra == '(\w+)'", "\n".join(requires))]
    head += ["Requires-Dist: %s" % line for line in requires]
    if not with_readme:
        return "\n".join(head) + "\n"
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as stream:
        readme = stream.read()
    return "\n".join(head + ["Description-Content-Type: text/markdown"]) + "\n\n" + readme


def wheel_file(tag: str, pure: bool) -> str:
    """WHEEL of a wheel with this tag."""
    return "Wheel-Version: 1.0\nGenerator: p2psafe\nRoot-Is-Purelib: %s\nTag: %s\n" % ("true" if pure else "false", tag)


def write_wheel(path: str, entries: Sequence[Entry], info: str) -> None:
    """Writes the archive and its RECORD."""
    record = []
    # A fixed time stamp: the same sources give the same bytes.
    stamp = (1980, 1, 1, 0, 0, 0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, executable in entries:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
            record.append("%s,sha256=%s,%d" % (name, digest, len(data)))
            _add(archive, zipfile.ZipInfo(name, stamp), data, executable)
        record.append("%s/RECORD,," % info)
        _add(archive, zipfile.ZipInfo("%s/RECORD" % info, stamp), ("\n".join(record) + "\n").encode("utf-8"), False)


def _add(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, data: bytes, executable: bool) -> None:
    entry.external_attr = (0o100755 if executable else 0o100644) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


def _info_entries() -> Tuple[str, List[Entry]]:
    info = "%s-%s.dist-info" % (field("name"), field("version"))
    return info, [
        ("%s/METADATA" % info, metadata(field("name")).encode("utf-8"), False),
        ("%s/WHEEL" % info, wheel_file("py3-none-any", True).encode("ascii"), False),
        ("%s/top_level.txt" % info, (PACKAGE + "\n").encode("ascii"), False),
    ]


def _wheel_name() -> str:
    return "%s-%s-py3-none-any.whl" % (field("name"), field("version"))


def build_wheel(
    wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None
) -> str:
    """PEP 517."""
    info, extra = _info_entries()
    entries = [(name, data, False) for name, data in package_entries()]
    write_wheel(os.path.join(wheel_directory, _wheel_name()), entries + extra, info)
    return _wheel_name()


def build_editable(
    wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None
) -> str:
    """PEP 660: a .pth file that names this folder."""
    info, extra = _info_entries()
    link: Entry = ("%s.pth" % PACKAGE, (HERE + "\n").encode("utf-8"), False)
    write_wheel(os.path.join(wheel_directory, _wheel_name()), [link] + extra, info)
    return _wheel_name()


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    """PEP 517."""
    root = "%s-%s" % (field("name"), field("version"))
    with tarfile.open(os.path.join(sdist_directory, root + ".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in list(SOURCES) + _package_files():
            archive.add(os.path.join(HERE, name), "%s/%s" % (root, name))
        data = metadata(field("name")).encode("utf-8")
        entry = tarfile.TarInfo("%s/PKG-INFO" % root)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return root + ".tar.gz"
