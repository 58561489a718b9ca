"""Sparse tensors: rows of a matrix that only some ranks have, as indices and values.

The arrays of a result lie in memory of the library, which is given back with the last of them.
"""

from __future__ import annotations

import ctypes
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _header
from ._arguments import SIZE_MAX, integer, nanoseconds
from ._buffers import Array, Buffer, address_of, as_array
from ._dtypes import dtype_of
from ._errors import Error, check, invalid
from ._header import Dtype, Status
from ._library import library
from ._operations import SUM, Op, resolve

if TYPE_CHECKING:
    from ._communicator import Communicator

_WAYS = {"chosen": 0, "gather": 1, "owner": 2, "dense": 3}
_EXPLANATION_BYTES = 1024


class SparseRows(NamedTuple):
    """Rows of a matrix, by increasing index. `indices` are int64 of shape (k,), `values` of shape (k, ...)."""

    indices: Array
    values: Array
    #: The way that was taken, and what each way would have cost, in lines of text.
    explanation: str


def sparse_range(row_count: int, size: int, rank: int) -> Tuple[int, int]:
    """The rows of a table that a rank owns, from the first up to the second number: first, end."""
    first, count = ctypes.c_size_t(), ctypes.c_size_t()
    rows = integer("row_count", row_count, 0, Status.INVALID_COUNT, SIZE_MAX)
    check(library.sparse_range(rows, size, rank, ctypes.byref(first), ctypes.byref(count)))
    return first.value, first.value + count.value


def _options(
    timeout: Optional[float], way: str, deterministic: bool
) -> _header.SparseOptions:
    if way not in _WAYS:
        wanted = " or ".join(f'"{known}"' for known in _WAYS)
        raise invalid(Status.INVALID_OPTIONS, f"way is {wanted}, not {way!r}")
    return _header.SparseOptions(
        ctypes.sizeof(_header.SparseOptions),
        nanoseconds("timeout", timeout),
        _WAYS[way],
        int(deterministic),
    )


def _indices(indices: Union[Buffer, Sequence[int]]) -> Array:
    """As int64 without gaps; a copy if they are something else."""
    array = np.asarray(indices) if isinstance(indices, (list, tuple)) else as_array(indices, "indices")
    if array.size > 0 and array.dtype.kind not in "iu":
        raise invalid(Status.INVALID_DTYPE, f"indices are {array.dtype}, not whole numbers")
    if array.ndim != 1:
        raise invalid(Status.INVALID_COUNT, f"indices have shape {array.shape}, not one dimension")
    if array.dtype == np.uint64 and array.size > 0 and int(array.max()) >= 2**63:
        raise invalid(Status.INVALID_COUNT, f"an index is {int(array.max())}")
    return np.ascontiguousarray(array, np.int64)


def _address(array: Array) -> Optional[int]:
    return address_of(array) if array.size > 0 else None


def _rows(
    indices: Array, values: Buffer, row_count: int, dtype: Optional[Dtype]
) -> Tuple[_header.SparseRows, Array]:
    array = as_array(values, "values")
    if array.ndim == 0 or array.shape[0] != indices.size:
        raise invalid(
            Status.INVALID_COUNT,
            f"values have shape {array.shape}, which is not a row for each of {indices.size} indices",
        )
    array = np.ascontiguousarray(array)
    width = int(np.prod(array.shape[1:], dtype=np.int64))
    struct = _header.SparseRows(
        integer("row_count", row_count, 0, Status.INVALID_COUNT, SIZE_MAX),
        width,
        int(dtype_of(array.dtype, dtype, "values")),
        indices.size,
        _address(indices),
        _address(array),
    )
    return struct, array


def _view(address: int, count: int, dtype: np.dtype[Any], owner: Any) -> Array:
    """An array over memory of a result, which lives as long as its last array."""
    memory: Any = (ctypes.c_ubyte * (count * dtype.itemsize)).from_address(address)
    memory.owner = owner
    return np.ndarray((count,), dtype, buffer=memory)


class _Result:
    """A result of the library, freed with the last array of it."""

    def __init__(self, handle: int) -> None:
        weakref.finalize(self, library.sparse_free, handle).atexit = False  # the system takes the memory


def _taken(handle: ctypes.c_void_p, like: Array) -> SparseRows:
    assert handle.value is not None
    owner = _Result(handle.value)
    rows = _header.SparseRows()
    check(library.sparse_view(handle, ctypes.byref(rows)))
    text = ctypes.create_string_buffer(_EXPLANATION_BYTES)
    check(library.sparse_explain(handle, text, len(text)))
    shape = (rows.count,) + like.shape[1:]
    if rows.count == 0:
        return SparseRows(np.empty(0, np.int64), np.empty(shape, like.dtype), text.value.decode())
    indices = _view(rows.indices, rows.count, np.dtype(np.int64), owner)
    values = _view(rows.values, rows.count * rows.width, like.dtype, owner)
    return SparseRows(indices, values.reshape(shape), text.value.decode())


@contextmanager
def _told_to_others(comm: "Communicator", function: Any, *without_rows: Any) -> Iterator[None]:
    """A mistake that Python finds in this rank's arguments: the others learn of it, and do not wait for this rank.

    The library is called without rows, which it refuses after it has told the other ranks.
    """
    try:
        yield
    except (Error, TypeError, ValueError, OverflowError):
        comm._state.call(function, *without_rows)
        raise


def reduce(
    comm: "Communicator",
    function: Any,
    indices: Union[Buffer, Sequence[int]],
    values: Buffer,
    row_count: int,
    op: Union[str, Op],
    timeout: Optional[float],
    way: str,
    deterministic: bool,
    dtype: Optional[Dtype],
) -> SparseRows:
    result = ctypes.c_void_p()
    state = comm._state
    with _told_to_others(comm, function, None, SUM.handle, None, state.pointer, ctypes.byref(result)):
        own = _indices(indices)
        rows, array = _rows(own, values, row_count, dtype)
        operation = resolve(op, array.dtype.kind == "b")
        options = _options(timeout, way, deterministic)
    status = state.call(
        function,
        ctypes.byref(rows),
        operation.handle,
        ctypes.byref(options),
        state.pointer,
        ctypes.byref(result),
    )
    state.report(operation)
    check(status, state.handle)
    return _taken(result, array)


def pull(
    comm: "Communicator",
    table: Buffer,
    indices: Union[Buffer, Sequence[int]],
    row_count: int,
    out: Optional[Array],
    timeout: Optional[float],
    dtype: Optional[Dtype],
) -> Array:
    state = comm._state
    with _told_to_others(comm, library.sparse_pull, None, None, 0, None, None, state.pointer):
        struct, wanted, found, options = _lookup(comm, table, indices, row_count, out, timeout, dtype)
    status = state.call(
        library.sparse_pull,
        ctypes.byref(struct),
        _address(wanted),
        wanted.size,
        _address(found),
        ctypes.byref(options),
        state.pointer,
    )
    check(status, state.handle)
    return found


def _lookup(
    comm: "Communicator",
    table: Buffer,
    indices: Union[Buffer, Sequence[int]],
    row_count: int,
    out: Optional[Array],
    timeout: Optional[float],
    dtype: Optional[Dtype],
) -> Tuple[_header.SparseTable, Array, Array, _header.SparseOptions]:
    """The arguments of pull(), checked: the table, the indices, the array of the rows, and options."""
    own = as_array(table, "table")
    wanted = _indices(indices)
    first, end = sparse_range(row_count, comm.size, comm.rank)
    if own.ndim == 0 or own.shape[0] != end - first:
        raise invalid(
            Status.INVALID_COUNT,
            f"table has shape {own.shape}, but this rank owns the {end - first} rows from {first} to {end - 1}",
        )
    if not own.flags.c_contiguous:
        raise invalid(Status.INVALID_BUFFER, "table is not contiguous in memory (in C order)")
    shape = (wanted.size,) + own.shape[1:]
    found = np.empty(shape, own.dtype) if out is None else out
    if found.shape != shape or found.dtype != own.dtype:
        raise invalid(
            Status.INVALID_COUNT,
            f"out has {found.dtype} of shape {found.shape}, but {own.dtype} of shape {shape} will come",
        )
    if not found.flags.c_contiguous or not found.flags.writeable:
        raise invalid(Status.INVALID_BUFFER, "out is not contiguous in memory, or read-only")
    struct = _header.SparseTable(
        row_count,
        int(np.prod(own.shape[1:], dtype=np.int64)),
        int(dtype_of(own.dtype, dtype, "table")),
        _address(own),
    )
    return struct, wanted, found, _options(timeout, "chosen", False)
