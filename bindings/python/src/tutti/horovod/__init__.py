"""Horovod's interface over Tutti: programs that import horovod.torch, .tensorflow or .keras run without Horovod.

    tutti-run -n 4 python3 -m tutti.horovod train.py        # the program finds it as horovod.torch
    import tutti.horovod.torch as hvd                       # or imports it by its own name

Importing this package imports no framework; `tutti.horovod.torch` needs PyTorch, and `tutti.horovod.tensorflow` needs
TensorFlow. docs/start/horovod.md tells which
functions there are, and how they differ from Horovod's.
"""

from __future__ import annotations

from typing import Any

from ._alias import install
from ._errors import HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt

#: The version of Horovod whose interface this is.
__version__ = "0.28.1"

__all__ = [
    "HorovodInternalError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
    "__version__",
    "install",
    "run",
]


def run(*arguments: Any, **keywords: Any) -> Any:
    """Horovod's launcher from Python, which is not here."""
    raise NotImplementedError(
        "horovod.run() is not part of tutti.horovod: start the ranks with tutti-run, torchrun, mpirun or srun, such as"
        " `tutti-run -n 4 python3 -m tutti.horovod train.py`"
    )
