"""Builds the wheel of p2psafe: pure Python files in a zip archive (PEP 517, PEP 427). Standard library only."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile
from typing import Any, Dict, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "p2psafe"
SOURCES = ("backend.py", "pyproject.toml", "README.md")


def _field(name: str) -> str:
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


def _metadata() -> str:
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as stream:
        readme = stream.read()
    head = [
        "Metadata-Version: 2.1",
        "Name: %s" % _field("name"),
        "Version: %s" % _field("version"),
        "Summary: %s" % _field("description"),
        "License: MIT",
        "Requires-Python: %s" % _field("requires-python"),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(head) + "\n\n" + readme


def _write_wheel(path: str, entries: List[Tuple[str, bytes]], info: str) -> None:
    record = []
    # A fixed time stamp: the same sources give the same bytes.
    stamp = (1980, 1, 1, 0, 0, 0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
            record.append("%s,sha256=%s,%d" % (name, digest, len(data)))
            _add(archive, zipfile.ZipInfo(name, stamp), data)
        record.append("%s/RECORD,," % info)
        _add(archive, zipfile.ZipInfo("%s/RECORD" % info, stamp), ("\n".join(record) + "\n").encode("utf-8"))


def _add(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, data: bytes) -> None:
    entry.external_attr = 0o100644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


def _info_entries() -> Tuple[str, List[Tuple[str, bytes]]]:
    info = "%s-%s.dist-info" % (_field("name"), _field("version"))
    wheel = "Wheel-Version: 1.0\nGenerator: p2psafe\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    return info, [
        ("%s/METADATA" % info, _metadata().encode("utf-8")),
        ("%s/WHEEL" % info, wheel.encode("ascii")),
        ("%s/top_level.txt" % info, (PACKAGE + "\n").encode("ascii")),
    ]


def _wheel_name() -> str:
    return "%s-%s-py3-none-any.whl" % (_field("name"), _field("version"))


def build_wheel(
    wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None
) -> str:
    """PEP 517."""
    info, extra = _info_entries()
    entries = []
    for name in _package_files():
        with open(os.path.join(HERE, name), "rb") as stream:
            entries.append((name.replace(os.sep, "/"), stream.read()))
    _write_wheel(os.path.join(wheel_directory, _wheel_name()), entries + extra, info)
    return _wheel_name()


def build_editable(
    wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None
) -> str:
    """PEP 660: a .pth file that names this folder."""
    info, extra = _info_entries()
    _write_wheel(
        os.path.join(wheel_directory, _wheel_name()), [("%s.pth" % PACKAGE, (HERE + "\n").encode("utf-8"))] + extra, info
    )
    return _wheel_name()


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    """PEP 517."""
    root = "%s-%s" % (_field("name"), _field("version"))
    with tarfile.open(os.path.join(sdist_directory, root + ".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in list(SOURCES) + _package_files():
            archive.add(os.path.join(HERE, name), "%s/%s" % (root, name))
        data = _metadata().encode("utf-8")
        entry = tarfile.TarInfo("%s/PKG-INFO" % root)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return root + ".tar.gz"
