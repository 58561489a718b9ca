"""Gradients that are averaged in fewer bytes, with what is left out sent later: docs/how-to/compression.md."""

from __future__ import annotations

import ctypes
import weakref
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, SupportsIndex, Tuple

import numpy as np

from . import _callbacks, _header
from ._arguments import SIZE_MAX, integer, text
from ._buffers import Array, Buffer, address_of, as_array
from ._calls import State
from ._communicator import Communicator
from ._errors import Error, InvalidArgument, check, class_of, invalid
from ._header import Dtype, Encoding, Status
from ._library import library

_METHODS = {"none": 0, "powersgd": 1, "topk": 2}
_ENCODED = 3
_STARTS = {None: 0, "full": 1, "finish": 2}
_MESSAGE_BYTES = 512
_NUMBERS = {Dtype.float32: np.float32, Dtype.uint64: np.uint64}


class CompressorCounters(NamedTuple):
    """Sizes of a compressor, on this rank."""

    tensors: int
    compressed: int
    buckets: int
    gradient_bytes: int
    payload_bytes: int
    state_bytes: int
    steps: int


class _Handle:
    """The handle, to be freed before the communicator is: its State does that if nobody did before."""

    def __init__(self, state: State, handle: int) -> None:
        self.state = state
        self.handle: Optional[int] = handle
        state.prepared.add(self)  # type: ignore[arg-type]

    def free(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            self.state.prepared.discard(self)
            check(library.compressor_free(handle))


def _float32(thing: Buffer, name: str) -> Array:
    array = as_array(thing, name)
    if array.dtype != np.float32 or not array.flags.c_contiguous or not array.flags.writeable:
        raise invalid(
            Status.INVALID_BUFFER,
            f"{name} must be a contiguous, writeable array of float32, to be averaged in place",
        )
    return array


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


def _checked(name: str, array: Array, state: Mapping[str, Array]) -> Array:
    """The part of a state that goes into the array."""
    if name not in state:
        raise invalid(Status.INVALID_OPTIONS, f"the state has no {name!r}")
    given = np.asarray(state[name])
    if given.shape != array.shape or given.dtype != array.dtype:
        raise invalid(Status.INVALID_OPTIONS, f"the state has another shape or dtype of {name!r}")
    if not np.isfinite(given).all():
        raise invalid(Status.INVALID_OPTIONS, f"the state of {name!r} is not finite")
    if name == "compressor, ranks" and given[0] != array[0]:
        raise invalid(Status.INVALID_OPTIONS, f"the state is of {given[0]} ranks, not of {array[0]}")
    if name == "compressor, method" and (given != array).any():
        raise invalid(
            Status.INVALID_OPTIONS,
            f"the state is of {_kind(*given)}, this compressor is of {_kind(*array)}",
        )
    return given


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


class Compressor:
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
            self._arrays = {name: _float32(array, name) for name, array in gradients.items()}
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
        handle = ctypes.c_void_p()
        state, pointer = comm._state, comm._state.pointer
        check(
            state.call(
                library.compressor_create,
                tensors,
                len(self._arrays),
                ctypes.byref(options),
                pointer,
                ctypes.byref(handle),
            ),
            pointer,
        )
        assert handle.value is not None
        self._comm = comm
        self._handle = _Handle(state, handle.value)
        self._finalizer = weakref.finalize(self, _callbacks.later, self._handle.free)
        self._finalizer.atexit = False

    def _call(self, function: Any, *arguments: Any) -> None:
        handle = self._handle.handle
        if handle is None:
            raise invalid(Status.INVALID_OPTIONS, "the compressor is closed")
        check(self._comm._state.call(function, handle, *arguments), self._comm._state.handle)

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
                self._call(library.compressor_take, self._handle.handle)  # refused, after the others have learnt of it
            except InvalidArgument:
                pass
            raise invalid(Status.INVALID_OPTIONS, "the other compressor is closed")
        self._call(library.compressor_take, handle)

    def state_dict(self) -> Dict[str, Array]:
        """Copies of this rank's residuals, of what all ranks share, and of counts, by name. Between steps."""
        return {part.name.decode(): array.copy() for part, array in self._parts()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Takes the dictionary of state_dict() of this rank, of as many ranks. If a rank refuses its dictionary, all ranks
        raise, and nothing has changed."""
        if self._handle.handle is None:
            raise invalid(Status.INVALID_OPTIONS, "the compressor is closed")
        with _told_to_others(self._comm, "load_state_dict"):
            taken = [(array, _checked(part.name.decode(), array, state)) for part, array in self._parts()]
        for array, given in taken:
            array[...] = given

    def _parts(self) -> Any:
        """Descriptions, and arrays over the memory, which belongs to the compressor: not for users."""
        count = ctypes.c_size_t()
        self._call(library.compressor_parts, None, 0, ctypes.byref(count))
        parts = (_header.CheckpointTensor * count.value)()
        self._call(library.compressor_parts, parts, count, ctypes.byref(count))
        for part in parts:
            dtype = np.dtype(_NUMBERS[Dtype(part.dtype)])
            if part.count == 0:
                yield part, np.empty(0, dtype)
                continue
            memory = (ctypes.c_char * (part.count * dtype.itemsize)).from_address(part.data)
            yield part, np.frombuffer(memory, dtype)

    @property
    def counters(self) -> CompressorCounters:
        """Sizes and counts. gradient_bytes / payload_bytes is how many times fewer bytes a rank contributes."""
        found = _header.CompressorCounters(size_bytes=ctypes.sizeof(_header.CompressorCounters))
        self._call(library.compressor_count, ctypes.byref(found))
        return CompressorCounters(*(getattr(found, name) for name in CompressorCounters._fields))

    def close(self) -> None:
        """Frees the compressor and its state. Its communicator's close() does that, too."""
        self._finalizer.detach()
        self._handle.free()

    def __enter__(self) -> "Compressor":
        return self

    def __exit__(self, kind: Optional[type], error: object, traceback: object) -> None:
        self.close()
