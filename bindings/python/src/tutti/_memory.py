"""Arrays in memory that the other processes of the host can read in place."""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import Any, Dict, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _callbacks
from ._buffers import Array
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
