"""State that all ranks are to have alike: parameters, what an optimizer remembers, and objects of Python (_objects.py)."""

from __future__ import annotations

import collections.abc
from typing import Any, Callable, List, Optional

import torch

from .._basics import ProcessSet, global_process_set, rank
from .._objects import allgather_object, broadcast_object, broadcast_object_fn
from .mpi_ops import broadcast_, broadcast_async_, synchronize

__all__ = [
    "allgather_object",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_optimizer_state",
    "broadcast_parameters",
]


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
