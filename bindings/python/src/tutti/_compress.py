"""Gradients that are averaged in fewer bytes, with what is left out sent later: docs/how-to/compression.md."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import Dict, Iterator, Mapping, NamedTuple, Optional, SupportsIndex, Tuple

import numpy as np

from . import _callbacks, _header
from ._arguments import SIZE_MAX, integer, text
from ._blocks import Block, check_state, float32_array
from ._buffers import Array, Buffer, address_of
from ._communicator import Communicator
from ._errors import Error, InvalidArgument, class_of, invalid
from ._header import Encoding, Status
from ._library import library

_METHODS = {"none": 0, "powersgd": 1, "topk": 2}
_ENCODED = 3
_STARTS = {None: 0, "full": 1, "finish": 2}
_MESSAGE_BYTES = 512


class CompressorCounters(NamedTuple):
    """Sizes of a compressor, on this rank."""

    tensors: int
    compressed: int
    buckets: int
    gradient_bytes: int
    payload_bytes: int
    state_bytes: int
    steps: int


def _rows(array: Array) -> Tuple[int, int]:
    """The matrix that a tensor is taken for: its first axis, and all others."""
    if array.ndim < 2 or array.size == 0:
        return 1, array.size
    return array.shape[0], array.size // array.shape[0]


def _text_of(error: Exception) -> str:
    return error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"


@contextmanager
def _told_to_others(comm: Communicator, what: str) -> Iterator[None]:
    """A mistake that Python finds in this rank's arguments: the others learn of it, and do not wait for this rank.

    All ranks come here. If one of them fails, all raise: that rank its own error, the others one that names the rank.
    Started calls are waited for, so that it works in a group, too.
    """
    mistake: Optional[Exception] = None
    try:
        yield
    except Exception as caught:
        mistake = caught
    try:
        own = np.array([comm.size if mistake is None else comm.rank], np.int64)
        teller = int(comm.allreduce_start(own, op="min").wait()[0])
        if teller == comm.size:
            return
        message = np.zeros(_MESSAGE_BYTES, np.uint8)
        if mistake is not None:
            own_text = _text_of(mistake).encode()[: _MESSAGE_BYTES - 1]
            message[: len(own_text)] = np.frombuffer(own_text, np.uint8)
        comm.broadcast_start(message, root=teller).wait()
    except Error:
        if mistake is None:
            raise  # else this rank's own mistake counts
    if mistake is not None:
        raise mistake
    text_of_other = message.tobytes().split(b"\0")[0].decode(errors="replace")
    raise class_of(Status.MISMATCH)(Status.MISMATCH, f"{what}: rank {teller} failed: {text_of_other}")


def _kind(method: int, encoding: int, feedback: int) -> str:
    names = {number: name for name, number in _METHODS.items()}
    if method == _ENCODED and encoding in list(Encoding):
        name = Encoding(encoding).name.lower()
    else:
        name = names.get(int(method), "another method")
    return f'"{name}" {"with" if feedback else "without"} feedback'


def _method_of(method: str) -> Tuple[int, int]:
    """A method by its name: the library's method, and its encoding."""
    if method in _METHODS:
        return _METHODS[method], Encoding.NONE
    encoding = ctypes.c_int(0)
    name = text("method", method)
    if library.encoding_find(name, ctypes.byref(encoding)) != Status.OK:
        encodings = ", ".join(f'"{known.name.lower()}"' for known in Encoding if known != Encoding.NONE)
        raise invalid(
            Status.INVALID_OPTIONS,
            f'method is "none", "powersgd", "topk" or an encoding ({encodings}), not {method!r}',
        )
    return _ENCODED, encoding.value


class Compressor(Block):
    """Averages gradients over the ranks of a communicator, in place and approximately.

        compressor = tutti.Compressor(comm, {"weights": weights, "biases": biases}, "powersgd", rank=4)
        for step in range(steps):
            compute(biases)
            compressor.ready("biases")
            compute(weights)
            compressor.ready("weights")
            compressor.finish()

    `gradients`: the arrays by name, float32, in the order of the model; of more than two axes, the first is rows and all
    others are columns. `method`: "powersgd" (with `rank`), "topk" (with `share`), the name of an encoding such as "int8",
    or "none". All ranks give the same. Arrays stay where they are until the compressor is closed. Calls are collective,
    but for ready().
    """

    _noun = "compressor"

    def __init__(
        self,
        comm: Communicator,
        gradients: Mapping[str, Buffer],
        method: str,
        *,
        rank: SupportsIndex = 4,
        share: float = 0.01,
        ratio_min: float = 2.0,
        feedback: bool = True,
        warm_start: bool = True,
        seed: SupportsIndex = 1,
        bucket_bytes: SupportsIndex = 0,
        first_bucket_bytes: SupportsIndex = 0,
        priority: SupportsIndex = 0,
        start: Optional[str] = None,
    ) -> None:
        _callbacks.catch_up()
        with _told_to_others(comm, "Compressor"):
            if start not in _STARTS:
                raise invalid(Status.INVALID_OPTIONS, f'start is None, "full" or "finish", not {start!r}')
            method_number, encoding = _method_of(method)
            self._arrays = {name: float32_array(array, name, "averaged") for name, array in gradients.items()}
            self._indices = {name: index for index, name in enumerate(self._arrays)}
            tensors = (_header.CompressTensor * len(self._arrays))(
                *(
                    _header.CompressTensor(text("name", name), address_of(array), *_rows(array))
                    for name, array in self._arrays.items()
                )
            )
            options = _header.CompressorOptions(
                size_bytes=ctypes.sizeof(_header.CompressorOptions),
                method=method_number,
                encoding=encoding,
                rank=integer("rank", rank, 1, Status.INVALID_OPTIONS),
                warm_start=int(warm_start),
                share=share,
                ratio_min=ratio_min,
                feedback=int(feedback),
                priority=integer("priority", priority, -(2**31), Status.INVALID_OPTIONS),
                seed=integer("seed", seed, 0, Status.INVALID_OPTIONS, SIZE_MAX),
                bucket_bytes=integer("bucket_bytes", bucket_bytes, 0, Status.INVALID_OPTIONS, SIZE_MAX),
                first_bucket_bytes=integer(
                    "first_bucket_bytes", first_bucket_bytes, 0, Status.INVALID_OPTIONS, SIZE_MAX
                ),
                start=_STARTS[start],
            )
        self._create(
            comm,
            library.compressor_free,
            library.compressor_create,
            tensors,
            len(self._arrays),
            ctypes.byref(options),
        )

    def ready(self, name: str) -> None:
        """The gradient has its value of this step, and belongs to the compressor until finish(). From any thread."""
        if name not in self._indices:
            raise invalid(Status.INVALID_OPTIONS, f"there is no gradient {name!r}")
        self._call(library.compressor_ready, self._indices[name])

    def finish(self) -> int:
        """Ends the step: gradients are the averages now, the same bits on all ranks. Gradients that this rank did not have
        ready count as zeros. Returns the number of compressed tensors that are not finite."""
        result = _header.CompressorResult()
        self._call(library.compressor_finish, ctypes.byref(result))
        return int(result.not_finite)

    def take(self, other: "Optional[Compressor]") -> None:
        """Takes the state of the tensors that have the same name and shape in another compressor, which can only be closed
        afterwards: when the list changes, or with the communicator that shrink() made. None: this rank joins."""
        handle = None if other is None else other._handle.handle
        if other is not None and handle is None:
            try:
                self._call(library.compressor_take, self._address)  # refused, after the others have learnt of it
            except InvalidArgument:
                pass
            raise invalid(Status.INVALID_OPTIONS, "the other compressor is closed")
        self._call(library.compressor_take, handle)

    def state_dict(self) -> Dict[str, Array]:
        """Copies of this rank's residuals, of what all ranks share, and of counts, by name. Between steps."""
        return {name: array.copy() for name, array in self._parts(library.compressor_parts)}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Takes the dictionary of state_dict() of this rank, of as many ranks. If a rank refuses its dictionary, all ranks
        raise, and nothing has changed."""
        parts = dict(self._parts(library.compressor_parts))
        with _told_to_others(self._comm, "load_state_dict"):
            given = check_state(state, parts)
            saved, now = given["compressor, ranks"][0], parts["compressor, ranks"][0]
            if saved != now:
                raise invalid(Status.INVALID_OPTIONS, f"the state is of {saved} ranks, not of {now}")
            old, new = given["compressor, method"], parts["compressor, method"]
            if (old != new).any():
                raise invalid(
                    Status.INVALID_OPTIONS, f"the state is of {_kind(*old)}, this compressor is of {_kind(*new)}"
                )
        for name, array in parts.items():
            array[...] = given[name]

    @property
    def counters(self) -> CompressorCounters:
        """Sizes and counts. gradient_bytes / payload_bytes is how many times fewer bytes a rank contributes."""
        found = _header.CompressorCounters(size_bytes=ctypes.sizeof(_header.CompressorCounters))
        self._call(library.compressor_count, ctypes.byref(found))
        return CompressorCounters(*(getattr(found, name) for name in CompressorCounters._fields))
