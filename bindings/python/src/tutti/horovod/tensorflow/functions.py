"""State that all ranks are to have alike: variables, and objects of Python."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import tensorflow as tf

from .. import _objects
from .._basics import ProcessSet, global_process_set
from .mpi_ops import as_it_is, broadcast_all


@as_it_is
def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> None:
    """Assigns what rank root_rank has in them, as one operation. For variables of TensorFlow, Keras 3 and tf-keras.

    All ranks give the same variables in the same order. `inplace` changes nothing: the result is always in the variables.
    """
    given = list(variables)
    if not given:
        return
    values = broadcast_all(
        "broadcast_variables", [tf.convert_to_tensor(each) for each in given], root_rank, None, process_set
    )
    for variable, value in zip(given, values):
        variable.assign(value)


def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """broadcast_variables() that returns the variables."""
    given = list(variables)
    broadcast_variables(given, root_rank, process_set)
    return given


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Rank root_rank's object, on all ranks; there the object itself, elsewhere a copy. `session` is ignored."""
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any, session: Any = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[Any]:
    """The objects of all ranks, in their order, as copies. `session` is ignored."""
    return _objects.allgather_object(obj, name, process_set)
