"""Threads that find operations done and complete futures, so that no future ever waits for a callback of another one.

    library ──► eventfd ──► a thread that was idle: looks which operations are done ──► queue of futures to complete
                            the thread whose turn it is: completes them, one after the other
                            other threads: sleep on the eventfd, or wait for the turn to take it

Invariants
  1. Who completes a future calls its callbacks, and a callback may wait for anything. So before a thread completes one,
     another thread sleeps on the eventfd, or is started; and one that waits for its turn takes it when nothing is
     completed for a while, or at once when a callback asks for a future itself.
  2. As long as no callback blocks, futures are completed in the order in which their operations were found done.
  3. Threads are about as many as callbacks that block at a time, and two. Idle ones beyond that end.
  4. Only one thread at a time looks at operations, as the library tells of each once. Looking calls no code of users.
  5. Finalisers may run in any thread at any place, with whatever locks that has: all they do here is drop().
  6. No thread is in the middle of completing a future when the interpreter ends: it would be ended in C++ that
     cannot be left so.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import sys
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict

_EFD_CLOEXEC = 0o2000000
_ONE = (1).to_bytes(8, sys.byteorder)
_IDLE_COUNT_MAX = 2
_END_SECONDS_MAX = 1.0
_CALLBACK_SECONDS_MAX = 0.002  # until it is taken for one that blocks


class Watcher:
    def __init__(self) -> None:
        self.event_fd = -1
        self._lock = threading.Lock()  # of the number of threads
        self._idle_count = 0
        self._busy_count = 0
        self._is_ending = False
        self._look_lock = threading.Lock()
        self._looking = 0  # the thread that does
        self._watched: Dict[Any, None] = {}
        self._dropped: Deque[Callable[[], None]] = deque()
        self._ready: Deque[Callable[[], None]] = deque()
        self._turn = threading.Lock()  # another one when it is taken from a thread that does not give it back
        self._turn_of = 0  # the thread that has it
        self._next_lock = threading.Lock()  # of the one thread that waits for it
        self._completed_count = 0

    def begin(self) -> None:
        """Opens the eventfd and starts the first thread, if that has not been done."""
        if self.event_fd >= 0:
            return
        with self._lock:
            if self.event_fd >= 0:
                return
            libc = ctypes.CDLL(None, use_errno=True)
            event_fd = libc.eventfd(0, _EFD_CLOEXEC)
            if event_fd < 0:
                raise OSError(ctypes.get_errno(), "eventfd")
            self.event_fd = event_fd
            self._idle_count = 1
        self._start_thread()

    def watch(self, operation: Any) -> None:
        """Calls its finish_as_watcher() when the library says so, until that is true."""
        self.begin()
        self._watched[operation] = None
        operation.notify(self.event_fd)

    def forget(self, operation: Any) -> None:
        self._watched.pop(operation, None)

    def drop(self, watch: Callable[[], None]) -> None:
        """Calls that soon, in a thread of this object's. For finalisers."""
        self._dropped.append(watch)
        self.look_again()

    def complete(self, call: Callable[[], None]) -> None:
        """Calls that soon, in a thread of this object's: it completes a future."""
        if self._is_ending:
            return
        self._ready.append(call)
        if self._looking != threading.get_ident():  # else this thread sees to it as soon as it has looked
            self.look_again()

    def may_block(self) -> None:
        """Is called by whoever may wait for a future: when that is a callback, others go on meanwhile."""
        if self._turn_of == threading.get_ident():
            self._turn_of = 0
            self._turn = threading.Lock()
            if self._ready:
                self.look_again()

    def look_again(self) -> None:
        if self.event_fd >= 0:  # else nothing was ever started
            os.write(self.event_fd, _ONE)

    def after_fork(self) -> None:
        """In a child: the threads are its parent's, and so are the operations. The descriptor stays open, for nobody."""
        self.__init__()  # type: ignore[misc]

    def end(self) -> None:
        """Before the interpreter does: waits, though not for long, until no future is being completed."""
        self._is_ending = True
        until = time.monotonic() + _END_SECONDS_MAX
        while self._busy_count > 0 and time.monotonic() < until:
            time.sleep(0.001)

    # ------------------------------------------------------------------------------------------------ the threads

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._run, name="tutti-watcher", daemon=True).start()
        except RuntimeError:  # the interpreter ends, or the system has no more threads: the others go on
            with self._lock:
                self._idle_count -= 1

    def _run(self) -> None:
        while True:
            os.read(self.event_fd, 8)
            with self._lock:
                self._idle_count -= 1
                self._busy_count += 1
            try:
                self._look()
                self._complete_all()
            except BaseException:
                logging.getLogger(__package__).exception("a thread that completes futures goes on after")
            with self._lock:
                self._busy_count -= 1
                if self._idle_count >= _IDLE_COUNT_MAX:
                    return
                self._idle_count += 1

    def _look(self) -> None:
        with self._look_lock:
            self._looking = threading.get_ident()
            try:
                while self._dropped:
                    self._dropped.popleft()()
                for operation in list(self._watched):
                    if operation.finish_as_watcher():
                        self.forget(operation)
            finally:
                self._looking = 0

    def _complete_all(self) -> None:
        while self._ready and not self._is_ending:
            if not self._next_lock.acquire(blocking=False):
                return  # another thread waits for its turn
            try:
                turn = self._take_turn()
            finally:
                self._next_lock.release()
            try:
                self._complete_next()
            finally:
                if turn is self._turn:
                    self._turn_of = 0
                turn.release()

    def _take_turn(self) -> threading.Lock:
        """The lock of the turn, which this thread then has."""
        while True:
            turn, count = self._turn, self._completed_count
            has_it = turn.acquire(timeout=_CALLBACK_SECONDS_MAX)
            if turn is not self._turn:  # it was given up meanwhile
                if has_it:
                    turn.release()
                continue
            if not has_it:
                if count != self._completed_count:
                    continue
                turn = self._turn = threading.Lock()
                turn.acquire()
            self._turn_of = threading.get_ident()
            return turn

    def _complete_next(self) -> None:
        try:
            complete = self._ready.popleft()
        except IndexError:  # another thread was faster
            return
        with self._lock:
            is_last = self._idle_count == 0
            if is_last:
                self._idle_count = 1
        if is_last:
            self._start_thread()
        if self._ready and not self._next_lock.locked():
            self.look_again()  # another thread is to wait for its turn
        complete()
        self._completed_count += 1


watcher = Watcher()
os.register_at_fork(after_in_child=watcher.after_fork)
atexit.register(watcher.end)
