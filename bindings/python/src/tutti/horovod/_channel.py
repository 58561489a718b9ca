"""Messages of one process set, between its coordinator and its members, on a communicator of their own.

A receive is always posted for each rank that may send. Before the engine's thread sleeps on an eventfd, it asks the library
to add to that when a receive is done. This costs much more than to look again and again, so it is left out as long as the
thread does that. Only that thread uses a channel.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator, List, Sequence, Set, Tuple

import numpy as np

from .._buffers import Array
from .._calls import Request
from .._communicator import Communicator, Message
from .._errors import Error, check
from .._library import library
from ._wire import FRAME_BYTES, Assembler, frames_of

_NEVER = float("inf")  # a receive waits as long as the job lasts
_LEAVE_SECONDS_MAX = 2.0
_COORDINATOR = 0


def watch(request: "Request[Any]", event_fd: int) -> None:
    """Adds to the eventfd when the request is done, or now if it is."""
    operation = request._operation
    with operation.lock:
        if not operation.is_done:
            check(library.notify(operation.handle, event_fd))


class Channel:
    def __init__(self, communicator: Communicator, event_fd: int) -> None:
        self.communicator = communicator
        self.rank, self.size = communicator.rank, communicator.size
        self._event_fd = event_fd
        self._sends: "List[Request[None]]" = []
        self._receives: "Dict[int, Tuple[Request[Message], Array]]" = {}
        self._assemblers: Dict[int, Assembler] = {}
        self._unwatched: "List[Request[Message]]" = []
        self._left: Set[int] = set()  # those that said so: nothing is received from them any more, or sent to them
        for peer in range(1, self.size) if self.is_coordinator else [_COORDINATOR]:
            if peer != self.rank:
                self._assemblers[peer] = Assembler()
                self._receive(peer)

    @property
    def is_coordinator(self) -> bool:
        return self.rank == _COORDINATOR

    def _receive(self, peer: int) -> None:
        place = np.empty(FRAME_BYTES, np.uint8)
        request = self.communicator.recv_start(place, peer, timeout=_NEVER)
        self._receives[peer] = (request, place)
        self._unwatched.append(request)

    def watch(self) -> None:
        """Before the thread sleeps: from now on the eventfd tells when something comes."""
        for request in self._unwatched:
            watch(request, self._event_fd)
        self._unwatched = []

    def has_something(self) -> bool:
        """Whether frames() would tell of something. Does not block."""
        return any(request._operation.finish(block=False) for request, _ in self._receives.values())

    def frames(self) -> Iterator[Tuple[int, bytes]]:
        """The frames that have come, with their senders, for message_of(). Error: the communicator failed."""
        for peer in list(self._receives):
            while peer in self._receives:
                request, place = self._receives[peer]
                if not request.test():
                    break
                frame = place[: request.wait().count].tobytes()
                del self._receives[peer]
                yield peer, frame
                if peer not in self._left:
                    self._receive(peer)

    def message_of(self, peer: int, frame: bytes) -> Any:
        """The message that this frame of that rank's completes; None: more follow. ProtocolError: it is no frame."""
        return self._assemblers[peer].add(frame)

    def has_left(self, peer: int) -> None:
        """That rank has said that it leaves."""
        self._left.add(peer)

    def send(self, message: Any, peers: Sequence[int]) -> None:
        """Does not block; the message is copied."""
        for frame in frames_of(message):
            for peer in peers:
                self._sends.append(self.communicator.send_start(frame, peer))
        self.reap()

    def send_to_coordinator(self, message: Any) -> None:
        if _COORDINATOR not in self._left:
            self.send(message, [_COORDINATOR])

    def send_to_members(self, message: Any) -> None:
        self.send(message, [peer for peer in range(1, self.size) if peer not in self._left])

    def reap(self) -> None:
        """Forgets sends that are done. A send to a rank that left meanwhile fails, which is no harm."""
        still = []
        for request in self._sends:
            try:
                if not request.test():
                    still.append(request)
            except Error:
                if not self._left:
                    raise
        self._sends = still

    def close(self) -> None:
        """Waits, though not for long, until what was sent has been received; aborts what is left. Error: that failed."""
        until = time.monotonic() + _LEAVE_SECONDS_MAX
        self.reap()
        while self._sends and time.monotonic() < until:
            time.sleep(0.001)
            self.reap()
        for request, _ in self._receives.values():
            request.cancel()
        if self._sends:
            self.communicator.abort("a rank shuts down Horovod, and another one does not receive its messages")
        self._receives.clear()
        self.communicator.close()
