"""libtutti_jax.so: loaded, and told how this process joins the job once XLA starts its collectives."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import threading
import time
from typing import Any, Callable, Optional, Tuple

from tutti import _header
from tutti._library import library as _tutti
from tutti._store import StoreAdapter

_PREFIX = "tutti_jax/"
_RESULTS_SECONDS = 10.0
_AGREE_SECONDS = 300.0  # until all processes have come, as for the start of a communicator


class _Options(ctypes.Structure):
    """struct tutti_jax_options of front/front.h."""

    _fields_ = [
        ("size_bytes", ctypes.c_size_t),
        ("process", ctypes.c_int),
        ("process_count", ctypes.c_int),
        ("device_count", ctypes.c_int),
        ("store", ctypes.c_void_p),
    ]


_Starter = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)

_loaded: Optional[ctypes.CDLL] = None
_starter: Any = None  # C has its address
_joined: Optional[Tuple[int, int, int]] = None  # process, processes and devices, once the job was joined


def path() -> str:
    """The file beside this package, where a wheel has it, or else beside libtutti.so, as a build has it."""
    name = "libtutti_jax.so"
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    return here if os.path.exists(here) else os.path.join(os.path.dirname(os.path.abspath(_tutti.path)), name)


def load() -> ctypes.CDLL:
    """Loads it, after libtutti.so, which it needs."""
    global _loaded, _starter
    if _loaded is None:
        _tutti.load()
        if not os.path.exists(path()):
            raise ImportError(f"libtutti_jax.so was not found: not beside this package, and not as {path()}")
        front = ctypes.CDLL(path())
        front.tutti_jax_start.argtypes = [ctypes.POINTER(_Options)]
        front.tutti_jax_error.restype = ctypes.c_char_p
        front.tutti_jax_set_starter.argtypes = [_Starter]
        front.tutti_jax_set_starter.restype = None
        _starter = _Starter(_start)
        front.tutti_jax_set_starter(_starter)
        _loaded = front
    return _loaded


def was_loaded_by_jaxlib() -> bool:
    """Whether MPItrampoline, in a jaxlib that has been imported already, has this library."""
    return os.environ.get("MPITRAMPOLINE_LIB") == path() and _is_mapped(path())


def _is_mapped(file: str) -> bool:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return any(line.rstrip("\n").endswith(os.path.realpath(file)) for line in maps)


class _Store:
    """The key-value store of jax.distributed."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def set(self, key: str, value: bytes) -> None:
        self._client.key_value_set_bytes(_PREFIX + key, value)

    def get(self, key: str, timeout: float) -> bytes:
        value: bytes = self._client.blocking_key_value_get_bytes(_PREFIX + key, max(1, int(timeout * 1000)))
        return value


def _start(message: int, message_bytes: int) -> int:
    """What MPI_Init_thread calls, in the thread that makes XLA's backend. Errors go to C, which has a caller to tell."""
    try:
        return _join()
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".encode()[: message_bytes - 1] + b"\0"
        ctypes.memmove(message, text, len(text))
        return 1


def _join() -> int:
    from jax._src import distributed

    global _joined
    state = distributed.global_state
    store = _Store(state.client)
    devices = device_count()
    mine = (state.process_id, state.num_processes, devices)
    if _joined is not None:  # JAX makes its backends anew
        if _joined != mine:
            raise ValueError(f"this process is {_joined[0]} of {_joined[1]} with {_joined[2]} devices, and cannot become another one")
        return 0
    if _agree(store, state.process_id, state.num_processes, devices) and "TUTTI_ID_HOSTS" not in os.environ:
        os.environ["TUTTI_ID_HOSTS"] = "many"
    adapter = StoreAdapter(store)
    options = _Options(ctypes.sizeof(_Options), state.process_id, state.num_processes, devices, adapter.address)
    status: int = load().tutti_jax_start(ctypes.byref(options))
    if status == _header.Status.OK:
        _joined = mine
        _call_at_exit(_wait_for_results)
    elif adapter.error is not None:
        raise adapter.error
    return status  # of a failure C has the message


def _call_at_exit(function: Callable[[], None]) -> None:
    """Before the handlers of atexit, the last of which, and so the first to run, is JAX's call of MPI_Finalize."""
    register = getattr(threading, "_register_atexit", atexit.register)
    register(function)


def _wait_for_results() -> None:
    """Programs end while work that they did not wait for is under way, and other processes may need this one's part of it."""
    import jax

    end = time.monotonic() + _RESULTS_SECONDS
    for array in jax.live_arrays():
        while not array.is_deleted() and not array.is_ready() and time.monotonic() < end:
            time.sleep(0.001)


def device_count() -> int:
    """The devices that XLA is about to make in this process."""
    import jax

    count = int(getattr(jax.config, "jax_num_cpu_devices", -1))
    if count >= 1:
        return count
    found = re.findall(r"--xla_force_host_platform_device_count[= ](\d+)", os.environ.get("XLA_FLAGS", ""))
    return int(found[-1]) if found else 1


def _agree(store: _Store, process: int, process_count: int, devices: int) -> bool:
    """Whether the processes are on several hosts. Raises in all of them if they have not equally many devices, as ranks are numbered
    by processes and their devices.

    Process 0 looks at what all of them say, and tells them what it found: an error, or a number of hosts.
    """
    if process != 0:
        store.set(f"process/{process}", f"{devices} {_host()}".encode())
        found = store.get("job", _AGREE_SECONDS).decode()
    else:
        found = _judge(store, process_count, devices)
        store.set("job", found.encode())
    if not found.isdigit():
        raise ValueError(found)
    return int(found) > 1


def _judge(store: _Store, process_count: int, devices: int) -> str:
    hosts = {_host()}
    for process in range(1, process_count):
        count, host = store.get(f"process/{process}", _AGREE_SECONDS).decode().split(" ", 1)
        if int(count) != devices:
            return f"process {process} has {count} devices, and process 0 has {devices}: they must have equally many"
        hosts.add(host)
    return str(len(hosts))


def _host() -> str:
    """What processes share that reach each other through local sockets: the machine as it runs now, and the network namespace."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.stat('/proc/self/ns/net').st_ino}"
