"""Arguments that do not fit what the library takes are refused, not cut to fit."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti


def refused(status, call, *arguments, **how):
    with pytest.raises(tutti.InvalidArgument) as caught:
        call(*arguments, **how)
    assert caught.value.status == status
    return str(caught.value)


@pytest.mark.ranks(2)
def test_numbers_that_do_not_fit_are_refused(comm):
    status = tutti.Status
    a = np.ones(2)
    for call in (comm.send, comm.send_start, comm.send_prepare, comm.recv, comm.recv_start):
        assert str(2**33 + 1) in refused(status.INVALID_RANK, call, a, 2**33 + 1, tag=9)
        assert str(2**32 + 9) in refused(status.INVALID_TAG, call, a, 1, tag=2**32 + 9)
        refused(status.INVALID_RANK, call, a, -(2**32) + 1)
    refused(status.INVALID_RANK, comm.split, 2**32)
    refused(status.INVALID_RANK, comm.split, 0, 2**31)
    refused(status.INVALID_RANK, comm.group, [0, 2**32 + 1])
    refused(status.INVALID_OPTIONS, comm.allreduce, a, priority=2**32)
    refused(status.INVALID_RANK, comm.mesh, dp=2**32 + 2)
    refused(status.INVALID_OPTIONS, comm.agree, 2**64)
    refused(status.INVALID_OPTIONS, comm.agree, -1)
    refused(status.INVALID_RANK, tutti.Communicator, 2**32, 2)
    refused(status.INVALID_RANK, tutti.Communicator, 0, 2**32 + 1)
    refused(status.INVALID_COUNT, tutti.empty, 2**62)
    assert_array_equal(comm.allreduce(a), [2, 2])


@pytest.mark.ranks(2)
def test_only_whole_numbers_are_ranks(comm):
    with pytest.raises(TypeError):
        comm.send(np.ones(2), 1.0)
    if comm.rank == 0:
        comm.send(np.ones(2), np.int64(1), tag=np.uint8(7))
    else:
        assert comm.recv(np.zeros(2), tag=np.int32(7)).source == 0


@pytest.mark.ranks(1)
def test_texts_with_a_nul_are_refused(comm):
    status = tutti.Status.INVALID_OPTIONS
    a = np.ones(2)
    assert "NUL" in refused(status, comm.allreduce, a, algorithm="ring\0x")
    refused(status, comm.dup, algorithms="allreduce=ring\0")
    refused(status, comm.abort, "rea\0son")
    refused(status, comm.mesh, {"d\0p": 1})
    refused(status, tutti.scaled_sum, 2.0, name="a\0b")
    refused(status, tutti.op, np.add, name="a\0b")
    assert comm.failure is None


@pytest.mark.ranks(2)
def test_timeouts(comm):
    a = np.ones(2)
    for good in (math.inf, 1e300, 1e9, 60):
        assert_array_equal(comm.allreduce(a, timeout=good), [2, 2])
        comm.dup(timeout=good, init_timeout=good).close()
    for bad in (0, -1, -math.inf, math.nan):
        refused(tutti.Status.INVALID_OPTIONS, comm.allreduce, a, timeout=bad)
        refused(tutti.Status.INVALID_OPTIONS, comm.dup, timeout=bad)
