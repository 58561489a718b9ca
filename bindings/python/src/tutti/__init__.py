"""Tutti: collective communication for distributed training.

    import numpy as np
    import tutti

    with tutti.init() as comm:                       # rank and size from the launcher
        gradients = np.random.rand(1000).astype(np.float32)
        comm.allreduce(gradients, out=gradients, op="avg")

Start it with `tutti-run -n 4 python3 program.py`. docs/start/python.md tells the rest, help(tutti.Communicator) the details.
"""

from ._calls import Group, How, Prepared, Request, group
from ._communicator import (
    Communicator,
    Footprint,
    Mesh,
    Message,
    Options,
    create_id,
    init,
    join,
)
from ._adapt import (
    Adapt,
    AdaptDecision,
    AdaptRank,
    AdaptSettings,
    AdaptView,
    BatchByNoise,
    BoundedWhenSlow,
    Noise,
)
from ._compress import Compressor, CompressorCounters
from ._encodings import decode, encode, encoded_size
from ._errors import (
    Aborted,
    Error,
    Failure,
    InvalidArgument,
    Corrupt,
    Minority,
    Excluded,
    Revoked,
    Mismatch,
    RankFailed,
    Timeout,
    Truncated,
    Unsupported,
)
from ._header import ANY_RANK, ANY_TAG, Cause, Dtype, Encoding, Status
from ._library import library as _library
from ._local import Local, LocalCounters, LocalResult
from ._memory import Registration, empty, register
from ._operations import (
    AVG,
    BAND,
    BOR,
    BXOR,
    LAND,
    LOR,
    LXOR,
    MAX,
    MIN,
    PROD,
    SUM,
    Op,
    op,
    scaled_sum,
)
from ._plan import Plan
from ._sparse import SparseRows, sparse_range
from ._store import FolderStore, Store
from ._version import __version__

float16, float32, float64 = Dtype.float16, Dtype.float32, Dtype.float64
bfloat16, float8_e4m3, float8_e5m2 = Dtype.bfloat16, Dtype.float8_e4m3, Dtype.float8_e5m2
int8, int16, int32, int64 = Dtype.int8, Dtype.int16, Dtype.int32, Dtype.int64
uint8, uint16, uint32, uint64 = Dtype.uint8, Dtype.uint16, Dtype.uint32, Dtype.uint64


def library_path() -> str:
    """The libtutti.so that is used."""
    return _library.path


def library_version() -> str:
    """The version of that library, such as "0.2.0"; `__version__` is this package's."""
    text: bytes = _library.version_text()
    return text.decode()


__all__ = [
    "ANY_RANK",
    "ANY_TAG",
    "AVG",
    "Aborted",
    "Adapt",
    "AdaptDecision",
    "AdaptRank",
    "AdaptSettings",
    "AdaptView",
    "BAND",
    "BOR",
    "BXOR",
    "BatchByNoise",
    "BoundedWhenSlow",
    "Communicator",
    "Compressor",
    "CompressorCounters",
    "Dtype",
    "Encoding",
    "Error",
    "Failure",
    "FolderStore",
    "Footprint",
    "Group",
    "How",
    "InvalidArgument",
    "LAND",
    "LOR",
    "LXOR",
    "Local",
    "LocalCounters",
    "LocalResult",
    "MAX",
    "MIN",
    "Mesh",
    "Message",
    "Corrupt",
    "Minority",
    "Cause",
    "Excluded",
    "Revoked",
    "Mismatch",
    "Noise",
    "Op",
    "Options",
    "PROD",
    "Plan",
    "Prepared",
    "RankFailed",
    "Registration",
    "Request",
    "SUM",
    "SparseRows",
    "Status",
    "Store",
    "Timeout",
    "Truncated",
    "Unsupported",
    "__version__",
    "bfloat16",
    "create_id",
    "decode",
    "empty",
    "encode",
    "encoded_size",
    "float16",
    "float32",
    "float64",
    "float8_e4m3",
    "float8_e5m2",
    "group",
    "init",
    "int16",
    "int32",
    "int64",
    "int8",
    "join",
    "library_path",
    "library_version",
    "op",
    "register",
    "scaled_sum",
    "sparse_range",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]
