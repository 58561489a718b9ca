"""The exceptions of Horovod's interface; programs import them as horovod.common.exceptions."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """An operation failed: ranks disagree about it, or a rank is gone. The text names the ranks."""


class HostsUpdatedInterrupt(RuntimeError):
    """Never raised, as there is no elastic training; here for programs that catch it."""


class HorovodVersionMismatchError(ImportError):
    """Never raised; here for programs that catch it."""


class ProtocolError(Exception):
    """Another rank sent what is no message of these."""


def not_initialized() -> ValueError:
    return ValueError("Horovod has not been initialized; use hvd.init().")
