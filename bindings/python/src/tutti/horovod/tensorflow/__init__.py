"""horovod.tensorflow over Tutti: `import tutti.horovod.tensorflow as hvd`. For tensors of the CPU, with TensorFlow 2.

docs/start/horovod.md has a table of what there is, and how it differs from Horovod's.
"""

from __future__ import annotations

from typing import Any

try:
    import tensorflow as _tensorflow  # noqa: F401
except ImportError as error:
    raise ImportError(f"horovod.tensorflow needs TensorFlow, which cannot be imported: {error}") from error

from .._basics import *  # noqa: F403
from .._errors import HorovodInternalError
from .._submit import barrier, join
from .compression import Compression
from .functions import (
    allgather_object,
    broadcast_,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from .mpi_ops import (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from .optimizer import DistributedGradientTape, DistributedOptimizer

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations", "Any")]


def __getattr__(name: str) -> Any:
    if name == "elastic":
        raise AttributeError("tutti.horovod has no elastic training: start the job again from a checkpoint")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
