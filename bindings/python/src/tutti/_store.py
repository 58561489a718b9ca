"""A key-value store of the program, through which ranks find each other."""

from __future__ import annotations

import ctypes
from typing import Any, Optional, Protocol

from . import _header


class Store(Protocol):
    """What Communicator(store=...) needs."""

    def set(self, key: str, value: bytes) -> Any:
        """Keeps the value."""

    def get(self, key: str, timeout: float) -> bytes:
        """Blocks until the key is there and returns its value; raises when `timeout` seconds have passed."""


class StoreAdapter:
    """The store as the library wants it, with what it raised."""

    def __init__(self, store: Store) -> None:
        self.error: Optional[BaseException] = None
        self._store = store
        self._struct = _header.Store(
            ctypes.sizeof(_header.Store), _header.StoreSet(self._set), _header.StoreGet(self._get), None
        )
        self.address = ctypes.addressof(self._struct)

    def _set(self, context: Optional[int], key: bytes, value: int, size: int) -> int:
        try:
            self._store.set(key.decode(), ctypes.string_at(value, size))
            return 0
        except BaseException as error:
            self.error = error
            return 1

    def _get(
        self, context: Optional[int], key: bytes, place: int, size: int, timeout_ns: int
    ) -> int:
        try:
            value = bytes(self._store.get(key.decode(), timeout_ns / 1e9))
            if len(value) != size:
                raise ValueError(f"the store has {len(value)} bytes for {key.decode()!r}, not {size}")
            ctypes.memmove(place, value, size)
            return 0
        except BaseException as error:
            self.error = error
            return 1
