"""The C interface as ctypes sees it: structs and prototypes of p2psafe/p2psafe.h.

Everything here mirrors the header and nothing else. tests/python/test_layout.py compares every struct with what a C
compiler says and every constant with the header's text, so a difference is a failing test and never a surprise.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, List, Tuple, Type

from .constants import *  # noqa: F401,F403

#: MAJOR of the interface: a library of another major is another library.
ABI_MAJOR = 1
#: Lowest ABI level (MINOR) that offers everything this package calls.
ABI_LEVEL = 0


class Bdf(ctypes.Structure):
    _fields_ = [
        ("domain", c_uint32),
        ("bus", c_uint8),
        ("device", c_uint8),
        ("function", c_uint8),
        ("reserved", c_uint8),
    ]


class Error(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("code", c_int32),
        ("os_error", c_int32),
        ("gpu", Bdf),
        ("text", c_char * 256),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint64),
        ("deadline_ms", c_uint64),
        ("soak_ms", c_uint64),
        ("level", c_int32),
        ("reserved_0", c_int32),
        ("gpus", c_char_p),
        ("host_dir", c_char_p),
        ("cuda_library", c_char_p),
        ("helper_path", c_char_p),
        ("cache_dir", c_char_p),
        ("result_file", c_char_p),
        ("topology_file", c_char_p),
        ("placement_file", c_char_p),
    ]


class ConsumerInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("consumer", c_int32),
        ("allowed", c_int32),
        ("verdict", c_int32),
        ("failed_leg_count", c_int32),
    ]


class Setting(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("consumer", c_int32),
        ("kind", c_int32),
        ("applied", c_int32),
        ("reserved_0", c_int32),
        ("name", c_char_p),
        ("value", c_char_p),
        ("why", c_char_p),
        ("scope", c_int32),
        ("gives_permission", c_int32),
    ]


class Gpu(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("bdf", Bdf),
        ("ordinal", c_int32),
        ("is_ours", c_int32),
        ("state", c_int32),
        ("numa_node", c_int32),
        ("compute_capability_major", c_int32),
        ("compute_capability_minor", c_int32),
        ("bar1_bytes", c_uint64),
        ("memory_bytes", c_uint64),
        ("address", c_char_p),
        ("uuid", c_char_p),
        ("name", c_char_p),
        ("domain_type", c_char_p),
        ("driver", c_char_p),
        ("to_host_bytes_per_s", c_uint64),
        ("from_host_bytes_per_s", c_uint64),
        ("host_both_ways_bytes_per_s", c_uint64),
        ("all_to_one_bytes_per_s", c_uint64),
        ("one_to_all_bytes_per_s", c_uint64),
        ("host_node", c_int32),
        ("reserved_0", c_int32),
    ]


class Pair(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("src", c_int32),
        ("dst", c_int32),
        ("path", c_int32),
        ("nccl_path", c_int32),
        ("verdict", c_int32),
        ("transport", c_int32),
        ("score", c_int32),
        ("leg_count", c_int32),
        ("limit_bytes_per_s", c_uint64),
        ("ce_write_bytes_per_s", c_uint64),
        ("ce_read_bytes_per_s", c_uint64),
        ("sm_store_bytes_per_s", c_uint64),
        ("sm_load_bytes_per_s", c_uint64),
        ("both_ways_bytes_per_s", c_uint64),
        ("loaded_bytes_per_s", c_uint64),
        ("limit_loaded_bytes_per_s", c_uint64),
        ("write_issue_ns", c_uint64),
        ("load_ns", c_uint64),
        ("store_flag_ns", c_uint64),
        ("p2p_wins_from_bytes", c_uint64),
        ("efficiency", c_int32),
        ("size_count", c_int32),
    ]


class Leg(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("leg", c_int32),
        ("mapping", c_int32),
        ("initiator", c_int32),
        ("verdict", c_int32),
        ("damage", c_int32),
        ("has_detail", c_int32),
        ("bytes", c_uint64),
        ("rounds", c_uint64),
        ("error_bound_ppb", c_uint64),
        ("coverage_bytes", c_uint64),
        ("coverage_of_bytes", c_uint64),
        ("max_handle_bytes", c_uint64),
        ("offset", c_uint64),
        ("expected", c_uint64),
        ("found", c_uint64),
        ("note", c_char_p),
    ]


class Size(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
        ("p2p_bytes_per_s", c_uint64),
        ("p2p_ns", c_uint64),
        ("staged_bytes_per_s", c_uint64),
        ("staged_ns", c_uint64),
    ]


class Staged(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("a", c_int32),
        ("b", c_int32),
        ("verdict", c_int32),
        ("reserved_0", c_int32),
        ("a_to_b_bytes_per_s", c_uint64),
        ("b_to_a_bytes_per_s", c_uint64),
        ("both_ways_bytes_per_s", c_uint64),
        ("latency_ns", c_uint64),
    ]


class About(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("created_unix", c_int64),
        ("level", c_int32),
        ("deadline_hit", c_int32),
        ("iommu_state", c_int32),
        ("iommu_confidence", c_int32),
        ("cuda_version", c_int32),
        ("privileged", c_int32),
        ("kernel", c_char_p),
        ("driver_version", c_char_p),
        ("driver_flavour", c_char_p),
        ("virtualization", c_char_p),
        ("container", c_char_p),
        ("iommu_source", c_char_p),
        ("iommu_text", c_char_p),
        ("kept_path", c_char_p),
        ("kept_reason", c_char_p),
    ]


class Finding(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("severity", c_int32),
        ("confidence", c_int32),
        ("evidence_count", c_int32),
        ("reserved_0", c_int32),
        ("code", c_char_p),
        ("subject", c_char_p),
    ]


class Group(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("verdict", c_int32),
        ("transport", c_int32),
        ("score", c_int32),
        ("exact", c_int32),
    ]


class Caches(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint64),
        ("visible", c_char_p),
        ("home", c_char_p),
    ]


#: C name of every struct of the header.
STRUCTS: Dict[str, Type[ctypes.Structure]] = {
    "p2psafe_bdf": Bdf,
    "p2psafe_error": Error,
    "p2psafe_options": Options,
    "p2psafe_consumer_info": ConsumerInfo,
    "p2psafe_setting": Setting,
    "p2psafe_gpu": Gpu,
    "p2psafe_pair": Pair,
    "p2psafe_leg": Leg,
    "p2psafe_finding": Finding,
    "p2psafe_size": Size,
    "p2psafe_staged": Staged,
    "p2psafe_about": About,
    "p2psafe_caches": Caches,
    "p2psafe_group": Group,
}

#: void (*)(void *user, int32_t level, const char *line)
LogFn = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)

_CONTEXT = c_void_p
_REPORT = c_void_p
_OUT = POINTER(c_void_p)  # p2psafe_context **, p2psafe_report **, char **
_ERR = POINTER(Error)
_OPT = POINTER(Options)
_LIST = POINTER(c_int32)

#: Every function of the header: name -> (result, arguments).
PROTOTYPES: Dict[str, Tuple[Any, List[Any]]] = {
    "p2psafe_version_string": (c_char_p, []),
    "p2psafe_abi_level": (c_int32, []),
    "p2psafe_record_schema": (c_int32, []),
    "p2psafe_protocol": (c_int32, []),
    "p2psafe_has": (c_int32, [c_char_p]),
    "p2psafe_status_name": (c_char_p, [c_int32]),
    "p2psafe_verdict_name": (c_char_p, [c_int32]),
    "p2psafe_transport_name": (c_char_p, [c_int32]),
    "p2psafe_consumer_name": (c_char_p, [c_int32]),
    "p2psafe_leg_name": (c_char_p, [c_int32]),
    "p2psafe_mapping_name": (c_char_p, [c_int32]),
    "p2psafe_damage_name": (c_char_p, [c_int32]),
    "p2psafe_path_name": (c_char_p, [c_int32]),
    "p2psafe_level_name": (c_char_p, [c_int32]),
    "p2psafe_gpu_state_name": (c_char_p, [c_int32]),
    "p2psafe_iommu_name": (c_char_p, [c_int32]),
    "p2psafe_severity_name": (c_char_p, [c_int32]),
    "p2psafe_confidence_name": (c_char_p, [c_int32]),
    "p2psafe_setting_kind_name": (c_char_p, [c_int32]),
    "p2psafe_format_name": (c_char_p, [c_int32]),
    "p2psafe_scope_name": (c_char_p, [c_int32]),
    "p2psafe_consumer_from_name": (c_int32, [c_char_p]),
    "p2psafe_level_from_name": (c_int32, [c_char_p]),
    "p2psafe_format_from_name": (c_int32, [c_char_p]),
    "p2psafe_options_init": (None, [_OPT, c_size_t]),
    "p2psafe_context_new": (c_int32, [_OUT, LogFn, c_void_p, _ERR]),
    "p2psafe_context_free": (None, [_CONTEXT]),
    "p2psafe_probe": (c_int32, [_CONTEXT, _OPT, _OUT, _ERR]),
    "p2psafe_test": (c_int32, [_CONTEXT, _OPT, _OUT, _ERR]),
    "p2psafe_decide": (c_int32, [_CONTEXT, _OPT, _OUT, _ERR]),
    "p2psafe_report_free": (None, [_REPORT]),
    "p2psafe_report_allows": (c_int32, [_REPORT, c_int32]),
    "p2psafe_report_exit_code": (c_int32, [_REPORT]),
    "p2psafe_report_transport": (c_int32, [_REPORT]),
    "p2psafe_report_is_simulated": (c_int32, [_REPORT]),
    "p2psafe_report_is_kept": (c_int32, [_REPORT]),
    "p2psafe_report_consumer": (c_int32, [_REPORT, c_int32, POINTER(ConsumerInfo)]),
    "p2psafe_report_failed_leg": (c_char_p, [_REPORT, c_int32, c_int32]),
    "p2psafe_report_setting_count": (c_int32, [_REPORT]),
    "p2psafe_report_setting": (c_int32, [_REPORT, c_int32, POINTER(Setting)]),
    "p2psafe_report_gpu_count": (c_int32, [_REPORT]),
    "p2psafe_report_gpu": (c_int32, [_REPORT, c_int32, POINTER(Gpu)]),
    "p2psafe_report_pair_count": (c_int32, [_REPORT]),
    "p2psafe_report_pair": (c_int32, [_REPORT, c_int32, POINTER(Pair)]),
    "p2psafe_report_leg": (c_int32, [_REPORT, c_int32, c_int32, POINTER(Leg)]),
    "p2psafe_report_finding_count": (c_int32, [_REPORT]),
    "p2psafe_report_size": (c_int32, [_REPORT, c_int32, c_int32, POINTER(Size)]),
    "p2psafe_report_staged_count": (c_int32, [_REPORT]),
    "p2psafe_report_staged": (c_int32, [_REPORT, c_int32, POINTER(Staged)]),
    "p2psafe_report_about": (c_int32, [_REPORT, POINTER(About)]),
    "p2psafe_report_finding": (c_int32, [_REPORT, c_int32, POINTER(Finding)]),
    "p2psafe_report_evidence_source": (c_char_p, [_REPORT, c_int32, c_int32]),
    "p2psafe_report_evidence_text": (c_char_p, [_REPORT, c_int32, c_int32]),
    "p2psafe_report_group": (c_int32, [_REPORT, _LIST, c_int32, POINTER(Group)]),
    "p2psafe_report_group_allows": (c_int32, [_REPORT, _LIST, c_int32, c_int32]),
    "p2psafe_report_best_group": (c_int32, [_REPORT, c_int32, c_int32, _LIST, POINTER(Group)]),
    "p2psafe_report_island_count": (c_int32, [_REPORT]),
    "p2psafe_report_island": (c_int32, [_REPORT, c_int32, _LIST, c_int32]),
    "p2psafe_report_partition": (c_int32, [_REPORT, _LIST, c_int32]),
    "p2psafe_report_order": (c_int32, [_REPORT, c_int32, _LIST, c_int32]),
    "p2psafe_report_json": (c_int32, [_REPORT, _OUT, _ERR]),
    "p2psafe_report_env": (c_int32, [_REPORT, c_int32, _OUT, _ERR]),
    "p2psafe_merge": (c_int32, [_OUT, c_int32, _LIST, _OUT, _ERR]),
    "p2psafe_string_free": (None, [c_void_p]),
    "p2psafe_report_write_caches": (c_int32, [_REPORT, POINTER(Caches), _OUT, _ERR]),
    "p2psafe_cache_path": (c_int32, [_CONTEXT, _OPT, _OUT, _ERR]),
    "p2psafe_cache_clear": (c_int32, [_CONTEXT, _OPT, _ERR]),
    "p2psafe_cache_show": (c_int32, [_CONTEXT, _OPT, _OUT, _ERR]),
}
