"""What the library is told about tensors: where they lie, how many elements, which dtype, and which operation.

Tensors with gaps are copied: into a dense one before, and back out of it when the operation is done.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Sequence, Tuple

import torch
import torch.distributed as dist
import tutti
from tutti import Dtype
from tutti._header import OPERATIONS, Tensor, TensorList

# Each dtype: what it is to the library, and how many of those an element is.
_NAMES: Dict[str, Tuple[Dtype, int]] = {
    "float32": (Dtype.float32, 1),
    "float64": (Dtype.float64, 1),
    "float16": (Dtype.float16, 1),
    "bfloat16": (Dtype.bfloat16, 1),
    "float8_e4m3fn": (Dtype.float8_e4m3, 1),
    "float8_e5m2": (Dtype.float8_e5m2, 1),
    "int8": (Dtype.int8, 1),
    "int16": (Dtype.int16, 1),
    "int32": (Dtype.int32, 1),
    "int64": (Dtype.int64, 1),
    "uint8": (Dtype.uint8, 1),
    "uint16": (Dtype.uint16, 1),
    "uint32": (Dtype.uint32, 1),
    "uint64": (Dtype.uint64, 1),
    "bool": (Dtype.uint8, 1),
    "complex64": (Dtype.float32, 2),
    "complex128": (Dtype.float64, 2),
}
_DTYPES: Dict[torch.dtype, Tuple[int, int]] = {
    getattr(torch, name): (int(dtype), factor)
    for name, (dtype, factor) in _NAMES.items()
    if hasattr(torch, name)
}

_RED = dist.ReduceOp
_OPERATIONS = {
    hash(_RED.SUM): OPERATIONS["sum"],
    hash(_RED.AVG): OPERATIONS["avg"],
    hash(_RED.PRODUCT): OPERATIONS["prod"],
    hash(_RED.MIN): OPERATIONS["min"],
    hash(_RED.MAX): OPERATIONS["max"],
    hash(_RED.BAND): OPERATIONS["band"],
    hash(_RED.BOR): OPERATIONS["bor"],
    hash(_RED.BXOR): OPERATIONS["bxor"],
}
# True and False stay what they are.
_OPERATIONS_OF_BOOL = {
    **_OPERATIONS,
    hash(_RED.SUM): OPERATIONS["lor"],
    hash(_RED.PRODUCT): OPERATIONS["land"],
}
_scaled_sums: Dict[float, tutti.Op] = {}
_OVERLAPS = 1  # of what PyTorch knows of a tensor's elements: surely they do

# (tensor with gaps, its dense twin): copied back at the end.
Copies = List[Tuple[torch.Tensor, torch.Tensor]]


def dtype_of(tensor: torch.Tensor) -> Tuple[int, int]:
    """For what is only moved: any dtype will do, those that the library does not know as their bytes."""
    known = _DTYPES.get(tensor.dtype)
    return known if known is not None else (Dtype.uint8, tensor.element_size())


def dtype_to_reduce(tensor: torch.Tensor) -> Tuple[int, int]:
    known = _DTYPES.get(tensor.dtype)
    if known is None:
        raise TypeError(f"there are no reductions of {tensor.dtype}")
    return known


def operation_of(reduce_op: Any, dtype: torch.dtype) -> int:
    """The library's operation, as ctypes takes it."""
    table = _OPERATIONS_OF_BOOL if dtype is torch.bool else _OPERATIONS
    known = table.get(hash(reduce_op))
    if known is None:
        return _scaled_sum(reduce_op)
    if dtype.is_complex and known not in (OPERATIONS["sum"], OPERATIONS["avg"]):
        raise ValueError(f"complex numbers cannot be reduced with {reduce_op}")
    return known


def _scaled_sum(reduce_op: Any) -> int:
    factor = getattr(reduce_op, "factor", None)
    if not isinstance(factor, float):
        raise ValueError(f"the reduction {reduce_op} is not known, or its factor is not a number")
    if factor not in _scaled_sums:
        _scaled_sums[factor] = tutti.scaled_sum(factor)
    return _scaled_sums[factor].handle


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """What is sent: the tensor, or a copy without gaps."""
    if not tensor.is_cpu:
        raise ValueError(f"the backend tutti takes tensors of the CPU, not of {tensor.device}")
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def dense_to_write(tensor: torch.Tensor, copies: Copies) -> torch.Tensor:
    """What is written, and maybe sent, too: the tensor, or a copy that comes back at the end."""
    twin = dense(tensor)
    if twin is not tensor:
        if torch._debug_has_internal_overlap(tensor) == _OVERLAPS:
            raise ValueError(
                f"elements of the tensor to write lie in one place (shape {tuple(tensor.shape)}, strides {tensor.stride()}):"
                " clone() it first"
            )
        copies.append((tensor, twin))
    return twin


def copy_back(copies: Copies) -> None:
    for tensor, twin in copies:
        tensor.detach().copy_(twin)


class List_:
    """Tensors as one buffer of the library, one after the other."""

    __slots__ = ("struct", "address", "keep")

    def __init__(self, tensors: Sequence[torch.Tensor], factor: int) -> None:
        entries = (Tensor * len(tensors))(
            *[(tensor.data_ptr(), tensor.numel() * factor) for tensor in tensors]
        )
        self.struct = TensorList(entries, len(tensors))
        self.address = ctypes.addressof(self.struct)
        self.keep = (entries, tensors)


class Blocks:
    """Blocks of bytes, one for each rank, wherever they lie: a base with counts and displacements from it. In units of so
    many bytes, of which all are multiples."""

    __slots__ = ("base", "counts", "displs")

    def __init__(self, addresses: Sequence[int], sizes: Sequence[int], unit: int = 1) -> None:
        self.base = min((a for a, size in zip(addresses, sizes) if size), default=0)
        Sizes = ctypes.c_size_t * len(sizes)
        self.counts = Sizes(*[size // unit for size in sizes])
        self.displs = Sizes(*[(a - self.base) // unit if size else 0 for a, size in zip(addresses, sizes)])

    @classmethod
    def of_tensors(cls, tensors: Sequence[torch.Tensor]) -> "Blocks":
        return cls(
            [tensor.data_ptr() for tensor in tensors],
            [tensor.numel() * tensor.element_size() for tensor in tensors],
        )

    @classmethod
    def of_rows(cls, tensor: torch.Tensor, rows: Sequence[int], size: int, name: str) -> "Blocks":
        """The tensor cut along its first dimension, in elements of its dtype_of; evenly when `rows` is empty."""
        length = tensor.shape[0] if tensor.dim() else 0
        if not rows:
            if length % size != 0:
                raise ValueError(f"{name}: {length} rows cannot be dealt evenly to {size} ranks")
            rows = [length // size] * size
        if len(rows) != size or min(rows) < 0 or sum(rows) != length:
            raise ValueError(f"{name}: {list(rows)} does not cut {length} rows for {size} ranks")
        row_bytes = tensor.numel() // length * tensor.element_size() if length else 0
        address, addresses = tensor.data_ptr(), []
        for count in rows:
            addresses.append(address)
            address += count * row_bytes
        unit = tensor.element_size() // dtype_of(tensor)[1]
        return cls(addresses, [count * row_bytes for count in rows], unit)


def only(tensors: Sequence[torch.Tensor], call: str) -> torch.Tensor:
    """The one tensor of a list with one entry."""
    if len(tensors) != 1:
        raise ValueError(f"{call} takes one tensor at a time, not {len(tensors)}")
    return tensors[0]
