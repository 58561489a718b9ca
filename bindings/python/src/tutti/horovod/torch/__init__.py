"""horovod.torch over Tutti: `import tutti.horovod.torch as hvd`. For tensors of the CPU.

docs/start/horovod.md has a table of what there is, and how it differs from Horovod's.
"""

from __future__ import annotations

from typing import Any

from .._basics import *  # noqa: F403
from .._errors import HorovodInternalError
from .compression import Compression
from .functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from .mpi_ops import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    join,
    poll,
    reducescatter,
    reducescatter_async,
    sparse_allreduce_async,
    synchronize,
)
from .optimizer import DistributedOptimizer
from .sync_batch_norm import SyncBatchNorm

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations", "Any")]


def __getattr__(name: str) -> Any:
    if name == "elastic":
        raise AttributeError("tutti.horovod has no elastic training: start the job again from a checkpoint")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
