"""The report as Python objects. Everything is copied out of the library's memory at once."""

from __future__ import annotations

import ctypes
import json
import weakref
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import _abi
from ._caches import Cache, write_caches
from ._library import Library, decode, encode, new_error


class Word(str):
    """A word of the report that remembers its number: ``pair.verdict == "CORRUPT"`` and ``pair.verdict.value == 3``.

    Never a closed enumeration: a number that a newer library brings reads "unknown" and keeps its value.
    """

    value: int

    def __new__(cls, text: str, value: int) -> "Word":
        word = super().__new__(cls, text)
        word.value = value
        return word

    def __reduce__(self) -> Tuple[Any, ...]:  # for copy and pickle
        return Word, (str(self), self.value)


@dataclass(frozen=True)
class Setting:
    """One setting that carries the decision to a program."""

    consumer: Word
    kind: Word  # env, unset, argument, file, yaml, advice
    name: str
    value: str
    applied: bool  # apply() and `p2psafe run` set it; otherwise a person must
    why: str
    scope: Word = Word("unknown", 0)  # job: the same on every node of a job; node: one process or machine
    gives_permission: bool = False  # only with promote


@dataclass(frozen=True)
class Consumer:
    """Permission of one program that moves bytes between GPUs."""

    consumer: Word
    allowed: Optional[bool]  # None: left as it is
    verdict: Word
    failed_legs: Tuple[str, ...]  # "src>dst leg mapping"


@dataclass(frozen=True)
class Gpu:
    """A GPU. Unknown numbers are None, unknown strings empty."""

    address: str
    uuid: str
    name: str
    ordinal: Optional[int]
    ours: bool
    state: Word
    numa_node: Optional[int]
    compute_capability: Optional[Tuple[int, int]]
    bar1_bytes: Optional[int]
    memory_bytes: Optional[int]
    domain_type: str
    driver: str
    to_host_bytes_per_s: Optional[int] = None  # measured, as the following
    from_host_bytes_per_s: Optional[int] = None
    host_both_ways_bytes_per_s: Optional[int] = None
    all_to_one_bytes_per_s: Optional[int] = None  # into this GPU while every other writes to it
    one_to_all_bytes_per_s: Optional[int] = None
    host_node: Optional[int] = None  # NUMA node of the host memory used


@dataclass(frozen=True)
class Leg:
    """One kind of transfer over one mapping, judged."""

    leg: Word
    mapping: Word
    initiator: int
    verdict: Word
    damage: Word
    bytes: int
    rounds: int
    error_bound_ppb: Optional[int]
    coverage_bytes: int
    coverage_of_bytes: int
    max_handle_bytes: int
    offset: Optional[int]
    expected: Optional[int]
    found: Optional[int]
    note: str = ""  # one short observation for people


@dataclass(frozen=True)
class Size:
    """Transfers of one size from src to dst. None: not measured."""

    bytes: int
    p2p_bytes_per_s: Optional[int]
    p2p_ns: Optional[int]
    staged_bytes_per_s: Optional[int]
    staged_ns: Optional[int]


@dataclass(frozen=True)
class Staged:
    """The path of two GPUs (indices, a < b) through pinned host memory. None: not measured."""

    a: int
    b: int
    verdict: Word
    a_to_b_bytes_per_s: Optional[int]
    b_to_a_bytes_per_s: Optional[int]
    both_ways_bytes_per_s: Optional[int]
    latency_ns: Optional[int]


@dataclass(frozen=True)
class About:
    """What the report is about and where it comes from. Unknown strings are empty."""

    created_unix: int
    level: Word
    deadline_hit: bool
    iommu_state: Word
    iommu_confidence: Word
    cuda_version: Optional[int]
    privileged: bool
    kernel: str
    driver_version: str
    driver_flavour: str
    virtualization: str
    container: str
    iommu_source: str
    iommu_text: str
    kept_path: str
    kept_reason: str


@dataclass(frozen=True)
class Pair:
    """A directed pair: src is the accessor, dst the owner of the memory. Both are indices into Report.gpus."""

    src: int
    dst: int
    path: Word
    nccl_path: Word
    verdict: Word
    transport: Word
    score: Optional[int]
    limit_bytes_per_s: Optional[int]
    ce_write_bytes_per_s: Optional[int]
    ce_read_bytes_per_s: Optional[int]
    sm_store_bytes_per_s: Optional[int]
    sm_load_bytes_per_s: Optional[int]
    legs: Tuple[Leg, ...]
    both_ways_bytes_per_s: Optional[int] = None  # docs/MEASURING.md says what each number is
    loaded_bytes_per_s: Optional[int] = None
    limit_loaded_bytes_per_s: Optional[int] = None
    write_issue_ns: Optional[int] = None
    load_ns: Optional[int] = None
    store_flag_ns: Optional[int] = None
    p2p_wins_from_bytes: Optional[int] = None
    efficiency: Optional[int] = None  # thousandths
    sizes: Tuple[Size, ...] = ()


@dataclass(frozen=True)
class Finding:
    """An observed fact that matters, with where it was read."""

    code: str
    severity: Word
    confidence: Word
    subject: str  # "host", an address, or "address>address"
    evidence: Tuple[Tuple[str, str], ...]  # (source, text)


@dataclass(frozen=True)
class Group:
    """Some of the report's GPUs, judged together."""

    gpus: Tuple[int, ...]  # indices into Report.gpus
    verdict: Word  # worst of its pairs
    transport: Word
    score: Optional[int]  # of its weakest pair
    exact: bool  # False: the search for it was cut, there may be a better one


def _known(number: int) -> Optional[int]:
    return number if number >= 0 else None


def _nonzero(number: int) -> Optional[int]:
    return number if number > 0 else None


_MAX_GPUS = 64  # of one report


def _int_array(numbers: Sequence[int]) -> Any:
    return (ctypes.c_int32 * max(len(numbers), 1))(*numbers)


class Report:
    """An immutable report. Any number of threads may read it; it is freed with the last reference."""

    def __init__(self, library: Library, handle: int) -> None:
        self._lib = library
        self._handle = ctypes.c_void_p(handle)
        self._cache: Dict[str, Any] = {}
        self._free = weakref.finalize(self, library.p2psafe_report_free, ctypes.c_void_p(handle))
        self._free.atexit = False  # as a context's: other threads may still read it

    def __repr__(self) -> str:
        allowed = [name for name, info in self.consumers.items() if info.allowed]
        return "<p2psafe.Report transport=%s allowed=[%s] exit_code=%d%s>" % (
            self.transport,
            ", ".join(allowed),
            self.exit_code,
            " SIMULATED" if self.simulated else "",
        )

    # ---- the decision ----

    def allows(self, consumer: Union[str, int]) -> bool:
        """True only if every leg that the consumer needs was proven for every pair. Unknown names are False."""
        number = self._consumer_number(consumer)
        if number == 0:
            return False
        return bool(self._lib.p2psafe_report_allows(self._handle, number) == 1)

    def _consumer_number(self, consumer: Union[str, int]) -> int:
        """0 for whatever is no consumer."""
        if isinstance(consumer, str):
            if "\0" in consumer:
                return 0  # C would see another, shorter name
            return int(self._lib.p2psafe_consumer_from_name(consumer.encode("utf-8", "replace")))
        return consumer if 0 < consumer < 2**31 else 0

    @property
    def exit_code(self) -> int:
        """What the p2psafe program exits with for this report: 0, 1 or 3."""
        return int(self._lib.p2psafe_report_exit_code(self._handle))

    @property
    def transport(self) -> Word:
        """The group's transport: NVLINK, PCIE, HOST_STAGED, NET or NONE."""
        return self._word("transport", self._lib.p2psafe_report_transport(self._handle))

    @property
    def simulated(self) -> bool:
        """True if a simulated host or driver was in force: never use such a report for a real decision."""
        return bool(self._lib.p2psafe_report_is_simulated(self._handle) != 0)

    @property
    def kept(self) -> bool:
        """True if the answer came from a kept record."""
        return bool(self._lib.p2psafe_report_is_kept(self._handle) == 1)

    @property
    def consumers(self) -> Dict[str, Consumer]:
        """Permission per consumer, by name, for every consumer that the library knows."""
        return dict(self._once("consumers", self._read_consumers))

    @property
    def settings(self) -> List[Setting]:
        """The settings that carry the decision, in the library's order."""
        return list(self._once("settings", self._read_settings))

    def env(self, format: str = "shell") -> str:
        """The settings as text: shell, docker, systemd, systemd-unit, kubernetes, nccl-conf or json."""
        return env_text(self._lib, self._handle, format)

    def write_caches(
        self,
        *,
        visible: Optional[str] = None,
        home: Optional[str] = None,
        force: bool = False,
        environment: bool = True,
        promote: bool = False,
    ) -> Tuple[Cache, ...]:
        """Makes the peer-access caches of vLLM and SGLang say what this report says.

        visible is the CUDA_VISIBLE_DEVICES of the server, home its home folder; without them this process's environment
        counts (unless environment is False). A simulated report needs home. A file that p2psafe did not write is replaced
        only with force. See docs/CACHES.md.
        """
        return write_caches(self._lib, self._handle, visible=visible, home=home, force=force, environment=environment,
                            promote=promote)

    # ---- the evidence ----

    @property
    def gpus(self) -> List[Gpu]:
        return list(self._once("gpus", self._read_gpus))

    @property
    def pairs(self) -> List[Pair]:
        return list(self._once("pairs", self._read_pairs))

    @property
    def staged(self) -> List[Staged]:
        return list(self._once("staged", self._read_staged))

    @property
    def about(self) -> About:
        """What the report is about: machine, driver, IOMMU, level, record."""
        about: About = self._once("about", self._read_about)
        return about

    @property
    def findings(self) -> List[Finding]:
        return list(self._once("findings", self._read_findings))

    # ---- groups ----

    def group(self, gpus: Iterable[int]) -> Group:
        """Judges two or more GPUs (indices into .gpus). Raises P2PSafeError for a set that is no group."""
        chosen = tuple(gpus)
        raw = _abi.Group()
        raw.size = ctypes.sizeof(raw)
        status = self._lib.p2psafe_report_group(self._handle, _int_array(chosen), len(chosen), ctypes.byref(raw))
        self._check(status, "group of GPUs %s" % (chosen,))
        return self._group(chosen, raw)

    def group_allows(self, gpus: Iterable[int], consumer: Union[str, int]) -> bool:
        """True only if the consumer's needs were proven for every pair among these GPUs. Every mistake is False."""
        chosen = tuple(gpus)
        number = self._consumer_number(consumer)
        if any(not 0 <= i < 2**31 for i in chosen):
            return False
        return bool(self._lib.p2psafe_report_group_allows(self._handle, _int_array(chosen), len(chosen), number) == 1)

    def best_group(self, count: int, consumer: Union[str, int, None] = None) -> Optional[Group]:
        """The best safe group of count GPUs, by the needs of the consumer (None: by the verdicts of the pairs). None if
        there is no such group."""
        if not 2 <= count <= _MAX_GPUS:
            return None
        number = 0
        if consumer is not None:
            number = self._consumer_number(consumer)
            if number == 0:
                return None
        members = (ctypes.c_int32 * count)()
        raw = _abi.Group()
        raw.size = ctypes.sizeof(raw)
        status = self._lib.p2psafe_report_best_group(self._handle, number, count, members, ctypes.byref(raw))
        if status in (_abi.E_RANGE, _abi.E_INVALID):
            return None
        self._check(status, "best group of %d" % count)
        return self._group(tuple(int(i) for i in members), raw)

    @property
    def islands(self) -> List[Tuple[int, ...]]:
        """The largest safe groups. They may overlap."""
        found: List[Tuple[int, ...]] = []
        room = (ctypes.c_int32 * _MAX_GPUS)()
        for i in range(self._lib.p2psafe_report_island_count(self._handle)):
            count = self._lib.p2psafe_report_island(self._handle, i, room, _MAX_GPUS)
            self._check(min(count, 0), "island %d" % i)
            found.append(tuple(int(room[k]) for k in range(count)))
        return found

    @property
    def partition(self) -> List[Tuple[int, ...]]:
        """Disjoint safe islands that hold every GPU of the group, largest first."""
        room = (ctypes.c_int32 * _MAX_GPUS)()
        count = self._lib.p2psafe_report_partition(self._handle, room, _MAX_GPUS)
        self._check(min(count, 0), "partition")
        return [tuple(i for i in range(len(self.gpus)) if room[i] == k) for k in range(count)]

    def order(self, count: int) -> Tuple[Tuple[int, ...], int]:
        """The group's GPUs so that as many groups of count as possible stand in a row, each safe, and how many these are."""
        room = (ctypes.c_int32 * _MAX_GPUS)(*([-1] * _MAX_GPUS))
        whole = self._lib.p2psafe_report_order(self._handle, count, room, _MAX_GPUS)
        self._check(min(whole, 0), "order for groups of %d" % count)
        return tuple(int(i) for i in room if i >= 0), int(whole)

    def _group(self, gpus: Tuple[int, ...], raw: _abi.Group) -> Group:
        return Group(
            gpus=gpus,
            verdict=self._word("verdict", raw.verdict),
            transport=self._word("transport", raw.transport),
            score=_known(raw.score),
            exact=raw.exact == 1,
        )

    def to_json(self) -> str:
        """The report in the documented JSON form (docs/report.schema.json)."""
        out = ctypes.c_void_p()
        err = new_error()
        status = self._lib.p2psafe_report_json(self._handle, ctypes.byref(out), ctypes.byref(err))
        if status != _abi.OK:
            raise self._lib.error(status, err)
        return self._lib.take_string(out)

    def to_dict(self) -> Dict[str, Any]:
        """The JSON form as Python objects."""
        data = json.loads(self.to_json())
        if not isinstance(data, dict):
            raise ValueError("the report's JSON is not an object")
        return data

    # ---- reading ----

    def _once(self, key: str, read: Any) -> Any:
        # Two threads may both read; they read the same.
        if key not in self._cache:
            self._cache[key] = read()
        return self._cache[key]

    def _word(self, group: str, value: int) -> Word:
        name = getattr(self._lib, "p2psafe_%s_name" % group)
        return Word(decode(name(value)), int(value))

    def _check(self, status: int, what: str) -> None:
        if status != _abi.OK:
            err = new_error()
            err.text = what.encode("ascii", "replace")[:255]
            raise self._lib.error(status, err)

    def _read_consumers(self) -> Tuple[Tuple[str, Consumer], ...]:
        found: List[Tuple[str, Consumer]] = []
        info = _abi.ConsumerInfo()
        number = 1  # consumers are numbered without gaps; the library refuses the first it does not know
        while True:
            info.size = ctypes.sizeof(info)
            status = self._lib.p2psafe_report_consumer(self._handle, number, ctypes.byref(info))
            if status == _abi.E_INVALID:
                return tuple(found)
            self._check(status, "consumer %d" % number)
            legs = [
                decode(self._lib.p2psafe_report_failed_leg(self._handle, number, i))
                for i in range(info.failed_leg_count)
            ]
            word = self._word("consumer", number)
            allowed = None if info.allowed < 0 else info.allowed == 1
            found.append((str(word), Consumer(word, allowed, self._word("verdict", info.verdict), tuple(legs))))
            number += 1

    def _read_settings(self) -> Tuple[Setting, ...]:
        found: List[Setting] = []
        raw = _abi.Setting()
        for i in range(self._lib.p2psafe_report_setting_count(self._handle)):
            raw.size = ctypes.sizeof(raw)
            self._check(self._lib.p2psafe_report_setting(self._handle, i, ctypes.byref(raw)), "setting %d" % i)
            found.append(
                Setting(
                    consumer=self._word("consumer", raw.consumer),
                    kind=self._word("setting_kind", raw.kind),
                    name=decode(raw.name),
                    value=decode(raw.value),
                    applied=raw.applied == 1,
                    why=decode(raw.why),
                    scope=self._word("scope", raw.scope),
                    gives_permission=raw.gives_permission != 0,
                )
            )
        return tuple(found)

    def _read_gpus(self) -> Tuple[Gpu, ...]:
        found: List[Gpu] = []
        raw = _abi.Gpu()
        for i in range(self._lib.p2psafe_report_gpu_count(self._handle)):
            raw.size = ctypes.sizeof(raw)
            self._check(self._lib.p2psafe_report_gpu(self._handle, i, ctypes.byref(raw)), "gpu %d" % i)
            capability = (int(raw.compute_capability_major), int(raw.compute_capability_minor))
            found.append(
                Gpu(
                    address=decode(raw.address),
                    uuid=decode(raw.uuid),
                    name=decode(raw.name),
                    ordinal=_known(raw.ordinal),
                    ours=raw.is_ours == 1,
                    state=self._word("gpu_state", raw.state),
                    numa_node=_known(raw.numa_node),
                    compute_capability=capability if capability[0] > 0 else None,
                    bar1_bytes=_nonzero(raw.bar1_bytes),
                    memory_bytes=_nonzero(raw.memory_bytes),
                    domain_type=decode(raw.domain_type),
                    driver=decode(raw.driver),
                    to_host_bytes_per_s=_nonzero(raw.to_host_bytes_per_s),
                    from_host_bytes_per_s=_nonzero(raw.from_host_bytes_per_s),
                    host_both_ways_bytes_per_s=_nonzero(raw.host_both_ways_bytes_per_s),
                    all_to_one_bytes_per_s=_nonzero(raw.all_to_one_bytes_per_s),
                    one_to_all_bytes_per_s=_nonzero(raw.one_to_all_bytes_per_s),
                    # 0 is a node, but where no speed is told the library may be older than this member
                    host_node=_known(raw.host_node) if raw.to_host_bytes_per_s or raw.from_host_bytes_per_s else None,
                )
            )
        return tuple(found)

    def _read_legs(self, pair: int, count: int) -> Tuple[Leg, ...]:
        found: List[Leg] = []
        raw = _abi.Leg()
        for i in range(count):
            raw.size = ctypes.sizeof(raw)
            self._check(
                self._lib.p2psafe_report_leg(self._handle, pair, i, ctypes.byref(raw)), "leg %d of pair %d" % (i, pair)
            )
            detail = raw.has_detail == 1
            found.append(
                Leg(
                    leg=self._word("leg", raw.leg),
                    mapping=self._word("mapping", raw.mapping),
                    initiator=int(raw.initiator),
                    verdict=self._word("verdict", raw.verdict),
                    damage=self._word("damage", raw.damage),
                    bytes=int(raw.bytes),
                    rounds=int(raw.rounds),
                    error_bound_ppb=_nonzero(raw.error_bound_ppb),
                    coverage_bytes=int(raw.coverage_bytes),
                    coverage_of_bytes=int(raw.coverage_of_bytes),
                    max_handle_bytes=int(raw.max_handle_bytes),
                    offset=int(raw.offset) if detail else None,
                    expected=int(raw.expected) if detail else None,
                    found=int(raw.found) if detail else None,
                    note=decode(raw.note),
                )
            )
        return tuple(found)

    def _read_sizes(self, pair: int, count: int) -> Tuple[Size, ...]:
        found: List[Size] = []
        raw = _abi.Size()
        for i in range(count):
            raw.size = ctypes.sizeof(raw)
            status = self._lib.p2psafe_report_size(self._handle, pair, i, ctypes.byref(raw))
            self._check(status, "size %d of pair %d" % (i, pair))
            found.append(
                Size(
                    bytes=int(raw.bytes),
                    p2p_bytes_per_s=_nonzero(raw.p2p_bytes_per_s),
                    p2p_ns=_nonzero(raw.p2p_ns),
                    staged_bytes_per_s=_nonzero(raw.staged_bytes_per_s),
                    staged_ns=_nonzero(raw.staged_ns),
                )
            )
        return tuple(found)

    def _read_staged(self) -> Tuple[Staged, ...]:
        found: List[Staged] = []
        raw = _abi.Staged()
        for i in range(self._lib.p2psafe_report_staged_count(self._handle)):
            raw.size = ctypes.sizeof(raw)
            self._check(self._lib.p2psafe_report_staged(self._handle, i, ctypes.byref(raw)), "staged %d" % i)
            found.append(
                Staged(
                    a=int(raw.a),
                    b=int(raw.b),
                    verdict=self._word("verdict", raw.verdict),
                    a_to_b_bytes_per_s=_nonzero(raw.a_to_b_bytes_per_s),
                    b_to_a_bytes_per_s=_nonzero(raw.b_to_a_bytes_per_s),
                    both_ways_bytes_per_s=_nonzero(raw.both_ways_bytes_per_s),
                    latency_ns=_nonzero(raw.latency_ns),
                )
            )
        return tuple(found)

    def _read_about(self) -> About:
        raw = _abi.About()
        raw.size = ctypes.sizeof(raw)
        self._check(self._lib.p2psafe_report_about(self._handle, ctypes.byref(raw)), "about")
        return About(
            created_unix=int(raw.created_unix),
            level=self._word("level", raw.level),
            deadline_hit=raw.deadline_hit == 1,
            iommu_state=self._word("iommu", raw.iommu_state),
            iommu_confidence=self._word("confidence", raw.iommu_confidence),
            cuda_version=_nonzero(raw.cuda_version),
            privileged=raw.privileged == 1,
            kernel=decode(raw.kernel),
            driver_version=decode(raw.driver_version),
            driver_flavour=decode(raw.driver_flavour),
            virtualization=decode(raw.virtualization),
            container=decode(raw.container),
            iommu_source=decode(raw.iommu_source),
            iommu_text=decode(raw.iommu_text),
            kept_path=decode(raw.kept_path),
            kept_reason=decode(raw.kept_reason),
        )

    def _read_pairs(self) -> Tuple[Pair, ...]:
        found: List[Pair] = []
        raw = _abi.Pair()
        for i in range(self._lib.p2psafe_report_pair_count(self._handle)):
            raw.size = ctypes.sizeof(raw)
            self._check(self._lib.p2psafe_report_pair(self._handle, i, ctypes.byref(raw)), "pair %d" % i)
            found.append(
                Pair(
                    src=int(raw.src),
                    dst=int(raw.dst),
                    path=self._word("path", raw.path),
                    nccl_path=self._word("path", raw.nccl_path),
                    verdict=self._word("verdict", raw.verdict),
                    transport=self._word("transport", raw.transport),
                    score=_known(raw.score),
                    limit_bytes_per_s=_nonzero(raw.limit_bytes_per_s),
                    ce_write_bytes_per_s=_nonzero(raw.ce_write_bytes_per_s),
                    ce_read_bytes_per_s=_nonzero(raw.ce_read_bytes_per_s),
                    sm_store_bytes_per_s=_nonzero(raw.sm_store_bytes_per_s),
                    sm_load_bytes_per_s=_nonzero(raw.sm_load_bytes_per_s),
                    legs=self._read_legs(i, raw.leg_count),
                    both_ways_bytes_per_s=_nonzero(raw.both_ways_bytes_per_s),
                    loaded_bytes_per_s=_nonzero(raw.loaded_bytes_per_s),
                    limit_loaded_bytes_per_s=_nonzero(raw.limit_loaded_bytes_per_s),
                    write_issue_ns=_nonzero(raw.write_issue_ns),
                    load_ns=_nonzero(raw.load_ns),
                    store_flag_ns=_nonzero(raw.store_flag_ns),
                    p2p_wins_from_bytes=_nonzero(raw.p2p_wins_from_bytes),
                    efficiency=_nonzero(raw.efficiency),
                    sizes=self._read_sizes(i, raw.size_count),
                )
            )
        return tuple(found)

    def _read_findings(self) -> Tuple[Finding, ...]:
        found: List[Finding] = []
        raw = _abi.Finding()
        for i in range(self._lib.p2psafe_report_finding_count(self._handle)):
            raw.size = ctypes.sizeof(raw)
            self._check(self._lib.p2psafe_report_finding(self._handle, i, ctypes.byref(raw)), "finding %d" % i)
            evidence = [
                (
                    decode(self._lib.p2psafe_report_evidence_source(self._handle, i, k)),
                    decode(self._lib.p2psafe_report_evidence_text(self._handle, i, k)),
                )
                for k in range(raw.evidence_count)
            ]
            found.append(
                Finding(
                    code=decode(raw.code),
                    severity=self._word("severity", raw.severity),
                    confidence=self._word("confidence", raw.confidence),
                    subject=decode(raw.subject),
                    evidence=tuple(evidence),
                )
            )
        return tuple(found)


def env_text(library: Library, handle: Optional[ctypes.c_void_p], format: str) -> str:
    """The settings of a report as text; without a report (None) the full veto."""
    out = ctypes.c_void_p()
    err = new_error()
    number = library.p2psafe_format_from_name(encode(format, "format"))
    status = library.p2psafe_report_env(handle, number, ctypes.byref(out), ctypes.byref(err))
    if status != _abi.OK:
        raise library.error(status, err)
    return library.take_string(out)
