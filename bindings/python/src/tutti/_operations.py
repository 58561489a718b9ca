"""Reductions: the constants, scaled sums, and Python functions."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Callable, Optional, Union

import numpy as np

from . import _callbacks, _header
from ._buffers import Array
from ._dtypes import native_dtype
from ._arguments import text
from ._errors import Error, check, invalid
from ._header import OPERATIONS, Dtype, Status
from ._library import library

Combine = Callable[[Array, Array], Any]


class Op:
    """An operation, wherever `op` is wanted. The constants may be given by name: "sum" for tutti.SUM.

    SUM PROD MIN MAX AVG, and for integers LAND LOR LXOR BAND BOR BXOR.
    """

    __slots__ = ("handle", "name", "is_user", "_combine", "_error", "__weakref__")

    def __init__(self, handle: int, name: str) -> None:
        self.handle = handle
        self.name = name
        self.is_user = False
        self._combine: Any = None
        self._error: Optional[BaseException] = None

    def __repr__(self) -> str:
        return f"<tutti.Op {self.name}>"

    def take_error(self) -> Optional[BaseException]:
        """What the function raised since it was last asked."""
        error, self._error = self._error, None
        return error


CONSTANTS = {name: Op(handle, name) for name, handle in OPERATIONS.items()}
SUM, PROD, MIN, MAX = (CONSTANTS[name] for name in ("sum", "prod", "min", "max"))
AVG = CONSTANTS["avg"]
LAND, LOR, LXOR = (CONSTANTS[name] for name in ("land", "lor", "lxor"))
BAND, BOR, BXOR = (CONSTANTS[name] for name in ("band", "bor", "bxor"))
# True and False stay what they are.
_FOR_BOOLEANS = frozenset(OPERATIONS) - {"sum", "prod", "avg"}


def _create(options: _header.OpOptions, op: Op) -> Op:
    made = ctypes.c_void_p()
    options.size_bytes = ctypes.sizeof(options)
    check(library.op_create(ctypes.byref(options), ctypes.byref(made)))
    assert made.value is not None
    op.handle = made.value
    # The library may still know it at exit; the system takes the memory.
    weakref.finalize(op, _callbacks.later, library.op_free, op.handle).atexit = False
    return op


def scaled_sum(factor: float, name: str = "scaled_sum") -> Op:
    """The sum times a factor, rounded once; for floats. The same factor on all ranks."""
    return _create(_header.OpOptions(name=text("name", name), factor=factor), Op(0, name))


def op(function: Combine, name: Optional[str] = None, commutative: bool = False) -> Op:
    """An operation from a Python function of two arrays that returns their combination (or a ufunc).

        longest = tutti.op(lambda a, b: np.where(abs(a) > abs(b), a, b), "longest")

    It must be associative, and the same on all ranks, which is checked by its name (31 characters at most, by
    default the function's). Unless it is commutative, too, operands stay in the order of ranks.

    It is called with views of a piece of the operands (one dimension, perhaps unaligned) that are gone when it
    returns, from any thread, and must not call Tutti. When it raises, the call that used it raises that,
    and aborts the communicator: no rank gets away with a wrong result.

    It costs the GIL: every piece (some ten kilobytes) needs a call into Python, about 10 microseconds, one at
    a time in a process, whatever else that is doing.
    """
    if name is None:
        name = getattr(function, "__name__", "user")[:31]
    made = Op(0, name)
    made.is_user = True
    made._combine = _header.Combine(_adapted(function, weakref.ref(made)))
    options = _header.OpOptions(
        name=text("name", name), combine=made._combine, commutative=int(commutative), factor=0
    )
    return _create(options, made)


def _adapted(function: Combine, made: "weakref.ref[Op]") -> Callable[..., None]:
    def combine(
        left: int, right: int, result: int, count: int, number: int, context: Optional[int]
    ) -> None:
        with _callbacks.inside():
            dtype, is_exact = native_dtype(Dtype(number))
            into = _view(result, count, dtype)
            try:
                if not is_exact:
                    raise TypeError(f"Python functions on {Dtype(number).name} need the package ml_dtypes")
                a, b = _view(left, count, dtype), _view(right, count, dtype)
                a.flags.writeable = b.flags.writeable = False
                if isinstance(function, np.ufunc):
                    function(a, b, out=into, casting="unsafe")
                else:
                    combined = np.asarray(function(a, b))
                    if combined.shape != into.shape:
                        raise ValueError(f"it made {combined.shape} out of two {into.shape}")
                    into[...] = combined
            except BaseException as error:
                into.view(np.uint8)[...] = 0xFF  # NaN, or -1: nothing that looks like a result
                used = made()
                if used is not None and used._error is None:
                    used._error = error

    return combine


def _view(address: int, count: int, dtype: np.dtype[Any]) -> Array:
    memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.ndarray((count,), dtype, buffer=memory)


def resolve(op: Union[str, Op], is_boolean: bool = False) -> Op:
    if isinstance(op, str):
        found = CONSTANTS.get(op)
        if found is None:
            raise invalid(
                Status.INVALID_OP, f'there is no operation "{op}", but there are: {", ".join(CONSTANTS)}'
            )
        op = found
    elif not isinstance(op, Op):
        raise TypeError(f"op is neither a name nor a tutti.Op but a {type(op).__name__}")
    if is_boolean and op.name not in _FOR_BOOLEANS and not op.is_user:
        raise invalid(
            Status.INVALID_OP, f'"{op.name}" is not for booleans; use "lor", "land", or an array of integers'
        )
    return op


def function_failed(used: Op, error: BaseException) -> Error:
    """The error of a call whose Python function raised."""
    made = Error(Status.ABORTED, f'the operation "{used.name}" raised {error!r}')
    made.__cause__ = error
    return made
