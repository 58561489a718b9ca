"""Calls under way: requests, prepared calls and groups, and the state of a communicator that outlives them.

Invariants
  1. While an operation runs, something holds its buffers: the caller's stack, the group, or the set `running`
     of its communicator. So a request may be dropped; its operation still ends in peace.
  2. A communicator is freed only when nothing of it runs in this process. Finalisers never wait for peers: they
     abort what still runs.
  3. After fork() the child leaves everything alone: it is its parent's.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
import time
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Generator,
    Generic,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)

from . import _callbacks, _header
from ._arguments import integer, nanoseconds, permission, printable, text
from ._errors import Error, Failure, check, error_of, failure_of, invalid
from ._header import Dtype, Status
from ._library import library
from ._operations import Op, function_failed

if TYPE_CHECKING:
    from ._communicator import Communicator

Result = TypeVar("Result")


class How(TypedDict, total=False):
    """What every operation can be told by keyword."""

    #: Deadline in seconds from now, instead of the communicator's.
    timeout: Optional[float]
    #: A name from `tutti-plan list`, the same on all ranks; chosen when left out. Not for send and recv.
    algorithm: Optional[str]
    #: The bits of the result do not depend on size, offset or bucketing either.
    deterministic: bool
    #: Of operations under way the higher ones move first: -100 to 100.
    priority: int
    #: A permission to send in fewer bytes, such as "bfloat16/hosts/allowed"; "none": as it is. The communicator's rules
    #: when left out; the same on all ranks.
    encoding: Union[str, _header.Encoding, None]
    #: What the bits of unsigned integers are, for dtypes that NumPy has not: tutti.bfloat16 on uint16.
    dtype: Optional[Dtype]


_HOW = frozenset(How.__annotations__)


def call_options(how: How) -> Optional[_header.CallOptions]:
    if not how:
        return None
    unknown = how.keys() - _HOW
    if unknown:
        raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}")
    algorithm = how.get("algorithm")
    encoding = how.get("encoding")
    return _header.CallOptions(
        ctypes.sizeof(_header.CallOptions),
        nanoseconds("timeout", how.get("timeout")),
        None if algorithm is None else text("algorithm", algorithm),
        int(how.get("deterministic", False)),
        integer("priority", how.get("priority", 0), -100, Status.INVALID_OPTIONS, 100),
        encoding=None if encoding is None else permission(encoding),
    )


class Call(Generic[Result]):
    """What to call, with checked arguments, and what then is the result."""

    __slots__ = ("name", "arguments", "result", "keep", "op", "options")

    def __init__(
        self,
        name: str,
        arguments: Tuple[Any, ...],
        result: Result,
        keep: Tuple[Any, ...],
        how: How,
        op: Optional[Op] = None,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.result = result
        self.keep = keep
        self.op = op
        self.options = call_options(how)

    @property
    def options_address(self) -> Any:
        return None if self.options is None else ctypes.byref(self.options)


class State:
    """The part of a communicator that its operations share, and that its finaliser has."""

    def __init__(self, handle: int, is_owned: bool = True) -> None:
        self.handle: Optional[int] = handle
        self.is_owned = is_owned  # else by a mesh
        self.pid = os.getpid()
        self.inside: List[None] = []  # one entry for each call that a thread is in; append and pop are atomic
        self.is_shut = False  # no thread gets in any more: it is being freed
        self.shutting = threading.Lock()
        self.running: Set[Operation] = set()
        self.prepared: Set[PreparedState] = set()

    @property
    def pointer(self) -> int:
        if self.handle is None:
            raise invalid(Status.INVALID_COMM, "the communicator is closed")
        return self.handle

    def call(self, function: Any, *arguments: Any) -> int:
        """Calls into the library, so that no other thread frees the communicator meanwhile.

        A thread that comes in says so before it looks whether it is shut, and shut() looks after it has said so: one of
        the two sees the other.
        """
        self.inside.append(None)
        try:
            self.expect_open()
            status: int = function(*arguments)
            return status
        finally:
            self.inside.pop()

    def expect_open(self) -> None:
        """For a thread that has said that it comes in."""
        if self.is_shut:
            raise invalid(Status.INVALID_COMM, "the communicator is closed")

    def failure(self) -> Optional[Failure]:
        self.inside.append(None)
        try:
            return failure_of(self.pointer)
        finally:
            self.inside.pop()

    def shut(self) -> bool:
        """From now on no thread gets in; false, and nothing is changed, while one is."""
        with self.shutting:
            if self.is_shut:  # those inside now only come to see that
                return True
            self.is_shut = True
            if self.inside:
                self.is_shut = False
            return self.is_shut

    def abort(self, reason: str) -> None:
        """Also while it is being freed, which may wait for what this ends."""
        reason_text = text("reason", reason)
        self.inside.append(None)
        try:
            check(library.comm_abort(self.pointer, reason_text))
        finally:
            self.inside.pop()

    def report(self, used: Op) -> None:
        """After a call that used an operation: raises what its function raised."""
        error = used.take_error() if used.is_user else None
        if error is None:
            return
        failed = function_failed(used, error)
        self.abort(failed.message)
        raise failed

    def reap(self) -> None:
        """Forgets what was dropped by its owner and is done."""
        for operation in list(self.running):
            if operation.owner() is None:
                operation.finish(block=False)

    def leave(self, is_hurried: bool) -> None:
        """Frees the communicator, after what runs: soon when hurried, else until its deadlines."""
        if self.handle is None or self.pid != os.getpid():
            return
        if not self.shut():
            # Another thread is in a call: freeing would pull its memory away.
            self.abort("closed while another thread was in a call")
            return
        if is_hurried and self.running:
            self.abort("dropped while operations were under way")
        for operation in list(self.running):
            operation.finish(block=True)
        for prepared in list(self.prepared):
            prepared.free()
        handle, self.handle = self.handle, None
        while self.inside:
            time.sleep(0)  # an abort(), which does not block
        if self.is_owned:
            check(library.comm_free(handle))


class Operation:
    """One started operation, until it is done."""

    def __init__(self, state: State, handle: ctypes.c_void_p, call: Call[Any]) -> None:
        self.state = state
        self.handle = handle
        self.call: Optional[Call[Any]] = call
        self.owner: Any = None
        self.prepared: Optional[PreparedState] = None
        self.error: Optional[Error] = None
        self.is_done = False
        self.lock = threading.Lock()
        state.running.add(self)

    def finish(self, block: bool) -> bool:
        """Waits, or only looks; true when it is done."""
        if self.is_done or not self.lock.acquire(blocking=block):
            return self.is_done
        try:
            if not self.is_done:
                function = library.wait if block else library.test
                status = function(ctypes.byref(self.handle))
                if status == Status.IN_PROGRESS:
                    return False
                self._end(status)
            return True
        finally:
            self.lock.release()

    def cancel(self) -> bool:
        """Takes a receive back; false when it cannot be any more, or another thread waits for it."""
        if self.is_done or not self.lock.acquire(blocking=False):
            return False
        try:
            status = Status.IN_PROGRESS if self.is_done else library.cancel(ctypes.byref(self.handle))
            if status == Status.IN_PROGRESS:
                return False
            check(status)
            self.error = invalid(Status.INVALID_REQUEST, "the receive was cancelled")
            self._end(Status.OK)
            return True
        finally:
            self.lock.release()

    def _end(self, status: int) -> None:
        if status != Status.OK:
            self.error = error_of(status, self.state.handle)
        used = self.call.op if self.call is not None else None
        if used is not None:
            try:
                self.state.report(used)
            except Error as error:
                self.error = error  # it says more about what came first
        self.call = None  # and with it the buffers
        self.is_done = True
        self.state.running.discard(self)
        if self.prepared is not None:
            self.prepared.ended()


class Request(Generic[Result]):
    """An operation under way. Its buffers belong to it until wait(), or a test() that says true.

    It can be used in `with` (which waits at the end) and be awaited. One that is dropped goes on by itself;
    its failure then shows in the next call of the communicator.
    """

    def __init__(self, communicator: Any, operation: Operation, result: Result) -> None:
        self._communicator = communicator  # lives as long
        self._operation = operation
        self._result = result
        operation.owner = weakref.ref(self)

    def wait(self) -> Result:
        """Blocks until it is done, and returns the result, or raises what went wrong."""
        _callbacks.catch_up()
        self._operation.finish(block=True)
        if self._operation.error is not None:
            raise self._operation.error
        return self._result

    def test(self) -> bool:
        """Whether it is done. Does not block; what went wrong is raised here, too."""
        if not self._operation.finish(block=False):
            return False
        if self._operation.error is not None:
            raise self._operation.error
        return True

    def cancel(self) -> bool:
        """Takes a receive back that no message has met yet; false when one has, and it goes on.

        Its buffer is free then, and a wait() raises. Sends and collectives cannot be taken back, which raises here.
        """
        return self._operation.cancel()

    def __enter__(self) -> "Request[Result]":
        return self

    def __exit__(self, kind: Optional[type], error: object, traceback: object) -> None:
        if kind is None:
            self.wait()

    def __await__(self) -> Generator[Any, None, Result]:
        # A thread of the event loop's waits, without the GIL.
        return asyncio.get_running_loop().run_in_executor(None, self.wait).__await__()

    def __repr__(self) -> str:
        return f"<tutti.Request, {'done' if self._operation.is_done else 'under way'}>"


class PreparedState:
    """What of a prepared call outlives its owner: it may not be freed while it runs."""

    def __init__(self, state: State, handle: int, call: Call[Any]) -> None:
        self.state = state
        self.handle: Optional[int] = handle
        self.call = call
        self.running: Optional[Operation] = None
        self.is_forgotten = False
        state.prepared.add(self)

    def ended(self) -> None:
        self.running = None
        if self.is_forgotten:
            self.free()

    def forget(self) -> None:
        self.is_forgotten = True
        if self.running is not None:
            self.running.finish(block=False)
        if self.running is None:
            self.free()

    def free(self) -> None:
        if self.handle is None or self.state.pid != os.getpid():
            return
        handle, self.handle = self.handle, None
        self.state.prepared.discard(self)
        check(library.prepared_free(handle))


class Prepared(Generic[Result]):
    """An operation that is planned once and can be started again and again, on the same buffers.

    One run at a time. The result of every run is the same object with new values.
    """

    def __init__(self, communicator: Any, prepared: PreparedState, result: Result) -> None:
        self._communicator = communicator
        self._state = prepared
        self._result = result
        weakref.finalize(self, _callbacks.later, prepared.forget).atexit = False

    def start(self) -> Request[Result]:
        """Starts it with what is in the buffers now; counts as a call of the communicator."""
        _callbacks.catch_up()
        own = self._state
        if own.running is not None:
            own.running.finish(block=False)
        if own.handle is None or own.running is not None:
            what = "is closed" if own.handle is None else "still runs"
            raise invalid(Status.INVALID_REQUEST, f"the prepared call {what}")
        handle = ctypes.c_void_p()
        comm = own.state.pointer
        check(own.state.call(library.start, own.handle, ctypes.byref(handle)), comm)
        operation = Operation(own.state, handle, own.call)
        operation.prepared = own
        own.running = operation
        return Request(self._communicator, operation, self._result)

    def close(self) -> None:
        """Forgets it, after a run that is under way. The end of `with` does this, too."""
        if self._state.running is not None:
            self._state.running.finish(block=True)
        self._state.forget()

    def __enter__(self) -> "Prepared[Result]":
        return self

    def __exit__(self, kind: Optional[type], error: object, traceback: object) -> None:
        if kind is None:
            self.close()


# --------------------------------------------------------------------------------------------- groups


class _OpenGroup(threading.local):
    """This thread's group: how deep it is, and what its calls need until its end."""

    depth = 0
    calls: List[Tuple["Communicator", Call[Any]]]


_open_group = _OpenGroup()


class Group:
    """See group()."""

    def __enter__(self) -> "Group":
        check(library.group_begin())
        if _open_group.depth == 0:
            _open_group.calls = []
        _open_group.depth += 1
        return self

    def __exit__(self, kind: Optional[type], error: Optional[BaseException], traceback: object) -> None:
        states: Dict[int, State] = {id(comm._state): comm._state for comm, _ in _open_group.calls}
        for state in states.values():
            state.inside.append(None)
        try:
            # With any error this thread's group must be over: else the thread's later calls would only be started.
            try:
                if error is not None:
                    # Peers will not see the rest of the group, and it cannot be left without waiting for its beginning.
                    for state in states.values():
                        if state.handle is not None:
                            state.abort(printable(f"{type(error).__name__} in a group: {error}"))
            except BaseException:
                library.group_end()
                raise
            status = library.group_end()
            failed = None if status == Status.OK else _error_of_group(status, list(states.values()))
        finally:
            for state in states.values():
                state.inside.pop()
            _open_group.depth -= 1
        if error is not None or _open_group.depth > 0:
            return
        calls, _open_group.calls = _open_group.calls, []
        for comm, call in calls:
            if call.op is not None:
                comm._state.report(call.op)
        if failed is not None:
            raise failed


def _error_of_group(status: int, states: Sequence[State]) -> Error:
    """The library names the first failure; look whose it is."""
    for state in states:
        found = error_of(status, state.handle)
        if found.failure is not None and found.failure.status == status:
            return found
    return error_of(status)


def group() -> Group:
    """In `with tutti.group():` this thread's blocking calls are started and return at once; the end waits for all.

    Their results are good, and their buffers free, after the end. Groups may be nested and use several
    communicators. When the body raises, the communicators that it used are aborted.
    """
    return Group()


# ------------------------------------------------------------------------------------- the three forms


def run(communicator: "Communicator", call: Call[Result]) -> Result:
    _callbacks.catch_up()
    state = communicator._state
    comm = state.pointer
    function = getattr(library, call.name + "_with")
    status = state.call(function, *call.arguments, call.options_address, comm)
    failed = None if status == Status.OK else error_of(status, comm)
    if failed is None and _open_group.depth > 0:
        _open_group.calls.append((communicator, call))
    elif call.op is not None:
        state.report(call.op)
    if failed is not None:
        raise failed
    return call.result


def start(communicator: "Communicator", call: Call[Result]) -> Request[Result]:
    _callbacks.catch_up()
    state = communicator._state
    comm = state.pointer
    if state.running:
        state.reap()
    handle = ctypes.c_void_p()
    function = getattr(library, call.name + "_start")
    place = ctypes.byref(handle)
    check(state.call(function, *call.arguments, call.options_address, comm, place), comm)
    return Request(communicator, Operation(state, handle, call), call.result)


def prepare(communicator: "Communicator", call: Call[Result]) -> Prepared[Result]:
    _callbacks.catch_up()
    state = communicator._state
    comm = state.pointer
    handle = ctypes.c_void_p()
    function = getattr(library, call.name + "_prepare")
    place = ctypes.byref(handle)
    check(state.call(function, *call.arguments, call.options_address, comm, place), comm)
    assert handle.value is not None
    return Prepared(communicator, PreparedState(state, handle.value, call), call.result)
