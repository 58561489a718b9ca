"""Operations that users make."""

import gc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti
from tutti import _callbacks


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_scaled_sum_is_the_sum_times_its_factor(comm, dtype):
    half = tutti.scaled_sum(0.5)
    send = np.array([1, 2, 4], dtype) * (comm.rank + 1)
    total = sum(range(1, comm.size + 1))
    assert_array_equal(comm.allreduce(send, op=half), np.array([0.5, 1, 2], dtype) * total)
    with pytest.raises(tutti.InvalidArgument):
        comm.allreduce(np.array([1]), op=half)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("count", [1, 1000, 200_000])
def test_a_python_function_combines_arrays(comm, count):
    longest = tutti.op(lambda a, b: np.where(abs(a) >= abs(b), a, b), "longest")
    send = np.arange(count, dtype=np.float64) * (-1) ** comm.rank * (comm.rank + 1)
    last = comm.size - 1
    expected = np.arange(count, dtype=np.float64) * (-1) ** last * (last + 1)
    assert_array_equal(comm.allreduce(send, op=longest), expected)
    assert_array_equal(comm.allreduce_start(send, op=longest).wait(), expected)
    result = comm.reduce(send, op=longest, root=0)
    if comm.rank == 0:
        assert_array_equal(result, expected)


@pytest.mark.ranks(3, threads=True)
def test_ufuncs_are_operations_and_ranks_may_be_threads(comm):
    greatest = tutti.op(np.fmax, commutative=True)
    assert greatest.name == "fmax"
    send = np.array([np.nan, comm.rank, -comm.rank])
    assert_array_equal(comm.allreduce(send, op=greatest), [np.nan, 2, 0])


@pytest.mark.ranks(4)
def test_without_commutativity_operands_stay_in_the_order_of_ranks(comm):
    def join(a, b):  # 12, 345 -> 12345
        return a * 10 ** (np.floor(np.log10(b)).astype(int) + 1) + b

    joined = tutti.op(join)
    for count in (1, 5000):
        send = np.full(count, comm.rank + 1)
        assert_array_equal(comm.allreduce(send, op=joined), np.full(count, 1234))
        result = comm.reduce(send, op=joined, root=2)
        if comm.rank == 2:
            assert_array_equal(result, np.full(count, 1234))


@pytest.mark.ranks(2)
def test_what_the_function_raises_is_raised_by_the_call(comm):
    def broken(a, b):
        raise ZeroDivisionError("no")

    op = tutti.op(broken)
    with pytest.raises(tutti.Error) as caught:
        comm.allreduce(np.ones(4), op=op)
    assert caught.value.status == tutti.Status.ABORTED
    if not isinstance(caught.value, tutti.Aborted):
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(tutti.Aborted):
        for _ in range(100):
            comm.barrier()


@pytest.mark.ranks(2)
def test_a_function_that_changes_the_shape_is_an_error(comm):
    with pytest.raises(tutti.Error):
        comm.allreduce(np.ones(4), op=tutti.op(lambda a, b: a.sum() + b.sum(), "total"))
        comm.barrier()


@pytest.mark.ranks(2)
def test_functions_need_to_know_the_dtype(comm):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    send = np.ones(3, ml_dtypes.bfloat16) * (comm.rank + 1)
    result = comm.allreduce(send, op=tutti.op(lambda a, b: a * b, "times"))
    assert_array_equal(result.astype(float), [2, 2, 2])


@pytest.mark.ranks(2)
def test_the_last_view_of_an_operand_may_collect_garbage(comm):
    class Loop:
        def __init__(self):
            self.memory = tutti.empty(10)
            self.comm = tutti.Communicator(0, 1)
            self.me = self

    def add(a, b):
        Loop()
        gc.collect()
        return a + b

    op = tutti.op(add)
    for _ in range(3):
        assert_array_equal(comm.allreduce_start(np.ones(4), op=op).wait(), np.full(4, 2.0))
    comm.barrier()
    assert not _callbacks._waiting
