"""tutti.h, encode.h, plan.h, server.h, train/compress.h, train/local.h and train/adapt.h in ctypes: structs, constants, and what functions take.

A test compares all of this with the headers. Nothing here needs the library.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

Pointer = ctypes.c_void_p
Size = ctypes.c_size_t
Int = ctypes.c_int

ANY_RANK = -1
ANY_TAG = -1
NO_COLOR = -1
ID_BYTES = 128


class Status(IntEnum):
    """What a call of the library returned; errors carry one."""

    OK = 0
    IN_PROGRESS = 1
    INVALID_COMM = 2
    INVALID_BUFFER = 3
    INVALID_COUNT = 4
    INVALID_DTYPE = 5
    INVALID_OP = 6
    INVALID_ROOT = 7
    INVALID_RANK = 8
    INVALID_OPTIONS = 9
    INVALID_REQUEST = 10
    INVALID_ALGORITHM = 11
    TIMEOUT = 12
    INIT_TIMEOUT = 13
    PROC_FAILED = 14
    MISMATCH = 15
    DESYNC = 16
    ABORTED = 17
    AUTH_FAILED = 18
    VERSION = 19
    NO_MEMORY = 20
    NO_SPACE = 21
    NO_DESCRIPTORS = 22
    SYSTEM = 23
    UNSUPPORTED = 24
    INTERNAL = 25
    INVALID_TAG = 26
    TRUNCATED = 27
    UNEXPECTED_FULL = 28
    MINORITY = 29
    CORRUPT = 30
    REVOKED = 31
    EXCLUDED = 32


class Cause(IntEnum):
    """Why a rank is put out; what `cause=` of exclude() names."""

    NONE = 0
    LATE = 1
    STALLED = 2
    CORRUPT = 3
    DEVICE = 4


class Encoding(IntEnum):
    """How elements lie in fewer bytes; what `encode` and `decode` take, or its name."""

    NONE = 0
    FLOAT16 = 1
    BFLOAT16 = 2
    FP8_E4M3 = 3
    FP8_E5M2 = 4
    INT8 = 5
    INT4 = 6
    MXFP8 = 7
    MXINT8 = 8
    MXFP4 = 9


class Integrity(IntEnum):
    """Whether what ranks send each other is checked; what `integrity=` names."""

    DEFAULT = 0
    OFF = 1
    NETWORK = 2
    ON = 3


class Encryption(IntEnum):
    """Whether what goes between hosts is encrypted; what `encryption=` names."""

    DEFAULT = 0
    OFF = 1
    ON = 2


class Dtype(IntEnum):
    """What elements are; also what `dtype=` takes."""

    float32 = 0
    float64 = 1
    bfloat16 = 2
    int32 = 3
    int64 = 4
    float16 = 5
    float8_e4m3 = 6
    float8_e5m2 = 7
    int8 = 8
    int16 = 9
    uint8 = 10
    uint16 = 11
    uint32 = 12
    uint64 = 13


# The constants among the operations, by name.
OPERATIONS = {
    "sum": 1,
    "prod": 2,
    "min": 3,
    "max": 4,
    "avg": 5,
    "land": 6,
    "lor": 7,
    "lxor": 8,
    "band": 9,
    "bor": 10,
    "bxor": 11,
}

Combine = ctypes.CFUNCTYPE(None, Pointer, Pointer, Pointer, Size, Int, Pointer)
StoreSet = ctypes.CFUNCTYPE(Int, Pointer, ctypes.c_char_p, Pointer, Size)
StoreGet = ctypes.CFUNCTYPE(Int, Pointer, ctypes.c_char_p, Pointer, Size, ctypes.c_uint64)


class OpOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("name", ctypes.c_char_p),
        ("combine", Combine),
        ("context", Pointer),
        ("commutative", Int),
        ("factor", ctypes.c_double),
    ]


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * ID_BYTES)]


class Store(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("set", StoreSet),
        ("get", StoreGet),
        ("context", Pointer),
    ]


class CommOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("rank", Int),
        ("size", Int),
        ("id", Pointer),
        ("store", Pointer),
        ("timeout_ns", ctypes.c_uint64),
        ("init_timeout_ns", ctypes.c_uint64),
        ("deterministic", Int),
        ("algorithms", ctypes.c_char_p),
        ("integrity", Int),
        ("encryption", Int),
        ("encodings", ctypes.c_char_p),
    ]


class ExcludePolicy(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("window_ns", ctypes.c_uint64),
        ("late_share_max", ctypes.c_double),
        ("late_share_min", ctypes.c_double),
        ("late_windows", Int),
        ("reserved", Int),
        ("stalled_ns", ctypes.c_uint64),
        ("corrupt_count_max", ctypes.c_uint64),
    ]


class ExcludeOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("cause", Int),
        ("whole_host", Int),
        ("reason", ctypes.c_char_p),
        ("comm_options", Pointer),
    ]


class GrowOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("store", Pointer),
        ("joiner_min", Int),
        ("joiner_max", Int),
        ("wait_ns", ctypes.c_uint64),
        ("comm_options", Pointer),
    ]


class Axis(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("size", Int), ("options", Pointer)]


class Footprint(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("private_bytes", Size),
        ("shared_bytes", Size),
        ("program_count", Size),
        ("link_count", Size),
        ("descriptor_count", Size),
    ]


class Failure(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("status", Int),
        ("culprit", Int),
        ("reporter", Int),
        ("pid", Int),
        ("sequence", ctypes.c_uint64),
        ("message", ctypes.c_char * 256),
    ]


class CommCounters(ctypes.Structure):
    _fields_ = [("size_bytes", Size), ("calls", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


class TraceEntry(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("number", ctypes.c_uint64),
        ("operation", ctypes.c_char_p),
        ("algorithm", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("begin_ns", ctypes.c_uint64),
        ("end_ns", ctypes.c_uint64),
        ("peer", Int),
        ("tag", Int),
    ]


class CallOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("timeout_ns", ctypes.c_uint64),
        ("algorithm", ctypes.c_char_p),
        ("deterministic", Int),
        ("priority", Int),
        ("stream", Pointer),
        ("on_stream", Int),
        ("reserved", Int),
        ("encoding", ctypes.c_char_p),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [("data", Pointer), ("count", Size)]


class TensorList(ctypes.Structure):
    _fields_ = [("tensors", ctypes.POINTER(Tensor)), ("tensor_count", Size)]


class Message(ctypes.Structure):
    _fields_ = [("size_bytes", Size), ("source", Int), ("tag", Int), ("count", Size)]


class SparseRows(ctypes.Structure):
    _fields_ = [
        ("row_count", Size),
        ("width", Size),
        ("dtype", Int),
        ("count", Size),
        ("indices", Pointer),
        ("values", Pointer),
    ]


class SparseTable(ctypes.Structure):
    _fields_ = [("row_count", Size), ("width", Size), ("dtype", Int), ("rows", Pointer)]


class SparseOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("timeout_ns", ctypes.c_uint64),
        ("way", Int),
        ("deterministic", Int),
    ]


class SparseCounters(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("sent_rows", ctypes.c_uint64),
        ("sent_index_bytes", ctypes.c_uint64),
        ("sent_value_bytes", ctypes.c_uint64),
        ("merged_rows", ctypes.c_uint64),
        ("way", ctypes.c_uint64),
    ]


# --------------------------------------------------------------------------------------------- tutti/server.h

ServerFunction = ctypes.CFUNCTYPE(
    None,
    Pointer,
    ctypes.c_uint64,
    Size,
    Pointer,
    Pointer,
    ctypes.POINTER(Pointer),
)


class ServerOptimizer(IntEnum):
    SGD = 0
    MOMENTUM = 1
    ADAGRAD = 2
    ADAM = 3
    FUNCTION = 4


class ServerInitial(IntEnum):
    CONSTANT = 0
    UNIFORM = 1
    NORMAL = 2


class ServerMode(IntEnum):
    SYNCHRONOUS = 0
    BOUNDED = 1
    ASYNCHRONOUS = 2
    QUORUM = 3


class ServerTable(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("name", ctypes.c_char_p),
        ("row_count", Size),
        ("width", Size),
        ("optimizer", Int),
        ("initial", Int),
        ("rate", ctypes.c_double),
        ("momentum", ctypes.c_double),
        ("rate_decay", ctypes.c_double),
        ("beta1", ctypes.c_double),
        ("beta2", ctypes.c_double),
        ("epsilon", ctypes.c_double),
        ("initial_state", ctypes.c_double),
        ("weight_decay", ctypes.c_double),
        ("decoupled", Int),
        ("nesterov", Int),
        ("initial_value", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("allows_nan", Int),
        ("state_count", Int),
        ("function", ServerFunction),
        ("context", Pointer),
    ]


class ServerOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("tables", ctypes.POINTER(ServerTable)),
        ("table_count", Size),
        ("server_ranks", ctypes.POINTER(Int)),
        ("server_count", Size),
        ("worker_ranks", ctypes.POINTER(Int)),
        ("worker_count", Size),
        ("mode", Int),
        ("staleness", Int),
        ("quorum", Int),
        ("average", Int),
        ("queue_bytes", Size),
        ("timeout_ns", ctypes.c_uint64),
        ("load_folder", ctypes.c_char_p),
        ("serve_timeout_ns", ctypes.c_uint64),
        ("backups", Int),
        ("spares", Int),
        ("joiner_max", Int),
        ("reserved", Int),
    ]


class ServerChange(ctypes.Structure):
    _fields_ = [("size_bytes", Size), ("mode", Int), ("staleness", Int), ("quorum", Int), ("reserved", Int)]


class ServerPart(ctypes.Structure):
    _fields_ = [("table", Size), ("rows", Pointer), ("row_count", Size), ("values", Pointer)]


class ServerCallOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("timeout_ns", ctypes.c_uint64),
        ("priority", Int),
        ("encoding", Int),
    ]


class ServerStep(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("number", ctypes.c_uint64),
        ("worker_count", ctypes.c_uint64),
        ("member_count", ctypes.c_uint64),
    ]


class ServerCounters(ctypes.Structure):
    _fields_ = [("size_bytes", Size)] + [
        (name, ctypes.c_uint64)
        for name in (
            "clock",
            "pushes",
            "pulls",
            "bytes",
            "steps",
            "duplicates",
            "refused",
            "workers",
            "parts_alone",
            "joined",
            "changes",
        )
    ]


# What operations take before their options, communicator and result; each has the forms tutti_X,
# tutti_X_with, tutti_X_start and tutti_X_prepare.
OPERATION_ARGUMENTS = {
    "allreduce": (Pointer, Pointer, Size, Int, Pointer),
    "reduce": (Pointer, Pointer, Size, Int, Pointer, Int),
    "broadcast": (Pointer, Pointer, Size, Int, Int),
    "gather": (Pointer, Pointer, Size, Int, Int),
    "scatter": (Pointer, Pointer, Size, Int, Int),
    "allgather": (Pointer, Pointer, Size, Int),
    "reduce_scatter": (Pointer, Pointer, Size, Int, Pointer),
    "alltoall": (Pointer, Pointer, Size, Int),
    "barrier": (),
    "gatherv": (Pointer, Size, Pointer, Pointer, Pointer, Int, Int),
    "scatterv": (Pointer, Pointer, Pointer, Pointer, Size, Int, Int),
    "allgatherv": (Pointer, Pointer, Pointer, Pointer, Int),
    "reduce_scatterv": (Pointer, Pointer, Pointer, Int, Pointer),
    "alltoallv": (Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Int),
    "allreduce_list": (Pointer, Pointer, Int, Pointer),
    "reduce_list": (Pointer, Pointer, Int, Pointer, Int),
    "broadcast_list": (Pointer, Pointer, Int, Int),
    "gather_list": (Pointer, Pointer, Int, Int),
    "scatter_list": (Pointer, Pointer, Int, Int),
    "allgather_list": (Pointer, Pointer, Int),
    "reduce_scatter_list": (Pointer, Pointer, Int, Pointer),
    "alltoall_list": (Pointer, Pointer, Int),
    "send": (Pointer, Size, Int, Int, Int),
    "recv": (Pointer, Size, Int, Int, Int, Pointer),
}
FORM_ARGUMENTS = {
    "": (Pointer,),
    "_with": (Pointer, Pointer),
    "_start": (Pointer, Pointer, Pointer),
    "_prepare": (Pointer, Pointer, Pointer),
}

# What every other function gives and takes.
FUNCTIONS = {
    "version": (Int, ()),
    "version_text": (ctypes.c_char_p, ()),
    "status_name": (ctypes.c_char_p, (Int,)),
    "status_text": (ctypes.c_char_p, (Int,)),
    "error_message": (ctypes.c_char_p, ()),
    "op_create": (Int, (Pointer, Pointer)),
    "op_free": (Int, (Pointer,)),
    "dtype_size": (Size, (Int,)),
    "dtype_name": (ctypes.c_char_p, (Int,)),
    "op_name": (ctypes.c_char_p, (Pointer,)),
    "id_create": (Int, (Pointer,)),
    "launcher": (ctypes.c_char_p, (Pointer, Pointer)),
    "comm_create": (Int, (Pointer, Pointer)),
    "comm_free": (Int, (Pointer,)),
    "comm_abort": (Int, (Pointer, ctypes.c_char_p)),
    "comm_revoke": (Int, (Pointer,)),
    "comm_revoke_because": (Int, (Pointer, ctypes.c_char_p)),
    "comm_agree": (Int, (Pointer, Pointer)),
    "comm_shrink": (Int, (Pointer, Pointer, Pointer)),
    "comm_exclude": (Int, (Pointer, Pointer, Int, Pointer, Pointer)),
    "comm_grow": (Int, (Pointer, Pointer, Pointer)),
    "comm_replace": (Int, (Pointer, Pointer, Pointer)),
    "comm_join": (Int, (Pointer, Pointer)),
    "comm_rank": (Int, (Pointer,)),
    "comm_size": (Int, (Pointer,)),
    "comm_overlaps": (Int, (Pointer,)),
    "comm_split": (Int, (Pointer, Int, Int, Pointer, Pointer)),
    "comm_dup": (Int, (Pointer, Pointer, Pointer)),
    "comm_group": (Int, (Pointer, Pointer, Int, Pointer, Pointer)),
    "mesh_create": (Int, (Pointer, Pointer, Int, Pointer)),
    "mesh_free": (Int, (Pointer,)),
    "mesh_axis": (Pointer, (Pointer, ctypes.c_char_p)),
    "comm_footprint": (Int, (Pointer, Pointer)),
    "comm_explain": (Int, (Pointer, ctypes.c_char_p, Size, Int, Pointer, Size)),
    "comm_failure": (Int, (Pointer, Pointer)),
    "comm_count": (Int, (Pointer, ctypes.c_char_p, Pointer)),
    "trace_dump": (Int, (Pointer, ctypes.c_char_p)),
    "trace_read": (Int, (Pointer, Int, ctypes.c_uint64, Pointer)),
    "wait": (Int, (Pointer,)),
    "cancel": (Int, (Pointer,)),
    "test": (Int, (Pointer,)),
    "notify": (Int, (Pointer, Int)),
    "start": (Int, (Pointer, Pointer)),
    "prepared_free": (Int, (Pointer,)),
    "group_begin": (Int, ()),
    "group_end": (Int, ()),
    "mem_alloc": (Int, (Size, Pointer)),
    "mem_free": (Int, (Pointer,)),
    "mem_register": (Int, (Pointer, Size)),
    "mem_unregister": (Int, (Pointer,)),
    # encode.h
    "encoding_name": (ctypes.c_char_p, (Int,)),
    "encoding_find": (Int, (ctypes.c_char_p, Pointer)),
    "encoded_size": (Int, (Int, Int, Size, Pointer)),
    "encode": (Int, (Int, Int, Pointer, Size, Pointer)),
    "decode": (Int, (Int, Int, Pointer, Size, Pointer)),
    "encode_residual": (Int, (Int, Int, Pointer, Size, Pointer, Pointer)),
    # plan.h
    "plan_create": (Int, (ctypes.c_char_p, Int, Int, Int, Pointer)),
    "plan_scratch": (Int, (Pointer, Int, ctypes.c_uint32)),
    "plan_step": (Int, (Pointer, Int, Int, ctypes.c_char_p)),
    "plan_parse": (Int, (ctypes.c_char_p, Size, Pointer)),
    "plan_load": (Int, (ctypes.c_char_p, Pointer)),
    "plan_free": (Int, (Pointer,)),
    "plan_verify": (Int, (Pointer,)),
    "plan_text": (Int, (Pointer, Pointer, Size, Pointer)),
    "plan_cost": (Int, (Pointer, Pointer, Size, Int, Pointer)),
    "plan_register": (Int, (Pointer, Pointer, ctypes.c_char_p)),
    # sparse.h
    "sparse_allreduce": (Int, (Pointer, Pointer, Pointer, Pointer, Pointer)),
    "sparse_push": (Int, (Pointer, Pointer, Pointer, Pointer, Pointer)),
    "sparse_pull": (Int, (Pointer, Pointer, Size, Pointer, Pointer, Pointer)),
    "sparse_range": (Int, (Size, Int, Int, Pointer, Pointer)),
    "sparse_view": (Int, (Pointer, Pointer)),
    "sparse_free": (Int, (Pointer,)),
    "sparse_count": (Int, (Pointer, Pointer)),
    "sparse_explain": (Int, (Pointer, Pointer, Size)),
    # server.h
    "server_create": (Int, (Pointer, Pointer, Pointer)),
    "server_admit": (Int, (Pointer, Pointer)),
    "server_join": (Int, (Pointer, Pointer, Pointer)),
    "server_rank": (Int, (Pointer,)),
    "server_save": (Int, (Pointer, ctypes.c_char_p)),
    "server_serve": (Int, (Pointer,)),
    "server_serve_for": (Int, (Pointer, ctypes.c_uint64)),
    "server_free": (Int, (Pointer,)),
    "server_push": (Int, (Pointer, Pointer, Size, Pointer)),
    "server_set": (Int, (Pointer, Pointer, Size, Pointer)),
    "server_pull": (Int, (Pointer, Pointer, Size, Pointer)),
    "server_tick": (Int, (Pointer, Pointer)),
    "server_push_pull": (Int, (Pointer, Pointer, Size, Pointer, Size, Pointer)),
    "server_push_start": (Int, (Pointer, Pointer, Size, Pointer, Pointer)),
    "server_set_start": (Int, (Pointer, Pointer, Size, Pointer, Pointer)),
    "server_pull_start": (Int, (Pointer, Pointer, Size, Pointer, Pointer)),
    "server_tick_start": (Int, (Pointer, Pointer, Pointer)),
    "server_wait": (Int, (Pointer,)),
    "server_test": (Int, (Pointer,)),
    "server_step_read": (Int, (Pointer, ctypes.c_uint64, Pointer, Size, Pointer)),
    "server_change_mode": (Int, (Pointer, Pointer, Pointer)),
    "server_count": (Int, (Pointer, Pointer)),
}
for _name, _arguments in OPERATION_ARGUMENTS.items():
    for _form, _more in FORM_ARGUMENTS.items():
        FUNCTIONS[_name + _form] = (Int, _arguments + _more)


# --------------------------------------------------------------------------------------------- tutti/train/compress.h


class CompressTensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", Pointer), ("rows", Size), ("columns", Size)]


class CompressorOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("method", Int),
        ("encoding", Int),
        ("rank", Int),
        ("warm_start", Int),
        ("share", ctypes.c_double),
        ("ratio_min", ctypes.c_double),
        ("feedback", Int),
        ("priority", Int),
        ("seed", ctypes.c_uint64),
        ("bucket_bytes", Size),
        ("first_bucket_bytes", Size),
        ("start", Int),
        ("reserved", Int),
    ]


class CompressorResult(ctypes.Structure):
    _fields_ = [("not_finite", Size)]


class CompressorCounters(ctypes.Structure):
    _fields_ = [("size_bytes", Size)] + [
        (name, ctypes.c_uint64)
        for name in (
            "tensors",
            "compressed",
            "buckets",
            "gradient_bytes",
            "payload_bytes",
            "state_bytes",
            "steps",
        )
    ]


class CheckpointTensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", Int),
        ("dims", Int),
        ("shape", Size * 8),
        ("first", Size * 8),
        ("extent", Size * 8),
        ("begin", Size),
        ("count", Size),
        ("data", Pointer),
    ]


class ElasticArray(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", Int),
        ("dtype", Int),
        ("count", Size),
        ("data", Pointer),
    ]


class ElasticOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("comm_options", Pointer),
        ("store", Pointer),
        ("joins", Int),
        ("size_min", Int),
        ("update", Int),
        ("partner", Int),
        ("partner_distance", Int),
        ("replace_wait_ns", ctypes.c_uint64),
        ("grow_every_ns", ctypes.c_uint64),
        ("grow_wait_ns", ctypes.c_uint64),
        ("join_wait_ns", ctypes.c_uint64),
        ("step_count", ctypes.c_uint64),
        ("batch", ctypes.c_uint64),
        ("sample_count", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("checkpoint_folder", ctypes.c_char_p),
        ("checkpoint_every_ns", ctypes.c_uint64),
        ("mttf_ns", ctypes.c_uint64),
        ("attempt_max", Int),
        ("reserved", Int),
        ("exclude_policy", Pointer),
    ]


class ElasticPart(ctypes.Structure):
    _fields_ = [("first", Size), ("count", Size), ("data", Pointer)]


class ElasticStep(ctypes.Structure):
    _fields_ = (
        [("size_bytes", Size)]
        + [
            (name, ctypes.c_uint64)
            for name in (
                "number",
                "epoch",
                "first",
                "count",
                "batch_first",
                "batch_count",
                "generation",
            )
        ]
        + [(name, Int) for name in ("rank", "size", "attempt", "is_over")]
    )


class ElasticCounters(ctypes.Structure):
    _fields_ = [("size_bytes", Size)] + [
        (name, ctypes.c_uint64)
        for name in (
            "steps",
            "samples",
            "repeated",
            "undone",
            "failures",
            "replaced",
            "teams",
            "checkpoints",
            "elapsed_ns",
            "productive_ns",
            "checkpoint_ns",
            "write_ns",
            "interval_ns",
            "outage_ns",
            "outage_max_ns",
            "received_bytes",
        )
    ]


class ElasticCosts(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_double)
        for name in ("nodes", "failure_rate", "restart_s", "write_s", "interval_s")
    ]


TRAIN_FUNCTIONS = {
    "compressor_create": (Int, (Pointer, Size, Pointer, Pointer, Pointer)),
    "compressor_free": (Int, (Pointer,)),
    "compressor_ready": (Int, (Pointer, Size)),
    "compressor_finish": (Int, (Pointer, Pointer)),
    "compressor_take": (Int, (Pointer, Pointer)),
    "compressor_parts": (Int, (Pointer, Pointer, Size, Pointer)),
    "compressor_load": (Int, (Pointer, Pointer, ctypes.c_uint64)),
    "compressor_count": (Int, (Pointer, Pointer)),
    "local_create": (Int, (Pointer, Size, Pointer, Pointer, Pointer)),
    "local_free": (Int, (Pointer,)),
    "local_step": (Int, (Pointer, Pointer)),
    "local_synchronise": (Int, (Pointer, Pointer)),
    "local_change": (Int, (Pointer, Pointer)),
    "local_values": (Int, (Pointer, Size, Pointer)),
    "local_take": (Int, (Pointer, Pointer)),
    "local_parts": (Int, (Pointer, Pointer, Size, Pointer)),
    "local_load": (Int, (Pointer, Pointer, ctypes.c_uint64)),
    "local_count": (Int, (Pointer, Pointer)),
    "noise_add": (Int, (Pointer,) + (ctypes.c_double,) * 4),
    "noise_scale": (ctypes.c_double, (Pointer,)),
    "adapt_create": (Int, (Pointer, Size, Pointer, Pointer, Pointer, Pointer)),
    "adapt_free": (Int, (Pointer,)),
    "adapt_observe": (Int, (Pointer, Pointer, Pointer)),
    "adapt_current": (Pointer, (Pointer,)),
    "adapt_noise": (Pointer, (Pointer,)),
    "batch_by_noise_decide": (None, (Pointer, Pointer, Pointer, Size, Pointer)),
    "bounded_when_slow_decide": (None, (Pointer, Pointer, Pointer, Size, Pointer)),
}


# ------------------------------------------------------------------------------------------------ tutti/train/local.h


class LocalTensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", Pointer), ("count", Size), ("fragment", Int)]


class LocalOptions(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("every", Int),
        ("delay", Int),
        ("mixing", ctypes.c_double),
        ("rate", ctypes.c_double),
        ("momentum", ctypes.c_double),
        ("nesterov", Int),
        ("priority", Int),
        ("encoding", ctypes.c_char_p),
    ]


class LocalResult(ctypes.Structure):
    _fields_ = [("fragment", Int), ("dropped", Int)]


class LocalCounters(ctypes.Structure):
    _fields_ = [("size_bytes", Size)] + [
        (name, ctypes.c_uint64)
        for name in (
            "steps",
            "synchronisations",
            "dropped",
            "parameter_bytes",
            "state_bytes",
            "sent_bytes",
            "waited_ns",
        )
    ]


# ------------------------------------------------------------------------------------------------ tutti/train/adapt.h


class Noise(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("smoothing", ctypes.c_double),
        ("squared", ctypes.c_double),
        ("trace", ctypes.c_double),
        ("count", ctypes.c_uint64),
    ]


class AdaptSettings(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("batch", ctypes.c_uint64),
        ("rate", ctypes.c_double),
        ("synchrony", Int),
        ("every", Int),
        ("staleness", Int),
        ("reserved", Int),
        ("encoding", ctypes.c_char * 64),
    ]


class AdaptSample(ctypes.Structure):
    _fields_ = [("size_bytes", Size)] + [
        (name, ctypes.c_double)
        for name in (
            "step_s",
            "staleness",
            "small_batch",
            "small_squared",
            "large_batch",
            "large_squared",
        )
    ]


class AdaptRank(ctypes.Structure):
    _fields_ = [("step_s", ctypes.c_double), ("staleness", ctypes.c_double), ("link_s", ctypes.c_double)]


class AdaptView(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("call", ctypes.c_uint64),
        ("ranks", ctypes.POINTER(AdaptRank)),
        ("rank_count", Int),
        ("reserved", Int),
        ("noise_scale", ctypes.c_double),
        ("noise_count", ctypes.c_uint64),
        ("settings", ctypes.POINTER(AdaptSettings)),
    ]


AdaptDecide = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(AdaptView), ctypes.POINTER(AdaptSettings), Pointer, Size, Pointer
)


class AdaptPolicy(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("decide", Pointer), ("context", Pointer)]


class AdaptOptions(ctypes.Structure):
    _fields_ = [("size_bytes", Size), ("probe_bytes", Size), ("noise_smoothing", ctypes.c_double)]


class AdaptDecision(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("call", ctypes.c_uint64),
        ("changed", Int),
        ("reserved", Int),
        ("reason", ctypes.c_char * 512),
    ]


class BatchByNoise(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("batch_min", ctypes.c_uint64),
        ("batch_max", ctypes.c_uint64),
        ("grow", ctypes.c_double),
        ("shrink", ctypes.c_double),
        ("rate_power", ctypes.c_double),
        ("calls", Int),
        ("in_a_row", Int),
    ]


class BoundedWhenSlow(ctypes.Structure):
    _fields_ = [
        ("size_bytes", Size),
        ("slow", ctypes.c_double),
        ("fair", ctypes.c_double),
        ("synchrony", Int),
        ("every", Int),
        ("staleness", Int),
        ("calls", Int),
        ("in_a_row", Int),
        ("reserved", Int),
    ]
ELASTIC_FUNCTIONS = {
    "elastic_open": (Int, (Pointer, Size, Pointer, Pointer)),
    "elastic_close": (Int, (Pointer,)),
    "elastic_comm": (Pointer, (Pointer,)),
    "elastic_shard": (Int, (Pointer, Size, Pointer)),
    "elastic_begin": (Int, (Pointer, Pointer)),
    "elastic_commit": (Int, (Pointer, Int, Pointer)),
    "elastic_sample": (ctypes.c_uint64, (Pointer, ctypes.c_uint64, ctypes.c_uint64)),
    "elastic_count": (Int, (Pointer, Pointer)),
    "elastic_report": (Int, (Pointer, Pointer, Size)),
    "elastic_mttf": (ctypes.c_double, (Pointer,)),
    "elastic_young": (ctypes.c_double, (Pointer,)),
    "elastic_daly": (ctypes.c_double, (Pointer,)),
    "elastic_ettr": (ctypes.c_double, (Pointer,)),
}
