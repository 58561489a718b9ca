"""A key-value store of the program, through which ranks find each other."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any, Callable, List, Optional, Protocol, Union

from . import _header


class Store(Protocol):
    """What Communicator(store=...) needs."""

    def set(self, key: str, value: bytes) -> Any:
        """Keeps the value."""

    def get(self, key: str, timeout: float) -> bytes:
        """Blocks until the key is there and returns its value; raises when `timeout` seconds have passed."""


class FolderStore:
    """A store in a folder that all processes see, each value in a file of its own.

    The folder is made if it is not there. Others than this user cannot read the values.
    """

    def __init__(self, folder: "Union[str, os.PathLike[str]]") -> None:
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def set(self, key: str, value: bytes) -> None:
        """Keeps the value, in the place of an older one."""
        place = self._place(key)
        new = place.with_name(f"{place.name}.{os.getpid()}.{time.monotonic_ns()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(value)
        os.replace(new, place)

    def get(self, key: str, timeout: float) -> bytes:
        """Blocks until the key is there and returns its value; TimeoutError after `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            try:
                return self._place(key).read_bytes()
            except FileNotFoundError:
                if time.monotonic() > end:
                    raise TimeoutError(f"{self._place(key)} did not come within {timeout:.3g} s") from None
            time.sleep(0.01)

    def _place(self, key: str) -> Path:
        return self._folder / key.replace("/", ".")


class StoreAdapter:
    """The store as the library wants it, with what it raised.

    The library's functions know the store and the errors, but not this object: a cycle would keep the store, with what
    that has open, until the garbage collector comes.
    """

    def __init__(self, store: Store) -> None:
        self._errors: List[BaseException] = []
        self._struct = _header.Store(
            ctypes.sizeof(_header.Store),
            _header.StoreSet(_set_into(store, self._errors)),
            _header.StoreGet(_get_from(store, self._errors)),
            None,
        )
        self.address = ctypes.addressof(self._struct)

    @property
    def error(self) -> Optional[BaseException]:
        """The error that the store raised last."""
        return self._errors[-1] if self._errors else None


def _set_into(store: Store, errors: List[BaseException]) -> Callable[..., int]:
    def set_value(context: Optional[int], key: bytes, value: int, size: int) -> int:
        try:
            store.set(key.decode(), ctypes.string_at(value, size))
            return 0
        except BaseException as error:
            errors[:] = [error]
            return 1

    return set_value


def _get_from(store: Store, errors: List[BaseException]) -> Callable[..., int]:
    def get_value(
        context: Optional[int], key: bytes, place: int, size: int, timeout_ns: int
    ) -> int:
        try:
            value = bytes(store.get(key.decode(), timeout_ns / 1e9))
            if len(value) != size:
                raise ValueError(f"the store has {len(value)} bytes for {key.decode()!r}, not {size}")
            ctypes.memmove(place, value, size)
            return 0
        except BaseException as error:
            errors[:] = [error]
            return 1

    return get_value
