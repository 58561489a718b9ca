"""An operation that this rank has submitted: its tensors as flat arrays, and, at the end, its results or its error."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Set, Tuple

from .._buffers import Array
from .._header import Dtype
from ._errors import HorovodInternalError
from ._wire import Submission


class Tensor(NamedTuple):
    """The memory of one part: contiguous, with one dimension.

    send: the data of this rank. out: the memory for the result, maybe the same; None: it is allocated when its size
    is known. dtype: of the elements, for reductions. Memory that allgather, alltoall and reducescatter allocate is bytes.
    """

    send: Array
    out: Optional[Array] = None
    dtype: Optional[Dtype] = None


class Result(NamedTuple):
    """Of a part whose place was allocated: its memory as bytes, its shape, and the rows from each rank (alltoall)."""

    memory: Array
    shape: Tuple[int, ...]
    received: Tuple[int, ...] = ()


# Multiplies the elements of an array of that dtype by a factor, in place.
Scale = Callable[[Array, Optional[Dtype], float], None]


class Operation:
    """Made by the front for a kind of tensors (torch/mpi_ops.py), and ended by the engine's thread. Any thread may wait."""

    def __init__(
        self,
        submission: Submission,
        tensors: Sequence[Tensor],
        scale: Scale,
        finish: Optional[Callable[["Operation"], None]] = None,
    ) -> None:
        """`finish` is called by the engine's thread when all has gone well, before anybody is told."""
        self.submission = submission
        self.tensors = tensors
        self.scale = scale
        self.results: List[Result] = []
        self.value: Any = None  # of operations without tensors: the rank that joined last, the number of a process set
        self.times = [time.monotonic()]  # submitted, ordered
        self._finish = finish
        self._error: Optional[BaseException] = None
        self._done = threading.Event()

    @property
    def is_ordered(self) -> bool:
        """Whether all ranks have agreed that it runs."""
        return len(self.times) > 1

    def succeed(self) -> None:
        if self._done.is_set():
            return
        try:
            if self._finish is not None:
                self._finish(self)
        except BaseException as error:  # of this rank alone, such as a tensor that was resized meanwhile
            self._error = error
        self._finish = None
        self._end()

    def fail(self, text: str) -> None:
        if not self._done.is_set():
            self._error = HorovodInternalError(text)
            self._finish = None
            self._end()

    def _end(self) -> None:
        self.tensors = ()
        waiting.discard(self)  # now, as the thread that waits may not run for a while
        self._done.set()

    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        """Blocks until it is done, or the job has failed; raises what went wrong."""
        if not self._done.is_set():
            waiting.add(self)
            try:
                self._done.wait()
            finally:
                waiting.discard(self)  # it may have been done before it was added
        if self._error is not None:
            raise self._error


# Operations that are not done, and that a thread waits for. Adding and discarding are atomic.
waiting: Set[Operation] = set()
