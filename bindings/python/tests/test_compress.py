"""Gradients that are averaged in fewer bytes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti

METHODS = [("powersgd", {"rank": 2}), ("topk", {"share": 0.05}), ("int8", {}), ("mxfp4", {}), ("none", {})]


def arrays():
    return {"kernel": np.zeros((8, 4, 3, 3), np.float32), "matrix": np.zeros((30, 40), np.float32), "bias": np.zeros(30, np.float32)}


def compute(gradients, step, rank):
    for index, array in enumerate(gradients.values()):
        array[...] = np.random.default_rng((step, rank, index)).standard_normal(array.shape)


def average(compressor, gradients, step, rank):
    compute(gradients, step, rank)
    for name in reversed(list(gradients)):
        compressor.ready(name)
    assert compressor.finish() == 0


@pytest.mark.ranks(3)
@pytest.mark.parametrize("method, options", METHODS)
def test_what_is_left_out_comes_later(comm, method, options):
    gradients = arrays()
    given, got = np.zeros((30, 40)), np.zeros((30, 40))
    with tutti.Compressor(comm, gradients, method, bucket_bytes=2000, **options) as compressor:
        for step in range(40):
            for rank in range(comm.size):
                compute(gradients, step % 4, rank)
                given += gradients["matrix"] / comm.size
            average(compressor, gradients, step % 4, comm.rank)
            got += gradients["matrix"]
            assert_array_equal(comm.broadcast(gradients["matrix"].copy(), root=0), gradients["matrix"])
        counters = compressor.counters
        assert counters.tensors == 3 and counters.steps == 40
        assert (counters.payload_bytes < counters.gradient_bytes / 2) == (method != "none")
        # The sum that waits does not grow with the steps.
        assert np.abs(given - got).max() < 15 < np.abs(given).max()
        if method == "none":
            assert np.abs(given - got).max() < 1e-4


@pytest.mark.ranks(2)
@pytest.mark.parametrize("method, options", METHODS)
def test_state_goes_on_in_another_compressor(comm, method, options):
    gradients, again = arrays(), arrays()
    first = tutti.Compressor(comm, gradients, method, **options)
    for step in range(3):
        average(first, gradients, step, comm.rank)
    kept = first.state_dict()
    average(first, gradients, 3, comm.rank)
    loaded = tutti.Compressor(comm, again, method, bucket_bytes=1, **options)
    loaded.load_state_dict(kept)
    average(loaded, again, 3, comm.rank)
    for name in gradients:
        assert_array_equal(gradients[name], again[name])
    taken = tutti.Compressor(comm, again, method, **options)
    taken.take(loaded)
    average(first, gradients, 4, comm.rank)
    average(taken, again, 4, comm.rank)
    for name in gradients:
        assert_array_equal(gradients[name], again[name])
    if method != "none":
        spoilt = {name: array.copy() for name, array in kept.items()}
        spoilt["matrix, residual"][7] = np.nan
        with pytest.raises(tutti.InvalidArgument, match="matrix, residual"):
            first.load_state_dict(spoilt)
        with pytest.raises(tutti.InvalidArgument, match="no 'matrix, residual'"):
            first.load_state_dict({name: a for name, a in kept.items() if name != "matrix, residual"})


MISTAKES = {
    "method": "method is",
    "dtype": "float32",
    "gradients": "items",
    "start": "start is",
    "rank": "rank",
}


@pytest.mark.ranks(3)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_others_learn_of_a_mistake_that_python_finds(comm, mistake):
    errs = comm.rank == 1
    gradients = arrays()
    if errs and mistake == "dtype":
        gradients["bias"] = np.zeros(30)
    options = {"start": "soon"} if errs and mistake == "start" else {"rank": -1} if errs and mistake == "rank" else {}
    with pytest.raises((tutti.Error, AttributeError)) as caught:
        tutti.Compressor(
            comm,
            None if errs and mistake == "gradients" else gradients,
            "zip" if errs and mistake == "method" else "powersgd",
            **options,
        )
    assert MISTAKES[mistake] in str(caught.value)
    if not errs:
        assert caught.value.status == tutti.Status.MISMATCH and "rank 1 failed: " in str(caught.value)
    tutti.Compressor(comm, gradients if mistake != "dtype" else arrays(), "powersgd").close()


@pytest.mark.ranks(2)
def test_a_state_that_one_rank_refuses_is_taken_by_none(comm):
    gradients = arrays()
    compressor = tutti.Compressor(comm, gradients, "int8")
    average(compressor, gradients, 0, comm.rank)
    kept = compressor.state_dict()
    average(compressor, gradients, 1, comm.rank)
    before = compressor.state_dict()
    if comm.rank == 1:
        del kept["matrix, residual"]
    with pytest.raises(tutti.Error) as caught:
        compressor.load_state_dict(kept)
    assert caught.value.status == (tutti.Status.INVALID_OPTIONS if comm.rank == 1 else tutti.Status.MISMATCH)
    assert ("rank 1 failed: the state has no 'matrix, residual'" in str(caught.value)) == (comm.rank == 0)
    for name, array in compressor.state_dict().items():
        assert_array_equal(array, before[name])
    average(compressor, gradients, 2, comm.rank)


@pytest.mark.ranks(2)
def test_state_of_another_method_is_refused(comm):
    int8 = tutti.Compressor(comm, arrays(), "int8")
    for method, options in [("int4", {}), ("int8", {"feedback": False}), ("topk", {})]:
        with tutti.Compressor(comm, arrays(), method, **options) as other:
            with pytest.raises(tutti.InvalidArgument, match='is of "int8" with feedback, .*' + method):
                other.load_state_dict({**other.state_dict(), **int8.state_dict()})


@pytest.mark.ranks(2)
def test_others_learn_that_there_is_nothing_to_take(comm):
    compressor, other = (tutti.Compressor(comm, arrays(), "topk") for _ in range(2))
    if comm.rank == 1:
        other.close()
    with pytest.raises(tutti.Error) as caught:
        compressor.take(other)
    assert caught.value.status == (tutti.Status.INVALID_OPTIONS if comm.rank == 1 else tutti.Status.MISMATCH)
    compressor.close()
    other.close()


@pytest.mark.ranks(2)
def test_wrong_use_is_refused(comm):
    with pytest.raises(tutti.InvalidArgument, match="float32"):
        tutti.Compressor(comm, {"a": np.zeros(3)}, "powersgd")
    with pytest.raises(tutti.InvalidArgument, match='"powersgd", "topk" or an encoding .*"mxfp4".*, not .zip'):
        tutti.Compressor(comm, arrays(), "zip")
    with pytest.raises(tutti.InvalidArgument, match="options.share"):
        tutti.Compressor(comm, arrays(), "topk", share=2)
    with pytest.raises(tutti.InvalidArgument, match="start"):
        tutti.Compressor(comm, arrays(), "topk", start="soon")
    compressor = tutti.Compressor(comm, arrays(), "none")
    with pytest.raises(tutti.InvalidArgument, match="no gradient 'x'"):
        compressor.ready("x")
    compressor.close()
    compressor.close()
    with pytest.raises(tutti.InvalidArgument, match="closed"):
        compressor.finish()


@pytest.mark.ranks(2)
def test_a_communicator_closes_before_its_compressor(comm):
    own = comm.dup()
    compressor = tutti.Compressor(own, arrays(), "powersgd")
    compressor.ready("matrix")
    compressor.finish()
    own.close()
    with pytest.raises(tutti.InvalidArgument):
        compressor.finish()
    compressor.close()
