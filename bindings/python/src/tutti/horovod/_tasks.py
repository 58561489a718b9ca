"""What an order makes a rank do: calls of the library on the data communicator of a process set.

Calls are started, so that the engine's thread never waits for one. Several small allreduces are one call on a list of
tensors, which the library takes where they lie: nothing is copied into a buffer and back.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .._buffers import Array
from .._calls import Request
from .._communicator import Communicator
from .._dtypes import dtype_size
from .._header import Dtype
from ._channel import watch
from ._errors import ProtocolError
from ._operation import Operation, Result, Tensor
from ._wire import Run, Submission

_OPERATIONS = {"Average": "avg", "Sum": "sum", "Min": "min", "Max": "max", "Product": "prod"}


class Task:
    """Operations of one order under way."""

    def __init__(
        self, communicator: Communicator, order: Run, operations: Sequence[Operation]
    ) -> None:
        self.operations = operations
        self._communicator = communicator
        self._order = order
        self._scales: List[Tuple[Operation, Array, Optional[Dtype], float]] = []  # for the end
        self._requests: "List[Request[Any]]" = []
        getattr(self, "_" + operations[0].submission.kind)()
        self._is_watched = False

    def watch(self, event_fd: int) -> None:
        """Before the thread sleeps: from now on the eventfd tells when calls are done."""
        if not self._is_watched:
            for request in self._requests:
                watch(request, event_fd)
            self._is_watched = True

    def is_done(self) -> bool:
        """tutti.Error: it failed."""
        self._requests = [request for request in self._requests if not request.test()]
        return not self._requests

    def finish(self) -> None:
        """When it is done."""
        for operation, array, dtype, factor in self._scales:
            operation.scale(array, dtype, factor)
        for operation in self.operations:
            operation.succeed()

    # ------------------------------------------------------------------------------------- what is started

    def _allreduce(self) -> None:
        sides: Dict[Optional[Dtype], Tuple[List[Array], List[Array]]] = {}
        for operation in self.operations:
            submission = operation.submission
            for tensor in operation.tensors:
                send, out = tensor.send, tensor.out
                assert out is not None
                if not send.size:
                    continue
                if submission.prescale != 1.0:
                    send = _scaled(operation, tensor, submission.prescale, out)
                sends, outs = sides.setdefault(tensor.dtype, ([], []))
                sends.append(send)
                outs.append(out)
                if submission.postscale != 1.0:
                    self._scales.append((operation, out, tensor.dtype, submission.postscale))
        op = _OPERATIONS[self.operations[0].submission.op or ""]
        for dtype, (sends, outs) in sides.items():
            start = self._communicator.allreduce_start
            if len(sends) == 1:
                self._requests.append(start(sends[0], outs[0], op, dtype=dtype))
            else:
                self._requests.append(start(sends, outs, op, dtype=dtype))

    def _allgather(self) -> None:
        operation = self.operations[0]
        for part, tensor, rows in zip(operation.submission.parts, operation.tensors, self._details()):
            row_bytes = part.row_count * tensor.send.itemsize
            _expect(rows[self._communicator.rank] == part.shape[0], "rows of this rank that it does not have")
            counts = [count * row_bytes for count in rows]
            out = np.empty(sum(counts), np.uint8)
            operation.results.append(Result(out, (sum(rows),) + part.shape[1:]))
            if out.size:
                request = self._communicator.allgatherv_start(tensor.send.view(np.uint8), counts, out=out)
                self._requests.append(request)

    def _alltoall(self) -> None:
        operation = self.operations[0]
        rank = self._communicator.rank
        for part, tensor, splits in zip(operation.submission.parts, operation.tensors, self._details()):
            _expect(splits[rank] == part.splits, "splits of this rank that it does not have")
            row_bytes = part.row_count * tensor.send.itemsize
            received = tuple(of_rank[rank] for of_rank in splits)
            counts = [count * row_bytes for count in received]
            out = np.empty(sum(counts), np.uint8)
            operation.results.append(Result(out, (sum(received),) + part.shape[1:], received))
            if row_bytes and any(map(any, splits)):
                request = self._communicator.alltoallv_start(
                    tensor.send.view(np.uint8), [count * row_bytes for count in part.splits], counts, out=out
                )
                self._requests.append(request)

    def _broadcast(self) -> None:
        operation = self.operations[0]
        root = operation.submission.root
        assert root is not None
        for tensor in operation.tensors:
            out = tensor.out
            assert out is not None
            if root == self._communicator.rank and out is not tensor.send:
                out[...] = tensor.send
            if out.size:
                self._requests.append(self._communicator.broadcast_start(out.view(np.uint8), root=root))

    def _reducescatter(self) -> None:
        operation = self.operations[0]
        submission = operation.submission
        size, rank = self._communicator.size, self._communicator.rank
        for part, tensor in zip(submission.parts, operation.tensors):
            each, rest = divmod(part.shape[0], size)
            rows = [each + (number < rest) for number in range(size)]
            counts = [count * part.row_count for count in rows]
            out = np.empty(counts[rank], tensor.send.dtype)
            operation.results.append(Result(out.view(np.uint8), (rows[rank],) + part.shape[1:]))
            if not tensor.send.size:
                continue
            send = tensor.send
            if submission.prescale != 1.0:
                send = _scaled(operation, tensor, submission.prescale, np.empty_like(send))
            op = _OPERATIONS[submission.op or ""]
            request = self._communicator.reduce_scatterv_start(send, counts, out, op, dtype=tensor.dtype)
            self._requests.append(request)
            if submission.postscale != 1.0:
                self._scales.append((operation, out, tensor.dtype, submission.postscale))

    def _barrier(self) -> None:
        self._requests.append(self._communicator.barrier_start())

    def _details(self) -> Sequence[Any]:
        parts = self.operations[0].submission.parts
        _expect(len(self._order.details) == len(parts), "details of another number of tensors")
        return self._order.details


def _expect(is_so: bool, what: str) -> None:
    if not is_so:
        raise ProtocolError(what)


def _scaled(operation: Operation, tensor: Tensor, factor: float, place: Array) -> Array:
    """Stores the data times the factor in `place`, which may be the same memory."""
    if place is not tensor.send:
        place[...] = tensor.send
    operation.scale(place, tensor.dtype, factor)
    return place


def operation_of_joined(submission: Submission) -> Operation:
    """The part of a rank that has joined in an operation of the others: it gives zeros, or nothing."""
    tensors = []
    parts = []
    for part in submission.parts:
        if submission.kind == "allgather":
            part = part._replace(shape=(0,) + part.shape[1:])
        dtype = None
        if submission.kind == "allreduce":
            item_bytes_of(part.dtype)
            dtype = Dtype[part.dtype]
            item = np.dtype("u2") if dtype == Dtype.bfloat16 else np.dtype(dtype.name)
        else:
            item = np.dtype(f"V{item_bytes_of(part.dtype)}")
        zeros = np.zeros(part.element_count, item)
        tensors.append(Tensor(zeros, zeros, dtype))
        parts.append(part)
    made = submission._replace(parts=tuple(parts), prescale=1.0, postscale=1.0)
    return Operation(made, tensors, lambda array, dtype, factor: None)


_ITEM_BYTES = {"bool": 1, "complex32": 4, "complex64": 8, "complex128": 16}


def item_bytes_of(dtype: str) -> int:
    """Of an element of a dtype by its name on the wire."""
    if dtype in _ITEM_BYTES:
        return _ITEM_BYTES[dtype]
    try:
        return dtype_size(Dtype[dtype])
    except KeyError:
        raise ProtocolError(f"elements of {dtype!r}") from None
