"""What this package raises."""

from __future__ import annotations

from typing import Optional


class P2PSafeError(Exception):
    """The library could not make a report. A bad machine never raises this: it is a report."""

    def __init__(self, code: int, name: str, text: str, os_error: int = 0, gpu: Optional[str] = None) -> None:
        super().__init__(code, name, text, os_error, gpu)
        #: E_* of the C interface.
        self.code = code
        #: Name of the code, for instance "E_CONFIG".
        self.name = name
        #: One line: the object, what was seen, what was expected.
        self.text = text
        #: errno value of the system call behind it, 0 if none.
        self.os_error = os_error
        #: Address of the GPU it is about, None if none.
        self.gpu = gpu

    def __str__(self) -> str:
        return "%s: %s" % (self.name, self.text)


class LibraryError(ImportError):
    """libp2psafe.so.1 was not found, or the one found does not fit this package."""


class TooLateError(RuntimeError):
    """apply() came after libcuda or libnccl was mapped: what it sets may not be read any more."""
