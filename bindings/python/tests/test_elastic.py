"""Loops that go on when ranks die, in Python; tests/train/elastic_test.c has the deaths at every moment."""

import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti
from tutti import elastic

STEPS, SAMPLES, BATCH = 20, 30, 7


def step_gradients(weights, step):
    numbers = step.samples.astype(np.float64)
    return np.array([((weights[i] - numbers * (i + 1) / SAMPLES) / step.batch_count).sum() for i in range(3)])


def train(loop, weights, seen, dies_at=None):
    for step in loop:
        gradients = step_gradients(weights, step)
        if step.number == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        loop.allreduce(gradients)
        if loop.should_commit():
            weights -= 0.1 * gradients
            seen.append((step.number, step.epoch, step.samples.tolist()))
        else:
            assert isinstance(loop.failure, tutti.RankFailed)


def alone():
    """The weights that one rank computes."""
    weights, order = np.zeros(3), np.arange(SAMPLES)
    position = 0
    for _ in range(STEPS):
        batch = order[position : position + BATCH]
        weights -= 0.1 * np.array([((weights[i] - batch * (i + 1) / SAMPLES) / len(batch)).sum() for i in range(3)])
        position = (position + BATCH) % SAMPLES if position + BATCH < SAMPLES else 0
    return weights


@pytest.mark.ranks(1, 3)
def test_a_loop_without_faults_takes_each_sample_once(comm, tmp_path):
    weights, seen = np.zeros(3) if comm.rank == 0 else np.full(3, 9.0), []
    identity = comm.broadcast(np.frombuffer(tutti.create_id(), np.uint8).copy(), root=0).tobytes()
    with elastic.Loop(
        {"weights": weights}, steps=STEPS, batch=BATCH, samples=SAMPLES, rank=comm.rank, size=comm.size, id=identity
    ) as loop:
        train(loop, weights, seen)
        counters = loop.counters
        assert (counters.steps, counters.failures, counters.teams) == (STEPS, 0, 1)
        assert "ETTR" in loop.report()
    np.testing.assert_allclose(weights, alone(), rtol=1e-12)
    mine = np.zeros(SAMPLES, np.int64)
    for _, epoch, samples in seen:
        if epoch == 0:
            mine[samples] += 1
    assert_array_equal(comm.allreduce(mine), np.ones(SAMPLES))


@pytest.mark.ranks(3, dies=1)
def test_the_loop_goes_on_with_fewer_ranks(comm):
    weights, seen = np.zeros(3), []
    identity = comm.broadcast(np.frombuffer(tutti.create_id(), np.uint8).copy(), root=0).tobytes()
    loop = elastic.Loop(
        {"weights": weights}, steps=STEPS, batch=BATCH, samples=SAMPLES, rank=comm.rank, size=comm.size, id=identity,
        replace_wait=None,
    )
    train(loop, weights, seen, dies_at=5 if comm.rank == 1 else None)
    assert loop.comm.size == 2 and loop.counters.failures == 1
    loop.close()
    np.testing.assert_allclose(weights, alone(), rtol=1e-12)


@pytest.mark.ranks(4, dies=0)
def test_another_process_takes_the_place_with_the_shards_of_the_partner(comm, tmp_path):
    weights, seen = np.zeros(3), []
    loop = elastic.Loop(
        {"weights": weights}, shards={"half": (np.float32, 11)}, update="before", partner=True, steps=STEPS,
        batch=BATCH, samples=SAMPLES, deterministic=True, store=tutti.FolderStore(tmp_path),
        joins=comm.rank == 3, rank=comm.rank if comm.rank < 3 else None, size=3 if comm.rank < 3 else None,
    )
    if comm.rank == 3:
        assert loop.comm.rank == 0 and loop.comm.size == 3
    for step in loop:
        first, part = loop.shard("half")
        if step.number == 0 and step.attempt == 1:
            assert_array_equal(part, np.zeros(len(part)))
        assert_array_equal(part, np.full(len(part), step.number))
        part += 1
        gradients = step_gradients(weights, step)
        loop.allreduce(gradients)
        weights -= 0.1 * gradients
        if comm.rank == 0 and step.number == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        loop.should_commit()
    assert loop.counters.replaced == 1
    loop.close()
    np.testing.assert_allclose(weights, alone(), rtol=1e-12)


def test_mistakes_are_named():
    with pytest.raises(tutti.InvalidArgument, match="before"):
        elastic.Loop({"w": np.zeros(3)}, update="later")
    with pytest.raises(tutti.InvalidArgument, match="partner"):
        elastic.Loop({"w": np.zeros(3)}, partner=True, rank=0, size=1)
    with pytest.raises(TypeError, match="unknown"):
        elastic.Loop({"w": np.zeros(3)}, unknown=1)
    with pytest.raises(tutti.InvalidArgument, match="no threshold"):
        elastic.Loop({"w": np.zeros(3)}, exclude={"patience": 1}, rank=0, size=1)
    with elastic.Loop({"w": np.zeros(3)}, rank=0, size=1, steps=1, exclude={"window": 2.0, "late_windows": 3}) as loop:
        with pytest.raises(tutti.InvalidArgument, match="no step"):
            loop.should_commit()
        with pytest.raises(tutti.InvalidArgument, match="no sharded"):
            loop.shard("w")
        assert loop.begin().samples.tolist() == [0]
        assert loop.should_commit() and loop.begin() is None
    with pytest.raises(tutti.InvalidArgument, match="closed"):
        loop.begin()


def test_models_have_the_published_numbers():
    assert elastic.young(write=60, mttf=3 * 3600) == pytest.approx(1138.4, abs=0.05)
    assert elastic.daly(write=60, mttf=3 * 3600) == pytest.approx(1098.8, abs=0.05)
    rate = 6.5e-3 / 86400
    assert elastic.mttf(failure_rate=rate, nodes=2048) == pytest.approx(1.803 * 3600, rel=1e-3)
    assert elastic.ettr(nodes=2048, failure_rate=rate, restart=300, write=20, interval=3600) == pytest.approx(
        0.6727, abs=5e-5
    )
