"""Arguments as C takes them: a value that does not fit is refused, where ctypes would cut it to fit."""

from __future__ import annotations

import operator
from typing import Optional, SupportsIndex, Union

from ._errors import invalid
from ._header import Encoding, Status

INT_MAX = 2**31 - 1
SIZE_MAX = 2**64 - 1
_NS_MAX = 2**63 - 1


def integer(
    name: str, value: SupportsIndex, least: int, status: Status, most: int = INT_MAX
) -> int:
    """A whole number from `least` to `most`; of any type that is one, also of NumPy's."""
    number = operator.index(value)
    if not least <= number <= most:
        raise invalid(status, f"{name} must be from {least} to {most}, is {number}")
    return number


def text(name: str, value: str) -> bytes:
    """As a string of C, which ends at the first NUL."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not {value!r:.60}")
    if "\0" in value:
        raise invalid(Status.INVALID_OPTIONS, f"{name} has a NUL in it: {value!r}")
    return value.encode()


def permission(encoding: Union[str, Encoding]) -> bytes:
    """A permission to encode, as a string of C. An Encoding stands for its name."""
    if isinstance(encoding, Encoding):
        return encoding.name.lower().encode()
    if not isinstance(encoding, str):
        raise invalid(
            Status.INVALID_OPTIONS,
            f"encoding must be a str such as 'bfloat16/hosts', or an Encoding, is {type(encoding).__name__}",
        )
    return text("encoding", encoding)


def printable(value: str) -> str:
    """A text that may come from anywhere, such as that of an exception, without what text() refuses."""
    return value.replace("\0", "\\0")


def nanoseconds(name: str, seconds: Optional[float]) -> int:
    """0 for None. A time that is too long for the field, such as infinity, becomes 292 years."""
    if seconds is None:
        return 0
    if not seconds > 0:
        raise invalid(
            Status.INVALID_OPTIONS, f"{name} must be above 0 seconds, is {seconds}"
        )
    return max(1, round(min(seconds * 1e9, float(_NS_MAX // 1024 * 1024))))
