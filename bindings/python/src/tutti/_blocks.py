"""Blocks for training: objects of the library that belong to a communicator, and are freed before it is."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple, TypeVar

import numpy as np

from . import _callbacks, _header
from ._buffers import Array, Buffer, as_array
from ._calls import State
from ._communicator import Communicator
from ._errors import check, invalid
from ._header import Dtype, Status

_NUMBERS = {Dtype.float32: np.float32, Dtype.uint64: np.uint64}
_Self = TypeVar("_Self", bound="Block")


class _Handle:
    """The handle, to be freed before the communicator is: its State does that if nobody did before."""

    def __init__(self, state: State, handle: int, free: Any) -> None:
        self.state = state
        self.handle: Optional[int] = handle
        self._free = free
        state.prepared.add(self)  # type: ignore[arg-type]

    def free(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            self.state.prepared.discard(self)
            check(self._free(handle))


class Block:
    """What blocks have in common. `_noun` is for messages."""

    _noun = "block"
    _comm: Communicator
    _handle: _Handle

    def _create(self, comm: Communicator, free: Any, create: Any, *arguments: Any) -> None:
        """Calls `create` with the arguments, the communicator, and where the handle is to be."""
        handle = ctypes.c_void_p()
        state, pointer = comm._state, comm._state.pointer
        check(state.call(create, *arguments, pointer, ctypes.byref(handle)), pointer)
        assert handle.value is not None
        self._comm = comm
        self._handle = _Handle(state, handle.value, free)
        self._finalizer = weakref.finalize(self, _callbacks.later, self._handle.free)
        self._finalizer.atexit = False

    @property
    def _address(self) -> int:
        if self._handle.handle is None:
            raise invalid(Status.INVALID_OPTIONS, f"the {self._noun} is closed")
        return self._handle.handle

    def _call(self, function: Any, *arguments: Any) -> None:
        check(self._comm._state.call(function, self._address, *arguments), self._comm._state.handle)

    def close(self) -> None:
        """Frees it and its state. Its communicator's close() does that, too."""
        self._finalizer.detach()
        self._handle.free()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Optional[type], error: object, traceback: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------- state

    def _parts(self, function: Any) -> Iterator[Tuple[str, Array]]:
        """Names, and arrays over the memory of state, which belongs to the block: not for users."""
        count = ctypes.c_size_t()
        self._call(function, None, 0, ctypes.byref(count))
        parts = (_header.CheckpointTensor * count.value)()
        self._call(function, parts, count, ctypes.byref(count))
        for part in parts:
            dtype = np.dtype(_NUMBERS[Dtype(part.dtype)])
            if part.count == 0:
                yield part.name.decode(), np.empty(0, dtype)
                continue
            memory = (ctypes.c_char * (part.count * dtype.itemsize)).from_address(part.data)
            yield part.name.decode(), np.frombuffer(memory, dtype)


def check_state(state: Mapping[str, Array], parts: Mapping[str, Array]) -> Dict[str, Array]:
    """The arrays of a saved state, one for each part, of the same shapes and dtypes; and finite."""
    found = {}
    for name, array in parts.items():
        if name not in state:
            raise invalid(Status.INVALID_OPTIONS, f"the state has no {name!r}")
        given = np.asarray(state[name])
        if given.shape != array.shape or given.dtype != array.dtype:
            raise invalid(Status.INVALID_OPTIONS, f"the state has another shape or dtype of {name!r}")
        if not np.isfinite(given).all():
            raise invalid(Status.INVALID_OPTIONS, f"the state of {name!r} is not finite")
        found[name] = given
    return found


def float32_array(thing: Buffer, name: str, purpose: str) -> Array:
    """An array that the library changes in place."""
    array = as_array(thing, name)
    if array.dtype != np.float32 or not array.flags.c_contiguous or not array.flags.writeable:
        raise invalid(
            Status.INVALID_BUFFER,
            f"{name} must be a contiguous, writeable array of float32, to be {purpose} in place",
        )
    return array
