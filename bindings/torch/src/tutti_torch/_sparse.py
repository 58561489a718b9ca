"""Sums of sparse tensors, by the library's collective for sparse rows.

The sparse dimensions of a tensor are numbered as rows of a matrix, its dense dimensions are a row. The tensor need not be
coalesced, as the library combines entries of one place. It is over when the call returns: how many entries there are
has to be known before they are exchanged.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, List

import torch
import torch.distributed as dist
import tutti
from tutti._arguments import nanoseconds
from tutti._dtypes import dtype_size
from tutti._errors import check
from tutti._header import SparseOptions, SparseRows
from tutti._library import library

from ._errors import as_runtime_error
from ._tensors import dtype_to_reduce, operation_of
from ._work import Work, finished

_ROWS_MAX = 2**63 - 1


def allreduce(group: Any, tensor: torch.Tensor, opts: Any) -> Work:
    if opts.reduceOp != dist.ReduceOp.SUM:
        raise ValueError("sparse tensors can only be summed")
    if not tensor.is_cpu:
        raise ValueError(f"the backend tutti takes tensors of the CPU, not of {tensor.device}")
    entries = tensor.detach()
    sparse_shape = list(entries.shape[: entries.sparse_dim()])
    row_shape = list(entries.shape[entries.sparse_dim() :])
    row_count = math.prod(sparse_shape)
    if row_count > _ROWS_MAX:
        raise ValueError(f"a sparse tensor of shape {tuple(tensor.shape)} has too many places")
    numbers = _numbered(entries._indices(), sparse_shape)
    values = entries._values().contiguous()
    dtype, factor = dtype_to_reduce(values)
    width = math.prod(row_shape) * factor
    if row_count == 0 or width == 0:  # on all ranks
        return finished([tensor])
    rows = SparseRows(
        row_count, width, dtype, numbers.numel(), numbers.data_ptr(), values.data_ptr()
    )
    indices, sums = _sum(group, rows, operation_of(opts.reduceOp, values.dtype), opts, values.dtype)
    total = torch.sparse_coo_tensor(
        _places(indices, sparse_shape),
        sums.reshape([indices.numel(), *row_shape]),
        tensor.shape,
    )
    total._coalesced_(True)
    with torch.no_grad():
        tensor.copy_(total)
    return finished([tensor])


def _numbered(places: torch.Tensor, shape: List[int]) -> torch.Tensor:
    """The row of each place, whose coordinates are a column."""
    if len(shape) == 1:
        return places[0].contiguous()
    numbers = torch.zeros(places.shape[1], dtype=torch.int64)
    for size, coordinates in zip(shape, places):
        numbers = numbers * size + coordinates
    return numbers


def _places(numbers: torch.Tensor, shape: List[int]) -> torch.Tensor:
    if len(shape) == 1:
        return numbers.unsqueeze(0)
    coordinates = []
    for size in reversed(shape):
        coordinates.append(numbers.remainder(size))
        numbers = numbers.div(size, rounding_mode="floor")
    return torch.stack(coordinates[::-1])


def _sum(group: Any, rows: SparseRows, op: int, opts: Any, dtype: torch.dtype) -> Any:
    """Indices and elements of the sum, in memory of their own."""
    options = SparseOptions(ctypes.sizeof(SparseOptions))
    if opts.timeout.days >= 0 and opts.timeout:
        options.timeout_ns = nanoseconds("timeout", opts.timeout.total_seconds())
    result = ctypes.c_void_p()
    state = group._state
    try:
        status = state.call(
            library.sparse_allreduce,
            ctypes.byref(rows),
            op,
            ctypes.byref(options),
            group._pointer(),
            ctypes.byref(result),
        )
        check(status, state.handle)
    except tutti.Error as error:
        raise as_runtime_error(error) from None
    try:
        view = SparseRows()
        check(library.sparse_view(result, ctypes.byref(view)))
        indices = torch.empty(view.count, dtype=torch.int64)
        size_bytes = view.count * view.width * dtype_size(tutti.Dtype(view.dtype))
        elements = torch.empty(0, dtype=dtype)
        elements = elements.new_empty(size_bytes // elements.element_size())
        ctypes.memmove(indices.data_ptr(), view.indices, view.count * 8)
        ctypes.memmove(elements.data_ptr(), view.values, size_bytes)
    finally:
        library.sparse_free(result)
    return indices, elements
