"""The thread of a process that negotiates with the other ranks and starts what all have agreed on.

    submit() ─► inbox ─┐                                 ┌─► coordinator (the lowest rank of the set), or a message to it
    eventfd ──────────►├─ one round of the thread ───────┼─► orders: calls of the library, started in their order
    channels ─────────►┘                                 └─► calls that are done: handles

Invariants
  1. Only this thread calls the library, from begin() on, but for abort(). It sleeps on an eventfd that submit() and the
     library add to. After something has happened it looks for more for a moment before that, but only while the
     application waits for an operation and does not compute. It never waits for other ranks, but for making process
     sets, which all ranks do at the same place of the global set's order.
  2. A submission goes out at once while nothing waits for an order. Else it waits for that order, or for
     HOROVOD_CYCLE_TIME: so the gradients of a backward pass go out in few messages, and in few operations.
  3. Every operation ends. When a communicator fails, when another rank sends nonsense, or when this thread raises,
     all operations get that error, and so do those that come later; the communicators are aborted, so that the other
     ranks learn of it.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from .._arguments import printable
from .._communicator import Communicator
from .._errors import Error
from ._channel import Channel
from ._coordinator import Coordinator
from ._errors import HorovodInternalError, ProtocolError, cause_of
from ._operation import Operation, waiting
from ._settings import Settings
from ._tasks import Task, operation_of_joined
from ._timeline import Timeline
from ._wire import (
    Fail,
    Joined,
    Left,
    Order,
    Part,
    Refuse,
    Run,
    Submission,
    parse_from_coordinator,
    parse_from_member,
    parse_submission,
    wire_of,
    wire_of_orders,
)

_EFD_CLOEXEC = 0o2000000
_ONE = (1).to_bytes(8, sys.byteorder)
_LOOK_SECONDS = 0.001  # how long the thread looks again and again after something has happened, before it sleeps
_RUNNING_MAX = 16  # operations of a set at a time; the others wait here
_READY_MAX = 1024  # submissions in one message
_STOP_SECONDS_MAX = 10.0  # for operations that are under way at the end
_GLOBAL = 0

logger = logging.getLogger("tutti.horovod")


class Set:
    """A process set. Where this rank is no member, it only knows the ranks."""

    def __init__(self, number: int, ranks: List[int]) -> None:
        self.number = number
        self.ranks = ranks
        self.data: Optional[Communicator] = None
        self.channel: Optional[Channel] = None
        self.coordinator: Optional[Coordinator] = None
        self.table: Dict[str, Operation] = {}  # by name, until they are done; the engine's lock
        self.outbox: List[Operation] = []
        self.unanswered_count = 0  # told to the coordinator, and in no order yet
        self.sent_at = 0.0
        self.queue: Deque[Tuple[Run, List[Operation]]] = deque()  # ordered, to be started
        self.running: List[Task] = []
        self.ended: Optional[str] = None  # why nothing more can be done in it
        self.is_joined = False

    @property
    def is_member(self) -> bool:
        return self.data is not None

    def communicators(self) -> List[Communicator]:
        """None where this rank is no member."""
        if self.data is None or self.channel is None:
            return []
        return [self.data, self.channel.communicator]


class Engine:
    """Of one job: made by init(), ended by stop()."""

    def __init__(self, world: Communicator, settings: Settings) -> None:
        """The communicator becomes the engine's. Collective."""
        self.rank, self.size = world.rank, world.size
        self.settings = settings
        self.failure: Optional[str] = None
        self.is_holding = False  # the thread looks at the inbox soon, also when nobody adds to the eventfd
        self._lock = threading.Lock()  # of the tables, the inbox and the failure
        self._inbox: List[Tuple[Set, Operation]] = []
        self._calls: List[Callable[[], None]] = []  # for the thread
        self._is_stopping = False
        self._happened_at = 0.0
        self._timeline: Optional[Timeline] = None
        self.sets: Dict[int, Set] = {}
        self._set_count = 0
        libc = ctypes.CDLL(None, use_errno=True)
        self._event_fd = libc.eventfd(0, _EFD_CLOEXEC)
        if self._event_fd < 0:
            raise OSError(ctypes.get_errno(), "eventfd")
        self._poll = select.poll()
        self._poll.register(self._event_fd, select.POLLIN)
        self._add_set(list(range(self.size)), world, world.dup())
        self._thread = threading.Thread(target=self._run, name="tutti-horovod", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    # -------------------------------------------------------------------------------- for other threads

    def submit(self, number: int, operation: Operation) -> None:
        """Takes it, and returns at once. ValueError: no such set, not a member of it, a name in use, or one that is none."""
        name = operation.submission.name
        known = self.sets.get(number)
        try:  # what the coordinator would refuse ends the job; here it is this caller's mistake alone
            parse_submission(wire_of(operation.submission), self.size if known is None else len(known.ranks))
        except ProtocolError as error:
            raise ValueError(f"an operation has {error}") from None
        with self._lock:
            if self.failure is not None:
                raise HorovodInternalError(f'"{name}": {self.failure}')
            if self._is_stopping:
                raise ValueError("Horovod has been shut down; use hvd.init().")
            into = self.sets.get(number)
            if into is None:
                raise ValueError(f"there is no process set {number}, or it has been removed")
            if not into.is_member:
                raise ValueError(f"rank {self.rank} is not in process set {number}, of ranks {into.ranks}")
            if into.ended is not None:
                raise HorovodInternalError(f'"{name}": {into.ended}')
            if into.is_joined:
                raise ValueError(f'"{name}" was submitted while this rank is in join()')
            if name in into.table:
                raise ValueError(
                    f'an operation "{name}" is under way on this rank: give operations that run at the same time different'
                    " names, or synchronize() the first"
                )
            into.is_joined = operation.submission.kind == "join"
            into.table[name] = operation
            self._inbox.append((into, operation))
            if not self.is_holding:
                os.write(self._event_fd, _ONE)

    def call(self, function: Callable[[], None]) -> None:
        """Calls that in the engine's thread, and waits until it has; raises what it raises."""
        done = threading.Event()
        raised: List[BaseException] = []

        def called() -> None:
            try:
                function()
            except Exception as error:
                raised.append(error)
            finally:
                done.set()

        with self._lock:
            if self.failure is not None:
                raise HorovodInternalError(self.failure)
            self._calls.append(called)
        os.write(self._event_fd, _ONE)
        while not done.wait(0.1):
            if not self._thread.is_alive():
                break
        if raised:
            raise raised[0]

    def start_timeline(self, path: str, mark_cycles: bool) -> None:
        if self.rank == 0:  # as Horovod: one file tells of all ranks
            self.call(lambda: self._open_timeline(path, mark_cycles))

    def stop_timeline(self) -> None:
        if self.rank == 0:
            self.call(self._close_timeline)

    def stop(self) -> None:
        """Leaves: fails what is submitted and not yet agreed on, waits a little for what runs, and frees everything."""
        with self._lock:
            self._is_stopping = True
        if self._thread.is_alive():
            os.write(self._event_fd, _ONE)
            self._thread.join()
        self._close_timeline()
        for one in self.sets.values():
            for communicator in one.communicators():
                self._close(communicator)
        os.close(self._event_fd)

    def _close(self, communicator: Communicator) -> None:
        try:
            communicator.close()
        except Error as error:
            logger.debug("at the end: %s", error)

    # -------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            if self.settings.timeline is not None and self.rank == 0:
                self._open_timeline(self.settings.timeline, self.settings.mark_cycles)
            while not self._is_stopping:
                self._round()
                self._sleep()
            self._leave()
        except BaseException as error:
            self._fail(error)

    def _round(self) -> None:
        with self._lock:
            inbox, self._inbox = self._inbox, []
            calls, self._calls = self._calls, []
        for call in calls:
            call()
        for into, operation in inbox:
            into.outbox.append(operation)
        if inbox:
            self._happened_at = time.monotonic()
        for one in list(self.sets.values()):
            if one.is_member:
                self._finish_tasks(one)
                self._receive(one)
                self._negotiate(one)
                self._start_tasks(one)

    def _sleep(self) -> None:
        """Until something is submitted, received or done, or a time has come."""
        if self._look_again():
            return
        now = time.monotonic()
        until: Optional[float] = None
        is_holding = False
        for one in self.sets.values():
            times = []
            if one.coordinator is not None:
                times.append(one.coordinator.next_look())
            if one.outbox:
                times.append(one.sent_at + self.settings.cycle_seconds)
            for when in times:
                if when is not None:
                    until = when if until is None else min(until, when)
            # A submission just after another one would not be sent sooner for waking this thread.
            limit = one.sent_at + self.settings.cycle_seconds
            if one.unanswered_count > 0 and now < limit:
                is_holding = True
                until = limit if until is None else min(until, limit)
        self.is_holding = is_holding
        with self._lock:
            if self._inbox or self._calls or self._is_stopping:
                until = now
        self._watch()
        milliseconds = None if until is None else max(0.0, (until - now) * 1e3)
        if self._poll.poll(milliseconds):
            os.read(self._event_fd, 8)
        self.is_holding = False

    def _look_again(self) -> bool:
        """For a moment after something has happened, while the application only waits: true when something has again."""
        until = self._happened_at + _LOOK_SECONDS
        while waiting and time.monotonic() < until:
            if self._inbox or self._calls or self._is_stopping:
                return True
            for one in self.sets.values():
                if one.channel is not None and one.channel.has_something():
                    return True
                if any(task.is_done() for task in one.running):
                    return True
        return False

    def _watch(self) -> None:
        for one in self.sets.values():
            if one.channel is not None:
                one.channel.watch()
            for task in one.running:
                task.watch(self._event_fd)

    def _receive(self, one: Set) -> None:
        channel = one.channel
        assert channel is not None
        for peer, frame in channel.frames():
            try:
                self._happened_at = time.monotonic()
                message = channel.message_of(peer, frame)
                if message is None:
                    continue
                if one.coordinator is None:
                    self._take_orders(one, parse_from_coordinator(message, len(one.ranks)))
                    continue
                submissions = parse_from_member(message, len(one.ranks))
                if submissions is None:
                    one.coordinator.leave(peer)
                    channel.has_left(peer)
                    continue
                now = time.monotonic()
                for submission in submissions:
                    one.coordinator.hear(peer, submission, now)
            except ProtocolError as error:
                raise ProtocolError(f"rank {one.ranks[peer]} sent {error}") from None

    def _negotiate(self, one: Set) -> None:
        """Tells the coordinator what is ready here, or, as the coordinator, all members what to do."""
        channel, now = one.channel, time.monotonic()
        assert channel is not None
        if one.coordinator is None:
            is_due = one.unanswered_count == 0 or now >= one.sent_at + self.settings.cycle_seconds
            if one.outbox and is_due:
                ready, one.outbox = one.outbox[:_READY_MAX], one.outbox[_READY_MAX:]
                channel.send_to_coordinator(["ready", [wire_of(operation.submission) for operation in ready]])
                one.unanswered_count += len(ready)
                one.sent_at = now
                if self._timeline is not None:
                    self._timeline.cycle()
            channel.reap()
            return
        for operation in one.outbox:
            one.coordinator.hear(0, operation.submission, now)
            one.unanswered_count += 1
            one.sent_at = now
        one.outbox = []
        orders = one.coordinator.orders()
        warnings, fail = one.coordinator.late(now)
        for warning in warnings:
            self._warn(one, warning)
        if fail is not None:
            orders.append(fail)
        if orders:
            channel.send_to_members(wire_of_orders(orders))
            if self._timeline is not None:
                self._timeline.cycle()
            self._happened_at = now
            self._take_orders(one, orders)
        channel.reap()

    def _warn(self, one: Set, warning: str) -> None:
        where = "" if one.number == _GLOBAL else f" in process set {one.number}"
        logger.warning("Horovod over Tutti: late%s: %s", where, warning)

    # -------------------------------------------------------------------------------------------- orders

    def _take_orders(self, one: Set, orders: Sequence[Order]) -> None:
        now = time.monotonic()
        for order in orders:
            if isinstance(order, Run):
                # Now and not when they start: by then this rank may have come back from join(), and have others.
                operations = self._operations_of(one, order)
                for operation in operations:
                    operation.times.append(now)
                    one.unanswered_count -= one.table.get(operation.submission.name) is operation
                one.queue.append((order, operations))
            elif isinstance(order, Refuse):
                refused = one.table.get(order.name)
                if refused is not None and not refused.is_ordered:  # else it is meant for the next of that name
                    self._forget(one, refused)
                    one.unanswered_count = max(0, one.unanswered_count - 1)  # it may not have been sent
                    refused.fail(order.text)
            elif isinstance(order, Joined):
                joined = one.table.get("join")
                if joined is None:
                    raise ProtocolError("that all ranks have joined, but this one has not")
                self._forget(one, joined)
                one.unanswered_count -= 1
                one.is_joined = False
                joined.value = one.ranks[order.rank]
                joined.succeed()
            elif isinstance(order, Left):
                if order.rank == 0 and one.coordinator is None:
                    assert one.channel is not None
                    one.channel.has_left(0)
                    self._end_set(one, f"rank {one.ranks[0]}, which coordinates, has shut down Horovod")
            else:
                assert isinstance(order, Fail)
                raise HorovodInternalError(order.text)

    def _forget(self, one: Set, operation: Operation) -> None:
        """Its name may be used again. An operation for which this rank only gave zeros was never in the table."""
        name = operation.submission.name
        with self._lock:
            if one.table.get(name) is operation:
                del one.table[name]

    def _end_set(self, one: Set, text: str) -> None:
        """Nothing more can be agreed on there; what has been goes on."""
        with self._lock:
            one.ended = text
            waiting = [operation for operation in one.table.values() if not operation.is_ordered]
            one.table = {name: operation for name, operation in one.table.items() if operation.is_ordered}
        one.outbox = []
        one.unanswered_count = 0
        for operation in waiting:
            operation.fail(f'"{operation.submission.name}": {text}')

    def _start_tasks(self, one: Set) -> None:
        while one.queue and len(one.running) < _RUNNING_MAX:
            order, operations = one.queue.popleft()
            kind = operations[0].submission.kind
            if kind in ("add_process_set", "remove_process_set"):
                self._change_sets(one, operations[0])
                continue
            assert one.data is not None
            task = Task(one.data, order, operations)
            if task.is_done():  # nothing to do for tensors without elements; else the eventfd tells
                self._end_task(one, task)
            else:
                one.running.append(task)

    def _operations_of(self, one: Set, order: Run) -> List[Operation]:
        made = []
        for index, name in enumerate(order.names):
            operation = one.table.get(name)
            if operation is None or operation.is_ordered:
                if not (order.descriptions and one.is_joined):
                    raise ProtocolError(f'an order for "{name}", which this rank has not submitted')
                operation = operation_of_joined(order.descriptions[index])
            made.append(operation)
        return made

    def _finish_tasks(self, one: Set) -> None:
        still = []
        for task in one.running:
            if task.is_done():
                self._end_task(one, task)
            else:
                still.append(task)
        one.running = still

    def _end_task(self, one: Set, task: Task) -> None:
        self._happened_at = time.monotonic()
        for operation in task.operations:
            self._forget(one, operation)
            if self._timeline is not None:
                self._timeline.operation(operation)
        task.finish()

    # ------------------------------------------------------------------------------------- process sets

    def _add_set(
        self, ranks: List[int], data: Optional[Communicator], control: Optional[Communicator]
    ) -> Set:
        made = Set(self._set_count, ranks)
        self._set_count += 1
        made.data = data
        if control is not None:
            made.channel = Channel(control, self._event_fd)
            if made.channel.is_coordinator:
                made.coordinator = Coordinator(
                    ranks, self.settings.fusion_bytes, self.settings.warn_seconds, self.settings.fail_seconds
                )
        with self._lock:
            self.sets[made.number] = made
        return made

    def _change_sets(self, one: Set, operation: Operation) -> None:
        """All ranks come here at the same place of the global set's order. `value`: the number of the set; None: no."""
        numbers = list(operation.submission.parts[0].splits)
        if operation.submission.kind == "add_process_set":
            if any(known.ranks == numbers for known in self.sets.values()):
                operation.value = None
            else:
                assert one.data is not None
                color = 0 if self.rank in numbers else None
                data, control = one.data.split(color), one.data.split(color)
                operation.value = self._add_set(numbers, data, control).number
        else:
            known = self.sets.get(numbers[0])
            operation.value = None if known is None or numbers[0] == _GLOBAL else numbers[0]
            if known is not None and operation.value is not None:
                self._remove_set(known)
        self._forget(one, operation)
        operation.succeed()

    def _remove_set(self, one: Set) -> None:
        with self._lock:
            del self.sets[one.number]
        if not one.is_member:
            return
        self._end_set(one, f"process set {one.number} has been removed")
        for task in one.running:
            for operation in task.operations:
                operation.fail(f"process set {one.number} has been removed")
        assert one.channel is not None and one.data is not None
        one.channel.close()
        self._close(one.data)

    # -------------------------------------------------------------------------------------------- the end

    def _leave(self) -> None:
        """Tells the others, waits a little for what runs, and closes the channels."""
        members = [one for one in self.sets.values() if one.is_member]
        for one in members:
            self._end_set(one, f"rank {self.rank} shuts down Horovod")
        until = time.monotonic() + _STOP_SECONDS_MAX
        while any(one.running or one.queue for one in members) and time.monotonic() < until:
            for one in members:
                self._finish_tasks(one)
                self._start_tasks(one)
            self._watch()
            if self._poll.poll(100):
                os.read(self._event_fd, 8)
        for one in members:
            channel = one.channel
            assert channel is not None
            if one.running and one.data is not None:
                one.data.abort("a rank shuts down Horovod in the middle of an operation")
            for task in one.running:
                for operation in task.operations:
                    operation.fail(f"rank {self.rank} shut down Horovod")
            try:
                if one.coordinator is None:
                    channel.send_to_coordinator(["leave"])
                else:
                    one.coordinator.leave(0)
                    channel.send_to_members(wire_of_orders(one.coordinator.orders()))
                channel.close()
            except Error as error:  # it failed meanwhile; there is nobody left to tell
                logger.debug("at the end: %s", error)

    def _fail(self, error: BaseException) -> None:
        """Every operation gets the error, and so does every other rank, also where only some communicators have failed."""
        text = f"{type(error).__name__}: {error}"
        try:
            if isinstance(error, Error):
                text = cause_of(str(error)) + self._numbers_of(error)
            elif isinstance(error, (HorovodInternalError, ProtocolError)):
                text = str(error)
            else:
                logger.exception("Horovod over Tutti: a mistake in the engine")
            for one in self.sets.values():
                for communicator in one.communicators():
                    self._abort(communicator, text)
        finally:
            with self._lock:
                self.failure = text
                waiting = [operation for one in self.sets.values() for operation in one.table.values()]
                for one in self.sets.values():
                    one.table = {}
                calls, self._calls = self._calls, []
            for operation in waiting:
                operation.fail(f'"{operation.submission.name}": {text}')
            for call in calls:
                call()

    def _abort(self, communicator: Communicator, text: str) -> None:
        try:
            if communicator.failure is None:
                communicator.abort(printable(text))
        except Error as error:
            logger.debug("at the end: %s", error)

    def _numbers_of(self, error: Error) -> str:
        """The library numbers ranks as the communicator does that failed, which may be a process set's."""
        for one in self.sets.values():
            for communicator in one.communicators():
                if communicator.failure == error.failure is not None:
                    return "" if one.number == _GLOBAL else f" (ranks are numbered as in process set {one.number}: {one.ranks})"
        return ""

    # ------------------------------------------------------------------------------------------ timeline

    def _open_timeline(self, path: str, mark_cycles: bool) -> None:
        if self._timeline is not None:
            raise ValueError("a timeline is being written; stop_timeline() ends it")
        self._timeline = Timeline(path, mark_cycles)

    def _close_timeline(self) -> None:
        timeline, self._timeline = self._timeline, None
        if timeline is not None:
            timeline.close()


def control(name: str, kind: str, numbers: Sequence[int] = ()) -> Operation:
    """An operation without tensors: a barrier, a join, or one that adds or removes a process set."""
    parts = (Part("", (), tuple(numbers)),) if numbers else ()
    return Operation(Submission(name, kind, parts), (), _no_scale)


def _no_scale(array: Any, dtype: Any, factor: float) -> None:
    raise AssertionError("there are no tensors")
