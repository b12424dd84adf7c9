"""p2psafe: are GPU peer-to-peer transfers on this machine safe to use?

    import p2psafe

    p2psafe.apply()                      # before torch, vLLM or anything else that loads CUDA or NCCL
    report = p2psafe.decide()            # the kept record, or one test
    if not report.allows("custom_all_reduce"):
        arguments.append("--disable-custom-all-reduce")  # Applied.unenforced lists all that no variable carries

Zero never means safe: whatever was not proven is not allowed. A bad machine is a report, not an exception;
P2PSafeError means that no report could be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from ._apply import Applied, apply
from ._caches import Cache
from ._context import Context, LogCallback, Options
from ._errors import LibraryError, P2PSafeError, TooLateError
from ._library import PathLike, load
from ._merge import merge
from ._report import About, Consumer, Finding, Gpu, Group, Leg, Pair, Report, Setting, Size, Staged, Word
from .constants import *  # noqa: F401,F403

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._context import OptionArgs

__version__ = "1.0.0"


def probe(
    options: Optional[Options] = None,
    *,
    library: Optional[PathLike] = None,
    log: Optional[LogCallback] = None,
    **overrides: "Unpack[OptionArgs]",
) -> Report:
    """Looks at the machine without opening any GPU. Every verdict is UNTESTED."""
    with Context(library, log) as context:
        return context.probe(options, **overrides)


def test(
    options: Optional[Options] = None,
    *,
    library: Optional[PathLike] = None,
    log: Optional[LogCallback] = None,
    **overrides: "Unpack[OptionArgs]",
) -> Report:
    """Runs a fresh test of every directed pair in child processes, judges, and keeps the record."""
    with Context(library, log) as context:
        return context.test(options, **overrides)


def decide(
    options: Optional[Options] = None,
    *,
    library: Optional[PathLike] = None,
    log: Optional[LogCallback] = None,
    **overrides: "Unpack[OptionArgs]",
) -> Report:
    """The kept record if it is valid for this machine, else one test, else UNTESTED. What a server calls."""
    with Context(library, log) as context:
        return context.decide(options, **overrides)


def version(library: Optional[PathLike] = None) -> str:
    """Release of the library that is loaded."""
    return load(library).version
