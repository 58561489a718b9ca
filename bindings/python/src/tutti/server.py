"""A parameter server: some ranks hold tables of float32, the others push gradients to them and pull values back.

    from tutti import server

    tables = [server.Table("layer", shape=(64, 10), optimizer=server.SGD(0.1)),
              server.Table("words", rows=1_000_000, width=64, optimizer=server.Adagrad(0.05),
                           initial=server.Uniform(0.01))]
    with tutti.init() as comm, server.Server(comm, tables, servers=[0]) as tables:
        tables.serve()                                  # returns at once on ranks that only work
        for words, labels in batches if tables.is_worker else ():
            values = tables.pull({"layer": None, "words": words})
            ...                                         # gradients of values["layer"] and values["words"]
            tables.push({"layer": layer_gradient, "words": (words, rows_gradient)})
            tables.tick()                               # ends this worker's clock

include/tutti/server.h says how clocks, steps and failures work; docs/how-to/parameter-server.md what they cost.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    SupportsIndex,
    Tuple,
    Type,
    TypedDict,
    Union,
)

import numpy as np

from . import _callbacks, _header
from ._arguments import INT_MAX, SIZE_MAX, integer, nanoseconds, text
from ._buffers import Array, Buffer, address_of, as_array
from ._communicator import Communicator
from ._errors import check, error_of, invalid
from ._header import ServerInitial, ServerMode, ServerOptimizer, Status
from ._library import library
from ._sparse import _indices

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "Adagrad",
    "Adam",
    "Counters",
    "Function",
    "Normal",
    "Operation",
    "SGD",
    "Server",
    "Step",
    "Table",
    "Uniform",
]

# ---------------------------------------------------------------------------------------------- tables


class SGD(NamedTuple):
    """w -= rate * g, with momentum if it is above 0; as torch.optim.SGD."""

    rate: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0


class Adagrad(NamedTuple):
    """As torch.optim.Adagrad; a row's sum of squares grows only when the row has a gradient."""

    rate: float = 0.01
    rate_decay: float = 0.0
    epsilon: float = 1e-10
    initial_state: float = 0.0
    weight_decay: float = 0.0


class Adam(NamedTuple):
    """As torch.optim.Adam, or AdamW if it is decoupled; a row's moments change only when the row has a gradient."""

    rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False


class Function(NamedTuple):
    """An optimizer in Python: update(step, gradients, parameters, state).

    It is called in a thread of a server, for a row or a piece of a tensor: `gradients` and `parameters` are arrays of one
    dimension, and `state` has `state_count` of the same size; it changes parameters and state in place. The arrays are
    gone when it returns. It must treat each element alike, and not call Tutti. When it raises, the parameters of that row
    or piece become NaN, and serve() and close() of this rank raise what it raised. It costs the GIL for each row.
    """

    update: Callable[[int, Array, Array, List[Array]], Any]
    state_count: int = 0
    initial_state: float = 0.0


class Uniform(NamedTuple):
    """Initial values that are evenly distributed from -scale to scale."""

    scale: float


class Normal(NamedTuple):
    """Initial values with mean 0 and deviation `scale`."""

    scale: float


Optimizer = Union[SGD, Adagrad, Adam, Function]
Initial = Union[float, Uniform, Normal]


class Table:
    """What servers hold under a name: a dense tensor with a `shape`, or `rows` of `width` elements.

    Rows take memory from their first gradient on. `initial` is a number, Uniform or Normal; random values depend on the
    seed and on their place alone. All ranks give the same tables.
    """

    def __init__(
        self,
        name: str,
        *,
        shape: Union[None, SupportsIndex, Sequence[SupportsIndex]] = None,
        rows: Optional[SupportsIndex] = None,
        width: SupportsIndex = 1,
        optimizer: Optimizer = SGD(),
        initial: Initial = 0.0,
        seed: SupportsIndex = 0,
        allows_nan: bool = False,
    ) -> None:
        if (shape is None) == (rows is None):
            raise invalid(Status.INVALID_OPTIONS, f"table {name!r} has a shape (it is dense), or rows")
        self.name = name
        self.rows = None if rows is None else integer("rows", rows, 1, Status.INVALID_OPTIONS, 2**63 - 1)
        self.optimizer = optimizer
        self.initial = initial
        self.seed = integer("seed", seed, 0, Status.INVALID_OPTIONS, SIZE_MAX)
        self.allows_nan = allows_nan
        #: Of the tensor, or of a row.
        self.shape: Tuple[int, ...] = _shape(width if shape is None else shape)
        self.width = int(np.prod(self.shape, dtype=np.int64))

    def __repr__(self) -> str:
        what = f"shape={self.shape}" if self.rows is None else f"rows={self.rows}, width={self.width}"
        return f"<tutti.server.Table {self.name!r}, {what}>"


def _shape(shape: Union[SupportsIndex, Sequence[SupportsIndex]]) -> Tuple[int, ...]:
    axes = shape if isinstance(shape, Sequence) else (shape,)
    return tuple(integer("an axis of a table", axis, 1, Status.INVALID_OPTIONS, 2**48) for axis in axes)


class _Adapted:
    """A function of Python as an optimizer of the library, and what it has raised."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.error: Optional[BaseException] = None
        self.pointer = _header.ServerFunction(self._call)

    def _call(
        self,
        context: Optional[int],
        step: int,
        count: int,
        gradients: int,
        parameters: int,
        state: Any,
    ) -> None:
        with _callbacks.inside():
            changed = _view(parameters, count)
            try:
                given = _view(gradients, count)
                given.flags.writeable = False
                states = [_view(state[i], count) for i in range(self.function.state_count)]
                self.function.update(step, given, changed, states)
            except BaseException as error:
                changed[...] = np.nan  # nothing that looks like a result
                if self.error is None:
                    self.error = error

    def take_error(self) -> Optional[BaseException]:
        error, self.error = self.error, None
        return error


def _view(address: int, count: int) -> Array:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def _struct(table: Table, adapted: Optional[_Adapted]) -> _header.ServerTable:
    kind, optimizer = _kind_of(table.optimizer), table.optimizer
    made = _header.ServerTable(
        size_bytes=ctypes.sizeof(_header.ServerTable),
        name=text("name", table.name),
        row_count=table.rows or 0,
        width=table.width,
        optimizer=kind,
        seed=table.seed,
        allows_nan=int(table.allows_nan),
    )
    for name in ("rate", "momentum", "rate_decay", "beta1", "beta2", "epsilon", "initial_state", "weight_decay"):
        setattr(made, name, getattr(optimizer, name, 0.0))
    for name in ("decoupled", "nesterov", "state_count"):
        setattr(made, name, int(getattr(optimizer, name, 0)))
    if isinstance(table.initial, (Uniform, Normal)):
        is_uniform = isinstance(table.initial, Uniform)
        made.initial = ServerInitial.UNIFORM if is_uniform else ServerInitial.NORMAL
        made.initial_value = table.initial.scale
    else:
        made.initial_value = table.initial
    if adapted is not None:
        made.function = adapted.pointer
    return made


def _kind_of(optimizer: Optimizer) -> ServerOptimizer:
    if isinstance(optimizer, SGD):
        return ServerOptimizer.MOMENTUM if optimizer.momentum > 0 else ServerOptimizer.SGD
    kinds: Dict[Type[Any], ServerOptimizer] = {
        Adagrad: ServerOptimizer.ADAGRAD,
        Adam: ServerOptimizer.ADAM,
        Function: ServerOptimizer.FUNCTION,
    }
    if type(optimizer) not in kinds:
        raise TypeError(f"an optimizer is SGD, Adagrad, Adam or Function, not {type(optimizer).__name__}")
    return kinds[type(optimizer)]


# ---------------------------------------------------------------------------------------------- calls


class CallOptions(TypedDict, total=False):
    """What each call can be told by keyword."""

    #: Deadline in seconds from now, instead of the server's.
    timeout: Optional[float]
    #: A server answers waiting requests of higher priority first: -100 to 100.
    priority: int
    #: The name of an encoding, such as "bfloat16": how the values of a push travel.
    encoding: Optional[str]


_CALL_OPTIONS = frozenset(CallOptions.__annotations__)

#: A whole tensor for a dense table; indices and rows for the others.
Given = Union[Buffer, Tuple[Union[Buffer, Sequence[int]], Buffer]]
#: None for a dense table, indices for the others; or where the values belong: an array for a dense table, (indices, array)
#: for the others.
Wanted = Union[None, Buffer, Sequence[int], Tuple[Union[Buffer, Sequence[int]], Array]]


def _call_options(how: CallOptions) -> _header.ServerCallOptions:
    unknown = how.keys() - _CALL_OPTIONS
    if unknown:
        raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}")
    encoding, name = ctypes.c_int(0), how.get("encoding")
    if name is not None:
        check(library.encoding_find(text("encoding", name), ctypes.byref(encoding)))
    return _header.ServerCallOptions(
        ctypes.sizeof(_header.ServerCallOptions),
        nanoseconds("timeout", how.get("timeout")),
        integer("priority", how.get("priority", 0), -100, Status.INVALID_OPTIONS, 100),
        encoding.value,
    )


class _Parts:
    """The parts of a call, with the arrays that they point to."""

    def __init__(self) -> None:
        self.structs: List[_header.ServerPart] = []
        self.keep: List[Array] = []

    def add(self, index: int, rows: Optional[Array], values: Array) -> None:
        self.keep.append(values)
        if rows is not None:
            self.keep.append(rows)
        part = _header.ServerPart(index, None, 0, address_of(values))
        if rows is not None:
            part.rows, part.row_count = address_of(rows), rows.size
        self.structs.append(part)

    @property
    def arguments(self) -> Tuple[Any, int]:
        return (_header.ServerPart * len(self.structs))(*self.structs), len(self.structs)


class Step(NamedTuple):
    """Updates that the servers applied together."""

    number: int
    #: Workers that were left when it was decided.
    worker_count: int
    #: The ranks whose updates it has.
    members: Tuple[int, ...]


class Counters(NamedTuple):
    """What this rank has done; include/tutti/server.h explains them."""

    clock: int
    pushes: int
    pulls: int
    bytes: int
    steps: int
    duplicates: int
    refused: int
    workers: int
    parts_alone: int
    joined: int
    changes: int


class Operation:
    """A started call: wait() for it. Its arrays belong to it until it is done."""

    def __init__(self, server: "Server", handle: ctypes.c_void_p, parts: Optional[_Parts], result: Any) -> None:
        self._server = server
        self._handle = handle
        self._parts = parts
        self._result = result
        self._error: Optional[BaseException] = None

    def wait(self) -> Any:
        """Blocks until it is done; of a pull, returns the values. Raises what went wrong."""
        self._server._finish(self, library.server_wait)
        if self._error is not None:
            raise self._error
        return self._result

    def test(self) -> bool:
        """Whether it is done; does not block. Failures are raised here, too."""
        self._server._finish(self, library.server_test)
        if self._error is not None:
            raise self._error
        return not self._handle

    def __enter__(self) -> "Operation":
        return self

    def __exit__(self, kind: Optional[type], error: object, traceback: object) -> None:
        if kind is None:
            self.wait()


# What servers and started calls still use after nobody closed their Server.
_abandoned: List[Any] = []


def _leave(handle: int, running: Dict[int, Operation], functions: List[Any], is_server: bool, pid: int) -> None:
    """For a Server that nobody has closed. A server would wait for all workers, which a finaliser must not: it goes on."""
    if pid != os.getpid():
        return
    if is_server or running:
        _abandoned.append((running, functions))
    else:
        library.server_free(handle)


_SERVE_SECONDS = 0.1  # for which a rank that serves cannot handle a signal
_JOINERS_MAX = 1024


class Server:
    """A parameter server as this rank has it: a worker's end, a server, or both.

    `servers`: the ranks of `comm` that hold the tables. `workers`: those that push and pull; by default all others.
    `mode`: "synchronous", "bounded" (with `staleness`), "asynchronous" or "quorum" (with `quorum`). `average`: an update
    counts 1 / (number of workers). `timeout`: seconds that a call may take. `load_folder`: where save() wrote
    the tables of an earlier run. `serve_timeout`: seconds for which a worker may say nothing, see serve(). `backups`: with 1,
    each server's part is on the next server, too, and calls go on when a server dies. `spares`: places of each server for
    parts of servers that die, 0 to 2, so that these parts get another backup. `joiners_max`: so many workers may come later,
    in all, see admit() and join(). All ranks give the same.
    Collective; `comm` may be closed afterwards. Calls may come from any thread, and go on one after the other.
    """

    def __init__(
        self,
        comm: Communicator,
        tables: Sequence[Table],
        *,
        servers: Sequence[SupportsIndex] = (0,),
        workers: Optional[Sequence[SupportsIndex]] = None,
        mode: str = "synchronous",
        staleness: SupportsIndex = 0,
        quorum: SupportsIndex = 0,
        average: bool = False,
        queue_bytes: SupportsIndex = 0,
        timeout: Optional[float] = None,
        load_folder: "Union[None, str, os.PathLike[str]]" = None,
        serve_timeout: Optional[float] = None,
        backups: SupportsIndex = 0,
        spares: SupportsIndex = 0,
        joiners_max: SupportsIndex = 0,
    ) -> None:
        _callbacks.catch_up()
        self._take_tables(tables)
        server_ranks = _ranks("servers", servers, comm.size)
        worker_ranks = None if workers is None else _ranks("workers", workers, comm.size)
        self.is_server = comm.rank in server_ranks
        self.is_worker = not self.is_server if worker_ranks is None else comm.rank in worker_ranks
        self._keep = (
            (_header.ServerTable * len(self.tables))(*map(_struct, self.tables, self._adapted)),
            (ctypes.c_int * len(server_ranks))(*server_ranks),
            None if worker_ranks is None else (ctypes.c_int * len(worker_ranks))(*worker_ranks),
        )
        options = _header.ServerOptions(
            size_bytes=ctypes.sizeof(_header.ServerOptions),
            tables=self._keep[0],
            table_count=len(self.tables),
            server_ranks=self._keep[1],
            server_count=len(server_ranks),
            worker_ranks=self._keep[2],
            worker_count=0 if worker_ranks is None else len(worker_ranks),
            mode=_mode(mode),
            staleness=integer("staleness", staleness, 0, Status.INVALID_OPTIONS),
            quorum=integer("quorum", quorum, 0, Status.INVALID_OPTIONS),
            average=int(average),
            queue_bytes=integer("queue_bytes", queue_bytes, 0, Status.INVALID_OPTIONS, SIZE_MAX),
            timeout_ns=nanoseconds("timeout", timeout),
            load_folder=None if load_folder is None else text("load_folder", os.fspath(load_folder)),
            serve_timeout_ns=nanoseconds("serve_timeout", serve_timeout),
            backups=integer("backups", backups, 0, Status.INVALID_OPTIONS),
            spares=integer("spares", spares, 0, Status.INVALID_OPTIONS),
            joiner_max=integer("joiners_max", joiners_max, 0, Status.INVALID_OPTIONS),
        )
        self._rank_capacity = comm.size + options.joiner_max
        self._begin(library.server_create, options, comm)

    @classmethod
    def join(cls, comm: Communicator, tables: Sequence[Table], *, timeout: Optional[float] = None) -> "Server":
        """A worker of a server that runs, on a process that was not there at its start.

        `comm` is what tutti.join() returned, and its other ranks call admit(). The tables are those of the server. Blocks
        until this worker is in, at most for `timeout` seconds; all else is as the server has it. Its first clock is
        `counters.clock`. `comm` may be closed afterwards.
        """
        _callbacks.catch_up()
        self = cls.__new__(cls)
        self._take_tables(tables)
        self.is_server, self.is_worker = False, True
        self._keep = ((_header.ServerTable * len(self.tables))(*map(_struct, self.tables, self._adapted)), None, None)
        options = _header.ServerOptions(
            size_bytes=ctypes.sizeof(_header.ServerOptions),
            tables=self._keep[0],
            table_count=len(self.tables),
            timeout_ns=nanoseconds("timeout", timeout),
        )
        self._begin(library.server_join, options, comm)
        self._rank_capacity = self.rank + _JOINERS_MAX + 1
        return self

    def _take_tables(self, tables: Sequence[Table]) -> None:
        self.tables: Tuple[Table, ...] = tuple(tables)
        self._indices = {table.name: index for index, table in enumerate(self.tables)}
        self._adapted = [
            _Adapted(table.optimizer) if isinstance(table.optimizer, Function) else None for table in self.tables
        ]

    def _begin(self, function: Any, options: _header.ServerOptions, comm: Communicator) -> None:
        handle = ctypes.c_void_p()
        state = comm._state
        check(
            state.call(function, ctypes.byref(options), state.pointer, ctypes.byref(handle)),
            state.handle,
        )
        assert handle.value is not None
        self._handle: Optional[int] = handle.value
        self._lock = threading.RLock()  # one thread at a time makes calls
        self._serving = 0
        self._running: Dict[int, Operation] = {}
        self._finalizer = weakref.finalize(
            self, _callbacks.later, _leave, handle.value, self._running, self._adapted, self.is_server, os.getpid()
        )
        self._finalizer.atexit = False

    # ------------------------------------------------------------------------------------ its life

    def admit(self, comm: Communicator) -> None:
        """Lets workers in: the ranks of `comm` that call Server.join(). Servers call it, all that live, on a communicator
        that grow() has made; workers go on meanwhile, and need not be there. Collective; `comm` may be closed afterwards."""
        _callbacks.catch_up()
        state = comm._state
        with self._lock:
            check(state.call(library.server_admit, self._open, state.pointer), state.handle)

    @property
    def rank(self) -> int:
        """This rank's number in step() and in messages: that in the communicator of the server's start, or, of a worker that
        came later, its own."""
        return int(library.server_rank(self._open))

    @property
    def _open(self) -> int:
        if self._handle is None:
            raise invalid(Status.INVALID_REQUEST, "the parameter server is closed")
        return self._handle

    def serve(self, *, wait: Optional[float] = None) -> bool:
        """Blocks until all workers have left or died, for ranks that only serve; returns True at once on ranks that do not.

        `wait`: returns False when so many seconds have passed before, and the server goes on.

        Signals (Ctrl-C) interrupt it. Raises RankFailed if another server died, what an optimizer in Python has raised, and
        Timeout with the rank of a worker that has been silent for `serve_timeout`; then it may be called again.
        """
        with self._lock:
            handle = self._open
            self._serving += 1
        try:
            status, end = Status.IN_PROGRESS, math.inf if wait is None else time.monotonic() + wait
            while status == Status.IN_PROGRESS:  # between two calls Python handles signals
                left = end - time.monotonic()
                status = library.server_serve_for(handle, int(1e9 * max(0.0, min(left, _SERVE_SECONDS))))
                if left <= 0:
                    break
            failed = None if status in (Status.OK, Status.IN_PROGRESS) else error_of(status)
        finally:
            with self._lock:
                self._serving -= 1
        self._raise_of_functions()
        if failed is not None:
            raise failed
        return bool(status == Status.OK)

    def save(self, folder: "Union[str, os.PathLike[str]]") -> None:
        """Saves this server's part of the tables in a folder, for `load_folder`. Every server does so, while no worker is in
        a clock: say between two barriers. Blocks until the file is there."""
        path = text("folder", os.fspath(folder))
        with self._lock:
            check(library.server_save(self._open, path))

    def close(self) -> None:
        """Leaves: a worker at once, a server when all workers have left, at most after the timeout. The end of `with` does
        this, too. Waits for what was started, and raises what went wrong with it if nobody has waited for it."""
        with self._lock:
            if self._handle is None:
                return
            if self._serving > 0:
                raise invalid(Status.INVALID_REQUEST, "a thread is in serve(), which returns when the workers have left")
            left = list(self._running.values())
            for operation in left:
                self._finish(operation, library.server_wait)
            self._finalizer.detach()
            handle, self._handle = self._handle, None
            status = library.server_free(handle)
            failures = [operation._error for operation in left if operation._error is not None]
            failed = failures[0] if failures else None if status == Status.OK else error_of(status)
        self._raise_of_functions()
        if failed is not None:
            raise failed

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind: Optional[type], error: object, traceback: object) -> None:
        if kind is None:
            self.close()
        else:  # what went wrong counts
            try:
                self.close()
            except Exception:
                pass

    def _raise_of_functions(self) -> None:
        for adapted in self._adapted:
            error = None if adapted is None else adapted.take_error()
            if error is not None:
                raise error

    # ------------------------------------------------------------------------------ push and pull

    def push(self, gradients: Mapping[str, Given], **how: "Unpack[CallOptions]") -> None:
        """Adds gradients to this worker's update: an array for a dense table, (indices, rows) for the others.

        A row may come several times: its gradients are added. Servers apply nothing before tick().
        """
        self._call(library.server_push, _call_options(how), self._given(gradients))

    def set(self, values: Mapping[str, Given], **how: "Unpack[CallOptions]") -> None:
        """Sets values past the optimizer, as a part of this worker's update; as push()."""
        self._call(library.server_set, _call_options(how), self._given(values))

    def pull(self, wanted: Mapping[str, Wanted], **how: "Unpack[CallOptions]") -> Dict[str, Array]:
        """Values by name: of a dense table (None) in its shape, or of the rows with these indices.

        The arrays are new, which takes a while for large ones. To fill an array of yours, give it instead of None, or as
        (indices, array): a writable one of float32 without gaps.
        """
        parts, values = self._wanted(wanted)
        self._call(library.server_pull, _call_options(how), parts)
        return values

    def push_pull(
        self, gradients: Mapping[str, Given], wanted: Mapping[str, Wanted], **how: "Unpack[CallOptions]"
    ) -> Dict[str, Array]:
        """Pushes, ends the clock, and pulls, in one round trip.

        After Timeout the clock has ended. Call it again with the same arguments: it pushes nothing, and goes on waiting.
        """
        parts, values = self._wanted(wanted)
        self._call(library.server_push_pull, _call_options(how), self._given(gradients), parts)
        return values

    def tick(self, **how: "Unpack[CallOptions]") -> None:
        """Ends this worker's clock; blocks until its update is in a step and this worker may go on."""
        self._call(library.server_tick, _call_options(how))

    def push_start(self, gradients: Mapping[str, Given], **how: "Unpack[CallOptions]") -> Operation:
        """Starts push() and returns at once; the arrays must not change before it is done."""
        return self._start(library.server_push_start, how, self._given(gradients), None)

    def set_start(self, values: Mapping[str, Given], **how: "Unpack[CallOptions]") -> Operation:
        """Starts set() and returns at once; the arrays must not change before it is done."""
        return self._start(library.server_set_start, how, self._given(values), None)

    def pull_start(self, wanted: Mapping[str, Wanted], **how: "Unpack[CallOptions]") -> Operation:
        """Starts pull() and returns at once; wait() of it returns the values."""
        parts, values = self._wanted(wanted)
        return self._start(library.server_pull_start, how, parts, values)

    def tick_start(self, **how: "Unpack[CallOptions]") -> Operation:
        """Starts tick() and returns at once; a pull that is started afterwards waits for it."""
        return self._start(library.server_tick_start, how, None, None)

    def change_mode(
        self, mode: str, *, staleness: SupportsIndex = 0, quorum: SupportsIndex = 0, **how: "Unpack[CallOptions]"
    ) -> None:
        """Changes the mode, when all workers have called this with the same arguments, behind as many clocks each.

        Blocks until then. Workers that ask for different modes get Mismatch, and the mode stays.
        """
        change = _header.ServerChange(
            ctypes.sizeof(_header.ServerChange),
            _mode(mode),
            integer("staleness", staleness, 0, Status.INVALID_OPTIONS),
            integer("quorum", quorum, 0, Status.INVALID_OPTIONS),
        )
        with self._lock:
            check(library.server_change_mode(self._open, ctypes.byref(change), ctypes.byref(_call_options(how))))

    def step(self, number: SupportsIndex = 0) -> Step:
        """Which workers took part in a step; 0: in the step of this worker's last update. Only workers."""
        found = _header.ServerStep(size_bytes=ctypes.sizeof(_header.ServerStep))
        ranks = (ctypes.c_int * self._rank_capacity)()
        wanted = integer("number", number, 0, Status.INVALID_COUNT, SIZE_MAX)
        with self._lock:
            check(library.server_step_read(self._open, wanted, ranks, len(ranks), ctypes.byref(found)))
        return Step(found.number, found.worker_count, tuple(ranks[: found.member_count]))

    @property
    def counters(self) -> Counters:
        """What this rank has done so far."""
        found = _header.ServerCounters(size_bytes=ctypes.sizeof(_header.ServerCounters))
        with self._lock:
            check(library.server_count(self._open, ctypes.byref(found)))
        return Counters(*(getattr(found, name) for name in Counters._fields))

    def _call(self, function: Any, options: _header.ServerCallOptions, *all_parts: _Parts) -> None:
        _callbacks.catch_up()
        arguments: List[Any] = [argument for parts in all_parts for argument in parts.arguments]
        with self._lock:
            check(function(self._open, *arguments, ctypes.byref(options)))

    def _start(self, function: Any, how: CallOptions, parts: Optional[_Parts], result: Any) -> Operation:
        _callbacks.catch_up()
        options, handle = _call_options(how), ctypes.c_void_p()
        arguments: Tuple[Any, ...] = () if parts is None else parts.arguments
        with self._lock:
            check(function(self._open, *arguments, ctypes.byref(options), ctypes.byref(handle)))
            operation = Operation(self, handle, parts, result)
            self._running[id(operation)] = operation
        return operation

    def _finish(self, operation: Operation, function: Any) -> None:
        """Waits or tests: function says which."""
        with self._lock:
            if not operation._handle:
                return
            status = function(ctypes.byref(operation._handle))
            if status == Status.IN_PROGRESS and operation._handle:
                return
            operation._handle = ctypes.c_void_p()
            self._running.pop(id(operation), None)
            if status != Status.OK:
                operation._error = error_of(status)

    # ------------------------------------------------------------------------------------- arguments

    def _table(self, name: str) -> Tuple[int, Table]:
        if name not in self._indices:
            known = ", ".join(map(repr, self._indices))
            raise invalid(Status.INVALID_COUNT, f"there is no table {name!r}; the tables are: {known}")
        return self._indices[name], self.tables[self._indices[name]]

    def _given(self, all_values: Mapping[str, Given]) -> _Parts:
        parts = _Parts()
        _check_mapping(all_values, "values")
        for name, given in all_values.items():
            index, table = self._table(name)
            rows = None
            if table.rows is not None:
                if not isinstance(given, tuple) or len(given) != 2:
                    raise invalid(Status.INVALID_BUFFER, f"table {name!r} has rows, and takes (indices, values)")
                rows, given = _indices(given[0]), given[1]
            elif isinstance(given, tuple):
                raise invalid(Status.INVALID_BUFFER, f"table {name!r} is dense, and takes an array of all values, not a tuple")
            values = _floats(name, given)
            shape = table.shape if rows is None else (rows.size,) + table.shape
            if values.shape != shape:
                raise invalid(
                    Status.INVALID_COUNT, f"table {name!r} takes values of shape {shape}, not {values.shape}"
                )
            if rows is None or rows.size > 0:
                parts.add(index, rows, values)
        return parts

    def _wanted(self, wanted: Mapping[str, Wanted]) -> Tuple[_Parts, Dict[str, Array]]:
        parts, found = _Parts(), {}
        _check_mapping(wanted, "rows (None for a dense table)")
        for name, which in wanted.items():
            index, table = self._table(name)
            into, which = _split(name, table, which)
            rows = None if which is None else _indices(which)
            shape = table.shape if rows is None else (rows.size,) + table.shape
            found[name] = np.empty(shape, np.float32) if into is None else _room(name, into, shape)
            if rows is None or rows.size > 0:
                parts.add(index, rows, found[name])
        return parts, found


def _check_mapping(given: object, what: str) -> None:
    if not isinstance(given, Mapping):
        raise invalid(Status.INVALID_BUFFER, f"a dict of names of tables and their {what} is needed, not {given!r:.60}")


def _split(name: str, table: Table, wanted: Wanted) -> Tuple[Optional[Array], Union[None, Buffer, Sequence[int]]]:
    """The array to fill, if any, and the indices of rows."""
    if table.rows is None:
        if wanted is not None and not isinstance(wanted, np.ndarray):
            raise invalid(Status.INVALID_BUFFER, f"table {name!r} is dense, and has no indices: None, or an array to fill")
        return wanted, None
    if wanted is None:
        raise invalid(Status.INVALID_BUFFER, f"table {name!r} has rows, and needs indices")
    if isinstance(wanted, tuple) and len(wanted) == 2 and isinstance(wanted[1], np.ndarray):
        return wanted[1], wanted[0]
    return None, wanted


def _room(name: str, array: Array, shape: Tuple[int, ...]) -> Array:
    if array.dtype != np.float32 or not (array.flags.c_contiguous and array.flags.writeable) or array.shape != shape:
        raise invalid(
            Status.INVALID_BUFFER,
            f"the array for table {name!r} is not a writable one of float32 without gaps, of shape {shape}",
        )
    return array


def _floats(name: str, thing: Buffer) -> Array:
    """As float32 without gaps; a copy if it is something else."""
    array = as_array(thing, name)
    if array.dtype.kind != "f":
        raise invalid(Status.INVALID_DTYPE, f"values for table {name!r} are {array.dtype}, not floats")
    return np.ascontiguousarray(array, np.float32).reshape(array.shape)


def _ranks(name: str, ranks: Sequence[SupportsIndex], size: int) -> List[int]:
    return sorted(integer(f"a rank of {name}", rank, 0, Status.INVALID_OPTIONS, min(size - 1, INT_MAX)) for rank in ranks)


def _mode(name: str) -> ServerMode:
    known = {mode.name.lower(): mode for mode in ServerMode}
    if name not in known:
        wanted = " or ".join(f'"{mode}"' for mode in known)
        raise invalid(Status.INVALID_OPTIONS, f"mode is {wanted}, not {name!r}")
    return known[name]
