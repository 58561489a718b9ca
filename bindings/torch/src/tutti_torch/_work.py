"""What a call under way is to PyTorch: a Work, which can be waited for, asked, and turned into a future.

    call ──► Operation (a request of the library) ─┐
    call ──► Operation ────────────────────────────┴─► Batch (buffers, result, future) ◄── Work

Invariants
  1. A batch holds the tensors until its last operation is done; operations are held by their communicator's state. So
     a Work may be dropped, and its operations end in peace.
  2. The thread that finds the last operation done completes the batch: a thread in wait(), or one of the watcher. It
     copies back results where that is needed, while it has the operation's lock; an error there is the batch's alone.
  3. Futures are completed by threads of the watcher only, as that calls callbacks: see _watcher.py.
  4. Only work that somebody wants a future of, or that nobody holds any more, is watched. The library tells of a request
     when it is done (tutti_notify) once, and is asked to by the thread that has the operation's lock.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence

import torch
import tutti
from torch._C._distributed_c10d import Work as TorchWork
from tutti._calls import Operation as TuttiOperation
from tutti._calls import State
from tutti._errors import check
from tutti._library import library

from ._errors import as_runtime_error
from ._tensors import Copies, copy_back
from ._watcher import watcher

# Is told of a batch's end, and of its error.
Listener = Callable[[Optional[BaseException]], None]


class Operation(TuttiOperation):
    """One request of the library, as part of a batch."""

    def __init__(self, state: State, handle: ctypes.c_void_p, batch: "Batch") -> None:
        self.batch = batch
        self.is_watched = False
        self.is_announced = False  # the library knows whom to tell
        self.was_missed = False  # by the watcher, as another thread had the lock
        super().__init__(state, handle, batch)  # type: ignore[arg-type]  # all it wants of a call is its op
        self.owner = _somebody  # the communicator does not look after it by itself

    def notify(self, event_fd: int) -> None:
        """Never waits: a thread that has the lock does it after that, if it has not ended the operation."""
        while not self.lock.acquire(blocking=False):
            self.was_missed = True
            if self.lock.locked():
                return
        try:
            if not self.is_done and not self.is_announced:
                check(library.notify(self.handle, event_fd))
                self.is_announced = True
        finally:
            self.lock.release()
        if self.is_done:
            watcher.forget(self)
        else:
            self._make_good()

    def finish(self, block: bool) -> bool:
        """If another thread ends the operation, a waiting thread also waits until that one has completed the batch."""
        is_done = super().finish(block)
        if not is_done:
            self._make_good()
        elif block and not self.batch.is_done:
            with self.lock:
                pass
        return is_done

    def finish_as_watcher(self) -> bool:
        """Never waits: a thread that has the lock will end it, or sees that the watcher came in vain."""
        while not super().finish(block=False):
            if not self.lock.locked():
                return False
            self.was_missed = True
            if self.lock.locked():
                return False
        return True

    def _make_good(self) -> None:
        """After having had the lock, when the watcher wanted it meanwhile."""
        if self.was_missed:
            self.was_missed = False
            if self.is_announced:
                watcher.look_again()
            else:
                self.notify(watcher.event_fd)

    def _end(self, status: int) -> None:
        try:
            super()._end(status)
        except BaseException as error:  # it has ended all the same
            self.error = error  # type: ignore[assignment]
            self.is_done = True
            self.state.running.discard(self)
        if self.is_watched:
            watcher.forget(self)
        self.batch.one_is_done(self.error)


def _somebody() -> bool:
    return True


class Batch:
    """The operations of one call: one, mostly, and several where tensors of several dtypes are coalesced."""

    op = None  # as TuttiOperation wants of its call: PyTorch has no reductions in Python

    def __init__(self) -> None:
        self.outputs: List[torch.Tensor] = []
        self.keep: List[Any] = []
        self.copies: Copies = []
        self.error: Optional[BaseException] = None
        self.is_done = False
        self.operations: List[Operation] = []
        self._unfinished = 1  # more are added until seal()
        self._lock = threading.Lock()
        self._listeners: List[Listener] = []
        self._future: Any = None
        self._future_of_list: Any = None

    def add(self, outputs: Sequence[torch.Tensor], keep: Any, copies: Copies) -> None:
        """What the next operation fills, what must live until it is done, and what is then copied back."""
        self.outputs.extend(outputs)
        self.keep.append(keep)
        self.copies.extend(copies)

    def start(self, function: Callable[..., int], state: State, arguments: Sequence[Any]) -> None:
        """Starts one of its operations."""
        watcher.begin()
        handle = ctypes.c_void_p()
        with self._lock:
            self._unfinished += 1
        try:
            check(state.call(function, *arguments, ctypes.byref(handle)), state.handle)
        except BaseException as error:
            if handle.value is None:
                self.one_is_done(error)
            else:  # KeyboardInterrupt, for one, came after it was started: it still needs the buffers
                self.operations.append(Operation(state, handle, self))
            self.seal()
            if isinstance(error, tutti.Error):
                raise as_runtime_error(error) from None
            raise
        self.operations.append(Operation(state, handle, self))

    def include(self, other: "Batch") -> None:
        """This one is done when the other one is, too."""
        with self._lock:
            self._unfinished += 1
        self.operations = [operation for operation in self.operations if not operation.is_done]
        self.operations.extend(other.operations)
        other.when_done(self.one_is_done)

    def seal(self) -> None:
        """All of them are started."""
        self.one_is_done(None)

    def one_is_done(self, error: Optional[BaseException]) -> None:
        with self._lock:
            self._unfinished -= 1
            if error is not None and self.error is None:
                self.error = as_runtime_error(error) if isinstance(error, tutti.Error) else error
            if self._unfinished > 0:
                return
            if self.error is None:
                try:
                    copy_back(self.copies)
                except BaseException as failure:
                    self.error = failure
            self.keep = []
            self.copies = []
            self.is_done = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(self.error)

    def when_done(self, listener: Listener) -> None:
        """Calls it when the batch is done, at once if it is, in any thread. It must not wait for anything."""
        with self._lock:
            if not self.is_done:
                self._listeners.append(listener)
                return
        listener(self.error)

    def get_future(self) -> Any:
        """A future of the outputs. It is a child of a promise, as only callbacks can fail a future so that C++ sees it."""
        with self._lock:
            if self._future is None:
                promise: Any = torch.futures.Future()
                self._future = promise.then(self._result)
                if self.is_done:
                    promise.set_result(None)  # nobody has added a callback yet
                else:
                    self._listeners.append(lambda _: watcher.complete(lambda: promise.set_result(None)))
        if not self.is_done:
            self.watch()
            watcher.may_block()
        return self._future

    def get_future_of_list(self) -> Any:
        """The same for PyTorch's C++ where it insists on a list of tensors of C++: futures of Python have objects of Python.
        Threads of PyTorch complete it; there are few, but callbacks of C++ wait for nothing."""
        if self._future_of_list is None:
            self._future_of_list = _lists_of_cpp().list_after(self.get_future(), self.outputs)
        return self._future_of_list

    def _result(self, promise: Any) -> List[torch.Tensor]:
        if self.error is not None:
            raise self.error
        return list(self.outputs)

    def watch(self) -> None:
        for operation in self.operations:
            if not operation.is_done and not operation.is_watched:
                operation.is_watched = True
                watcher.watch(operation)

    def finish(self, block: bool) -> bool:
        for operation in list(self.operations):
            operation.finish(block)
        return self.is_done

    def finish_within(self, seconds: float) -> bool:
        """Waits, but not longer; the operations go on until their own deadlines."""
        done = threading.Event()
        self.when_done(lambda _: done.set())
        self.watch()
        return done.wait(seconds)


@functools.lru_cache(maxsize=None)
def _lists_of_cpp() -> Any:
    return torch.jit.CompilationUnit("""
def outputs_after(done: Future[int], outputs: List[Tensor]) -> List[Tensor]:
    torch.jit.wait(done)
    return outputs

def list_after(done: Future[int], outputs: List[Tensor]) -> Future[List[Tensor]]:
    return torch.jit.fork(outputs_after, done, outputs)
""")


class Work(TorchWork):
    """See torch.distributed.Work."""

    message: Any = None  # of a receive

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self._batch = batch

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        batch = self._batch
        seconds = timeout.total_seconds() if timeout is not None else 0
        if seconds > 0 and not batch.is_done:
            if not batch.finish_within(seconds):
                message = f"not done after {seconds} seconds of waiting; it goes on"
                raise as_runtime_error(tutti.Timeout(tutti.Status.TIMEOUT, message))
        else:
            batch.finish(block=True)
        if batch.error is not None:
            raise batch.error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._batch.finish(block=False)

    def is_success(self) -> bool:
        return self.is_completed() and self._batch.error is None

    def exception(self) -> Optional[BaseException]:
        return self._batch.error if self.is_completed() else None

    def result(self) -> List[torch.Tensor]:
        self.wait()
        return list(self._batch.outputs)

    def get_future(self) -> Any:
        return self.get_future_for_cpp() if _is_caller_in_cpp() else self._batch.get_future()

    def get_future_for_cpp(self) -> Any:
        """PyTorch's hook FP16_COMPRESS, which is C++, takes nothing but a list of tensors of C++; all else takes any."""
        outputs = self._batch.outputs
        if len(outputs) == 1 and getattr(outputs[0], "dtype", None) is torch.float16:
            return self._batch.get_future_of_list()
        return self._batch.get_future()

    def source_rank(self) -> int:
        """Who sent what was received."""
        self.wait()
        if self.message is None:
            raise ValueError("only what is received has a source")
        return int(self.message.source)

    _source_rank = source_rank

    def __del__(self) -> None:
        if not self._batch.is_done:
            watcher.drop(self._batch.watch)


def _is_caller_in_cpp() -> bool:
    """Of get_future(): a function of Python that calls it names it; else that function has called C++, which calls it."""
    try:
        caller = sys._getframe(2)
    except ValueError:  # a thread of C++
        return True
    return "get_future" not in caller.f_code.co_names


def finished(outputs: Sequence[torch.Tensor]) -> Work:
    """Work that is done."""
    batch = Batch()
    batch.add(outputs, None, [])
    batch.seal()
    return Work(batch)
