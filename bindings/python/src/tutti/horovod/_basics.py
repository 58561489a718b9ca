"""The job: init() and shutdown(), who is where, process sets, and questions about how Horovod was built."""

from __future__ import annotations

import atexit
import hashlib
import os
import socket
import threading
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from .._communicator import Communicator
from .._communicator import init as init_communicator
from .._errors import Error
from .._library import library
from ._engine import Engine, control
from ._errors import HorovodInternalError, not_initialized
from ._settings import read_settings

Average, Adasum, Sum, Min, Max, Product = "Average", "Adasum", "Sum", "Min", "Max", "Product"

#: The names that each of Horovod's packages has.
__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


class Places(NamedTuple):
    """Where the ranks are. "local": among those of this host; "cross": among those with this local rank."""

    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    is_homogeneous: bool


class _Job:
    def __init__(self) -> None:
        self.engine: Optional[Engine] = None
        self.places: Optional[Places] = None
        self.lock = threading.RLock()
        self.change_count = 0  # of process sets: names for operations that add and remove them
        self.is_forked = False
        self.is_registered = False


_job = _Job()


def _after_fork() -> None:
    """In a child: the thread, the communicators and the numbers are its parent's."""
    has_engine = _job.engine is not None
    _job.__init__()  # type: ignore[misc]
    _job.is_forked = has_engine


os.register_at_fork(after_in_child=_after_fork)


def refuse_child() -> None:
    """Nobody there would ever end what it waits for."""
    if _job.is_forked:
        raise ValueError("this process was forked from a rank and is none: call Horovod in the parent alone")


def engine() -> Engine:
    found = _job.engine
    if found is None:
        refuse_child()
        raise not_initialized()
    return found


# ------------------------------------------------------------------------------------------ process sets


class ProcessSet:
    """Some ranks of the job, which run operations of their own. Horovod's class of that name.

    It becomes one by init(process_sets=[...]) or add_process_set(), on all ranks with the same ranks, in the same order.
    """

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None
    mpi_comm = None

    def __init__(self, ranks: Sequence[int]) -> None:
        try:
            numbers = sorted(ranks)
        except TypeError:
            raise ValueError("a ProcessSet is made from a list of ranks (communicators of MPI are not taken)") from None
        if any(not isinstance(rank, int) or rank < 0 for rank in numbers) or len(set(numbers)) < len(numbers):
            raise ValueError(f"a ProcessSet has different ranks from 0 on, not {numbers}")
        self.ranks = numbers

    def size(self) -> Optional[int]:
        """The number of its ranks; None before it is registered."""
        return None if self.process_set_id is None else len(self._members())

    def rank(self) -> Optional[int]:
        """This rank's number in it; None before it is registered. ValueError: this rank is no member."""
        if self.process_set_id is None:
            return None
        if not self.included():
            raise ValueError("Process is not part of provided process set.")
        return self._members().index(rank())

    def included(self) -> Optional[bool]:
        """Whether this rank is a member."""
        return rank() in self._members()

    def _members(self) -> List[int]:
        known = engine().sets.get(-1 if self.process_set_id is None else self.process_set_id)
        if known is None:
            raise ValueError("Process set does not exist or has not been registered.")
        return known.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm=None)"


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def _change(kind: str, numbers: Sequence[int]) -> Optional[int]:
    with _job.lock:
        _job.change_count += 1
        name = f"{kind}.{_job.change_count}"
    operation = control(name, kind, numbers)
    engine().submit(0, operation)
    operation.wait()
    made: Optional[int] = operation.value
    return made


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Registers it. All ranks call it, also those that are not in it, in the same order; HorovodInternalError if they differ."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    ranks = process_set.ranks
    if not ranks or ranks[-1] >= size():
        raise ValueError(f"{process_set} has no ranks, or some that the job of {size()} ranks has not")
    number = _change("add_process_set", ranks)
    if number is None:
        raise ValueError(f"Attempted to add a duplicate process set: {process_set}")
    process_set.process_set_id = number
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forgets it, and returns whether there was something to forget. All ranks call it, in the same order."""
    number = process_set.process_set_id
    if number is None or number == 0:
        return False
    removed = _change("remove_process_set", [number])
    process_set.process_set_id = None
    return removed is not None


# ----------------------------------------------------------------------------------------- the job's life


def init(
    comm: Optional[Sequence[int]] = None, process_sets: Union[None, str, Sequence[ProcessSet]] = None
) -> None:
    """Joins all ranks that the launcher has started; without one, a job of one rank. Does nothing the second time.

    comm: all ranks, or nothing. process_sets: those to register, the same list on all ranks; "dynamic": none yet.
    """
    with _job.lock:
        if _job.engine is not None:
            return
        if _job.is_forked:
            raise ValueError("this process was forked from a rank, and cannot be one")
        settings = read_settings()
        try:
            world = Communicator(0, 1) if _is_alone() else init_communicator()
        except Error as error:
            raise HorovodInternalError(str(error)) from error
        if comm is not None and not _is_everybody(comm, world.size):
            world.abort("init(comm=...) with some of the ranks")
            raise ValueError(
                f"init(comm=...) takes all {world.size} ranks as a list, or None: use process sets for some of them"
            )
        try:
            _job.places = _find_places(world)
            _job.engine = Engine(world, settings)
        except Error as error:
            raise HorovodInternalError(str(error)) from error
        _job.engine.begin()
        global_process_set.ranks = list(range(_job.engine.size))
        if not _job.is_registered:
            atexit.register(shutdown)
            _when_main_ends(_free_threads)
            _job.is_registered = True
    if process_sets is not None and process_sets != "dynamic":
        if isinstance(process_sets, str):
            raise ValueError(f'process_sets is a list or "dynamic", not {process_sets!r}')
        for process_set in process_sets:
            add_process_set(process_set)


def _when_main_ends(function: Callable[[], None]) -> None:
    """Calls it when the main thread has ended, before Python waits for other threads, which is before atexit."""
    register = getattr(threading, "_register_atexit", None)  # as concurrent.futures does
    if register is not None:
        try:
            register(function)
        except RuntimeError:  # Python waits already
            pass


def _free_threads() -> None:
    """Python waits for threads, and they may wait for operations that no rank will ever submit: that must not last."""
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        shutdown()


def _is_alone() -> bool:
    """Whether no launcher has started this process. Half of what a launcher sets is an error, which init() tells."""
    hints = ("RANK", "WORLD_SIZE", "TUTTI_RANK", "TUTTI_SIZE")
    return library.launcher(None, None) is None and not any(name in os.environ for name in hints)


def _is_everybody(comm: Any, size: int) -> bool:
    try:
        return sorted(comm) == list(range(size))
    except TypeError:
        return False


def _find_places(world: Any) -> Places:
    """Collective."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read()
    except OSError:
        boot = ""
    name = "\n".join((os.environ.get("TUTTI_HOSTID", ""), socket.gethostname(), boot))
    own = np.frombuffer(hashlib.sha256(name.encode()).digest(), np.uint8)
    hosts = [row.tobytes() for row in world.allgather(own)]
    local_ranks = [hosts[:rank].count(host) for rank, host in enumerate(hosts)]
    mine = world.rank
    same = [rank for rank in range(world.size) if local_ranks[rank] == local_ranks[mine]]
    counts = {hosts.count(host) for host in hosts}
    return Places(
        local_ranks[mine], hosts.count(hosts[mine]), same.index(mine), len(same), len(counts) == 1
    )


def shutdown() -> None:
    """Leaves the job. Operations of other ranks that still need this one get an error that names it.

    It happens by itself at exit. If there are other threads when the main thread ends, it happens then, so that they do not
    keep the program from ending: a program joins threads that use Horovod.
    """
    with _job.lock:
        found, _job.engine = _job.engine, None
        _job.places = None
        _job.change_count = 0
        if found is not None:
            found.stop()


def is_initialized() -> bool:
    return _job.engine is not None


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Writes what operations take, from now on, for chrome://tracing; the file of rank 0 tells of all."""
    engine().start_timeline(file_path, mark_cycles)


def stop_timeline() -> None:
    engine().stop_timeline()


# ---------------------------------------------------------------------------------------------- who and where


def size() -> int:
    return engine().size


def rank() -> int:
    return engine().rank


def _places() -> Places:
    engine()
    assert _job.places is not None
    return _job.places


def local_size() -> int:
    """The number of ranks on this host."""
    return _places().local_size


def local_rank() -> int:
    return _places().local_rank


def cross_size() -> int:
    """The number of hosts that have a rank of this local rank."""
    return _places().cross_size


def cross_rank() -> int:
    return _places().cross_rank


def is_homogeneous() -> bool:
    """Whether all hosts have equally many ranks."""
    return _places().is_homogeneous


# ------------------------------------------------------------------------------------------- how it is built
# Tutti is none of these. Programs ask before they do something that only one of them can do.


def mpi_threads_supported() -> bool:
    engine()
    return False


def mpi_enabled() -> bool:
    return False


def mpi_built() -> bool:
    return False


def gloo_enabled() -> bool:
    return False


def gloo_built() -> bool:
    return False


def nccl_built() -> int:
    return 0


def ddl_built() -> bool:
    return False


def ccl_built() -> bool:
    return False


def cuda_built() -> bool:
    return False


def rocm_built() -> bool:
    return False


def tutti_built() -> bool:
    """Not Horovod's: whether it is this one."""
    return True
