"""State that all ranks are to have alike: parameters, what an optimizer remembers, and objects of Python.

Objects travel as pickles, which can do anything where they are loaded: like all of Horovod, for ranks of one job.
"""

from __future__ import annotations

import collections.abc
import pickle
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import torch

from .._basics import ProcessSet, global_process_set, rank
from .mpi_ops import allgather_async, broadcast_, broadcast_async_, synchronize


def broadcast_parameters(
    params: Any, root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Gives all ranks what rank root_rank has, in place.

    params: model.state_dict(), or a list of model.named_parameters() or of tensors. Other values are left alone.
    """
    if isinstance(params, collections.abc.Mapping):
        pairs = sorted(params.items())
    elif isinstance(params, (list, collections.abc.Iterator)):
        pairs = [pair if isinstance(pair, tuple) else (None, pair) for pair in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    handles = [
        broadcast_async_(tensor, root_rank, name, process_set)
        for name, tensor in pairs
        if isinstance(tensor, torch.Tensor)
    ]
    for handle in handles:
        synchronize(handle)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Optional[torch.nn.Module] = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives all ranks the state of rank root_rank's optimizer and its options, such as the learning rate.

    The optimizers need not have the same state before; that of the others may be empty. `model` is not needed here.
    """
    tensors: List[torch.Tensor] = []
    is_root = rank() == root_rank
    state = _map_tensors(optimizer.state_dict(), _collect_into(tensors)) if is_root else None
    state = broadcast_object(state, root_rank, process_set=process_set)
    if not is_root:
        state = _map_places(state, _make_into(tensors))
    for tensor in tensors:
        broadcast_(tensor, root_rank, process_set=process_set)
    if not is_root:
        optimizer.load_state_dict(state)


class _Place:
    """Stands for a tensor in a state that travels as a pickle."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def _collect_into(tensors: List[torch.Tensor]) -> Callable[[Any], Any]:
    def collect(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.is_sparse:
            return value
        tensors.append(value)
        return _Place(value)

    return collect


def _make_into(tensors: List[torch.Tensor]) -> Callable[[Any], Any]:
    def make(value: Any) -> Any:
        if not isinstance(value, _Place):
            return value
        tensors.append(torch.empty(value.shape, dtype=value.dtype))
        return tensors[-1]

    return make


def _map_tensors(value: Any, function: Callable[[Any], Any]) -> Any:
    """The same dictionaries, lists and tuples, with what the function makes of the rest."""
    if isinstance(value, dict):
        return {key: _map_tensors(entry, function) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_map_tensors(entry, function) for entry in value)
    return function(value)


_map_places = _map_tensors


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        try:
            import cloudpickle
        except ImportError:
            pass
        else:
            made: bytes = cloudpickle.dumps(value)
            return made
        raise


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Rank root_rank's object, on all ranks; there the object itself, elsewhere a copy."""
    is_root = rank() == root_rank
    data = np.frombuffer(_pickled(obj), np.uint8).copy() if is_root else np.empty(0, np.uint8)
    names: Tuple[Optional[str], Optional[str]] = (None, None)
    if name is not None:
        names = (f"{name}.size", f"{name}.data")
    size = broadcast_(torch.tensor([len(data)]), root_rank, names[0], process_set)
    tensor = torch.from_numpy(data) if is_root else torch.empty(int(size.item()), dtype=torch.uint8)
    broadcast_(tensor, root_rank, names[1], process_set)
    return obj if is_root else pickle.loads(tensor.numpy().tobytes())


def broadcast_object_fn(
    root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    return lambda obj: broadcast_object(obj, root_rank, name, process_set)


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[Any]:
    """The objects of all ranks, in their order, as copies."""
    data = torch.from_numpy(np.frombuffer(_pickled(obj), np.uint8).copy())
    names: Dict[str, Optional[str]] = {
        part: None if name is None else f"{name}.{part}" for part in ("sizes", "data")
    }
    handles = [
        allgather_async(torch.tensor([len(data)]), names["sizes"], process_set),
        allgather_async(data, names["data"], process_set),
    ]
    sizes, everything = [synchronize(handle) for handle in handles]
    made, at = [], 0
    for size in sizes.tolist():
        made.append(pickle.loads(everything[at : at + size].numpy().tobytes()))
        at += size
    return made
