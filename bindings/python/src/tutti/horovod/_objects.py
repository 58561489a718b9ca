"""Objects of Python that travel between ranks, for the fronts of all kinds of tensors.

They travel as pickles, which can do anything where they are loaded: like all of Horovod, for ranks of one job.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any, Callable, List, Optional

import numpy as np

from .._buffers import Array
from ._basics import ProcessSet, global_process_set, rank
from ._operation import Operation, Tensor
from ._submit import root_in, submit
from ._wire import Part


def _pickled(value: Any) -> Array:
    try:
        data = pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        try:
            cloudpickle = importlib.import_module("cloudpickle")
        except ImportError:
            pass
        else:
            return np.frombuffer(cloudpickle.dumps(value), np.uint8)
        raise
    return np.frombuffer(data, np.uint8)


def _no_scale(array: Any, dtype: Any, factor: float) -> None:
    raise AssertionError("bytes are only moved")


def _named(name: Optional[str], what: str) -> Optional[str]:
    return None if name is None else f"{name}.{what}"


def _broadcast(data: Array, root_rank: int, name: Optional[str], process_set: ProcessSet) -> None:
    """Into the array, of bytes, on the ranks that are not the root."""
    part = Part("uint8", (len(data),))
    root = root_in(process_set, root_rank, "broadcast_object")
    tensors = [Tensor(data, data)]
    what = "broadcast_object"
    submit(what, "broadcast", tensors, [part], _no_scale, name, process_set, root=root).wait()


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Rank root_rank's object, on all ranks; there the object itself, elsewhere a copy."""
    is_root = rank() == root_rank
    data = _pickled(obj).copy() if is_root else np.empty(0, np.uint8)
    size = np.array([len(data)], np.int64)
    _broadcast(size.view(np.uint8), root_rank, _named(name, "size"), process_set)
    if not is_root:
        data = np.empty(int(size[0]), np.uint8)
    _broadcast(data, root_rank, _named(name, "data"), process_set)
    return obj if is_root else pickle.loads(data.tobytes())


def broadcast_object_fn(
    root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    return lambda obj: broadcast_object(obj, root_rank, name, process_set)


def _allgather(data: Array, name: Optional[str], process_set: ProcessSet) -> Operation:
    part = Part("uint8", (len(data),))
    what = "allgather_object"
    return submit(what, "allgather", [Tensor(data)], [part], _no_scale, name, process_set)


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[Any]:
    """The objects of all ranks, in their order, as copies."""
    data = _pickled(obj)
    sizes = _allgather(np.array([len(data)], np.int64).view(np.uint8), _named(name, "sizes"), process_set)
    everything = _allgather(data, _named(name, "data"), process_set)
    sizes.wait()
    everything.wait()
    whole = everything.results[0].memory.tobytes()
    made, at = [], 0
    for size in sizes.results[0].memory.view(np.int64).tolist():
        made.append(pickle.loads(whole[at : at + size]))
        at += size
    return made
