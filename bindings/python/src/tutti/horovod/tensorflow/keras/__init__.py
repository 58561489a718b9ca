"""horovod.tensorflow.keras and horovod.keras over Tutti: for Keras 3, and for tf-keras with TF_USE_LEGACY_KERAS=1."""

from __future__ import annotations

from typing import Any, Dict, Optional

import tensorflow as tf

from ..._basics import *  # noqa: F403
from ..._errors import HorovodInternalError
from ..compression import Compression
from ..functions import allgather_object, broadcast_object, broadcast_variables
from ..mpi_ops import allgather, allreduce, broadcast, reducescatter
from ..optimizer import DistributedOptimizer
from . import callbacks

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations", "Any", "Dict", "Optional", "tf")]


def broadcast_global_variables(root_rank: int) -> None:
    """Horovod's for graphs of TensorFlow 1, which are not supported: models have their own variables."""
    raise NotImplementedError(
        "broadcast_global_variables() is for TensorFlow 1: use broadcast_variables(model.variables, root_rank), or"
        " BroadcastGlobalVariablesCallback"
    )


def load_model(
    filepath: Any,
    custom_optimizers: Any = None,
    custom_objects: Optional[Dict[str, Any]] = None,
    compression: Any = Compression.none,
) -> Any:
    """A model from a file, whose optimizer is made a DistributedOptimizer. All ranks read the file."""
    objects = dict(custom_objects or {})
    objects.update({kind.__name__: kind for kind in custom_optimizers or []})
    model = tf.keras.models.load_model(filepath, custom_objects=objects)
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model
