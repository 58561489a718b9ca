"""Started, prepared and grouped calls, and what holds their buffers."""

import asyncio
import gc
import threading
import weakref

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti


@pytest.mark.ranks(1, 3)
def test_a_request_gives_the_result_when_it_is_waited_for(comm):
    request = comm.allgather_start(np.array([comm.rank]))
    assert_array_equal(request.wait().ravel(), np.arange(comm.size))
    assert_array_equal(request.wait().ravel(), np.arange(comm.size))  # once more is no harm
    assert "done" in repr(request)


@pytest.mark.ranks(2)
def test_a_request_can_be_tested(comm):
    if comm.rank == 0:
        request = comm.barrier_start()
        assert not request.test()  # rank 1 comes only after the barrier below
    comm.barrier()
    if comm.rank == 1:
        request = comm.barrier_start()
    while not request.test():
        pass
    assert request.test()


@pytest.mark.ranks(2)
def test_many_requests_run_at_once(comm):
    requests = [comm.allreduce_start(np.full(100, float(i)), priority=i) for i in range(40)]
    for i, request in enumerate(requests):
        assert_array_equal(request.wait(), np.full(100, 2.0 * i))


@pytest.mark.ranks(2)
def test_a_request_in_with_is_waited_for(comm):
    out = np.zeros(1000)
    with comm.allreduce_start(np.ones(1000), out) as request:
        assert isinstance(request, tutti.Request)
    assert_array_equal(out, np.full(1000, 2.0))


@pytest.mark.ranks(2)
def test_a_request_can_be_awaited(comm):
    async def main():
        first = comm.allreduce_start(np.ones(3))
        second = comm.allgather_start(np.array(comm.rank))
        return await asyncio.gather(*[wait(first), wait(second)])

    async def wait(request):
        return await request

    total, ranks = asyncio.run(main())
    assert_array_equal(total, [2, 2, 2])
    assert_array_equal(ranks, [0, 1])


@pytest.mark.ranks(2)
def test_several_threads_may_wait_for_one_request(comm):
    request = comm.allreduce_start(np.ones(10))
    results = []
    threads = [threading.Thread(target=lambda: results.append(request.wait())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert_array_equal(results[0], np.full(10, 2.0))


class Tracked(np.ndarray):
    """An array that can be watched."""


def tracked(count, value):
    array = np.empty(count).view(Tracked)
    array[:] = value
    return array


@pytest.mark.ranks(2)
def test_a_running_operation_holds_its_buffers_also_without_its_request(comm):
    send = tracked(1000, 1.0)
    watch = weakref.ref(send)
    if comm.rank == 0:
        comm.allreduce_start(send)  # rank 1 is not there yet, and nobody keeps the request
        del send
        gc.collect()
        assert watch() is not None
    comm.barrier()
    if comm.rank == 1:
        comm.allreduce_start(send)
        del send
    for _ in range(1000):
        comm.barrier_start().wait()
        if not comm.allreduce(np.array(int(watch() is not None)), op="max"):
            return
    raise AssertionError("the buffer is still held")


@pytest.mark.ranks(2)
def test_buffers_are_let_go_when_an_operation_is_done(comm):
    send = tracked(10, 1.0)
    watch = weakref.ref(send)
    request = comm.allreduce_start(send)
    del send
    result = request.wait()
    assert watch() is None
    assert_array_equal(result, np.full(10, 2.0))


# ------------------------------------------------------------------------------------------- prepared


@pytest.mark.ranks(1, 3)
def test_a_prepared_call_uses_what_is_in_its_buffers(comm):
    send, out = np.zeros(5), np.zeros(5)
    with comm.allreduce_prepare(send, out) as prepared:
        for step in range(4):
            send[:] = step
            assert prepared.start().wait() is out
            assert_array_equal(out, np.full(5, float(step * comm.size)))


@pytest.mark.ranks(2)
def test_a_prepared_call_runs_once_at_a_time(comm):
    prepared = comm.allreduce_prepare(np.ones(4))
    if comm.rank == 0:
        request = prepared.start()
        with pytest.raises(tutti.InvalidArgument):
            prepared.start()
    comm.barrier()
    if comm.rank == 1:
        request = prepared.start()
    assert_array_equal(request.wait(), np.full(4, 2.0))
    prepared.close()
    with pytest.raises(tutti.InvalidArgument):
        prepared.start()
    assert not comm._state.prepared


@pytest.mark.ranks(2)
def test_a_prepared_call_may_be_dropped_while_it_runs(comm):
    request = comm.allreduce_prepare(np.ones(4)).start()
    gc.collect()
    assert_array_equal(request.wait(), np.full(4, 2.0))
    gc.collect()
    assert not comm._state.prepared
    comm.allgather_prepare(np.ones(4))  # and this one is not even started
    gc.collect()
    assert not comm._state.prepared


@pytest.mark.ranks(2)
def test_every_form_can_be_prepared(comm):
    with comm.barrier_prepare() as prepared:
        assert prepared.start().wait() is None
    counts = [1, 1]
    with comm.alltoallv_prepare(np.array([0, 1]) + 10 * comm.rank, counts, counts) as prepared:
        assert_array_equal(prepared.start().wait(), [comm.rank, 10 + comm.rank])


# --------------------------------------------------------------------------------------------- groups


@pytest.mark.ranks(1, 3)
def test_calls_in_a_group_are_done_at_its_end(comm):
    with tutti.group():
        total = comm.allreduce(np.full(1000, float(comm.rank)))
        with tutti.group():
            table = comm.allgather(np.array([comm.rank]))
        others = comm.alltoall(np.arange(comm.size))
    assert_array_equal(total, np.full(1000, float(sum(range(comm.size)))))
    assert_array_equal(table.ravel(), np.arange(comm.size))
    assert_array_equal(others, np.full(comm.size, comm.rank))
    assert_array_equal(comm.allreduce(np.ones(2)), np.full(2, comm.size))  # and calls block again


@pytest.mark.ranks(2)
def test_a_group_holds_its_buffers(comm):
    watches = []
    with tutti.group():
        for _ in range(20):
            send = tracked(5000, 1.0)
            watches.append(weakref.ref(send))
            last = comm.allreduce(send)
            del send
        gc.collect()
        assert all(watch() is not None for watch in watches)
    assert_array_equal(last, np.full(5000, 2.0))
    assert not any(watch() is not None for watch in watches)


@pytest.mark.ranks(2)
def test_an_exception_in_a_group_does_not_leave_peers_waiting(comm):
    if comm.rank == 0:
        with pytest.raises(KeyError):
            with tutti.group():
                comm.allreduce(np.ones(3))
                raise KeyError("lost")
    else:
        with pytest.raises(tutti.Aborted) as caught:
            with tutti.group():
                comm.allreduce(np.ones(3))
                comm.barrier()
        assert "lost" in str(caught.value)
        assert caught.value.culprit == 0
    assert comm.failure.status == tutti.Status.ABORTED


@pytest.mark.ranks(2)
def test_invalid_calls_in_a_group_change_nothing(comm):
    with tutti.group():
        with pytest.raises(tutti.InvalidArgument):
            comm.allreduce(np.ones(3), op="mean")
        total = comm.allreduce(np.ones(3))
    assert_array_equal(total, np.full(3, 2.0))


# ------------------------------------------------------------------------------------- point to point


@pytest.mark.ranks(3)
def test_messages_say_who_sent_them(comm):
    if comm.rank == 0:
        out = np.empty(10)
        seen = set()
        for _ in range(2):
            message = comm.recv(out, tag=5)
            assert message.tag == 5 and message.count == message.source
            assert_array_equal(out[: message.count], np.full(message.count, 1.5))
            seen.add(message.source)
        assert seen == {1, 2}
    else:
        comm.send(np.full(comm.rank, 1.5), 0, tag=5)


@pytest.mark.ranks(2)
def test_two_ranks_exchange_large_messages_in_a_group(comm):
    send, out = np.full(1 << 18, comm.rank), np.empty(1 << 18, int)
    with tutti.group():
        comm.send(send, 1 - comm.rank)
        message = comm.recv(out, 1 - comm.rank)
    assert (out == 1 - comm.rank).all()
    assert (message.source, message.tag, message.count) == (1 - comm.rank, 0, 1 << 18)


@pytest.mark.ranks(2)
def test_messages_can_be_started(comm):
    out = np.empty(3)
    receiving = comm.recv_start(out, peer=1 - comm.rank, tag=comm.rank)
    comm.send_start(np.full(3, 7.0), 1 - comm.rank, tag=1 - comm.rank).wait()
    assert receiving.wait().count == 3
    assert_array_equal(out, [7, 7, 7])


@pytest.mark.ranks(2)
def test_a_receive_can_be_cancelled_until_a_message_meets_it(comm):
    out = np.zeros(3)
    receiving = comm.recv_start(out, tag=5)
    assert receiving.cancel()
    assert not receiving.cancel()
    with pytest.raises(tutti.InvalidArgument, match="cancelled"):
        receiving.wait()
    comm.barrier()
    sending = comm.send_start(np.full(3, 7.0), 1 - comm.rank, tag=5)
    with pytest.raises(tutti.Unsupported, match="send"):
        sending.cancel()
    comm.recv(np.empty(3), 1 - comm.rank, 5)
    sending.wait()
    assert (out == 0).all()
    comm.barrier()
    comm.send(np.ones(3), comm.rank, tag=5)
    receiving = comm.recv_start(out, comm.rank, 5)
    assert not receiving.cancel()
    assert receiving.wait().count == 3


@pytest.mark.ranks(2)
def test_a_message_that_is_too_long_is_lost_and_nothing_else(comm):
    if comm.rank == 0:
        comm.send(np.zeros(10), 1)
        comm.send(np.ones(2), 1)
        with pytest.raises(tutti.InvalidArgument):
            comm.send(np.zeros(1), 1, tag=-3)
    else:
        out = np.empty(2)
        with pytest.raises(tutti.Truncated):
            comm.recv(out, 0)
        comm.recv(out, 0)
        assert_array_equal(out, [1, 1])
