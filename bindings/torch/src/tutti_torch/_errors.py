"""Tutti's errors as PyTorch's programs expect them: each is also a RuntimeError."""

from __future__ import annotations

import functools
from typing import Type

import tutti


def _say_timed_out(error: tutti.Error) -> str:
    """Programs look for these words in what PyTorch's own backends say."""
    return f"{tutti.Timeout.__str__(error)}: this Timed out in Tutti"


@functools.lru_cache(maxsize=None)
def _class_of(kind: Type[tutti.Error]) -> Type[tutti.Error]:
    members = {"__doc__": kind.__doc__, "__module__": __name__}
    if issubclass(kind, tutti.Timeout):
        members["__str__"] = _say_timed_out
    return type(kind.__name__, (kind, RuntimeError), members)


def as_runtime_error(error: tutti.Error) -> tutti.Error:
    """The same error, of a class that is both: `except tutti.Timeout` and `except RuntimeError` find it."""
    if isinstance(error, RuntimeError):
        return error
    return _class_of(type(error))(error.status, error.message, error.failure)
