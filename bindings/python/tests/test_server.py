"""The parameter server from Python: arrays in and out, optimizers in Python, what is refused, and who may close when."""

import gc
import os
import signal
import threading

import numpy as np
import pytest

import tutti
from tutti import server
from tutti._header import Status


def tables_of(**more):
    return [
        server.Table("layer", shape=(3, 4), optimizer=server.SGD(0.5), initial=server.Normal(0.1), seed=5),
        server.Table("words", rows=1000, width=8, optimizer=server.SGD(1.0), initial=server.Uniform(0.1), seed=6),
        server.Table("scale", shape=2, initial=3.0, **more),
    ]




class Interrupted(Exception):
    pass


@pytest.mark.ranks(2)
def test_serving_can_be_interrupted_and_names_a_silent_worker(comm):
    def interrupt(number, frame):
        raise Interrupted

    with server.Server(comm, tables_of(), timeout=10, serve_timeout=0.05) as tables:
        if comm.rank == 0:
            with pytest.raises(tutti.Timeout, match="the worker at rank 1 has said nothing for"):
                tables.serve()
        comm.barrier()
    with server.Server(comm, tables_of(), timeout=10) as tables:
        if comm.rank == 0:
            before = signal.signal(signal.SIGUSR1, interrupt)
            with pytest.raises(Interrupted):
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
                tables.serve()
            signal.signal(signal.SIGUSR1, before)
        comm.barrier()


@pytest.mark.ranks(4)
def test_workers_change_the_mode_together(comm):
    with server.Server(comm, tables_of(), timeout=10, mode="asynchronous") as tables:
        if not tables.is_worker:
            return tables.serve()
        if comm.rank == 1:
            tables.set({"scale": np.zeros(2, np.float32)})
        tables.tick()
        tables.change_mode("synchronous")
        assert np.array_equal(tables.push_pull({}, {"scale": None})["scale"], np.zeros(2))
        assert tables.step().members == (1, 2, 3)
        with pytest.raises(tutti.Mismatch, match="asks for the mode|asked for different modes"):
            tables.change_mode("bounded", staleness=comm.rank)
        with pytest.raises(tutti.InvalidArgument, match="quorum from 1"):
            tables.change_mode("quorum", quorum=4)
        tables.change_mode("quorum", quorum=2)


@pytest.mark.ranks(3)
def test_a_call_that_timed_out_goes_on(comm):
    with server.Server(comm, tables_of(), timeout=10) as tables:
        ones = {"scale": np.ones(2, np.float32)}
        if comm.rank == 1:
            for _ in range(2):
                with pytest.raises(tutti.Timeout):
                    tables.push_pull(ones, {"scale": None}, timeout=0.02)
        comm.barrier()
        if tables.is_worker:
            assert np.allclose(tables.push_pull(ones, {"scale": None})["scale"], 3 - 0.02)
            assert tables.counters.pushes == 1


@pytest.mark.ranks(3)
def test_workers_push_to_a_server_and_pull_from_it(comm):
    with server.Server(comm, tables_of(), servers=[1], timeout=10) as tables:
        assert tables.is_server == (comm.rank == 1) and tables.is_worker == (comm.rank != 1)
        if not tables.is_worker:
            tables.serve()
            return
        words = np.array([7, 999, 7])
        before = tables.pull({"layer": None, "words": words, "scale": None})
        assert before["layer"].shape == (3, 4) and before["words"].shape == (3, 8)
        assert np.array_equal(before["words"][0], before["words"][2])
        assert np.array_equal(before["scale"], np.full(2, 3, np.float32))
        tables.push({"layer": np.ones((3, 4), np.float32), "words": (words, np.ones((3, 8), np.float32))})
        tables.tick()
        after = tables.pull({"layer": None, "words": words})
        assert np.array_equal(after["layer"], before["layer"] - np.float32(0.5) * np.float32(2))
        assert np.array_equal(after["words"][0], before["words"][0] - np.float32(4))  # twice from each of two workers
        assert np.array_equal(after["words"][1], before["words"][1] - np.float32(2))
        step = tables.step()
        assert step.number == 1 and step.worker_count == 2 and step.members == (0, 2)
        assert tables.counters.clock == 1


@pytest.mark.ranks(1)
def test_a_rank_may_be_server_and_worker(comm):
    with server.Server(comm, tables_of(), servers=[0], workers=[0], timeout=10) as tables:
        values = np.arange(12, dtype=np.float64).reshape(3, 4)
        tables.set({"layer": values, "words": ([1, 2], np.zeros((2, 8), np.float32))})
        found = tables.push_pull({"scale": np.array([1, 2], np.float16)}, {"layer": None, "words": [2, 1], "scale": None})
        assert np.array_equal(found["layer"], values)
        assert not found["words"].any()
        assert np.allclose(found["scale"], [3 - 0.01, 3 - 0.02])


@pytest.mark.ranks(2)
def test_a_run_begins_where_another_one_saved(comm, tmp_path):
    folder = np.zeros(256, np.uint8)
    if comm.rank == 0:
        folder[: len(str(tmp_path))] = np.frombuffer(str(tmp_path).encode(), np.uint8)
    comm.broadcast(folder)
    path = folder.tobytes().split(b"\0")[0].decode()
    gradient = {"layer": np.ones((3, 4), np.float32)}
    with server.Server(comm, tables_of(), servers=[0], workers=[0, 1], timeout=10) as tables:
        tables.push_pull(gradient, {})
        comm.barrier()
        if comm.rank == 0:
            tables.save(path)
        else:
            with pytest.raises(tutti.InvalidArgument, match="is no server"):
                tables.save(path)
        comm.barrier()
        expected = tables.push_pull(gradient, {"layer": None})["layer"]
    with server.Server(comm, tables_of(), servers=[0], workers=[0, 1], timeout=10, load_folder=path) as tables:
        assert np.array_equal(tables.push_pull(gradient, {"layer": None})["layer"], expected)


@pytest.mark.ranks(3)
def test_backups_change_no_value(comm):
    with pytest.raises(tutti.InvalidArgument, match="at least 2 servers"):
        server.Server(comm, tables_of(), servers=[0], timeout=10, backups=1)
    gradient = {"layer": np.full((3, 4), 2, np.float32)}
    got = []
    for backups in (0, 1):
        with server.Server(comm, tables_of(), servers=[0, 1], workers=[1, 2], timeout=10, backups=backups) as tables:
            if tables.is_worker:
                got.append(tables.push_pull(gradient, {"layer": None})["layer"])
    assert len(got) in (0, 2) and all(np.array_equal(values, got[0]) for values in got)


@pytest.mark.ranks(4)
def test_spares_change_no_value(comm):
    with pytest.raises(tutti.InvalidArgument, match="at least 3 servers"):
        server.Server(comm, tables_of(), servers=[0, 1], timeout=10, backups=1, spares=1)
    gradient = {"layer": np.full((3, 4), 2, np.float32)}
    got = []
    for spares in (0, 1, 2):
        made = server.Server(
            comm, tables_of(), servers=[0, 1, 2], workers=[2, 3], timeout=10, backups=1, spares=spares
        )
        with made as tables:
            if tables.is_worker:
                got.append(tables.push_pull(gradient, {"layer": None})["layer"])
            if tables.is_server:
                assert tables.counters.parts_alone == 0
    assert len(got) in (0, 3) and all(np.array_equal(values, got[0]) for values in got)


@pytest.mark.ranks(1)
def test_started_calls_keep_their_order(comm):
    with server.Server(comm, tables_of(), servers=[0], workers=[0], timeout=10) as tables:
        first = tables.pull({"scale": None})["scale"]
        tables.push_start({"scale": np.ones(2, np.float32)})  # dropped, and yet done
        tables.tick_start()
        with tables.pull_start({"scale": None}) as pulled:
            pass
        assert pulled.test()
        assert np.array_equal(pulled.wait()["scale"], first - np.float32(0.01))
        tables.pull_start({"words": np.arange(100)})  # close() waits for it
        gc.collect()


@pytest.mark.ranks(1)
def test_a_set_can_be_started(comm):
    with server.Server(comm, tables_of(), servers=[0], workers=[0], timeout=10) as tables:
        wanted = np.arange(12, dtype=np.float32).reshape(3, 4)
        with tables.set_start({"layer": wanted}), tables.tick_start():
            pass
        assert np.array_equal(tables.pull({"layer": None})["layer"], wanted)


@pytest.mark.ranks(1)
def test_pulls_fill_arrays_of_the_caller(comm):
    with server.Server(comm, tables_of(), servers=[0], workers=[0], timeout=10) as tables:
        layer, words = np.zeros((3, 4), np.float32), tables.pull({"words": [5, 6]})["words"]
        into = np.zeros_like(words)
        found = tables.pull({"layer": layer, "words": ([5, 6], into)})
        assert found["layer"] is layer and found["words"] is into
        assert np.array_equal(into, words)
        assert np.array_equal(layer, tables.pull({"layer": None})["layer"])
        for wrong in (layer[:, :2], layer.astype(np.float64), np.zeros((4, 3), np.float32)):
            with pytest.raises(tutti.InvalidArgument, match="the array for table 'layer'"):
                tables.pull({"layer": wrong})


@pytest.mark.ranks(1)
def test_optimizers_may_be_functions_of_python(comm):
    seen = []

    def update(step, gradients, parameters, state):
        seen.append((step, gradients.size))
        state[0] += gradients
        parameters[...] = 100 * state[0] + step

    optimizer = server.Function(update, state_count=1, initial_state=1.0)
    tables = [server.Table("rows", rows=10, width=3, optimizer=optimizer)]
    with server.Server(comm, tables, servers=[0], workers=[0], timeout=10) as made:
        found = made.push_pull({"rows": ([4, 5], np.ones((2, 3), np.float32))}, {"rows": [5]})
        assert np.array_equal(found["rows"], np.full((1, 3), 201, np.float32))
        assert sorted(seen) == [(1, 3), (1, 3)]


@pytest.mark.ranks(1)
def test_what_a_function_raises_is_raised_by_close(comm):
    def update(step, gradients, parameters, state):
        raise ZeroDivisionError("in an optimizer")

    made = server.Server(
        comm,
        [server.Table("rows", rows=10, optimizer=server.Function(update))],
        servers=[0],
        workers=[0],
        timeout=10,
    )
    found = made.push_pull({"rows": ([4], np.ones((1, 1), np.float32))}, {"rows": [4, 5]})
    assert np.isnan(found["rows"][0, 0]) and found["rows"][1, 0] == 0
    with pytest.raises(ZeroDivisionError):
        made.close()


@pytest.mark.ranks(1)
def test_what_cannot_be_is_refused_and_changes_nothing(comm):
    with server.Server(comm, tables_of(), servers=[0], workers=[0], timeout=10) as tables:
        one = np.ones((1, 8), np.float32)
        refused = [
            lambda: tables.push({"nothing": one}),
            lambda: tables.push({"layer": np.ones((4, 3), np.float32)}),
            lambda: tables.push({"layer": np.ones((3, 4), np.int32)}),
            lambda: tables.push({"words": one}),
            lambda: tables.push({"words": ([1, 2], one)}),
            lambda: tables.push({"words": ([0.5], one)}),
            lambda: tables.push({"words": ([1000], one)}),
            lambda: tables.push({"words": ([-1], one)}),
            lambda: tables.push({"words": ([1], one)}, encoding="nothing"),
            lambda: tables.push({"words": ([1], one)}, priority=101),
            lambda: tables.push({"words": ([1], one)}, timeout=0),
            lambda: tables.pull({"words": None}),
            lambda: tables.pull({"layer": [1]}),
            lambda: tables.pull(["layer"]),
            lambda: tables.push("layer"),
            lambda: tables.pull({"words": [1000]}),
            lambda: tables.push({"layer": ([1], one)}),
            lambda: tables.step(99),
            lambda: tables.save(""),
        ]
        for call in refused:
            with pytest.raises(tutti.InvalidArgument):
                call()
        with pytest.raises(TypeError):
            tables.tick(deadline=1)
        with pytest.raises(TypeError, match="encoding is a str, not 7"):
            tables.push({"words": ([1], one)}, encoding=7)
        with pytest.raises(tutti.InvalidArgument, match="too large for float16"):
            tables.push({"words": ([1], 1e6 * one)}, encoding="float16")
        before = tables.pull({"words": [1]})
        assert np.array_equal(tables.push_pull({}, {"words": [1]})["words"], before["words"])


@pytest.mark.ranks(1)
def test_tables_and_options_that_cannot_be_are_refused(comm):
    for make in (
        lambda: server.Table("a"),
        lambda: server.Table("a", shape=3, rows=3),
        lambda: server.Table("a", shape=(3, 0)),
        lambda: server.Table("a", rows=-1),
        lambda: server.Table("a", rows=1, seed=-1),
        lambda: server.Server(comm, tables_of(), mode="eventual"),
        lambda: server.Server(comm, tables_of(), servers=[1]),
        lambda: server.Server(comm, tables_of(), workers=[-1]),
        lambda: server.Server(comm, tables_of(), staleness=-1),
    ):
        with pytest.raises(tutti.InvalidArgument):
            make()
    with pytest.raises(TypeError):
        server.Server(comm, [server.Table("a", shape=3, optimizer=0.1)])


@pytest.mark.ranks(1)
def test_calls_after_close_are_refused(comm):
    tables = server.Server(comm, tables_of(), servers=[0], workers=[0], timeout=10)
    started = tables.pull_start({"scale": None})
    tables.close()
    tables.close()
    assert started.wait()["scale"].shape == (2,)
    for call in (tables.tick, tables.serve, lambda: tables.pull({"scale": None}), lambda: tables.counters):
        with pytest.raises(tutti.InvalidArgument) as caught:
            call()
        assert caught.value.status == Status.INVALID_REQUEST


@pytest.mark.ranks(2)
def test_a_worker_that_nobody_closes_leaves(comm):
    tables = server.Server(comm, tables_of(), timeout=10)
    if tables.is_worker:
        tables.pull({"scale": None})
        del tables
        gc.collect()
    else:
        tables.serve()
        tables.close()


@pytest.mark.ranks(2)
def test_a_server_that_nobody_closes_serves_on(comm):
    def update(step, gradients, parameters, state):
        parameters += gradients

    tables = server.Server(comm, [server.Table("a", shape=3, optimizer=server.Function(update))], timeout=10)
    if tables.is_server:
        del tables, update
        gc.collect()
        comm.barrier()
        comm.barrier()
    else:
        comm.barrier()
        values = tables.push_pull({"a": np.ones(3, np.float32)}, {"a": None})
        assert np.array_equal(values["a"], np.ones(3, np.float32))
        tables.close()
        comm.barrier()


@pytest.mark.ranks(1)
def test_threads_take_turns(comm):
    with server.Server(comm, tables_of(), servers=[0], workers=[0], timeout=10) as tables:

        def work():
            for _ in range(50):
                tables.push({"words": ([3], np.ones((1, 8), np.float32))})

        before = tables.pull({"words": [3]})["words"]
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = tables.push_pull({}, {"words": [3]})["words"]
        assert np.array_equal(after, before - np.float32(200))


@pytest.mark.ranks(4)
def test_bits_do_not_depend_on_the_number_of_servers(comm):
    found = []
    for servers in ([3], [1, 3], [1, 2, 3]):
        tables = [
            server.Table("layer", shape=(50, 100), optimizer=server.Adam(0.1), initial=server.Normal(0.1), seed=5),
            server.Table("words", rows=10**12, width=3, optimizer=server.Adagrad(0.1), initial=server.Uniform(1), seed=6),
        ]
        with server.Server(comm, tables, servers=servers, workers=[0], timeout=10) as made:
            made.serve()
            if made.is_worker:
                words = np.arange(0, 10**12, 10**10 + 1)
                rows = np.linspace(-1, 1, 3 * words.size, dtype=np.float32).reshape(-1, 3)
                layer = np.linspace(-1, 1, 5000, dtype=np.float32).reshape(50, 100)
                for _ in range(3):
                    values = made.push_pull({"layer": layer, "words": (words, rows)}, {"layer": None, "words": words})
                found.append(values)
    for values in found[1:]:
        assert np.array_equal(values["layer"], found[0]["layer"]) and np.array_equal(values["words"], found[0]["words"])


@pytest.mark.ranks(1)
def test_what_goes_wrong_with_a_dropped_call_is_raised_by_close(comm):
    tables = server.Server(comm, tables_of(), servers=[0], workers=[0], timeout=10)
    with pytest.raises(tutti.InvalidArgument, match="scale"):
        tables.push_start({"scale": np.array([1, np.nan], np.float32)})  # where it is noticed does not matter
        tables.close()
    tables.close()


@pytest.mark.ranks(3, dies=2)
def test_the_death_of_a_worker_does_not_stop_the_others(comm):
    tables = server.Server(comm, tables_of(), timeout=10)
    if comm.rank == 2:
        tables.tick()
        os.kill(os.getpid(), signal.SIGKILL)
    if comm.rank == 1:
        tables.tick()
        for _ in range(5):
            tables.push({"scale": np.ones(2, np.float32)})
            tables.tick()
        assert tables.step().members == (1,)
    tables.serve()
    tables.close()


@pytest.mark.ranks(4)
def test_a_worker_comes_while_others_work(comm):
    """Rank 3 is no rank of the server, and comes when ranks 1 and 2 have ended a clock."""
    ones = {"scale": np.ones(2, np.float32)}
    others = tables_of()[:2] + [server.Table("scale", shape=2, initial=4.0)]
    tables = None
    if comm.rank < 3:
        with comm.group([0, 1, 2]) as base:
            tables = server.Server(base, tables_of(), timeout=30, joiners_max=2)
    if comm.rank in (1, 2):
        tables.push_pull(ones, {"scale": None})
    if comm.rank in (0, 3):
        with comm.group([0, 3]) as grown:
            with pytest.raises(tutti.Mismatch, match="table 'scale' has initial_value 4 and not 3"):
                if comm.rank == 0:
                    tables.admit(grown)
                else:
                    server.Server.join(grown, others)
            if comm.rank == 0:
                assert tables.serve(wait=0.01) is False
                tables.admit(grown)
            else:
                tables = server.Server.join(grown, tables_of(), timeout=30)
    comm.barrier()
    if comm.rank == 0:
        assert tables.serve() is True
        assert tables.counters.joined == 1
    else:
        assert tables.rank == comm.rank and tables.is_worker and not tables.is_server
        assert tables.counters.clock == 1
        found = tables.push_pull(ones, {"scale": None})["scale"]
        assert np.allclose(found, 3 - 0.01 * (2 + 3))
        assert tables.step() == server.Step(2, 3, (1, 2, 3))
    tables.close()


@pytest.mark.ranks(2)
def test_a_mode_has_no_numbers_of_another_mode(comm):
    with server.Server(comm, tables_of(), timeout=10) as tables:
        if tables.is_worker:
            with pytest.raises(tutti.InvalidArgument, match="staleness is 3, and only mode BOUNDED"):
                tables.change_mode("synchronous", staleness=3)
            with pytest.raises(tutti.InvalidArgument, match="quorum is 1, and only mode QUORUM"):
                tables.change_mode("asynchronous", quorum=1)
