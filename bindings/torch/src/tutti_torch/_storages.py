"""Storages whose memory is registered with Tutti."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Dict

import torch
import tutti
from tutti._errors import invalid

from ._errors import as_runtime_error


class _Registered:
    def __init__(self, storage: Any, registration: tutti.Registration) -> None:
        self.storage = storage  # keeps the memory where it is
        self.registration = registration
        self.users = 0


_registered: Dict[int, _Registered] = {}  # by address
_lock = threading.Lock()


def _storage_of(tensor: torch.Tensor) -> Any:
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu":
        raise invalid(tutti.Status.INVALID_BUFFER, "a tensor in the memory of the CPU is wanted")
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    return tensor.storage()  # before PyTorch 2.0


def _register(storage: Any) -> _Registered:
    memory = (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())
    return _Registered(storage, tutti.register(memory))


def _unregister(storage: Any) -> None:
    found = _registered.get(storage.data_ptr())
    if found is None:
        raise invalid(tutti.Status.INVALID_BUFFER, "the tensor's storage is not registered")
    if found.users == 1:
        found.registration.unregister()
        del _registered[storage.data_ptr()]
    found.users -= 1


def register(tensor: torch.Tensor) -> None:
    try:
        storage = _storage_of(tensor)
        with _lock:
            found = _registered.get(storage.data_ptr())
            if found is None:
                found = _registered[storage.data_ptr()] = _register(storage)
            found.users += 1
    except tutti.Error as error:
        raise as_runtime_error(error) from None


def unregister(tensor: torch.Tensor) -> None:
    try:
        storage = _storage_of(tensor)
        with _lock:
            _unregister(storage)
    except tutti.Error as error:
        raise as_runtime_error(error) from None
