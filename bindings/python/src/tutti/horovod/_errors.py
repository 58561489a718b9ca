"""The exceptions of Horovod's interface; programs import them as horovod.common.exceptions."""

from __future__ import annotations

import re


class HorovodInternalError(RuntimeError):
    """An operation failed: ranks disagree about it, or a rank is gone. The text names the ranks."""


class HostsUpdatedInterrupt(RuntimeError):
    """Never raised, as there is no elastic training; here for programs that catch it."""


class HorovodVersionMismatchError(ImportError):
    """Never raised; here for programs that catch it."""


class ProtocolError(Exception):
    """Another rank sent what is no message of these."""


def cause_of(text: str) -> str:
    """A text of the library's without the call that failed, which is the engine's own and means nothing to a program.

    "PROC_FAILED: allreduce_start(count 8, float32, sum) #2: rank 1 died" → "PROC_FAILED: rank 1 died"
    "PROC_FAILED: recv(count 32768, uint8, from rank 1, tag 0): rank 1 died" → "PROC_FAILED: rank 1 died"
    """
    return re.sub(r"\A([A-Z_]+: )?[a-z_]+\([^()]*\)( #[0-9]+)?: ", r"\1", text)


def not_initialized() -> ValueError:
    return ValueError("Horovod has not been initialized; use hvd.init().")
