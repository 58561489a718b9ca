"""Elements in fewer bytes: encode, decode, and what an encoding loses. include/tutti/encode.h says what each encoding
means."""

from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from ._buffers import Array, Buffer, Side, address_of
from ._dtypes import dtype_of, native_dtype
from ._errors import check, invalid
from ._header import Dtype, Encoding, Status
from ._library import library


def _encoding_of(encoding: Union[Encoding, str]) -> Encoding:
    if isinstance(encoding, Encoding):
        return encoding
    found = ctypes.c_int()
    check(library.encoding_find(str(encoding).encode(), ctypes.byref(found)))
    return Encoding(found.value)


def _dtype_of(dtype: Any) -> Dtype:
    """A dtype of tutti's, or of NumPy's where that has the same name."""
    if isinstance(dtype, Dtype):
        return dtype
    try:
        return dtype_of(np.dtype(dtype), None, "dtype")
    except TypeError:
        raise invalid(
            Status.INVALID_DTYPE, f"dtype must be one of tutti's or NumPy's, such as tutti.float16, is {dtype!r}"
        ) from None


def encoded_size(encoding: Union[Encoding, str], count: int, dtype: Dtype = Dtype.float32) -> int:
    """The bytes of `count` elements of the dtype when they are encoded: whole units, the last one as well."""
    if count < 0:
        raise invalid(Status.INVALID_COUNT, f"count is {count}")
    size = ctypes.c_size_t()
    check(library.encoded_size(_encoding_of(encoding), _dtype_of(dtype), count, ctypes.byref(size)))
    return size.value


def _bytes_for(encoding: Encoding, side: Side, out: Optional[Buffer]) -> Tuple[Array, Any]:
    """Where the encoded bytes of `side` go, and what the caller gets."""
    size = encoded_size(encoding, side.count, side.dtype)
    if out is None:
        made = np.empty(size, np.uint8)
        return made, made
    target = Side(out, "out", None, is_written=True)
    if target.is_list or target.arrays[0].nbytes != size:
        raise invalid(Status.INVALID_COUNT, f"out must be one array of {size} bytes")
    return target.arrays[0], out


def _one(thing: Buffer, name: str, dtype: Optional[Dtype], is_written: bool = False) -> Side:
    side = Side(thing, name, dtype, is_written)
    if side.is_list:
        raise invalid(Status.INVALID_BUFFER, f"{name} is a list, and only one array can be encoded at once")
    return side


def encode(
    array: Buffer,
    encoding: Union[Encoding, str],
    *,
    dtype: Optional[Dtype] = None,
    out: Optional[Buffer] = None,
    residual: Optional[Buffer] = None,
) -> Any:
    """Encodes a contiguous array; returns its bytes, as an array of uint8 or as `out`.

    encoding: an Encoding or its name, such as "int8".
    dtype: the dtype of the elements, where NumPy has no name for it (`tutti.bfloat16`).
    out: a contiguous buffer of encoded_size(...) bytes.
    residual: an array like `array`, which gets what is lost; it may be `array` itself. decoded + residual is the
        element again, bit for bit, where the decoded element is finite (and but for the sign of zero in int8, int4
        and mxint8); elsewhere it is 0.

    Blocks for a pass over the memory, without the GIL; any thread. Raises Unsupported if the encoding does not take
    the dtype, and InvalidArgument otherwise; nothing was written then.
    """
    which = _encoding_of(encoding)
    side = _one(array, "array", None if dtype is None else _dtype_of(dtype))
    target, result = _bytes_for(which, side, out)
    if residual is None:
        check(library.encode(which, side.dtype, side.address, side.count, address_of(target)))
        return result
    rest = _one(residual, "residual", side.dtype if dtype is not None else None, is_written=True)
    if rest.dtype != side.dtype or rest.count != side.count:
        raise invalid(
            Status.INVALID_COUNT,
            f"residual has {rest.count} elements of {rest.dtype.name}, but array {side.count} of {side.dtype.name}",
        )
    check(
        library.encode_residual(
            which, side.dtype, side.address, side.count, address_of(target), rest.address
        )
    )
    return result


def decode(
    encoded: Buffer,
    encoding: Union[Encoding, str],
    count: Union[int, Sequence[int], None] = None,
    *,
    dtype: Optional[Dtype] = None,
    out: Optional[Buffer] = None,
) -> Any:
    """Decodes what `encode` gave; returns an array of that shape, or `out`.

    count: the number of elements, or a shape; not needed with `out`, whose elements it is then.
    dtype: of the elements: float32 unless it is named, or that of `out`.

    Raises InvalidArgument if `encoded` is not as long as so many elements are, and otherwise as `encode`.
    """
    which = _encoding_of(encoding)
    source = _one(encoded, "encoded", None)
    if out is None:
        if count is None:
            raise invalid(Status.INVALID_COUNT, "decode needs the count of elements, or `out`")
        wanted = Dtype.float32 if dtype is None else _dtype_of(dtype)
        made = np.empty(count, native_dtype(wanted)[0])
        side, result = Side(made, "out", wanted, is_written=True), made
    else:
        side, result = _one(out, "out", None if dtype is None else _dtype_of(dtype), is_written=True), out
        if count is not None and int(np.prod(count)) != side.count:
            raise invalid(Status.INVALID_COUNT, f"out has {side.count} elements, and count is {count}")
    size = encoded_size(which, side.count, side.dtype)
    if source.arrays[0].nbytes != size:
        raise invalid(
            Status.INVALID_COUNT,
            f"{side.count} elements of {side.dtype.name} are {size} bytes in {which.name.lower()},"
            f" but encoded has {source.arrays[0].nbytes}",
        )
    check(library.decode(which, side.dtype, source.address, side.count, side.address))
    return result
