"""Sums of sparse rows, rows to their owners and back: against dense arrays."""

import gc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti

ROWS = 50


def given(rank, shape, dtype):
    """Indices in any order, some of them several times, and small whole numbers."""
    random = np.random.default_rng(rank)
    indices = random.integers(0, ROWS, 20 * rank)
    values = random.integers(0, 4, (len(indices), *shape)).astype(dtype)
    return indices, values


def everybody(size, shape, dtype):
    total, there = np.zeros((ROWS, *shape), dtype), np.zeros(ROWS, bool)
    for rank in range(size):
        indices, values = given(rank, shape, dtype)
        np.add.at(total, indices, values)
        there[indices] = True
    return np.flatnonzero(there), total[there]


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("way", ["chosen", "gather", "owner", "dense"])
@pytest.mark.parametrize("dtype, shape", [(np.float32, ()), (np.float16, (2, 5)), (np.int64, (3,))])
def test_sparse_allreduce_sums_rows(comm, way, dtype, shape):
    indices, values = given(comm.rank, shape, dtype)
    result = comm.sparse_allreduce(indices, values, ROWS, way=way)
    expected_indices, expected = everybody(comm.size, shape, dtype)
    assert_array_equal(result.indices, expected_indices)
    assert_array_equal(result.values, expected)
    assert result.values.dtype == dtype
    assert (way in result.explanation) or way == "chosen"


@pytest.mark.ranks(2)
def test_arrays_of_a_result_outlive_it(comm):
    values = np.full((3, 1000), 1.0 + comm.rank)
    kept = comm.sparse_allreduce([5, 7, 9], values, 10).values[1:]
    gc.collect()
    for _ in range(3):
        comm.sparse_allreduce([1], np.ones((1, 3000)), 10)
    assert_array_equal(kept, np.full((2, 1000), 3.0))
    kept += 1  # it is the program's
    assert_array_equal(kept, np.full((2, 1000), 4.0))


@pytest.mark.ranks(2)
def test_other_operations_are_of_the_ranks_that_have_the_row(comm):
    values = np.array([-1.0 - comm.rank, 5.0])
    result = comm.sparse_allreduce([3, comm.rank], values, 4, op="max")
    assert result.indices.tolist() == [0, 1, 3]
    assert result.values.tolist() == [5.0, 5.0, -1.0]
    last = tutti.op(lambda a, b: b, "last")
    result = comm.sparse_allreduce([3], np.array([float(comm.rank)]), 4, op=last)
    assert result.values.tolist() == [1.0]


@pytest.mark.ranks(1, 3)
def test_rows_go_to_owners_and_come_back(comm):
    first, end = tutti.sparse_range(ROWS, comm.size, comm.rank)
    indices, values = given(comm.rank, (4,), np.float32)
    pushed = comm.sparse_push(indices, values, ROWS)
    all_indices, all_rows = everybody(comm.size, (4,), np.float32)
    owned = (all_indices >= first) & (all_indices < end)
    assert_array_equal(pushed.indices, all_indices[owned])
    assert_array_equal(pushed.values, all_rows[owned])

    table = np.arange(first * 4, end * 4, dtype=np.float32).reshape(-1, 4)
    found = comm.sparse_pull(table, indices, ROWS)
    expected = np.arange(ROWS * 4, dtype=np.float32).reshape(-1, 4)[indices]
    assert_array_equal(found, expected)
    out = np.empty_like(expected)
    assert comm.sparse_pull(table, indices, ROWS, out=out) is out
    assert_array_equal(out, expected)


@pytest.mark.ranks(2)
def test_a_wrong_index_is_named_on_all_ranks(comm):
    index = 99 if comm.rank == 1 else 1
    kind = tutti.InvalidArgument if comm.rank == 1 else tutti.Mismatch
    with pytest.raises(kind, match=r"indices\[0\] is 99"):
        comm.sparse_allreduce([index], np.ones(1), 10)
    assert comm.failure is None
    assert comm.sparse_allreduce([1], np.ones(1), 10).values.tolist() == [2.0]


@pytest.mark.ranks(1)
def test_arguments_that_make_no_sense_are_refused(comm):
    with pytest.raises(tutti.InvalidArgument, match="a row for each of 2 indices"):
        comm.sparse_allreduce([1, 2], np.ones(3), 10)
    with pytest.raises(tutti.InvalidArgument, match="not whole numbers"):
        comm.sparse_allreduce([1.5], np.ones(1), 10)
    with pytest.raises(tutti.InvalidArgument, match="way is"):
        comm.sparse_allreduce([1], np.ones(1), 10, way="best")
    with pytest.raises(tutti.InvalidArgument, match="this rank owns the 10 rows"):
        comm.sparse_pull(np.ones((9, 2)), [1], 10)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("mistake", ["lengths", "indices", "way", "table"])
def test_others_learn_of_a_mistake_that_python_finds(comm, mistake):
    table = np.zeros(tutti.sparse_range(ROWS, comm.size, comm.rank)[1] - tutti.sparse_range(ROWS, comm.size, comm.rank)[0])

    def call(errs):
        if mistake == "table":
            comm.sparse_pull(table[1:] if errs else table, [1, 2], ROWS)
        else:
            indices = [1, 2, 3] if errs and mistake == "lengths" else [1.5, 2] if errs and mistake == "indices" else [1, 2]
            comm.sparse_allreduce(indices, np.ones(2), ROWS, way="none" if errs and mistake == "way" else "chosen")

    with pytest.raises(tutti.InvalidArgument if comm.rank == 1 else tutti.Error) as caught:
        call(errs=comm.rank == 1)
    if comm.rank != 1:
        assert caught.value.status == tutti.Status.MISMATCH and "rank 1" in str(caught.value)
    result = comm.sparse_allreduce([comm.rank], np.ones(1), ROWS)
    assert_array_equal(result.indices, range(comm.size))
