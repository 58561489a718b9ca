"""Arrays in memory that the other processes of the host can read in place, and memory that network cards keep registered."""

from __future__ import annotations

import ctypes
import math
import weakref
from types import TracebackType
from typing import Any, Dict, Optional, Sequence, Type, Union

import numpy as np
import numpy.typing as npt

from . import _callbacks
from ._buffers import Array, Buffer, address_of, as_array
from ._dtypes import native_dtype
from ._errors import check, invalid
from ._header import Dtype, Status
from ._library import library


class _Memory:
    """Owns what tutti_mem_alloc gave; arrays over it hold it by their `base`."""

    def __init__(self, size_bytes: int) -> None:
        address = ctypes.c_void_p()
        check(library.mem_alloc(max(size_bytes, 1), ctypes.byref(address)))
        self.__array_interface__: Dict[str, Any] = {
            "version": 3,
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address.value, False),
        }
        # At exit the system takes it, and something may still be running on it.
        weakref.finalize(self, _callbacks.later, library.mem_free, address.value).atexit = False


def empty(
    shape: Union[int, Sequence[int]], dtype: Union[Dtype, npt.DTypeLike] = np.float32
) -> Array:
    """A new array in memory that peers map: large operations on it copy less. It begins as zeros.

    Freed with the last array that looks at it. Allocating is slow; make it once and use it often.
    """
    made = native_dtype(dtype)[0] if isinstance(dtype, Dtype) else np.dtype(dtype)
    if made.hasobject:
        raise TypeError("Python objects cannot be shared with other processes")
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    size_bytes = math.prod(lengths) * made.itemsize
    if not 0 <= size_bytes < 2**63:
        raise invalid(Status.INVALID_COUNT, f"an array of {size_bytes} bytes")
    memory = np.asarray(_Memory(size_bytes))
    return memory.view(made).reshape(lengths)


class Registration:
    """An array whose memory is registered, until unregister() or the end of a `with`. Made by register().

    It keeps the array alive. If it is dropped without unregister(), the memory is unregistered with it, unless an
    operation uses it just then: in that case array and registration stay until the process ends.
    """

    def __init__(self, array: Buffer) -> None:
        memory = as_array(array, "array")
        if not memory.flags.c_contiguous:
            raise invalid(Status.INVALID_BUFFER, "array is not contiguous in memory (in C order)")
        self._address = address_of(memory)
        check(library.mem_register(self._address, memory.nbytes))
        # What was given, since a conversion of it may not keep it alive.
        self._finalizer = weakref.finalize(
            self, _callbacks.later, _unregister_or_keep, self._address, (array, memory)
        )
        self._finalizer.atexit = False

    @property
    def is_registered(self) -> bool:
        return self._finalizer.alive

    def unregister(self) -> None:
        """Ends it; nothing happens if it has ended. While an operation still uses the memory: Error, with the status
        IN_PROGRESS, and the memory stays registered."""
        if self._finalizer.alive:
            check(library.mem_unregister(self._address))
            self._finalizer.detach()

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.unregister()


_kept: Dict[int, Any] = {}


def _unregister_or_keep(address: int, arrays: Any) -> None:
    if library.mem_unregister(address) == Status.IN_PROGRESS:
        _kept[address] = arrays


def register(array: Buffer) -> Registration:
    """Registers the memory of an array that is used in many operations: a network card then registers it once, not for each.

    It may be anything with contiguous memory on the CPU that is not from `empty`. Between ranks of one host, and over
    TCP, it changes nothing.

        with tutti.register(gradients):
            ...
    """
    return Registration(array)
