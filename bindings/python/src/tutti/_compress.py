"""Gradients that are averaged in fewer bytes, with what is left out sent later: docs/how-to/compression.md."""

from __future__ import annotations

import ctypes
from typing import Dict, Mapping, NamedTuple, Optional, SupportsIndex, Tuple

from . import _callbacks, _header
from ._arguments import SIZE_MAX, integer, text
from ._blocks import Block, check_state, float32_array
from ._buffers import Array, Buffer, address_of
from ._communicator import Communicator
from ._errors import check, invalid
from ._header import Status
from ._library import library

_METHODS = {"none": 0, "powersgd": 1, "topk": 2}
_ENCODED = 3
_STARTS = {None: 0, "full": 1, "finish": 2}


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
        if start not in _STARTS:
            raise invalid(Status.INVALID_OPTIONS, f'start is None, "full" or "finish", not {start!r}')
        encoding = ctypes.c_int(0)
        if method not in _METHODS:
            check(library.encoding_find(text("method", method), ctypes.byref(encoding)))
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
            method=_METHODS.get(method, _ENCODED),
            encoding=encoding.value,
            rank=integer("rank", rank, 1, Status.INVALID_OPTIONS),
            warm_start=int(warm_start),
            share=share,
            ratio_min=ratio_min,
            feedback=int(feedback),
            priority=integer("priority", priority, -(2**31), Status.INVALID_OPTIONS),
            seed=integer("seed", seed, 0, Status.INVALID_OPTIONS, SIZE_MAX),
            bucket_bytes=integer("bucket_bytes", bucket_bytes, 0, Status.INVALID_OPTIONS, SIZE_MAX),
            first_bucket_bytes=integer("first_bucket_bytes", first_bucket_bytes, 0, Status.INVALID_OPTIONS, SIZE_MAX),
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
        self._call(library.compressor_take, None if other is None else other._address)

    def state_dict(self) -> Dict[str, Array]:
        """Copies of this rank's residuals, of what all ranks share, and of counts, by name. Between steps."""
        return {name: array.copy() for name, array in self._parts(library.compressor_parts)}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Takes the dictionary of state_dict() of this rank, of as many ranks. Nothing has changed if it is refused."""
        parts = dict(self._parts(library.compressor_parts))
        given = check_state(state, parts)
        saved, now = given["compressor, ranks"][0], parts["compressor, ranks"][0]
        if saved != now:
            raise invalid(Status.INVALID_OPTIONS, f"the state is of {saved} ranks, not of {now}")
        for name, array in parts.items():
            array[...] = given[name]

    @property
    def counters(self) -> CompressorCounters:
        """Sizes and counts. gradient_bytes / payload_bytes is how many times fewer bytes a rank contributes."""
        found = _header.CompressorCounters(size_bytes=ctypes.sizeof(_header.CompressorCounters))
        self._call(library.compressor_count, ctypes.byref(found))
        return CompressorCounters(*(getattr(found, name) for name in CompressorCounters._fields))
