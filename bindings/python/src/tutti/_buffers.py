"""From what users have (arrays, or lists of them) to what the library takes: addresses and counts.

Nothing is ever copied. What cannot be used where it lies is refused.
"""

from __future__ import annotations

import ctypes
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _header
from ._dtypes import dtype_of
from ._errors import invalid
from ._header import Dtype, Status

Array = npt.NDArray[Any]

# A NumPy array, or whatever has the buffer protocol, __array_interface__, or __dlpack__ on the CPU.
Buffer = Any
# One of them; or a list or tuple, whose elements are one buffer, one after the other. Lists may be nested.
Buffers = Union[Buffer, Sequence[Buffer]]

DLPACK_CPU = 1


def as_array(thing: Buffer, name: str) -> Array:
    """The array over the same memory."""
    if isinstance(thing, np.ndarray):
        return thing
    if hasattr(thing, "__array_interface__"):
        return np.asarray(thing)
    if hasattr(thing, "__dlpack__"):
        if thing.__dlpack_device__()[0] != DLPACK_CPU:
            raise invalid(Status.INVALID_BUFFER, f"{name} is not in the memory of the CPU")
        return np.from_dlpack(thing)
    try:
        return np.asarray(memoryview(thing))
    except TypeError:
        raise TypeError(f"{name} is neither an array nor a buffer but a {type(thing).__name__}") from None


def address_of(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _check(array: Array, name: str, is_written: bool) -> None:
    if not array.flags.c_contiguous:
        raise invalid(
            Status.INVALID_BUFFER,
            f"{name} is not contiguous in memory (in C order); use np.ascontiguousarray for what is read,"
            " and a contiguous array to copy from for what is written",
        )
    if is_written and not array.flags.writeable:
        raise invalid(Status.INVALID_BUFFER, f"{name} is read-only")


def _flatten(thing: Buffers, into: List[Buffer]) -> None:
    if isinstance(thing, (list, tuple)):
        for part in thing:
            _flatten(part, into)
    else:
        into.append(thing)


class Side:
    """What is sent, or what is received: one array or a list of them."""

    __slots__ = ("is_list", "arrays", "count", "dtype", "given")

    def __init__(
        self, thing: Buffers, name: str, wanted: Optional[Dtype], is_written: bool = False
    ) -> None:
        self.given: Any = thing
        self.is_list = isinstance(thing, (list, tuple))
        if self.is_list:
            parts: List[Buffer] = []
            _flatten(thing, parts)
            if not parts:
                raise invalid(Status.INVALID_BUFFER, f"{name} is an empty list")
            self.arrays = [as_array(part, f"{name}[{i}]") for i, part in enumerate(parts)]
        else:
            self.arrays = [as_array(thing, name)]
        self.dtype = dtype_of(self.arrays[0].dtype, wanted, name)
        self.count = 0
        for array in self.arrays:
            _check(array, name, is_written)
            if array is not self.arrays[0] and array.dtype != self.arrays[0].dtype:
                raise invalid(
                    Status.INVALID_DTYPE,
                    f"{name} has elements of {self.arrays[0].dtype} and of {array.dtype}",
                )
            self.count += array.size

    @property
    def address(self) -> int:
        return address_of(self.arrays[0])

    @property
    def shape(self) -> Tuple[int, ...]:
        return self.arrays[0].shape

    @property
    def is_boolean(self) -> bool:
        return self.arrays[0].dtype.kind == "b"

    def tensor_list(self) -> _header.TensorList:
        """Its address is good as long as the struct lives; the library copies it."""
        tensors = (_header.Tensor * len(self.arrays))()
        for tensor, array in zip(tensors, self.arrays):
            tensor.data = address_of(array)
            tensor.count = array.size
        return _header.TensorList(tensors, len(self.arrays))


def empty_like(side: Side) -> Any:
    """The same arrays again: one, or a flat list."""
    made = [np.empty(array.shape, array.dtype) for array in side.arrays]
    return made if side.is_list else made[0]


def empty_stack(side: Side, count: int) -> Any:
    """`count` times the same: an array with one more axis in front, or a list of lists."""
    if side.is_list:
        return [empty_like(side) for _ in range(count)]
    return np.empty((count,) + side.shape, side.arrays[0].dtype)


def empty_part(side: Side, count: int, call: str) -> Any:
    """One of `count` parts: the first axis disappears, or one array of a list."""
    shapes = [array.shape for array in side.arrays]
    if side.is_list:
        if len(shapes) == count and all(shape == shapes[0] for shape in shapes):
            return np.empty(shapes[0], side.arrays[0].dtype)
        raise invalid(
            Status.INVALID_COUNT,
            f"{call}: without `out`, a list to send has {count} arrays of one shape (one for each rank)",
        )
    if not shapes[0] or shapes[0][0] != count:
        raise invalid(
            Status.INVALID_COUNT,
            f"{call}: without `out`, what is sent has shape ({count}, ...), a part for each rank, and"
            f" not {shapes[0]}; reshape({count}, -1) may be what you want",
        )
    return np.empty(shapes[0][1:], side.arrays[0].dtype)


class Blocks:
    """Counts and displacements, in elements, of the blocks of one buffer (v forms)."""

    __slots__ = ("counts", "displs", "keep_counts", "keep_displs")

    def __init__(
        self, name: str, size: int, counts: Sequence[int], displs: Optional[Sequence[int]] = None
    ) -> None:
        self.counts = _numbers(f"{name}counts", size, counts)
        self.displs = None if displs is None else _numbers(f"{name}displs", size, displs)
        self.keep_counts = (ctypes.c_size_t * size)(*self.counts)
        self.keep_displs = None if self.displs is None else (ctypes.c_size_t * size)(*self.displs)

    @property
    def extent(self) -> int:
        """Elements up to the end of the last block."""
        if self.displs is None:
            return sum(self.counts)
        return max((at + count for at, count in zip(self.displs, self.counts) if count), default=0)

    def check(self, side: Side, name: str) -> None:
        if side.is_list:
            raise invalid(Status.INVALID_BUFFER, f"{name} is a list, and v forms take none")
        if side.count < self.extent:
            raise invalid(
                Status.INVALID_COUNT,
                f"{name} has {side.count} elements, but its blocks end at {self.extent}",
            )


def _numbers(name: str, size: int, numbers: Sequence[int]) -> List[int]:
    made = [int(number) for number in numbers]
    if len(made) != size:
        raise invalid(Status.INVALID_COUNT, f"{name} has {len(made)} entries for {size} ranks")
    if min(made) < 0:
        raise invalid(Status.INVALID_COUNT, f"{name} has an entry below 0")
    return made
