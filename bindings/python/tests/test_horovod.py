"""The negotiation of tutti.horovod: messages, the coordinator, and the engine on NumPy arrays. Needs no PyTorch.

The functions that programs call are tested in horovod_programs/, with PyTorch (tests/bindings/horovod_test.sh).
"""

import importlib
import json
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import meet

import tutti
from tutti.horovod._coordinator import Coordinator
from tutti.horovod._engine import Engine, control
from tutti.horovod._errors import HorovodInternalError, ProtocolError, cause_of
from tutti.horovod._operation import Operation, Tensor
from tutti.horovod._settings import read_settings
from tutti.horovod._wire import (
    BODY_BYTES_MAX,
    FRAME_BYTES,
    Assembler,
    Fail,
    Joined,
    Left,
    Part,
    Refuse,
    Run,
    Submission,
    frames_of,
    parse_from_coordinator,
    parse_from_member,
    parse_submission,
    wire_of,
    wire_of_orders,
)


def allreduce(name="a", shape=(3,), dtype="float32", op="Sum", **more):
    return Submission(name, "allreduce", (Part(dtype, shape),), op, **more)


# -------------------------------------------------------------------------------------------- messages


def test_messages_come_back_from_frames():
    for message in (["leave"], ["ready", ["x" * 200_000]], ["ready", list(range(BODY_BYTES_MAX))]):
        assembler = Assembler()
        frames = [frame.tobytes() for frame in frames_of(message)]
        assert all(len(frame) <= FRAME_BYTES for frame in frames)
        for frame in frames[:-1]:
            assert assembler.add(frame) is None
        assert assembler.add(frames[-1]) == message


def test_submissions_and_orders_come_back_from_the_wire():
    submissions = [
        allreduce(prescale=0.5),
        Submission("b", "broadcast", (Part("bool", ()),), None, 1),
        Submission("c", "alltoall", (Part("int8", (5, 2), (1, 4)),)),
        Submission("d", "barrier"),
    ]
    message = json.loads(json.dumps(["ready", [wire_of(one) for one in submissions]]))
    assert parse_from_member(message, 2) == submissions
    assert parse_from_member(["leave"], 2) is None
    orders = [
        Run(("a", "b"), (), (allreduce("a"), allreduce("b"))),
        Run(("g",), ((1, 0),)),
        Run(("t",), (((1, 4), (2, 2)),)),
        Refuse("x", "why"),
        Joined(1),
        Left(0),
        Fail("all"),
    ]
    assert parse_from_coordinator(json.loads(json.dumps(wire_of_orders(orders))), 2) == orders


GOOD = ["a", "allreduce", "Sum", None, 1.0, 1.0, [["float32", [3], []]]]


@pytest.mark.parametrize(
    "index, value",
    [
        (0, 3),
        (0, "n" * 5000),
        (1, "allsum"),
        (1, "barrier"),
        (2, None),
        (2, "Adasum"),
        (3, 0),
        (4, float("nan")),
        (4, float("inf")),
        (4, True),
        (5, "1"),
        (6, {}),
        (6, [["float32", [-1], []]]),
        (6, [["float32", [1.5], []]]),
        (6, [["float32", [True], []]]),
        (6, [["float32", [1 << 60], []]]),
        (6, [["float32", [1 << 30] * 3, []]]),
        (6, [["float32", [1] * 65, []]]),
        (6, [["float32", [3]]]),
        (6, [[7, [3], []]]),
    ],
)
def test_a_submission_that_is_none_is_refused(index, value):
    parse_submission(GOOD, 2)
    wrong = list(GOOD)
    wrong[index] = value
    with pytest.raises(ProtocolError):
        parse_submission(wrong, 2)


@pytest.mark.parametrize(
    "submission",
    [
        ["b", "broadcast", None, 2, 1, 1, [["float32", [3], []]]],
        ["b", "broadcast", None, -1, 1, 1, [["float32", [3], []]]],
        ["g", "allgather", None, None, 1, 1, [["float32", [], []]]],
        ["t", "alltoall", None, None, 1, 1, [["float32", [3], [3]]]],
        ["t", "alltoall", None, None, 1, 1, [["float32", [3], [2, 2]]]],
    ],
)
def test_what_does_not_fit_the_set_is_refused(submission):
    with pytest.raises(ProtocolError):
        parse_submission(submission, 2)


def test_garbage_is_refused_and_nothing_else_happens():
    seed = int(os.environ.get("TUTTI_TEST_SEED", "1"))
    choice = random.Random(seed)
    good = wire_of_orders([Run(("a",), ((1, 2),), (allreduce("a"),)), Refuse("x", "y"), Joined(1)])
    texts = [json.dumps(good), json.dumps(["ready", [GOOD, GOOD]])]
    refused = 0
    for _ in range(3000):
        text = bytearray(choice.choice(texts).encode())
        for _ in range(choice.randrange(1, 4)):
            text[choice.randrange(len(text))] = choice.choice(b'[]{}",0123456789-eatruefalsnl:.')
        frame = bytearray(frames_of([])[0].tobytes()[:8]) + text
        frame[4:8] = len(text).to_bytes(4, sys.byteorder)
        if choice.random() < 0.2:
            frame[choice.randrange(8)] = choice.randrange(256)
        for parse in (parse_from_member, parse_from_coordinator):
            try:
                message = Assembler().add(bytes(frame))
                if message is not None:
                    parse(message, 2)
            except ProtocolError:
                refused += 1
    assert refused > 1000, f"seed {seed}"
    with pytest.raises(ProtocolError):
        Assembler().add(b"[" * 100)
    deep = b"[" * 20_000
    with pytest.raises(ProtocolError):
        Assembler().add(frames_of([])[0].tobytes()[:4] + len(deep).to_bytes(4, sys.byteorder) + deep)


# ----------------------------------------------------------------------------------------- the coordinator


def coordinator(count, fusion_bytes=0, warn=2.0, fail=0.0):
    return Coordinator(list(range(count)), fusion_bytes, warn, fail)


def hear_all(one, count, submission):
    for rank in range(count):
        one.hear(rank, submission, 0.0)


def test_an_order_comes_when_all_are_ready():
    one = coordinator(3)
    one.hear(2, allreduce(), 0.0)
    one.hear(0, allreduce(), 0.0)
    assert one.orders() == []
    one.hear(1, allreduce(), 0.0)
    assert one.orders() == [Run(("a",))]
    assert one.orders() == []
    hear_all(one, 3, allreduce())  # the name may be used again
    assert one.orders() == [Run(("a",))]


def test_small_allreduces_of_one_kind_are_fused():
    one = coordinator(2, fusion_bytes=100)
    for name, more in (
        ("a", {}),
        ("b", {"dtype": "float64"}),
        ("c", {}),
        ("d", {"op": "Max"}),
        ("e", {"shape": (20,)}),
        ("f", {"shape": (1000,)}),
        ("g", {}),
        ("h", {"prescale": 2.0}),
    ):
        hear_all(one, 2, allreduce(name, **more))
    names = [order.names for order in one.orders()]
    assert names == [("a", "c"), ("b",), ("d",), ("e", "g"), ("f",), ("h",)]


def test_details_say_how_much_comes_from_whom():
    one = coordinator(2)
    one.hear(0, Submission("g", "allgather", (Part("int8", (2, 3)),)), 0.0)
    one.hear(1, Submission("g", "allgather", (Part("int8", (0, 3)),)), 0.0)
    one.hear(0, Submission("t", "alltoall", (Part("int8", (3,), (1, 2)),)), 0.0)
    one.hear(1, Submission("t", "alltoall", (Part("int8", (4,), (4, 0)),)), 0.0)
    assert one.orders() == [Run(("g",), ((2, 0),)), Run(("t",), (((1, 2), (4, 0)),))]


def test_a_disagreement_names_ranks_and_values():
    one = Coordinator([4, 7], 0, 2.0, 0.0)
    one.hear(0, allreduce(shape=(2, 3)), 0.0)
    one.hear(1, allreduce(shape=(3, 2)), 0.0)
    (order,) = one.orders()
    assert order == Refuse("a", '"a": rank 4 has shape (2, 3), but rank 7 has (3, 2)')
    one.hear(0, Submission("b", "broadcast", (Part("int8", ()),), None, 0), 0.0)
    one.hear(1, Submission("b", "broadcast", (Part("int8", ()),), None, 1), 0.0)
    (order,) = one.orders()
    assert order.text == '"b": rank 4 has root 4, but rank 7 has 7'


def test_lateness_is_told_with_names_and_ranks():
    one = Coordinator([4, 7, 9], 0, 2.0, 10.0)
    one.hear(0, allreduce("x"), 1.0)
    one.hear(0, allreduce("y"), 1.0)
    one.hear(1, allreduce("z"), 1.5)
    assert one.next_look() == 3.0
    assert one.late(2.9) == ([], None)
    warnings, fail = one.late(3.0)
    assert warnings == ['ranks 7, 9 did not submit "x", "y", which rank 4 did 2.0 s ago'] and fail is None
    assert one.late(3.1) == ([], None)
    assert "ranks 4, 9 did not submit" in one.late(3.5)[0][0]
    assert len(one.late(5.0)[0]) == 1  # again after twice the time
    fail = one.late(11.0)[1]
    assert isinstance(fail, Fail) and '"x"' in fail.text and "ranks 7, 9" in fail.text


def test_ranks_that_joined_count_as_ready():
    one = coordinator(3)
    one.hear(1, Submission("join", "join"), 0.0)
    one.hear(0, allreduce(), 0.0)
    one.hear(2, allreduce(), 0.0)
    assert one.orders() == [Run(("a",), (), (allreduce(),))]
    for rank in (0, 2):
        one.hear(rank, allreduce("m", op="Max"), 0.0)
    (order,) = one.orders()
    assert "rank 1 called join()" in order.text
    with pytest.raises(ProtocolError):
        one.hear(1, allreduce(), 0.0)
    one.hear(0, Submission("join", "join"), 0.0)
    assert one.orders() == []
    one.hear(2, Submission("join", "join"), 0.0)
    assert one.orders() == [Joined(2)]
    hear_all(one, 3, allreduce())
    assert one.orders() == [Run(("a",))]
    one.hear(0, allreduce(), 0.0)
    for rank in range(3):
        one.hear(rank, Submission("join", "join"), 0.0)
    assert one.orders() == [Run(("a",), (), (allreduce(),)), Joined(2)]


def test_what_waits_for_a_rank_that_left_is_refused():
    one = coordinator(2)
    one.hear(0, allreduce("before"), 0.0)
    one.leave(1)
    assert one.orders() == [Left(1), Refuse("before", '"before": rank 1 has shut down Horovod')]
    one.hear(0, allreduce("after"), 0.0)
    assert one.orders()[0].name == "after"
    with pytest.raises(ProtocolError):
        one.hear(1, allreduce(), 0.0)
    with pytest.raises(ProtocolError):
        one.leave(1)


# ------------------------------------------------------------------------------------------- the engine


def engine_of(comm, **settings):
    return Engine(comm.dup(), read_settings()._replace(**settings))


def scale(array, dtype, factor):
    array *= factor


def array_operation(name, array, op="Sum", **more):
    submission = allreduce(name, array.shape, array.dtype.name, op, **more)
    return Operation(submission, [Tensor(array, array, tutti.Dtype[array.dtype.name])], scale)


@pytest.mark.ranks(1, 2, 4)
def test_operations_of_any_order_are_right(comm):
    engine = engine_of(comm)
    engine.begin()
    choice = random.Random(comm.rank)
    for _ in range(20):
        arrays = {f"n{i}": np.full(i + 1, float(comm.rank + i)) for i in range(20)}
        names = list(arrays)
        choice.shuffle(names)
        operations = [array_operation(name, arrays[name]) for name in names]
        for operation in operations:
            engine.submit(0, operation)
        for operation in operations:
            operation.wait()
        ranks = sum(range(comm.size))
        for i in range(20):
            assert (arrays[f"n{i}"] == ranks + i * comm.size).all()
    engine.stop()


@pytest.mark.ranks(2)
def test_names_may_be_used_again_right_after_join(comm):
    """Rank 1 may come back while operations for which it gives zeros still wait, of the names that it uses next."""
    engine = engine_of(comm, fusion_bytes=0)
    engine.begin()
    for _ in range(5):
        if comm.rank == 0:
            first = [array_operation(f"n{i}", np.ones(50_000 + i), op="Sum") for i in range(40)]
            for operation in first:
                engine.submit(0, operation)
        join = control("join", "join")
        engine.submit(0, join)
        join.wait()
        if comm.rank == 0:
            for operation in first:
                operation.wait()
        arrays = [np.ones(50_000 + i) for i in range(40)]
        operations = [array_operation(f"n{i}", array) for i, array in enumerate(arrays)]
        for operation in operations:
            engine.submit(0, operation)
        for operation in operations:
            operation.wait()
        assert all((array == 2).all() for array in arrays)
    engine.stop()


@pytest.mark.ranks(2)
def test_waiting_takes_no_processor_time(comm):
    engine = engine_of(comm)
    engine.begin()
    if comm.rank == 0:
        operation = array_operation("late", np.ones(3))
        engine.submit(0, operation)
        before = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - before < 0.25
        assert not operation.is_done()
    comm.barrier()
    if comm.rank == 1:
        operation = array_operation("late", np.ones(3))
        engine.submit(0, operation)
    operation.wait()
    engine.stop()


@pytest.mark.ranks(3, dies=1)
def test_a_rank_that_dies_is_named(comm):
    engine = engine_of(comm)
    engine.begin()
    comm.barrier()
    meet(comm)
    if comm.rank == 1:
        os.kill(os.getpid(), 9)
    operation = control("b", "barrier")
    with pytest.raises(HorovodInternalError, match="rank 1"):
        engine.submit(0, operation)  # fails itself if the engine has noticed already
        operation.wait()
    with pytest.raises(HorovodInternalError, match="rank 1"):
        engine.submit(0, control("c", "barrier"))
    engine.stop()


@pytest.mark.ranks(2)
def test_a_mistake_in_the_engine_ends_all_ranks(comm):
    engine = engine_of(comm)
    engine.begin()
    comm.barrier()  # both have an engine
    if comm.rank == 0:
        engine._negotiate = None
    operation = control("b", "barrier")
    with pytest.raises(HorovodInternalError, match="NoneType"):
        engine.submit(0, operation)  # fails itself if the engine has noticed already
        operation.wait()
    engine.stop()


@pytest.mark.ranks(2)
def test_a_failure_names_the_operation_of_the_program(comm):
    engine = engine_of(comm)
    engine.begin()
    comm.barrier()  # both have an engine
    if comm.rank == 0:
        engine.sets[0].channel.communicator.abort("a reason")
    operation = control("mine", "barrier")
    with pytest.raises(HorovodInternalError, match='^"mine": ABORTED: ') as caught:
        engine.submit(0, operation)  # fails itself if the engine has noticed already
        operation.wait()
    assert "recv(" not in str(caught.value) and "a reason" in str(caught.value)
    engine.stop()


def test_causes_have_no_call_of_the_engine():
    died = "rank 1 (host a, pid 7) died (rank 0 of 3; found by rank 0)"
    for call in ("recv(count 32768, uint8, from rank 1, tag 0): ", "allreduce_start(count 8, float32, sum) #40: ", ""):
        assert cause_of(f"PROC_FAILED: {call}{died}") == f"PROC_FAILED: {died}"
    for text in ("", "no call", "f() #x: y", "first: recv(count 1) #2: y", "A: b(c(d)) #1: e", "A: rank 1 (host a): b"):
        assert cause_of(text) == text


# ---------------------------------------------------------------------------------- finding it as horovod


def test_horovod_is_found_when_installed_for_the_process():
    program = (
        "import tutti.horovod as ours; ours.install(); ours.install()\n"
        "import sys, horovod, horovod.common.exceptions as e\n"
        "assert horovod is ours and e.HorovodInternalError is ours.HorovodInternalError\n"
        "assert ours.__spec__.name == 'tutti.horovod'\n"
        "from horovod.common.process_sets import ProcessSet\n"
        "from horovod.common.util import split_list\n"
        "assert split_list([1, 2, 3], 2) == [[1, 2], [3]]\n"
        "for name in ('horovod.mxnet', 'horovod.spark.torch', 'horovod.nothing'):\n"
        "    try: __import__(name)\n"
        "    except ModuleNotFoundError as error: assert 'not part of tutti.horovod' in str(error)\n"
        "    else: raise SystemExit(name)\n"
        "sys.modules['tensorflow'] = None\n"  # as if there were none
        "for name in ('horovod.tensorflow', 'horovod.tensorflow.keras', 'horovod.keras'):\n"
        "    try: __import__(name)\n"
        "    except ImportError as error: assert 'needs TensorFlow' in str(error), error\n"
        "    else: raise SystemExit(name)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_processes_of_a_program_find_it_too(tmp_path):
    program = (
        "import subprocess, sys, horovod\n"
        "child = 'import horovod, horovod.common.exceptions; print(horovod.__name__)'\n"
        "print(subprocess.run([sys.executable, '-c', child], stdout=subprocess.PIPE, check=True).stdout)\n"
    )
    (tmp_path / "program.py").write_text(program)
    ended = subprocess.run(
        [sys.executable, "-m", "tutti.horovod", str(tmp_path / "program.py")],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    assert b"tutti.horovod" in ended.stdout


def test_settings_that_make_no_sense_are_refused(monkeypatch):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "1000")
    monkeypatch.setenv("HOROVOD_STALL_CHECK_DISABLE", "1")
    assert read_settings().fusion_bytes == 1000 and read_settings().warn_seconds == 0
    for wrong in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("HOROVOD_CYCLE_TIME", wrong)
        with pytest.raises(ValueError, match="HOROVOD_CYCLE_TIME"):
            read_settings()


def test_importing_it_loads_no_framework():
    assert importlib.import_module("tutti.horovod").__version__
    program = "import sys, tutti.horovod._basics; raise SystemExit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
