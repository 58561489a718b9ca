"""What goes wrong, as exceptions: one class per thing that a program may want to do about it."""

from __future__ import annotations

import ctypes
from typing import NamedTuple, Optional, Type

from . import _header
from ._header import Status
from ._library import library


class Failure(NamedTuple):
    """Why a communicator failed."""

    status: Status
    culprit: Optional[int]  # the rank at fault, None if none can be named; the same on every survivor
    reporter: int  # the rank that found out first
    pid: Optional[int]  # process of the culprit, if known
    sequence: int  # number of the operation on this communicator, from 1; 0: outside of one
    message: str


class Error(Exception):
    """A call failed. `str()` of it is the whole story: rank, host, operation, sequence."""

    def __init__(self, status: Status, message: str, failure: Optional[Failure] = None) -> None:
        super().__init__(status, message, failure)
        self.status = status
        self.message = message
        #: Why the communicator failed, if it did; None: it lives on.
        self.failure = failure

    @property
    def culprit(self) -> Optional[int]:
        """The rank at fault, if one can be named."""
        return self.failure.culprit if self.failure is not None else None

    def __str__(self) -> str:
        # The library's messages about failures begin with the status, those about arguments do not.
        if self.message.startswith(self.status.name):
            return self.message
        return f"{self.status.name}: {self.message}"


class InvalidArgument(Error, ValueError):
    """An argument makes no sense (INVALID_*). Nothing was sent and nothing has changed."""


class Timeout(Error, TimeoutError):
    """A deadline passed (TIMEOUT, INIT_TIMEOUT); the message names who did not come."""


class RankFailed(Error):
    """A rank died (PROC_FAILED)."""


class Mismatch(Error):
    """Ranks did not call the same thing (MISMATCH, DESYNC)."""


class Aborted(Error):
    """Somebody called abort()."""


class Truncated(Error):
    """A message is longer than the place for it, or of another dtype. The communicator lives on."""


class Minority(Error):
    """This rank is cut off from most others, which may go on without it (MINORITY)."""


class Revoked(Error):
    """Somebody called revoke() (REVOKED); shrink() goes on."""


class Excluded(Error):
    """Ranks are put out of the communicator (EXCLUDED). `culprit` is the first of them: if it is this rank, end this
    process, else call exclude() with the same ranks."""


class Corrupt(Error):
    """What a rank sent arrives changed, also when it is sent again (CORRUPT)."""


class Unsupported(Error):
    """Known, but impossible here (UNSUPPORTED)."""


_CLASSES = {
    Status.TIMEOUT: Timeout,
    Status.INIT_TIMEOUT: Timeout,
    Status.PROC_FAILED: RankFailed,
    Status.MISMATCH: Mismatch,
    Status.DESYNC: Mismatch,
    Status.ABORTED: Aborted,
    Status.TRUNCATED: Truncated,
    Status.MINORITY: Minority,
    Status.CORRUPT: Corrupt,
    Status.REVOKED: Revoked,
    Status.EXCLUDED: Excluded,
    Status.UNSUPPORTED: Unsupported,
}


def class_of(status: Status) -> Type[Error]:
    if status.name.startswith("INVALID_"):
        return InvalidArgument
    return _CLASSES.get(status, Error)


def failure_of(comm: Optional[int]) -> Optional[Failure]:
    """Why that communicator failed; None if it has not."""
    if comm is None:
        return None
    found = _header.Failure(size_bytes=ctypes.sizeof(_header.Failure))
    if library.comm_failure(comm, ctypes.byref(found)) != Status.OK:
        return None
    if found.status == Status.OK:
        return None
    return Failure(
        Status(found.status),
        found.culprit if found.culprit >= 0 else None,
        found.reporter,
        found.pid or None,
        found.sequence,
        found.message.decode(errors="replace"),
    )


def error_of(status: int, comm: Optional[int] = None) -> Error:
    """The error of the call that this thread just made, which returned that status."""
    known = Status(status)
    message = library.error_message().decode(errors="replace")
    return class_of(known)(known, message, failure_of(comm))


def check(status: int, comm: Optional[int] = None) -> None:
    if status != Status.OK:
        raise error_of(status, comm)


def invalid(status: Status, message: str) -> InvalidArgument:
    """An argument that the library does not even get to see."""
    return InvalidArgument(status, message)
