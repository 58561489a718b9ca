"""Where JAX's coordinator listens: process 0 chooses, and tells the others through Tutti."""

from __future__ import annotations

import os
import socket
from typing import Tuple

import numpy as np
import tutti

_ADDRESS_BYTES = 256


def meet() -> Tuple[str, int, int]:
    """The coordinator's address, the number of processes, and that of this one."""
    with tutti.init() as comm:
        text = np.zeros(_ADDRESS_BYTES, np.uint8)
        if comm.rank == 0:
            address = _choose().encode()
            text[: len(address)] = np.frombuffer(address, np.uint8)
        told = comm.broadcast(text, root=0)
        return bytes(told).rstrip(b"\0").decode(), comm.size, comm.rank


def _choose() -> str:
    """A port that is free now, at the address by which the launcher says that others find this host."""
    host = os.environ.get("MASTER_ADDR") or "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as place:
        place.bind(("", 0))
        port = place.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
