"""TensorFlow's collectives on CPUs by Tutti: tf.distribute's strategies, tf-keras, and tf.raw_ops.Collective*V2, unchanged.

    import tutti_tensorflow
    tutti_tensorflow.enable()               # before the strategy is made
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

docs/start/tensorflow.md tells the rest.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import socket
import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple

import tutti
from tutti._library import library

__all__ = ["disable", "enable", "is_enabled"]

_ABOVE_WORKERS = 1000  # Tutti's port is that of the first worker plus this
_lock = threading.Lock()
_native: Any = None
_communicator: Optional[tutti.Communicator] = None


def enable(port: Optional[int] = None, timeout: Optional[float] = None) -> None:
    """Joins the job's other processes, and lets Tutti do TensorFlow's collectives from now on.

    All processes of the job call it, before they make their strategy; it blocks until all have. Ranks come from the
    launcher (tutti-run, torchrun, mpirun, srun). TensorFlow then learns from it who its workers are: TF_CONFIG is set,
    if it is not. Without a launcher they come from TF_CONFIG, and the processes meet at `port` of the first worker's
    host: its own port in TF_CONFIG plus 1000, unless given.

    timeout: seconds until a collective that some ranks have begun and others have not fails; otherwise TUTTI_TIMEOUT,
    or 30 minutes. A strategy's options come first.

    A second call does nothing. RuntimeError: this TensorFlow, or this environment, does not do. tutti.Error: the ranks
    did not come together.
    """
    global _communicator
    with _lock:
        if _communicator is not None:
            return
        if timeout is not None and not 0 < timeout < 1e9:
            raise RuntimeError(f"a timeout of {timeout} s is none")
        native = _load()
        config = _read_config()
        communicator = _join(config, port)
        try:
            if config is None and communicator.size > 1:
                if _has_begun():
                    raise RuntimeError(
                        "TensorFlow has begun without its workers: call enable() before the strategy and all other"
                        " TensorFlow, or set TF_CONFIG"
                    )
                os.environ["TF_CONFIG"] = json.dumps(_make_config(communicator))
            seconds = timeout if timeout is not None else _default_seconds()
            status = native.tutti_tensorflow_start(communicator._state.pointer, max(1, int(seconds * 1e9)))
            if status != 0:
                raise RuntimeError(f"tutti_tensorflow cannot begin: {tutti.Status(status).name}")
        except BaseException:
            communicator.close()
            raise
        _communicator = communicator
        atexit.register(disable)


def disable() -> None:
    """Ends it: collectives that have not run fail, and so do later ones. At exit it happens by itself."""
    global _communicator
    with _lock:
        if _communicator is None:
            return
        atexit.unregister(disable)
        _native.tutti_tensorflow_stop()
        _communicator.close()
        _communicator = None


def is_enabled() -> bool:
    """Whether Tutti does TensorFlow's collectives in this process."""
    return _communicator is not None


# ------------------------------------------------------------------------------------------------ the kernels


def _file() -> str:
    """The library with the kernels: of a wheel, or of a source tree's build, beside the libtutti.so that is in use."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtutti_tensorflow.so")
    beside = os.path.join(os.path.dirname(library.path), "libtutti_tensorflow.so")
    for file in (here, beside):
        if os.path.exists(file):
            return file
    raise RuntimeError(f"Tutti's kernels for TensorFlow are not there: neither {here} nor {beside}")


def _load() -> Any:
    """Registers the kernels, once."""
    global _native
    if _native is not None:
        return _native
    try:
        import tensorflow as tf
    except ImportError as error:
        raise RuntimeError(f"TensorFlow cannot be imported: {error}") from error
    folder = tf.sysconfig.get_lib()
    native = ctypes.CDLL(_file())
    native.tutti_tensorflow_register.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    native.tutti_tensorflow_start.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    text = ctypes.create_string_buffer(512)
    tensorflow = os.path.join(folder, "libtensorflow_cc.so.2")
    if native.tutti_tensorflow_register(tensorflow.encode(), text, len(text)) != 0:
        raise RuntimeError(f"TensorFlow {tf.__version__}: {text.value.decode(errors='replace')}")
    _native = native
    return native


def _default_seconds() -> float:
    """The deadline of an operation, as the environment has it; that it makes sense the communicator has found out."""
    text = os.environ.get("TUTTI_TIMEOUT") or "30m"
    number = text.rstrip("smuh")
    return float(number) * {"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "m": 60, "h": 3600}[text[len(number) :]]


# ------------------------------------------------------------------------------------------------ the processes


def _read_config() -> Optional[Tuple[List[str], int]]:
    """The workers of TF_CONFIG and the number of this one; None: it is not set."""
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        workers = list(config["cluster"].get("chief", [])) + list(config["cluster"].get("worker", []))
        task = config["task"]
        index = int(task["index"])
        if task["type"] == "worker":
            index += len(config["cluster"].get("chief", []))
        elif task["type"] != "chief":
            raise RuntimeError(f"TF_CONFIG: a task of type {task['type']!r} takes part in no collective")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RuntimeError(f"TF_CONFIG is not as TensorFlow wants it: {error!r}") from error
    if not all(isinstance(worker, str) for worker in workers) or not 0 <= index < len(workers):
        raise RuntimeError("TF_CONFIG is not as TensorFlow wants it: no worker has the task's index")
    return workers, index


def _join(config: Optional[Tuple[List[str], int]], port: Optional[int]) -> tutti.Communicator:
    launcher = library.launcher(None, None)
    if launcher is None:
        if config is None:
            raise RuntimeError(
                "nothing says which processes belong to this job: start it by tutti-run -n N, or set TF_CONFIG"
            )
        with _environment(_meeting(config, port)):
            return tutti.Communicator()
    communicator = tutti.Communicator()
    if config is not None and (communicator.size, communicator.rank) != (len(config[0]), config[1]):
        place = f"rank {communicator.rank} of {communicator.size}"
        communicator.close()
        raise RuntimeError(
            f"the launcher says that this is {place}, TF_CONFIG says {config[1]} of {len(config[0])}:"
            " unset TF_CONFIG, or give both the same order"
        )
    return communicator


def _meeting(config: Tuple[List[str], int], port: Optional[int]) -> Dict[str, str]:
    """Where the workers of TF_CONFIG meet, as the environment says it."""
    workers, index = config
    host, _, own = workers[0].rpartition(":")
    if not host or not own.isdigit():
        raise RuntimeError(f"TF_CONFIG: the first worker's address {workers[0]!r} is not HOST:PORT")
    at = port if port is not None else int(own) + _ABOVE_WORKERS
    if not 0 < at < 65536:
        raise RuntimeError(f"port {at} is none; give enable(port=...) another")
    return {
        "RANK": str(index),
        "WORLD_SIZE": str(len(workers)),
        "MASTER_ADDR": host.strip("[]"),
        "MASTER_PORT": str(at),
    }


@contextlib.contextmanager
def _environment(variables: Dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _has_begun() -> bool:
    """Whether TensorFlow's context is there: a strategy of this process then has one worker, whatever TF_CONFIG says later."""
    from tensorflow.python.eager import context

    return getattr(context.context(), "_context_handle", None) is not None


def _make_config(communicator: tutti.Communicator) -> Dict[str, Any]:
    """A TF_CONFIG of the ranks. Each holds its port until all have one, so that no two of a host get the same."""
    import numpy

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.bind(("", 0))
        address = f"{_own_address()}:{held.getsockname()[1]}".encode()
        own = numpy.zeros(64, dtype=numpy.uint8)
        own[: len(address)] = numpy.frombuffer(address, dtype=numpy.uint8)
        every = communicator.allgather(own)
    workers = [bytes(row).rstrip(b"\0").decode() for row in every.reshape(communicator.size, 64)]
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": communicator.rank}}


def _own_address() -> str:
    """The address of this host from which it reaches the first rank's."""
    target = os.environ.get("MASTER_ADDR")
    if not target:
        try:
            target = socket.gethostname()
            return socket.gethostbyname(target)
        except OSError:
            return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))
        except OSError as error:
            raise RuntimeError(f"no address of this host leads to {target}: {error}") from error
        return str(probe.getsockname()[0])
