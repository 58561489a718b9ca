"""Life of communicators, what goes wrong with them, and communicators from communicators."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
from conftest import meet
from numpy.testing import assert_array_equal

import tutti

TUTTI_RUN = os.path.join(os.environ.get("TUTTI_BIN", ""), "tutti-run")


@pytest.mark.ranks(3)
def test_ranks_are_numbered(comm):
    assert comm.size == 3
    assert_array_equal(comm.allgather(np.array(comm.rank)), [0, 1, 2])
    assert repr(comm) == f"<tutti.Communicator, rank {comm.rank} of 3>"


@pytest.mark.ranks(2)
def test_ranks_meet_by_id_a_second_time(comm):
    name = np.frombuffer(tutti.create_id() if comm.rank == 0 else bytes(128), np.uint8).copy()
    comm.broadcast(name)
    with tutti.Communicator(1 - comm.rank, 2, id=name.tobytes(), timeout=5) as again:
        assert again.rank == 1 - comm.rank
        assert_array_equal(again.allgather(np.array(comm.rank)), [1, 0])


@pytest.mark.parametrize("copy_it", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_communicator_belongs_to_its_process(copy_it):
    with tutti.Communicator(0, 1) as alone, alone.mesh({"x": 1}) as mesh:
        for kind, one in (("Communicator", alone), ("Communicator", mesh["x"]), ("Mesh", mesh)):
            with pytest.raises(TypeError, match=f"tutti.{kind} cannot be pickled or copied: .*create_id"):
                copy_it(one)


class DictStore:
    """For ranks that are threads."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.values, timeout):
                raise TimeoutError(key)
            return self.values[key]


class BrokenStore(DictStore):
    def set(self, key, value):
        raise OSError("the store is closed")

    get = set


@pytest.mark.ranks(1)
def test_ranks_meet_through_a_store(comm):
    store, results = DictStore(), {}

    def rank(number):
        with tutti.Communicator(number, 2, store=store) as made:
            results[number] = made.allreduce(np.ones(2))

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_array_equal(results[0], [2, 2])
    assert_array_equal(results[1], [2, 2])
    with pytest.raises(tutti.Error) as caught:
        tutti.Communicator(0, 2, store=BrokenStore())
    assert isinstance(caught.value.__cause__, OSError)


def start_forked(body):
    """Runs body in a process of its own, whose exit status says whether it raised."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def ended_well(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_process_joins_and_another_takes_a_dead_rank_s_place(tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_SECRET", "of this test")
    monkeypatch.setenv("TUTTI_SOCKET_IFNAME", "lo")
    store = tutti.FolderStore(tmp_path / "store")

    def founder():
        with tutti.Communicator(0, 1) as alone, alone.grow(store, wait=20) as two:
            assert_array_equal(two.allreduce(np.ones(2)), [2, 2])
            (tmp_path / "founder has the sum").touch()
            with pytest.raises(tutti.RankFailed):
                while True:
                    two.barrier()
            with two.replace(store, wait=20) as whole:
                assert (whole.rank, whole.size) == (0, 2)
                assert_array_equal(whole.allreduce(np.ones(2)), [2, 2])

    def victim():
        two = tutti.join(store, init_timeout=20)
        two.allreduce(np.ones(2))
        while not (tmp_path / "founder has the sum").exists():  # its last message may be lost with this rank
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    def successor():
        with tutti.join(store, init_timeout=20) as whole:
            assert (whole.rank, whole.size) == (1, 2)
            assert_array_equal(whole.allreduce(np.ones(2)), [2, 2])

    first, second = start_forked(founder), start_forked(victim)
    assert os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]) == -signal.SIGKILL
    assert ended_well(start_forked(successor))
    assert ended_well(first)


def test_a_folder_is_a_store(tmp_path):
    store = tutti.FolderStore(tmp_path / "new")
    store.set("a/b", b"first")
    store.set("a/b", b"second")
    assert store.get("a/b", 0) == b"second"
    with pytest.raises(TimeoutError):
        store.get("c", 0.05)


@pytest.mark.ranks(1)
def test_nobody_joins_in_time(comm, tmp_path):
    store = tutti.FolderStore(tmp_path)
    with pytest.raises(tutti.Timeout):
        tutti.join(store, init_timeout=0.1)
    with pytest.raises(tutti.InvalidArgument):
        tutti.join(id=b"short")
    with pytest.raises(tutti.Timeout) as caught:
        comm.grow(store, 2, wait=0.1)
    assert "0 have come" in str(caught.value)
    with pytest.raises(tutti.InvalidArgument):
        comm.grow(store, 2, 1)


def test_wrong_arguments_are_told():
    for arguments, status in (
        ({"rank": 2, "size": 2, "id": bytes(128)}, "INVALID_RANK"),
        ({"rank": -1, "size": 2}, "INVALID_RANK"),
        ({"rank": 0, "size": 1, "timeout": -1}, "INVALID_OPTIONS"),
        ({"rank": 0, "size": 1, "algorithms": "allreduce=nonsense"}, "INVALID_OPTIONS"),
        ({"rank": 0, "size": 1, "integrity": "memory"}, "INVALID_OPTIONS"),
        ({"rank": 0, "size": 1, "encryption": "network"}, "INVALID_OPTIONS"),
        ({"rank": 0, "size": 1, "id": b"short"}, "INVALID_OPTIONS"),
    ):
        with pytest.raises(tutti.InvalidArgument) as caught:
            tutti.Communicator(**arguments)
        assert caught.value.status.name == status
    with pytest.raises(TypeError):
        tutti.Communicator(0, 1, colour=3)


@pytest.mark.ranks(2)
def test_integrity_is_an_option(comm):
    for name in ("off", "network", "on", None):
        with comm.dup(integrity=name) as made:
            assert_array_equal(made.allreduce(np.ones(3)), [2, 2, 2])


@pytest.mark.ranks(2)
def test_encryption_is_an_option(comm):
    for name in ("off", "on", None):
        with comm.dup(encryption=name) as made:
            assert_array_equal(made.allreduce(np.ones(3)), [2, 2, 2])


@pytest.mark.ranks(2)
def test_a_closed_communicator_says_so(comm):
    kept = comm.allreduce_start(np.ones(2))
    comm.close()
    assert_array_equal(kept.wait(), [2, 2])  # closing waits for it
    comm.close()
    assert "closed" in repr(comm)
    for call in (comm.barrier, comm.barrier_start, lambda: comm.failure, lambda: comm.abort("late")):
        with pytest.raises(tutti.InvalidArgument) as caught:
            call()
        assert caught.value.status == tutti.Status.INVALID_COMM


@pytest.mark.ranks(3, threads=True)
def test_a_dropped_communicator_does_not_hang(comm):
    name = TestIds.get(comm)
    made = tutti.Communicator(comm.rank, 3, id=name)
    if comm.rank == 0:
        made.allreduce_start(np.ones(3))  # the others do not even start it
        began = time.monotonic()
        del made
        gc.collect()
        assert time.monotonic() - began < 5
    comm.barrier()


class TestIds:
    """An id that the threads of one process share."""

    name = None

    @classmethod
    def get(cls, comm):
        if comm.rank == 0:
            cls.name = tutti.create_id()
        comm.barrier()
        return cls.name


@pytest.mark.ranks(2)
def test_another_threads_call_is_ended_by_abort(comm):
    if comm.rank == 1:  # calls nothing any more until the abort: a call that differs could end rank 0's call first
        with pytest.raises(tutti.Aborted):
            for _ in range(3):
                comm.barrier()
            while comm.failure is None:
                time.sleep(0.001)
            comm.barrier()
        return
    errors = []

    def call():
        try:
            for _ in range(3):
                comm.barrier()
            comm.allreduce(np.ones(1 << 20))
        except tutti.Error as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.05)
    comm.abort("enough")
    thread.join()
    assert len(errors) == 1


@pytest.mark.ranks(2)
def test_closing_under_another_threads_call_is_refused(comm):
    if comm.rank == 0:
        thread = threading.Thread(target=lambda: pytest.raises(tutti.Error, comm.barrier))
        thread.start()
        while not comm._state.inside:
            time.sleep(0.001)
        with pytest.raises(tutti.InvalidArgument):
            comm.close()
        comm.abort("closing")
        thread.join()
        comm.close()
    else:
        while comm.failure is None:
            time.sleep(0.001)


# ------------------------------------------------------------------------------------------- failures


@pytest.mark.ranks(3, dies=1)
def test_a_dead_rank_is_named(comm):
    comm.barrier()
    meet(comm)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(tutti.RankFailed) as caught:
        comm.allreduce(np.ones(3))
    error = caught.value
    assert error.culprit == 1
    assert "rank 1" in str(error) and str(error).startswith("PROC_FAILED")
    assert error.failure.status == tutti.Status.PROC_FAILED
    assert error.failure.sequence == 2
    assert comm.failure.culprit == 1
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is tutti.RankFailed and str(again) == str(error) and again.culprit == 1


@pytest.mark.ranks(3, dies=1)
def test_those_who_are_left_shrink_and_go_on(comm):
    comm.barrier()
    meet(comm)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(tutti.RankFailed):
        comm.allreduce(np.ones(3))
    assert comm.agree(6 if comm.rank == 0 else 3) == (2, False)
    with comm.shrink() as smaller:
        assert (smaller.rank, smaller.size) == (comm.rank // 2, 2)
        assert smaller.agree(2**64 - 1) == (2**64 - 1, True)
        assert smaller.allreduce(np.ones(3)).tolist() == [2, 2, 2]


@pytest.mark.ranks(2)
def test_a_revoked_communicator_can_be_replaced(comm):
    if comm.rank == 0:
        comm.revoke("the loss is NaN")
        comm.revoke()  # the first one counts
    with pytest.raises(tutti.Revoked, match="rank 0 revoked the communicator: the loss is NaN"):
        comm.barrier()
        comm.barrier()
    with comm.shrink() as same:
        assert same.size == 2
        same.barrier()


@pytest.mark.ranks(3)
def test_a_sick_rank_is_put_out(comm):
    with pytest.raises(tutti.InvalidArgument, match="cause"):
        comm.exclude([(comm.rank + 1) % 3], "bored")
    if comm.rank == 1:
        with pytest.raises(tutti.Excluded, match="late.*two of three steps") as caught:
            comm.barrier()
        assert caught.value.culprit == 1
        with pytest.raises(tutti.Excluded):
            comm.shrink()
        return
    with comm.exclude([1], "late", "two of three steps") as smaller:
        assert (smaller.rank, smaller.size) == (comm.rank // 2, 2)
        assert smaller.allreduce(np.ones(3)).tolist() == [2, 2, 2]


@pytest.mark.ranks(2)
def test_different_calls_are_a_mismatch(comm):
    with pytest.raises(tutti.Mismatch) as caught:
        comm.allreduce(np.ones(3 + comm.rank), timeout=3)
    assert caught.value.status == tutti.Status.MISMATCH


@pytest.mark.ranks(2)
def test_a_deadline_names_who_did_not_come(comm):
    if comm.rank == 0:
        with pytest.raises(tutti.Timeout) as caught:
            comm.barrier(timeout=0.3)
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.culprit == 1
    else:
        while comm.failure is None:
            time.sleep(0.01)


@pytest.mark.ranks(2)
def test_the_failure_of_a_started_call_is_raised_by_wait(comm):
    if comm.rank == 0:
        request = comm.allreduce_start(np.ones(3), timeout=0.3)
        for wait in (request.wait, request.wait, request.test):
            with pytest.raises(tutti.Timeout):
                wait()
    else:
        while comm.failure is None:
            time.sleep(0.01)


@pytest.mark.ranks(2)
def test_an_exception_in_with_tells_the_others(comm):
    name = np.frombuffer(tutti.create_id() if comm.rank == 0 else bytes(128), np.uint8).copy()
    comm.broadcast(name)
    expected = RuntimeError if comm.rank == 0 else tutti.Aborted
    with pytest.raises(expected) as caught:
        with tutti.Communicator(comm.rank, 2, id=name.tobytes()) as made:
            made.barrier()
            if comm.rank == 0:
                raise RuntimeError("no more data")
            made.barrier()
    assert "no more data" in str(caught.value)


@pytest.mark.ranks(2, threads=True)
def test_a_forked_child_leaves_its_parents_communicators_alone(comm):
    request = comm.allreduce_start(np.ones(3))
    if comm.rank == 0:
        child = os.fork()
        if child == 0:
            comm._finalizer()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert_array_equal(request.wait(), [2, 2, 2])
    comm.barrier()


def program(text, ranks=2, **environment):
    """Runs a program under tutti-run."""
    if not os.path.exists(TUTTI_RUN):
        pytest.skip("tutti-run is not here")
    return subprocess.run(
        [TUTTI_RUN, "-n", str(ranks), "--no-prefix", sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=30,
        env={**os.environ, "TUTTI_TIMEOUT": "10s", **environment},
    )


def test_programs_may_end_without_closing_anything():
    text = """
import numpy as np, tutti
comm = tutti.init()
other = comm.dup()  # who ends first aborts what it drops, and that may find the other rank still in its barrier
longest = tutti.op(lambda a, b: a + b)
memory = tutti.empty(10)
request = comm.allreduce_start(np.ones(3))
other.barrier()
print("done", flush=True)
"""
    ended = program(text)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count("done") == 2


def test_a_program_that_ends_early_is_told_to_the_others():
    text = """
import numpy as np, tutti
comm = tutti.init()
comm.barrier()
if comm.rank == 1:
    raise SystemExit(0)
try:
    comm.allreduce(np.ones(3))
except tutti.Error as error:
    print("rank", error.culprit, "left")
"""
    ended = program(text)
    assert "rank 1 left" in ended.stdout


def test_daemon_threads_in_a_call_do_not_crash_the_exit():
    text = """
import threading, time, numpy as np, tutti
comm = tutti.init()
if comm.rank == 0:
    threading.Thread(target=comm.barrier, daemon=True).start()
    while not comm._state.inside:
        time.sleep(0.001)
    time.sleep(0.1)
else:
    while comm.failure is None:  # until rank 0 is in its exit
        time.sleep(0.001)
print("this rank ends")
"""
    ended = program(text)
    assert ended.stdout.count("this rank ends") == 2, ended.stdout
    assert ended.returncode == 0, ended.stdout


# ---------------------------------------------------------------------- communicators from communicators


@pytest.mark.ranks(1, 4)
def test_split_joins_ranks_of_one_color(comm):
    with comm.split(comm.rank % 2, key=-comm.rank, timeout=5) as half:
        members = [rank for rank in reversed(range(comm.size)) if rank % 2 == comm.rank % 2]
        assert_array_equal(half.allgather(np.array(comm.rank)), members)
    none = comm.split(0 if comm.rank == 0 else None)
    assert (none is None) == (comm.rank != 0)
    with comm.dup() as again:
        assert (again.rank, again.size) == (comm.rank, comm.size)
        assert_array_equal(again.allreduce(np.ones(2)), np.full(2, comm.size))
    with pytest.raises(tutti.InvalidArgument):
        comm.split(-2)


@pytest.mark.ranks(3)
def test_a_group_of_ranks_is_made_by_them_alone(comm):
    if comm.rank == 1:
        return
    with comm.group([2, 0]) as two:
        assert_array_equal(two.allgather(np.array(comm.rank)), [2, 0])


@pytest.mark.ranks(4)
def test_a_mesh_has_a_communicator_along_each_axis(comm):
    with comm.mesh(dp=2, tp=2) as mesh:
        assert mesh.shape == {"dp": 2, "tp": 2}
        assert mesh.coordinates == {"dp": comm.rank // 2, "tp": comm.rank % 2}
        assert list(mesh) == ["dp", "tp"] and len(mesh) == 2
        assert_array_equal(mesh["tp"].allgather(np.array(comm.rank)), comm.rank // 2 * 2 + np.arange(2))
        assert_array_equal(mesh["dp"].allgather(np.array(comm.rank)), comm.rank % 2 + 2 * np.arange(2))
        request = mesh["dp"].allreduce_start(np.ones(3))
        with pytest.raises(tutti.InvalidArgument):
            mesh["dp"].close()
        with pytest.raises(KeyError):
            mesh["pp"]
    assert_array_equal(request.wait(), [2, 2, 2])
    with pytest.raises(tutti.InvalidArgument):
        mesh["dp"].barrier()
    axis = comm.mesh({"a": 4}, options={"a": {"timeout": 5}})["a"]
    gc.collect()
    axis.barrier()  # an axis holds its mesh
    with pytest.raises(tutti.InvalidArgument):
        comm.mesh(dp=3)


@pytest.mark.ranks(2)
def test_what_needs_its_own_cpu_does_not_overlap(comm):
    cpus = os.sched_getaffinity(0)
    assert comm.overlaps == (len(cpus) > comm.size)
    os.sched_setaffinity(0, {min(cpus)})
    assert not comm.overlaps
    os.sched_setaffinity(0, cpus)


@pytest.mark.ranks(2)
def test_the_footprint_is_told(comm):
    comm.allreduce(np.ones(1000))
    footprint = comm.footprint
    assert footprint.private_bytes > 0
    assert footprint.program_count >= 1
    assert footprint.link_count >= 1


@pytest.mark.ranks(2)
def test_the_choice_is_explained(comm):
    said = comm.explain("allreduce", 1000)
    assert said.startswith("allreduce of 1000 float32 on 2 ranks: ")
    assert " us  ring" in said
    with pytest.raises(tutti.Error, match="collective"):
        comm.explain("allreduced", 1)
    with pytest.raises(tutti.Error, match="count"):
        comm.explain("allreduce", -1)


def test_the_version_is_that_of_the_header():
    header = Path(__file__).resolve().parents[3] / "include" / "tutti" / "tutti.h"
    for part, number in zip(("MAJOR", "MINOR", "PATCH"), tutti.__version__.split(".")):
        assert f"#define TUTTI_VERSION_{part} {number}\n" in header.read_text()


@pytest.mark.ranks(1)
def test_closing_beside_calls_of_another_thread(comm):
    """Whichever comes first: a call finds the communicator closed, or keeps it open until its end."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            closed = comm.dup()
            begun, errors = threading.Event(), []

            def use():
                begun.set()
                try:
                    while True:
                        closed.barrier()
                        time.sleep(1e-5)
                except tutti.InvalidArgument as error:
                    errors.append(error.status)

            threads = [threading.Thread(target=use) for _ in range(2)]
            for thread in threads:
                thread.start()
            begun.wait()
            while closed._state.handle is not None:
                try:
                    closed.close()
                except tutti.InvalidArgument as error:
                    assert error.status == tutti.Status.INVALID_COMM
            for thread in threads:
                thread.join()
            assert errors == [tutti.Status.INVALID_COMM] * 2
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.ranks(1)
def test_a_thread_between_having_the_communicator_and_calling_finds_it_closed(comm):
    closed = comm.dup()
    state = closed._state
    pointer = state.pointer  # as a call does before it goes into the library
    closed.close()
    called = []
    with pytest.raises(tutti.InvalidArgument) as caught:
        state.call(called.append, pointer)
    assert caught.value.status == tutti.Status.INVALID_COMM
    assert called == []
