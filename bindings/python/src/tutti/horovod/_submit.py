"""Shared by the fronts for kinds of tensors (torch/mpi_ops.py, tensorflow/mpi_ops.py): handles, names and arguments.

`what` is the call of the program, such as "grouped_allreduce_async_": texts name it, and not a call that it makes inside.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ._basics import (
    Adasum,
    Average,
    Max,
    Min,
    ProcessSet,
    Product,
    Sum,
    engine,
    global_process_set,
    refuse_child,
)
from ._engine import control
from ._operation import Operation, Scale, Tensor
from ._wire import Part, Submission

# ------------------------------------------------------------------------------------------------ handles


class Handle:
    """An operation under way, for poll() and synchronize(). It keeps its tensors."""

    def __init__(self, operation: Operation, collect: Callable[[Operation], Any]) -> None:
        self._operation = operation
        self._collect: Optional[Callable[[Operation], Any]] = collect
        self._result: Any = None
        self._lock = threading.Lock()

    def is_done(self) -> bool:
        return self._operation.is_done()

    def wait(self) -> Any:
        self._operation.wait()
        with self._lock:
            if self._collect is not None:
                self._result = self._collect(self._operation)
                self._collect = None
        return self._result

    def __repr__(self) -> str:
        submission = self._operation.submission
        state = "done" if self.is_done() else "under way"
        return f'<Handle of {submission.kind} "{submission.name}", {state}>'


def poll(handle: Handle) -> bool:
    """Whether synchronize() would return at once. Does not block."""
    return _handle(handle).is_done()


def synchronize(handle: Handle) -> Any:
    """Waits for it, and returns its result. HorovodInternalError: ranks disagree about it, or one is gone."""
    return _handle(handle).wait()


def _handle(handle: Any) -> Handle:
    if not isinstance(handle, Handle):
        raise ValueError(f"{handle!r} is no handle of an operation")
    refuse_child()
    return handle


# ---------------------------------------------------------------------------------------------- submitting

_counters: Dict[Tuple[Any, int, str], Iterator[int]] = {}
_counters_lock = threading.Lock()


def name_of(what: str, name: Optional[str], process_set: ProcessSet) -> str:
    """By which ranks match it: the call without its form, and the name, or how many without one there have been."""
    call = what.rstrip("_")
    if call.endswith("_async"):
        call = call[: -len("_async")]
    if name is not None:
        return f"{call}.{name}"
    number = -1 if process_set.process_set_id is None else process_set.process_set_id
    key = (engine(), number, call)  # numbers begin anew with each init()
    with _counters_lock:
        for old in [old for old in _counters if old[0] is not key[0]]:
            del _counters[old]
        return f"{call}.noname.{next(_counters.setdefault(key, itertools.count(1)))}"


def set_number(process_set: ProcessSet) -> int:
    if not isinstance(process_set, ProcessSet):
        raise TypeError(f"process_set is a ProcessSet, not {process_set!r}")
    if process_set.process_set_id is None:
        raise ValueError(f"{process_set} is not registered: use init(process_sets=...) or add_process_set()")
    return process_set.process_set_id


def submit(
    what: str,
    kind: str,
    tensors: Sequence[Tensor],
    parts: Sequence[Part],
    scale: Scale,
    name: Optional[str],
    process_set: ProcessSet,
    finish: Optional[Callable[[Operation], None]] = None,
    op: Optional[str] = None,
    root: Optional[int] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
) -> Operation:
    """Starts an operation of that kind (_wire.py)."""
    number = set_number(process_set)
    submission = Submission(
        name_of(what, name, process_set),
        kind,
        tuple(parts),
        op,
        root,
        _factor("prescale_factor", prescale),
        _factor("postscale_factor", postscale),
    )
    operation = Operation(submission, tensors, scale, finish)
    engine().submit(number, operation)
    return operation


# ----------------------------------------------------------------------------------------------- arguments


def _factor(name: str, value: float) -> float:
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"{name} is {value}")
    return number


def operation_of(op: Optional[str], average: Optional[bool], what: str) -> str:
    """The reduction, from the new argument or the old one."""
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if op is None:
        op = Sum if average is False else Average
    if op == Adasum:
        raise NotImplementedError(f"{what}: tutti.horovod has no Adasum; use op=hvd.Average")
    if op not in (Average, Sum, Min, Max, Product):
        raise ValueError(f"{what}: op is {op!r}, and must be Average, Sum, Min, Max or Product")
    return op


def list_of(tensors: Any, what: str) -> List[Any]:
    made = list(tensors)
    if not made:
        raise ValueError(f"{what} takes at least one tensor")
    return made


def root_in(process_set: ProcessSet, root_rank: int, what: str) -> int:
    """The number in the set of a rank of the job."""
    set_number(process_set)
    members = process_set._members()
    if root_rank not in members:
        raise ValueError(f"{what}: root_rank {root_rank} is not among ranks {members}")
    return members.index(root_rank)


def rows_of(splits: Optional[Sequence[int]], row_count: int, process_set: ProcessSet, what: str) -> List[int]:
    """How many rows an alltoall sends to each rank of the set; without splits, to each equally many."""
    set_number(process_set)
    count = len(process_set._members())
    if splits is None:
        each, rest = divmod(row_count, count)
        if rest:
            raise ValueError(
                f"{what}: tensor.shape[0] is {row_count}, which cannot be divided by {count} ranks; give splits"
            )
        return [each] * count
    rows = [int(split) for split in splits]
    if len(rows) != count or min(rows) < 0 or sum(rows) > row_count:
        raise ValueError(f"{what}: {rows} does not split {row_count} rows for {count} ranks")
    return rows


# ----------------------------------------------------------------------------------------- join and barrier


def join(device: int = -1) -> int:
    """This rank has no more data: until all ranks have joined, it gives zeros to the allreduces of the others.

    Returns the rank that joined last. Only for all ranks of the job. `device` is for GPUs, and ignored.
    """
    operation = control("join", "join")
    engine().submit(0, operation)
    operation.wait()
    with _counters_lock:  # ranks have done different numbers of operations without names
        for key in [key for key in _counters if key[1] == 0]:
            del _counters[key]
    last: int = operation.value
    return last


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """No rank of the process set returns before all have called it."""
    operation = control(name_of("barrier", None, process_set), "barrier")
    engine().submit(set_number(process_set), operation)
    operation.wait()
