"""The peer-access caches of vLLM and SGLang: their own files, with our answer in them."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import Optional, Tuple

from . import _abi
from ._library import Library, encode, new_error


@dataclass(frozen=True)
class Cache:
    """What was done to the peer-access cache of one framework."""

    framework: str  # "vllm", "sglang"
    path: Optional[str]
    state: str  # written, same, removed, nothing; foreign and failed: the framework does not hear the answer
    why: str

    @property
    def heard(self) -> bool:
        return self.state not in ("foreign", "failed")


def write_caches(
    library: Library,
    handle: Optional[ctypes.c_void_p],
    *,
    visible: Optional[str] = None,
    home: Optional[str] = None,
    force: bool = False,
    environment: bool = True,
    promote: bool = False,
) -> Tuple[Cache, ...]:
    """The caches of a report; without a report (None) the veto."""
    caches = _abi.Caches()
    caches.size = ctypes.sizeof(caches)
    for wanted, bit in ((force, _abi.CACHES_FORCE), (environment, _abi.CACHES_ENVIRONMENT), (promote, _abi.CACHES_PROMOTE)):
        caches.flags |= bit if wanted else 0
    caches.visible = None if visible is None else encode(visible, "visible")
    caches.home = None if home is None else encode(home, "home")
    out = ctypes.c_void_p()
    err = new_error()
    status = library.p2psafe_report_write_caches(handle, ctypes.byref(caches), ctypes.byref(out), ctypes.byref(err))
    if status < _abi.OK:
        raise library.error(status, err)
    return tuple(Cache(**entry) for entry in json.loads(library.take_string(out)))
