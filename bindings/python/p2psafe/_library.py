"""Finds, checks and loads libp2psafe.so.1."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Union

from . import _abi
from ._errors import LibraryError, P2PSafeError

SONAME = "libp2psafe.so.1"
VARIABLE = "P2PSAFE_LIBRARY"

PathLike = Union[str, "os.PathLike[str]"]


class Library:
    """A loaded library whose prototypes are set and whose version fits. Functions are attributes: lib.p2psafe_probe."""

    def __init__(self, path: str) -> None:
        try:
            cdll = ctypes.CDLL(path)
        except OSError as exc:
            raise LibraryError("cannot load %s: %s" % (path, exc)) from None
        self.path = path
        self._functions: Dict[str, Callable[..., Any]] = {}
        self._declare(cdll, ["p2psafe_version_string", "p2psafe_abi_level"])
        self._check_version()
        self._declare(cdll, list(_abi.PROTOTYPES))
        self._cdll = cdll

    def _declare(self, cdll: ctypes.CDLL, names: List[str]) -> None:
        for name in names:
            try:
                function = getattr(cdll, name)
            except AttributeError:
                raise LibraryError("%s has no function %s" % (self.path, name)) from None
            function.restype, function.argtypes = _abi.PROTOTYPES[name]
            self._functions[name] = function

    def _check_version(self) -> None:
        self.version = decode(self.p2psafe_version_string())
        self.abi_level = int(self.p2psafe_abi_level())
        if self.version.split(".", 1)[0] != str(_abi.ABI_MAJOR):
            raise LibraryError("%s is version %s; this package needs %d.x" % (self.path, self.version, _abi.ABI_MAJOR))
        if self.abi_level < _abi.ABI_LEVEL:
            raise LibraryError(
                "%s offers ABI level %d; this package needs %d" % (self.path, self.abi_level, _abi.ABI_LEVEL)
            )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        functions: Dict[str, Callable[..., Any]] = self.__dict__.get("_functions", {})
        if name not in functions:
            raise AttributeError(name)
        return functions[name]

    def take_string(self, pointer: ctypes.c_void_p) -> str:
        """Copies a string that the library gave away, and frees it."""
        try:
            return decode(ctypes.string_at(pointer.value)) if pointer.value else ""
        finally:
            self.p2psafe_string_free(pointer)

    def error(self, status: int, err: _abi.Error) -> P2PSafeError:
        """The exception for a failed call."""
        name = decode(self.p2psafe_status_name(status))
        gpu = None
        if err.gpu.domain or err.gpu.bus or err.gpu.device or err.gpu.function:
            gpu = "%04x:%02x:%02x.%x" % (err.gpu.domain, err.gpu.bus, err.gpu.device, err.gpu.function)
        return P2PSafeError(status, name, decode(err.text) or "no text", int(err.os_error), gpu)


def new_error() -> _abi.Error:
    """An error struct that says how large it is."""
    err = _abi.Error()
    err.size = ctypes.sizeof(_abi.Error)
    return err


def decode(raw: Optional[bytes]) -> str:
    """Text of a borrowed C string, copied at once. NULL is ""."""
    return raw.decode("utf-8", "replace") if raw else ""


def encode(text: Optional[PathLike], what: str) -> Optional[bytes]:
    """A C string. A NUL inside would silently name another file: refused."""
    if text is None:
        return None
    raw = os.fsencode(os.fspath(text))
    if b"\0" in raw:
        raise ValueError("%s contains a NUL character" % what)
    return raw


def candidates() -> List[str]:
    """Where the library is looked for, in order, when no path is given. The last entry is left to the loader."""
    named = os.environ.get(VARIABLE)
    if named and os.getuid() == os.geteuid() and os.getgid() == os.getegid():
        return [named]  # whoever names a library wants that one or an error, not another
    package = Path(__file__).resolve().parent
    found = [package / "lib" / SONAME]
    source = package.parents[2] if len(package.parents) > 2 else package
    if (source / "include" / "p2psafe" / "p2psafe.h").is_file():
        found.append(source / "build" / "lib" / SONAME)
    return [str(path) for path in found if path.is_file()] + [SONAME]


_lock = threading.Lock()
_loaded: Dict[str, Library] = {}


def load(path: Optional[PathLike] = None) -> Library:
    """The library at path, or the first one found. Each is loaded once per process."""
    if path is not None:
        encode(path, "library")
        names = [os.path.abspath(os.fspath(path))]
    else:
        names = candidates()
    problems: List[str] = []
    with _lock:
        for name in names:
            known = _loaded.get(name)
            if known is not None:
                return known
            try:
                library = Library(name)
            except LibraryError as exc:
                problems.append(str(exc))
                continue
            _loaded[name] = library
            return library
    raise LibraryError("no usable %s (set %s to its path): %s" % (SONAME, VARIABLE, "; ".join(problems)))
