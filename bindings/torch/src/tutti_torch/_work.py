"""What a call under way is to PyTorch: a Work, which can be waited for, asked, and turned into a future.

    call ──► Operation (a request of the library) ─┐
    call ──► Operation ────────────────────────────┴─► Batch (buffers, result, future) ◄── Work

Invariants
  1. A batch holds the tensors until its last operation is done; operations are held by their communicator's state. So
     a Work may be dropped, and its operations end in peace.
  2. Who finds the last operation done completes the batch: a thread in wait(), or the watcher.
  3. The watcher is one daemon thread of the process. It sleeps on one eventfd, to which the library adds when a request
     that the watcher is to know of is done (tutti_notify). Only work that somebody wants a future of, or that nobody holds
     any more, is watched.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import tutti
from torch._C._distributed_c10d import Work as TorchWork
from tutti._calls import Operation as TuttiOperation
from tutti._calls import State
from tutti._errors import check
from tutti._library import library

from ._errors import as_runtime_error
from ._tensors import Copies, copy_back

_EFD_CLOEXEC = 0o2000000


class _Watcher:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event_fd = -1
        self._watched: Dict["Operation", None] = {}

    def watch(self, operation: "Operation") -> None:
        with self._lock:
            if self._event_fd < 0:
                self._begin()
            self._watched[operation] = None
        operation.notify(self._event_fd)

    def forget(self, operation: "Operation") -> None:
        self._watched.pop(operation, None)

    def _begin(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._event_fd = libc.eventfd(0, _EFD_CLOEXEC)
        if self._event_fd < 0:
            raise OSError(ctypes.get_errno(), "eventfd")
        threading.Thread(target=self._run, name="tutti-watcher", daemon=True).start()

    def _run(self) -> None:
        while True:
            os.read(self._event_fd, 8)
            for operation in list(self._watched):
                if operation.finish_as_watcher():
                    self.forget(operation)

    def look_again(self) -> None:
        os.write(self._event_fd, (1).to_bytes(8, sys.byteorder))

    def after_fork(self) -> None:
        """In a child: the thread is its parent's, and so are the operations. The descriptor stays open, for nobody."""
        self.__init__()  # type: ignore[misc]


_watcher = _Watcher()
os.register_at_fork(after_in_child=_watcher.after_fork)


class Operation(TuttiOperation):
    """One request of the library, as part of a batch."""

    def __init__(self, state: State, handle: ctypes.c_void_p, batch: "Batch") -> None:
        self.batch = batch
        self.is_watched = False
        self.was_missed = False  # by the watcher, as another thread had the lock
        super().__init__(state, handle, batch)  # type: ignore[arg-type]  # all it wants of a call is its op
        self.owner = _somebody  # the communicator does not look after it by itself

    def notify(self, event_fd: int) -> None:
        with self.lock:
            if not self.is_done:
                check(library.notify(self.handle, event_fd))
        if self.is_done:
            _watcher.forget(self)
        else:
            self._make_good()

    def finish(self, block: bool) -> bool:
        is_done = super().finish(block)
        if not is_done:
            self._make_good()
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
        """After having had the lock: the watcher is told of a request once only."""
        if self.was_missed:
            self.was_missed = False
            _watcher.look_again()

    def _end(self, status: int) -> None:
        super()._end(status)
        if self.is_watched:
            _watcher.forget(self)
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
        self.error: Optional[tutti.Error] = None
        self.operations: List[Operation] = []
        self.unfinished = 1  # more are added until seal()
        self._lock = threading.Lock()
        self._promise: Any = None
        self._future: Any = None

    @property
    def is_done(self) -> bool:
        return self.unfinished == 0

    def add(self, outputs: Sequence[torch.Tensor], keep: Any, copies: Copies) -> None:
        """What the next operation fills, what must live until it is done, and what is then copied back."""
        self.outputs.extend(outputs)
        self.keep.append(keep)
        self.copies.extend(copies)

    def start(self, function: Callable[..., int], state: State, arguments: Sequence[Any]) -> None:
        """Starts one of its operations."""
        handle = ctypes.c_void_p()
        with self._lock:
            self.unfinished += 1
        try:
            check(state.call(function, *arguments, ctypes.byref(handle)), state.handle)
        except tutti.Error as error:
            self.one_is_done(error)
            self.seal()
            raise as_runtime_error(error) from None
        self.operations.append(Operation(state, handle, self))

    def seal(self) -> None:
        """All of them are started."""
        self.one_is_done(None)

    def one_is_done(self, error: Optional[tutti.Error]) -> None:
        with self._lock:
            self.unfinished -= 1
            if error is not None and self.error is None:
                self.error = as_runtime_error(error)
            if self.unfinished > 0:
                return
            if self.error is None:
                copy_back(self.copies)
            self.keep = []
            self.copies = []
            promise = self._promise
        if promise is not None:
            promise.set_result(None)

    def get_future(self) -> Any:
        """A future of the outputs. It is a child of a promise, as only callbacks can fail a future so that C++ sees it."""
        with self._lock:
            if self._future is None:
                promise: Any = torch.futures.Future()
                self._future = promise.then(self._result)
                if self.is_done:
                    promise.set_result(None)
                else:
                    self._promise = promise
        self.watch()
        return self._future

    def _result(self, promise: Any) -> List[torch.Tensor]:
        if self.error is not None:
            raise self.error
        return list(self.outputs)

    def watch(self) -> None:
        for operation in self.operations:
            if not operation.is_done and not operation.is_watched:
                operation.is_watched = True
                _watcher.watch(operation)

    def finish(self, block: bool) -> bool:
        for operation in list(self.operations):
            operation.finish(block)
        return self.is_done

    def finish_within(self, seconds: float) -> bool:
        """Waits, but not longer; the operations go on until their own deadlines."""
        done = threading.Event()
        self.get_future().add_done_callback(lambda _: done.set())
        return done.wait(seconds)


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
            self._batch.watch()


def finished(outputs: Sequence[torch.Tensor]) -> Work:
    """Work that is done."""
    batch = Batch()
    batch.add(outputs, None, [])
    batch.seal()
    return Work(batch)
