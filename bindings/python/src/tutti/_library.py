"""Finds and loads libtutti.so, on first use.

Looked for in this order: the file that $TUTTI_LIBRARY names, beside this package (where a wheel has it),
and where the system's loader looks.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Optional

from . import _header

# One soname for each major version: docs/reference/compatibility.md.
SONAME = "libtutti.so.0"


class Library:
    """Its attributes are the functions, without "tutti_"; ctypes lets go of the GIL while they run."""

    def __init__(self) -> None:
        self._loaded: Optional[ctypes.CDLL] = None
        self._lock = threading.Lock()

    def load(self) -> ctypes.CDLL:
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = _open()
        return self._loaded

    @property
    def path(self) -> str:
        return self.load()._name

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not here yet.
        found = (
            _header.FUNCTIONS.get(name)
            or _header.TRAIN_FUNCTIONS.get(name)
            or _header.ELASTIC_FUNCTIONS.get(name)
        )
        if found is None:
            raise AttributeError(name)
        result, arguments = found
        try:
            function = getattr(self.load(), "tutti_" + name)
        except AttributeError:
            from ._errors import Unsupported

            raise Unsupported(
                _header.Status.UNSUPPORTED, f"{self.path} has no function tutti_{name}"
            ) from None
        function.restype = result
        function.argtypes = arguments
        setattr(self, name, function)
        return function


def _open() -> ctypes.CDLL:
    named = os.environ.get("TUTTI_LIBRARY")
    if named:
        return ctypes.CDLL(named)
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtutti.so")
    if os.path.exists(beside):
        return ctypes.CDLL(beside)
    try:
        return ctypes.CDLL(SONAME)
    except OSError as error:
        raise ImportError(
            f"{SONAME} was not found: not in $TUTTI_LIBRARY, not as {beside}, not by the system ({error})"
        ) from error


library = Library()
