"""merge(): the reports of a job's nodes become one report whose settings every rank can use."""

from __future__ import annotations

import ctypes
from typing import List, Optional, Sequence, Tuple, Union

from . import _abi
from ._library import PathLike, load, new_error
from ._report import Report


def merge(reports: Sequence[Union[str, bytes, Report, None]], *, library: Optional[PathLike] = None) -> Tuple[Report, List[int]]:
    """Joins JSON texts (or reports) of several nodes. A text that is no whole report, and None, vetoes everything.

    Returns the joined report, which has no GPUs of its own, and the exit code of each node: 0, 1 or 3, and 4 for what is no
    report.
    """
    lib = load(library)
    texts: List[Optional[bytes]] = []
    for report in reports:
        if isinstance(report, Report):
            report = report.to_json()
        if isinstance(report, str):
            report = report.encode("utf-8", "replace")
        texts.append(None if report is not None and b"\0" in report else report)
    raw = (ctypes.c_char_p * max(len(texts), 1))(*texts)
    codes = (ctypes.c_int32 * max(len(texts), 1))()
    out = ctypes.c_void_p()
    err = new_error()
    pointer = ctypes.cast(raw, ctypes.POINTER(ctypes.c_void_p))
    status = lib.p2psafe_merge(pointer, len(texts), codes, ctypes.byref(out), ctypes.byref(err))
    if status != _abi.OK or not out.value:
        raise lib.error(status, err)
    return Report(lib, out.value), [int(codes[i]) for i in range(len(texts))]
