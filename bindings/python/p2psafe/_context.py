"""Calls: probe, test, decide and the kept record."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
import weakref
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, Union

from . import _abi
from ._errors import P2PSafeError
from ._library import Library, PathLike, decode, encode, load, new_error
from ._report import Report

if TYPE_CHECKING:
    from typing import TypedDict

    from typing_extensions import Unpack

    class OptionArgs(TypedDict, total=False):
        level: Union[str, int, None]
        gpus: Union[str, Sequence[Union[str, int]], None]
        deadline: Optional[float]
        soak: Optional[float]
        host_dir: Optional[PathLike]
        cuda_library: Optional[PathLike]
        helper_path: Optional[PathLike]
        cache_dir: Optional[PathLike]
        result_file: Optional[PathLike]
        topology_file: Optional[PathLike]
        placement_file: Optional[PathLike]
        environment: bool
        keep_going: bool
        no_cache: bool
        measure: bool
        promote: bool
        recheck: bool
        pass_untested: bool
        require_marker: bool
        no_retry: bool


#: log(level, line): one finished line; level is LOG_ERROR (1) to LOG_PROGRESS (5).
LogCallback = Callable[[int, str], None]

_FLAGS = {
    "keep_going": _abi.FLAG_KEEP_GOING,
    "no_cache": _abi.FLAG_NO_CACHE,
    "measure": _abi.FLAG_MEASURE,
    "promote": _abi.FLAG_PROMOTE,
    "environment": _abi.FLAG_ENVIRONMENT,
    "recheck": _abi.FLAG_RECHECK,
    "pass_untested": _abi.FLAG_PASS_UNTESTED,
    "require_marker": _abi.FLAG_REQUIRE_MARKER,
    "no_retry": _abi.FLAG_NO_RETRY,
}


@dataclass(frozen=True)
class Options:
    """What a call is asked to do. Every default is the library's, but for environment, which is on."""

    level: Union[str, int, None] = None  # quick, standard, thorough
    gpus: Union[str, Sequence[Union[str, int]], None] = None  # addresses, UUIDs or ordinals; None: all usable
    deadline: Optional[float] = None  # seconds
    soak: Optional[float] = None  # seconds, thorough only
    host_dir: Optional[PathLike] = None  # simulated host folder
    cuda_library: Optional[PathLike] = None  # libcuda to load instead of the system's; marks the report simulated
    helper_path: Optional[PathLike] = None
    cache_dir: Optional[PathLike] = None
    result_file: Optional[PathLike] = None
    topology_file: Optional[PathLike] = None
    placement_file: Optional[PathLike] = None
    environment: bool = True  # honour the variables of FLAG_ENVIRONMENT in p2psafe.h: P2PSAFE_CACHE, HOME, CUDA_VISIBLE_DEVICES, ...
    keep_going: bool = False
    no_cache: bool = False
    measure: bool = False
    promote: bool = False
    recheck: bool = False
    pass_untested: bool = False
    require_marker: bool = False
    no_retry: bool = False

    def flags(self) -> int:
        """FLAG_* bits of the C interface."""
        bits = 0
        for name, bit in _FLAGS.items():
            if getattr(self, name):
                bits |= bit
        return bits


_OPTION_NAMES = frozenset(field.name for field in fields(Options))


def make_options(options: Optional[Options], overrides: Any) -> Options:
    """options (or the defaults) with overrides on top. An unknown name is a TypeError, never ignored."""
    unknown = sorted(set(overrides) - _OPTION_NAMES)
    if unknown:
        raise TypeError("unknown option: %s" % ", ".join(unknown))
    return replace(options if options is not None else Options(), **overrides)


def _milliseconds(seconds: Optional[float], what: str) -> int:
    if seconds is None:
        return 0
    value = float(seconds) * 1000.0
    # 0 means "default" in C; a caller who asks for no time at all must not get the default.
    if not 1.0 <= value < 2.0**53:
        raise ValueError("%s must be at least 0.001 seconds" % what)
    return int(value)


def _gpu_list(gpus: Union[str, Sequence[Union[str, int]], None]) -> Optional[bytes]:
    if gpus is None:
        return None
    text = gpus if isinstance(gpus, str) else ",".join(str(gpu) for gpu in gpus)
    return encode(text, "gpus")


def raw_options(library: Library, options: Options) -> _abi.Options:
    """The C struct. Its strings are kept alive by the struct itself."""
    raw = _abi.Options()
    library.p2psafe_options_init(ctypes.byref(raw), ctypes.sizeof(raw))
    raw.flags = options.flags()
    raw.deadline_ms = _milliseconds(options.deadline, "deadline")
    raw.soak_ms = _milliseconds(options.soak, "soak")
    if isinstance(options.level, str):
        raw.level = library.p2psafe_level_from_name(encode(options.level, "level"))
        if raw.level == _abi.LEVEL_DEFAULT:
            raise ValueError("unknown level %r" % options.level)
    else:
        raw.level = options.level or _abi.LEVEL_DEFAULT
    raw.gpus = _gpu_list(options.gpus)
    for name in ("host_dir", "cuda_library", "helper_path", "cache_dir", "result_file", "topology_file", "placement_file"):
        setattr(raw, name, encode(getattr(options, name), name))
    return raw


class _Log:
    """The C side of a log callback. An exception in it must neither reach C nor change the answer."""

    def __init__(self, callback: LogCallback) -> None:
        self._callback = callback
        self._failure: Optional[BaseException] = None

    def __call__(self, user: Any, level: int, line: Optional[bytes]) -> None:
        if self._failure is not None:
            return  # it failed once in this call; it is not called again
        try:
            self._callback(int(level), decode(line))
        except BaseException as exc:  # noqa: B902 - nothing may pass through the C frames below
            self._failure = exc

    def settle(self) -> None:
        """After a call: an ordinary exception becomes a warning, an interrupt goes on its way."""
        failure, self._failure = self._failure, None
        if failure is None:
            return
        if not isinstance(failure, Exception):
            raise failure
        warnings.warn("the log callback raised %r" % failure, RuntimeWarning, stacklevel=4)


def _free_context(free: Callable[[ctypes.c_void_p], None], handle: ctypes.c_void_p, thunk: Any) -> None:
    # thunk is an argument so that the callback lives at least as long as the context that holds its address
    free(handle)


class Context:
    """A context of the library. It serves one call at a time; the module functions make one per call.

    Use it to keep one log callback, or as a context manager. Reports stay valid after close().
    """

    def __init__(self, library: Optional[PathLike] = None, log: Optional[LogCallback] = None) -> None:
        self._lib = load(library)
        self._busy = threading.Lock()
        self._log = _Log(log) if log is not None else None
        thunk = _abi.LogFn(self._log) if self._log is not None else _abi.LogFn()
        out = ctypes.c_void_p()
        err = new_error()
        status = self._lib.p2psafe_context_new(ctypes.byref(out), thunk, None, ctypes.byref(err))
        if status != _abi.OK:
            raise self._lib.error(status, err)
        self._handle = ctypes.c_void_p(out.value)
        self._owner = os.getpid()
        self._free = weakref.finalize(self, _free_context, self._lib.p2psafe_context_free, self._handle, thunk)
        # At the end of the interpreter a daemon thread may still be inside a call: the process takes the memory with it.
        self._free.atexit = False

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *args: Any) -> None:
        self.close()

    @property
    def library_path(self) -> str:
        return self._lib.path

    def close(self) -> None:
        """Frees the context. Fails with E_BUSY while another thread is inside a call."""
        if not self._free.alive:
            return
        self._enter()
        try:
            self._free()
        finally:
            self._busy.release()

    def probe(self, options: Optional[Options] = None, **overrides: "Unpack[OptionArgs]") -> Report:
        """Looks at the machine without opening any GPU. Every verdict is UNTESTED."""
        return self._report("p2psafe_probe", make_options(options, overrides))

    def test(self, options: Optional[Options] = None, **overrides: "Unpack[OptionArgs]") -> Report:
        """Runs a fresh test of every directed pair in child processes, judges, and keeps the record."""
        return self._report("p2psafe_test", make_options(options, overrides))

    def decide(self, options: Optional[Options] = None, **overrides: "Unpack[OptionArgs]") -> Report:
        """The kept record if it is valid for this machine, else one test, else UNTESTED. What a server calls."""
        return self._report("p2psafe_decide", make_options(options, overrides))

    def cache_path(self, options: Optional[Options] = None, **overrides: "Unpack[OptionArgs]") -> str:
        """Where the record is kept under these options; "" when there is no place."""
        return self._string("p2psafe_cache_path", make_options(options, overrides))

    def cache_show(self, options: Optional[Options] = None, **overrides: "Unpack[OptionArgs]") -> str:
        """The newest whole record as JSON text; "" if none."""
        return self._string("p2psafe_cache_show", make_options(options, overrides))

    def cache_clear(self, options: Optional[Options] = None, **overrides: "Unpack[OptionArgs]") -> int:
        """Removes kept records and markers; returns how many files went."""
        return self._call("p2psafe_cache_clear", make_options(options, overrides), [])

    def _enter(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise P2PSafeError(_abi.E_BUSY, "E_BUSY", "the context is already inside another call")

    def _call(self, function: str, options: Options, outs: List[Any]) -> int:
        raw = raw_options(self._lib, options)
        err = new_error()
        self._enter()
        try:
            if not self._free.alive:
                raise P2PSafeError(_abi.E_INVALID, "E_INVALID", "the context is closed")
            if os.getpid() != self._owner:
                raise P2PSafeError(_abi.E_INVALID, "E_INVALID", "the context was made before fork()")
            status = int(getattr(self._lib, function)(self._handle, ctypes.byref(raw), *outs, ctypes.byref(err)))
        finally:
            self._busy.release()
        if status < 0:
            if self._log is not None:
                self._log.settle()
            raise self._lib.error(status, err)
        return status

    def _report(self, function: str, options: Options) -> Report:
        out = ctypes.c_void_p()
        self._call(function, options, [ctypes.byref(out)])
        if not out.value:
            raise P2PSafeError(_abi.E_INTERNAL, "E_INTERNAL", "%s gave no report" % function)
        report = Report(self._lib, out.value)
        if self._log is not None:
            self._log.settle()
        return report

    def _string(self, function: str, options: Options) -> str:
        out = ctypes.c_void_p()
        self._call(function, options, [ctypes.byref(out)])
        text = self._lib.take_string(out)
        if self._log is not None:
            self._log.settle()
        return text
