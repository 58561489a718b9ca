"""Which dtype of Tutti the elements of a NumPy array are, and the other way round."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Optional, Tuple

import numpy as np

from ._errors import invalid
from ._header import Dtype, Status

_BY_KIND = {
    ("f", 2): Dtype.float16,
    ("f", 4): Dtype.float32,
    ("f", 8): Dtype.float64,
    ("i", 1): Dtype.int8,
    ("i", 2): Dtype.int16,
    ("i", 4): Dtype.int32,
    ("i", 8): Dtype.int64,
    ("u", 1): Dtype.uint8,
    ("u", 2): Dtype.uint16,
    ("u", 4): Dtype.uint32,
    ("u", 8): Dtype.uint64,
    ("b", 1): Dtype.uint8,
}
# What the package ml_dtypes calls them.
_BY_NAME = {
    "bfloat16": Dtype.bfloat16,
    "float8_e4m3fn": Dtype.float8_e4m3,
    "float8_e5m2": Dtype.float8_e5m2,
}
_SIZES = {
    Dtype.bfloat16: 2,
    Dtype.float8_e4m3: 1,
    Dtype.float8_e5m2: 1,
}


# NumPy's type numbers from here on belong to other packages.
USER_DEFINED = 256


def _guess(dtype: np.dtype[Any]) -> Optional[Dtype]:
    if dtype.num >= USER_DEFINED:
        return _BY_NAME.get(dtype.name)
    return _BY_KIND.get((dtype.kind, dtype.itemsize)) if dtype.isnative else None


def dtype_size(dtype: Dtype) -> int:
    size = _SIZES.get(dtype)
    return size if size is not None else np.dtype(dtype.name).itemsize


def dtype_of(array_dtype: np.dtype[Any], wanted: Optional[Dtype], name: str) -> Dtype:
    """The dtype of an array's elements. `wanted` is what the user says that its raw bits are."""
    found = _guess(array_dtype)
    if wanted is None:
        if found is None:
            raise invalid(
                Status.INVALID_DTYPE,
                f"{name} has elements of {array_dtype!r}, for which there is no dtype"
                " (complex numbers can be sent as a view of their parts)",
            )
        return found
    if found == wanted:
        return found
    raw = array_dtype.kind in "uV" and array_dtype.num < USER_DEFINED
    if not raw or array_dtype.itemsize != dtype_size(wanted):
        raise invalid(
            Status.INVALID_DTYPE, f"{name} has elements of {array_dtype!r}, which are not {wanted.name}"
        )
    return wanted


def native_dtype(dtype: Dtype) -> Tuple[np.dtype[Any], bool]:
    """How NumPy sees such elements, and whether it can compute with them (else they are raw bits)."""
    if dtype not in _SIZES:
        return np.dtype(dtype.name), True
    try:
        ml_dtypes = import_module("ml_dtypes")
    except ImportError:
        return np.dtype(f"uint{8 * _SIZES[dtype]}"), False
    for name, known in _BY_NAME.items():
        if known == dtype:
            return np.dtype(getattr(ml_dtypes, name)), True
    raise AssertionError(dtype)
