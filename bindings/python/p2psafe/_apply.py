"""apply(): puts the vetoes of a report into the environment, before CUDA and NCCL read it."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Dict, Iterable, List, MutableMapping, Optional, Tuple

from . import constants
from ._caches import Cache, write_caches as write_cache_files
from ._context import Context, LogCallback, Options, make_options
from ._errors import LibraryError, P2PSafeError, TooLateError
from ._library import PathLike, load
from ._report import Report, Setting, Word, env_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._context import OptionArgs

#: Libraries that read the environment once: after they are mapped a change may no longer be seen.
_READERS = ("libcuda.so", "libnccl.so")

#: Every veto that an environment can carry, for when not even the library is there. The library's own list is used
#: whenever it can be loaded; a test holds the two together. None: the variable is removed.
FULL_VETO: Dict[str, Optional[str]] = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_WIN_ENABLE": "0",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    "VLLM_USE_NCCL_SYMM_MEM": "0",
    "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
    "LAMPORT_RS_SCONV": "0",
    "SGLANG_DISABLE_MULTIMEM_AG": "1",
    "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC": "0",
    "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "0",
    "TRTLLM_FORCE_COMM_METHOD": "ALLGATHER",
    "NVSHMEM_DISABLE_P2P": "1",
    "ENABLE_INTRA_NODE_COMM": None,
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_MNNVL_ENABLE": "0",
    "VLLM_SKIP_P2P_CHECK": "0",
    "SGLANG_SKIP_P2P_CHECK": None,
    "GGML_CUDA_P2P": None,
    "EXLLAMA_NO_P2P_COPY": "1",
    "UNSLOTH_DISABLE_DC_P2P": "1",
}


@dataclass(frozen=True)
class Applied:
    """What apply() did."""

    report: Optional[Report]  # None: no report could be made, the full veto is in force
    set: Dict[str, str]  # variables that were set
    unset: Tuple[str, ...]  # variables that must not be set; removed if they were
    unenforced: Tuple[Setting, ...]  # settings that an environment cannot carry: a person must
    skipped: Tuple[Setting, ...]  # settings that give permission: apply() never does
    error: Optional[Exception]  # why there is no report
    caches: Tuple[Cache, ...] = ()  # with write_caches: what was done to the peer-access caches of vLLM and SGLang

    @property
    def vetoed(self) -> bool:
        """True if anything was denied."""
        return bool(self.set or self.unset)


def mapped_readers(maps: str = "/proc/self/maps") -> List[str]:
    """Paths of libcuda and libnccl that are mapped in this process. Raises OSError when that cannot be known."""
    found: List[str] = []
    with open(maps, "r", encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            columns = line.rstrip("\n").split(None, 5)
            if len(columns) < 6:
                continue
            path = columns[5]
            if os.path.basename(path).startswith(_READERS) and path not in found:
                found.append(path)
    return found


def _refuse_if_late() -> None:
    try:
        mapped = mapped_readers()
    except OSError as exc:
        raise TooLateError("cannot tell whether CUDA or NCCL is already loaded: %s" % exc) from exc
    if mapped:
        raise TooLateError(
            "%s is already mapped in this process and may have read the environment; call p2psafe.apply() before "
            "anything loads CUDA or NCCL, or start the program with `p2psafe run --`" % ", ".join(mapped)
        )


# NCCL's path types, nearest first. Only those that every NCCL knows, in capitals: it ignores everything else and goes by its default.
_LEVELS = ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS")
_NUMBERED = ("LOC", "PIX", "PXB", "PHB", "SYS")
# By these somebody hands NCCL another topology, in which a level may mean other pairs. The library looked at this process's own.
_TOPOLOGY = ("NCCL_TOPO_FILE", "NCCL_CONF_FILE", "HOME")


def _level(text: str) -> int:
    """Place of NCCL's level; -1 for what NCCL ignores."""
    if text[:1].isdigit():
        text = _NUMBERED[int(text[0])] if len(text) == 1 and text <= "4" else "SYS"
    return _LEVELS.index(text) if text in _LEVELS else -1


def _is_stricter(name: str, user: Optional[str], ours: str) -> bool:
    """True if the user's own value takes away as much as the veto's, and more."""
    if not user:
        return False
    if name == "NCCL_P2P_LEVEL":
        return 0 <= _level(user) < _level(ours)
    if name == "NCCL_PROTO" and ours == "^LL128":
        inverted = user.startswith("^")
        words = [word.upper() for word in user[inverted:].split(",")]
        return all(word in ("LL", "LL128", "SIMPLE") for word in words) and ("LL128" in words) == inverted
    return False


def _full_veto(library: Optional[PathLike]) -> Tuple[Dict[str, Optional[str]], Tuple[Setting, ...]]:
    """The library's own full veto, and what of it no variable carries; ours if it cannot be asked."""
    try:
        settings = _parse_settings(env_text(load(library), None, "json"))
    except (LibraryError, P2PSafeError, ValueError, KeyError, TypeError):
        return dict(FULL_VETO), ()
    usable = [setting for setting in settings if _is_variable(setting)]
    if not usable:
        return dict(FULL_VETO), ()
    return _variables(usable), tuple(setting for setting in settings if setting not in usable)


def _word(group: str, name: str) -> Word:
    return Word(name, getattr(constants, "%s_%s" % (group, name.upper()), 0))


def _parse_settings(text: str) -> List[Setting]:
    """Settings of the json format."""
    return [
        Setting(
            consumer=_word("CONSUMER", entry["consumer"]),
            kind=_word("SETTING", entry["kind"]),
            name=entry["name"],
            value=entry["value"] or "",
            applied=entry["applied"],
            why=entry["why"] or "",
            scope=_word("SCOPE", entry.get("scope") or "unknown"),
        )
        for entry in json.loads(text)
    ]


def _is_variable(setting: Setting) -> bool:
    return setting.applied and setting.kind in ("env", "unset")


def _write_caches(report: Optional[Report], library: Optional[PathLike], home: Optional[PathLike]) -> Tuple[Cache, ...]:
    """The caches of the programs that run under this process's environment. What they do not hear is a warning, not the end."""
    folder = None if home is None else os.fspath(home)
    try:
        if report is not None:
            caches = report.write_caches(home=folder)
        else:
            caches = write_cache_files(load(library), None, home=folder)
    except (LibraryError, P2PSafeError) as exc:
        warnings.warn("the caches of frameworks are not written: %s" % exc, RuntimeWarning, stacklevel=3)
        return ()
    for cache in caches:
        if not cache.heard:
            warnings.warn("%s does not hear the answer: %s: %s" % (cache.framework, cache.path, cache.why), RuntimeWarning, stacklevel=3)
    return caches


def apply(
    report: Optional[Report] = None,
    environ: Optional[MutableMapping[str, str]] = None,
    *,
    write_caches: bool = False,
    home: Optional[PathLike] = None,
    library: Optional[PathLike] = None,
    log: Optional[LogCallback] = None,
    options: Optional[Options] = None,
    **overrides: "Unpack[OptionArgs]",
) -> Applied:
    """Decides (unless a report is given) and puts the vetoes into environ, by default os.environ.

    It only takes permission away: with everything allowed it changes nothing. A veto replaces what the user had set.
    Where no report can be made, everything is vetoed and a RuntimeWarning says why.

    With write_caches it also puts a veto of custom_all_reduce into the peer-access caches of vLLM and SGLang, under this process's
    own CUDA_VISIBLE_DEVICES and in its home (or the one that is named); a file of theirs is never replaced, which is a
    RuntimeWarning. It writes files that belong to other programs, so it is off unless asked for.

    Raises TooLateError when environ is this process's own and libcuda or libnccl is already mapped. A mapping of
    another process (a dict for subprocess, say) can be filled at any time; where its NCCL_TOPO_FILE, NCCL_CONF_FILE or HOME
    is not this process's, it gets NCCL_P2P_DISABLE=1 in place of a level.
    """
    own = environ is None or environ is os.environ
    target: MutableMapping[str, str] = os.environ if environ is None else environ
    wanted = make_options(options, overrides)
    if wanted.promote:
        raise ValueError("apply() never gives permission: promote is not for it")
    if write_caches and not own:
        raise ValueError("write_caches is for this process's own environment; see Report.write_caches(visible=, home=)")
    if home is not None and not write_caches:
        raise ValueError("home is where caches are written: it needs write_caches")
    if own:
        _refuse_if_late()

    error: Optional[Exception] = None
    if report is None:
        try:
            with Context(library, log) as context:
                report = context.decide(replace(wanted, require_marker=True))
        except (LibraryError, P2PSafeError) as exc:
            error = exc

    unenforced: Tuple[Setting, ...] = ()
    skipped: Tuple[Setting, ...] = ()
    if report is not None:
        settings = report.settings
        skipped = tuple(s for s in settings if s.gives_permission)
        usable = [s for s in settings if s not in skipped and _is_variable(s)]
        unenforced = tuple(s for s in settings if s not in skipped and s not in usable)
        variables = _variables(usable)
    else:
        variables, unenforced = _full_veto(library)

    if "NCCL_P2P_LEVEL" in variables and not own and any(target.get(name) != os.environ.get(name) for name in _TOPOLOGY):
        del variables["NCCL_P2P_LEVEL"]
        variables["NCCL_P2P_DISABLE"] = "1"
    variables = {name: value for name, value in variables.items() if not _is_stricter(name, target.get(name), value or "")}
    for name, value in variables.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = value
    if own:
        _refuse_if_late()  # another thread may have loaded CUDA while the test ran
    caches = _write_caches(report, library, home) if write_caches else ()

    if report is None:
        warnings.warn("no report could be made, every peer transfer is vetoed: %s" % error, RuntimeWarning, stacklevel=2)
    elif report.simulated:
        warnings.warn("the report is SIMULATED: it says nothing about this machine", RuntimeWarning, stacklevel=2)
    return Applied(
        report=report,
        set={name: value for name, value in variables.items() if value is not None},
        unset=tuple(name for name, value in variables.items() if value is None),
        unenforced=unenforced,
        skipped=skipped,
        error=error,
        caches=caches,
    )


def _variables(settings: Iterable[Setting]) -> Dict[str, Optional[str]]:
    """name -> value, None to remove. Several consumers may share a variable; removing wins over setting."""
    variables: Dict[str, Optional[str]] = {}
    for setting in settings:
        if setting.kind == "unset":
            variables[setting.name] = None
        else:
            variables.setdefault(setting.name, setting.value)
    return variables
