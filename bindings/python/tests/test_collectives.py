"""Every collective gives what it should, allocated, into `out` and in place."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti

DTYPES = [np.float32, np.float64, np.int32, np.int64]


def mine(rank, shape=(3, 4), dtype=np.float32):
    """What a rank sends: integers, so that sums are exact."""
    count = int(np.prod(shape))
    return (np.arange(count) % 13 + 100 * rank).astype(dtype).reshape(shape)


def everybody(comm, shape=(3, 4), dtype=np.float32):
    return np.stack([mine(rank, shape, dtype) for rank in range(comm.size)])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_allreduce_sums(comm, dtype):
    result = comm.allreduce(mine(comm.rank, dtype=dtype))
    assert result.dtype == dtype
    assert_array_equal(result, everybody(comm, dtype=dtype).sum(0))


@pytest.mark.ranks(3)
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
def test_allreduce_knows_operations_by_name_and_constant(comm, op):
    send = np.array([1.0, 2.0, -4.0]) * (comm.rank + 1)
    every = np.stack([np.array([1.0, 2.0, -4.0]) * (r + 1) for r in range(3)])
    expected = {"sum": every.sum(0), "prod": every.prod(0), "min": every.min(0), "max": every.max(0)}
    expected["avg"] = every.sum(0) / 3
    assert_array_equal(comm.allreduce(send, op=op), expected[op])
    assert_array_equal(comm.allreduce(send, op=getattr(tutti, op.upper())), expected[op])


@pytest.mark.ranks(2)
def test_allreduce_writes_into_out_or_in_place(comm):
    send, expected = mine(comm.rank), everybody(comm).sum(0)
    out = np.empty(12, np.float32)
    assert comm.allreduce(send, out) is out
    assert_array_equal(out.reshape(3, 4), expected)
    assert_array_equal(send, mine(comm.rank))
    assert comm.allreduce(send, out=send) is send
    assert_array_equal(send, expected)


@pytest.mark.ranks(1, 3)
def test_reduce_gives_root_the_result(comm):
    for root in range(comm.size):
        result = comm.reduce(mine(comm.rank), root=root, op="max")
        if comm.rank == root:
            assert_array_equal(result, everybody(comm).max(0))
        else:
            assert result is None


@pytest.mark.ranks(1, 3)
def test_broadcast_fills_the_array(comm):
    root = comm.size - 1
    array = mine(root) if comm.rank == root else np.zeros((3, 4), np.float32)
    assert comm.broadcast(array, root=root) is array
    assert_array_equal(array, mine(root))


@pytest.mark.ranks(2)
def test_broadcast_into_out_reads_only_roots_array(comm):
    out = np.empty(12, np.float32)
    comm.broadcast(mine(0) if comm.rank == 0 else None, out, root=0)
    assert_array_equal(out, mine(0).ravel())


@pytest.mark.ranks(1, 3)
def test_gather_stacks_on_root(comm):
    result = comm.gather(mine(comm.rank), root=comm.size - 1)
    if comm.rank == comm.size - 1:
        assert_array_equal(result, everybody(comm))
        table = np.zeros_like(result)
        table[comm.rank] = mine(comm.rank)
    else:
        assert result is None
        table = None
    send = mine(comm.rank) if table is None else table[comm.rank]
    comm.gather(send, table, root=comm.size - 1)
    if table is not None:
        assert_array_equal(table, everybody(comm))


@pytest.mark.ranks(1, 3)
def test_scatter_hands_out_the_parts(comm):
    out = None if comm.rank == 0 else np.empty((3, 4), np.float32)
    send = everybody(comm) if comm.rank == 0 else None
    assert_array_equal(comm.scatter(send, out), mine(comm.rank))
    if comm.rank == 0:
        comm.scatter(send, send[0])
        assert_array_equal(send, everybody(comm))
    else:
        comm.scatter(None, out)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,)])
def test_allgather_stacks_everywhere(comm, shape):
    expected = everybody(comm, shape)
    result = comm.allgather(mine(comm.rank, shape))
    assert result.shape == (comm.size,) + shape
    assert_array_equal(result, expected)
    if shape == (5,):
        table = np.zeros_like(expected)
        table[comm.rank] = mine(comm.rank, shape)
        comm.allgather(table[comm.rank], out=table)
        assert_array_equal(table, expected)


@pytest.mark.ranks(1, 3)
def test_reduce_scatter_gives_each_rank_its_part(comm):
    def send_of(rank):
        return mine(rank, (comm.size, 2, 2))

    expected = np.stack([send_of(rank) for rank in range(comm.size)]).sum(0)[comm.rank]
    result = comm.reduce_scatter(send_of(comm.rank))
    assert_array_equal(result, expected)
    flat = np.empty(4, np.float32)
    comm.reduce_scatter(send_of(comm.rank).ravel(), flat, "sum")
    assert_array_equal(flat.reshape(2, 2), expected)
    send = send_of(comm.rank)
    comm.reduce_scatter(send, out=send[comm.rank])
    assert_array_equal(send[comm.rank], expected)


@pytest.mark.ranks(1, 3)
def test_alltoall_transposes(comm):
    def send_of(rank):
        return np.stack([np.full(2, 10 * rank + to) for to in range(comm.size)])

    expected = np.stack([send_of(rank)[comm.rank] for rank in range(comm.size)])
    send = send_of(comm.rank)
    assert_array_equal(comm.alltoall(send), expected)
    comm.alltoall(send, out=send)
    assert_array_equal(send, expected)


@pytest.mark.ranks(3)
def test_barrier_lets_nobody_leave_early(comm):
    entered = tutti.empty(0)  # nothing: only the order counts
    assert entered.size == 0
    for _ in range(3):
        assert comm.barrier() is None


@pytest.mark.ranks(3, threads=True)
def test_ranks_may_be_threads(comm):
    assert_array_equal(comm.allreduce(mine(comm.rank)), everybody(comm).sum(0))
    assert_array_equal(comm.allgather(mine(comm.rank)), everybody(comm))
    assert_array_equal(comm.alltoall(np.full((3, 2), comm.rank)), [[0, 0], [1, 1], [2, 2]])
    comm.barrier()


@pytest.mark.ranks(2)
def test_large_arrays_arrive_whole(comm):
    shape = (1 << 20,)
    result = comm.allreduce(mine(comm.rank, shape))
    assert_array_equal(result, everybody(comm, shape).sum(0))
    assert_array_equal(comm.alltoall(mine(comm.rank, shape))[: 1 << 19], mine(0, shape).reshape(2, -1)[comm.rank])


@pytest.mark.ranks(2)
def test_options_reach_the_call(comm):
    send = mine(comm.rank)
    result = comm.allreduce(send, algorithm="ring", timeout=5, deterministic=False)
    assert_array_equal(result, everybody(comm).sum(0))
    with pytest.raises(tutti.InvalidArgument) as caught:
        comm.allreduce(send, algorithm="nonsense")
    assert caught.value.status == tutti.Status.INVALID_ALGORITHM
    with pytest.raises(tutti.InvalidArgument):
        comm.allreduce(send, timeout=0)
    with pytest.raises(TypeError):
        comm.allreduce(send, algorithmus="ring")
