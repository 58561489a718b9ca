"""Tests whose body runs on every rank.

    @pytest.mark.ranks(3)
    def test_something(comm):       # three processes, each with a communicator of its own
        ...

Marker arguments: how many ranks (several numbers: one test each); threads=True: threads of one process instead;
dies=RANK: that one is to die by a signal; deadline=SECONDS until all are killed (default 20).
The test takes `comm`, and other fixtures if it likes. It is forked from pytest, which itself never joins a
communicator. When it fails, the output of every rank is shown. Before a rank dies, all ranks meet().
"""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest

import tutti

DEADLINE_S = 20.0
# A rank that hangs tells so by itself before it is killed.
OPERATION_TIMEOUT = "10s"
# How long the others may go on after the first failure.
GRACE_S = 3.0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ranks(*counts, threads, dies, deadline): runs on every rank")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("ranks")
    if marker is not None:
        counts = marker.args or (2,)
        ids = [f"{count} ranks" for count in counts]
        metafunc.parametrize("comm", counts, ids=ids, indirect=True)


@pytest.fixture
def comm(request: pytest.FixtureRequest) -> Any:
    """Takes its place in signatures; the body gets the communicator of its rank."""
    return request.param


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Optional[bool]:
    marker = pyfuncitem.get_closest_marker("ranks")
    if marker is None:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    count = arguments.pop("comm")
    body = pyfuncitem.obj
    run_ranks(count, lambda comm: body(comm=comm, **arguments), **marker.kwargs)
    return True


# ---------------------------------------------------------------------------------------------- ranks

# How often each rank of the test under way has come to meet(); shared by the forked processes.
meetings = mmap.mmap(-1, mmap.PAGESIZE)


def meet(comm: Any) -> None:
    """Waits until all ranks, which are processes, have come here. It calls nothing of the library.

    With a rank that dies, what it has sent last may be lost, so that a call which was good on that rank fails on others.
    """
    count = meetings[comm.rank] + 1
    meetings[comm.rank] = count
    while min(meetings[: comm.size]) < count:
        time.sleep(0.001)


class Rank:
    """One forked process."""

    def __init__(self, number: int, folder: Path, body: Callable[[], None]) -> None:
        self.output = folder / f"output.{number}"
        self.verdict = folder / f"verdict.{number}"
        self.status: Optional[int] = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._child(body)
            finally:
                os._exit(99)

    def _child(self, body: Callable[[], None]) -> None:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: not without pytest
        output = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = sys.stderr = os.fdopen(os.dup(output), "w", buffering=1)
        verdict: Any = ("passed", "")
        try:
            body()
        except pytest.skip.Exception as skip:
            verdict = ("skipped", str(skip))
        except BaseException:
            traceback.print_exc()
            verdict = ("failed", "")
        self.verdict.write_bytes(pickle.dumps(verdict))
        sys.stdout.flush()
        os._exit(0 if verdict[0] != "failed" else 1)

    def look(self) -> bool:
        """Whether it has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def kill(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        try:
            os.killpg(self.pid, signal.SIGKILL)  # what it has started
        except ProcessLookupError:
            pass

    def told(self) -> Any:
        return pickle.loads(self.verdict.read_bytes()) if self.verdict.exists() else ("died", "")


def wait_for(ranks: List[Rank], dies: Optional[int], deadline_s: float) -> bool:
    """Until all have ended; false when time is up. All are gone afterwards."""
    end = time.monotonic() + deadline_s
    has_failed = False
    try:
        while not all([rank.look() for rank in ranks]):
            if not has_failed and any(rank.status for i, rank in enumerate(ranks) if i != dies):
                has_failed = True
                end = min(end, time.monotonic() + GRACE_S)
            if time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True
    finally:
        for rank in ranks:
            rank.kill()


def run_ranks(
    count: int,
    body: Callable[[Any], None],
    threads: bool = False,
    dies: Optional[int] = None,
    deadline: float = DEADLINE_S,
) -> None:
    with tempfile.TemporaryDirectory(prefix="tutti-test-") as name:
        folder = Path(name)
        if threads:
            ranks = [Rank(0, folder, lambda: run_threads(count, body))]
        else:
            meetings[:] = bytes(len(meetings))
            job = f"pytest-{os.getpid()}-{time.monotonic_ns()}"
            ranks = [
                Rank(number, folder, lambda n=number: run_process(n, count, job, body))
                for number in range(count)
            ]
        in_time = wait_for(ranks, dies, deadline)
        report(ranks, dies, in_time, deadline)


def report(ranks: List[Rank], dies: Optional[int], in_time: bool, deadline: float) -> None:
    troubles = [] if in_time else [f"not done after {deadline} s"]
    for number, rank in enumerate(ranks):
        assert rank.status is not None
        verdict = rank.told()[0]
        if number == dies:
            if rank.status >= 0:
                troubles.append(f"rank {number} should have died by a signal")
        elif verdict == "skipped":
            pytest.skip(rank.told()[1])
        elif rank.status != 0 or verdict != "passed":
            troubles.append(f"rank {number} {verdict} (exit status {rank.status})")
    if not troubles:
        return
    for number, rank in enumerate(ranks):
        text = rank.output.read_text(errors="replace") if rank.output.exists() else ""
        troubles.append(f"---- output of rank {number}\n{text}")
    pytest.fail("\n".join(troubles), pytrace=False)


def run_process(number: int, count: int, job: str, body: Callable[[Any], None]) -> None:
    os.environ.update(
        TUTTI_RANK=str(number),
        TUTTI_SIZE=str(count),
        TUTTI_JOB_ID=job,
        TUTTI_TIMEOUT=OPERATION_TIMEOUT,
        TUTTI_INIT_TIMEOUT=OPERATION_TIMEOUT,
    )
    with tutti.init() as comm:
        body(comm)


def run_threads(count: int, body: Callable[[Any], None]) -> None:
    os.environ.update(TUTTI_TIMEOUT=OPERATION_TIMEOUT, TUTTI_INIT_TIMEOUT=OPERATION_TIMEOUT)
    name = tutti.create_id()
    errors: Dict[int, BaseException] = {}

    def rank(number: int) -> None:
        try:
            with tutti.Communicator(number, count, id=name) as comm:
                body(comm)
        except BaseException as error:
            errors[number] = error

    made = [threading.Thread(target=rank, args=(number,)) for number in range(count)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    for number, error in sorted(errors.items()):
        print(f"rank {number}:")
        traceback.print_exception(type(error), error, error.__traceback__)
    for error in errors.values():
        raise error
