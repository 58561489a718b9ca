"""Local steps with synchronisations in between."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti

FIXTURES = [
    (0, 0.0, [-11, -35, -59], [-23, -47]),
    (0, 0.5, [-8, -24.5, -40.25], [-17, -32]),
]


@pytest.mark.ranks(2)
@pytest.mark.parametrize("delay, mixing, first, second", FIXTURES)
def test_streaming_diloco_has_its_published_numbers(comm, delay, mixing, first, second):
    weights = {"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)}
    local = tutti.Local(
        comm, weights, fragments={"a": 0, "b": 1}, every=6, delay=delay, mixing=mixing, rate=2, momentum=0
    )
    got = {0: [], 1: []}
    for step in range(1, 16):
        for array in weights.values():
            array -= 2
        result = local.step()
        assert result.dropped == 0
        assert result.fragment == {3: 0, 0: 1}.get(step % 6)
        if result.fragment is not None:
            got[result.fragment].append(weights["ab"[result.fragment]][0])
    assert got == {0: first, 1: second}
    assert local.counters.synchronisations == 5 and local.counters.steps == 15
    local.close()


def model():
    return {"matrix": np.arange(12, dtype=np.float32).reshape(3, 4), "bias": np.zeros(5, np.float32)}


def train(local, weights, steps, rank):
    for step in steps:
        for index, array in enumerate(weights.values()):
            array -= 0.1 * np.random.default_rng((step, rank, index)).standard_normal(array.shape).astype(np.float32)
        local.step()


@pytest.mark.ranks(3)
def test_state_goes_on(comm):
    weights, again = model(), model()
    options = {"every": 4, "encoding": "bfloat16/everywhere/required"}
    with tutti.Local(comm, weights, **options) as local:
        train(local, weights, range(6), comm.rank)
        assert local.values("matrix").shape == (3, 4)
        assert_array_equal(comm.broadcast(local.values("matrix"), root=0), local.values("matrix"))
        local.synchronise()
        for array in weights.values():
            assert_array_equal(comm.broadcast(array.copy(), root=0), array)
        kept = local.state_dict()
        loaded = tutti.Local(comm, again, **options)
        with pytest.raises(tutti.InvalidArgument, match="no 'bias, momentum'"):
            loaded.load_state_dict({name: a for name, a in kept.items() if name != "bias, momentum"})
        loaded.load_state_dict(kept)
        train(local, weights, range(6, 11), comm.rank)
        train(loaded, again, range(6, 11), comm.rank)
        for name in weights:
            assert_array_equal(weights[name], again[name])
        loaded.close()
        taken = tutti.Local(comm, weights, **options)
        taken.take(local)
        taken.change(every=1, rate=1, momentum=0)
        train(taken, weights, range(11, 12), comm.rank)
        for array in weights.values():
            assert_array_equal(comm.broadcast(array.copy(), root=0), array)
        with pytest.raises(tutti.InvalidArgument, match="given away"):
            local.step()
        taken.close()


@pytest.mark.ranks(2)
def test_wrong_use_is_refused(comm):
    with pytest.raises(tutti.InvalidArgument, match="float32"):
        tutti.Local(comm, {"a": np.zeros(3)})
    with pytest.raises(tutti.InvalidArgument, match="fragments"):
        tutti.Local(comm, model(), fragments={"matrix": 0})
    with pytest.raises(tutti.InvalidArgument, match="options.mixing"):
        tutti.Local(comm, model(), mixing=2)
    local = tutti.Local(comm, {"a": np.full(3, comm.rank, np.float32)})
    with pytest.raises(tutti.InvalidArgument, match="no tensor 'x'"):
        local.values("x")
    with pytest.raises(tutti.Mismatch, match="first values of tensor 'a'"):
        local.step()
    local.close()
    with pytest.raises(tutti.InvalidArgument, match="closed"):
        local.step()
