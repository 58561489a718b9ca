"""Training that adapts itself."""

import math

import pytest

import tutti


def test_noise_scale():
    noise = tutti.Noise()
    assert noise.scale == 0
    noise.add(2, 10, 8, 5.5)
    assert math.isclose(noise.scale, 3)
    with pytest.raises(tutti.InvalidArgument, match="a small one and a larger one"):
        noise.add(8, 1, 2, 1)


@pytest.mark.ranks(3)
def test_the_shipped_policies_decide(comm):
    policies = [tutti.BatchByNoise(batch_max=128), tutti.BoundedWhenSlow(synchrony="local", every=10, calls=2)]
    with tutti.Adapt(comm, policies, batch=64, rate=0.1) as adapt:
        changes = {}
        for call in range(1, 7):
            slow = comm.rank == 1 and call >= 4
            decision = adapt.observe(
                step_s=0.3 if slow else 0.1,
                small_batch=16,
                small_squared=1 + 200 / 16,
                large_batch=48,
                large_squared=1 + 200 / 48,
            )
            assert decision.call == call
            if decision.changed:
                changes[call] = decision.reason
        assert list(changes) == [3, 5]
        assert changes[3].startswith("batch by noise: batch 64 -> 128, learning rate 0.1 -> 0.2: the noise scale")
        assert "synchrony full -> every 10 steps: rank 1 needs 0.3 s" in changes[5]
        assert adapt.settings == tutti.AdaptSettings(128, 0.2, "local", 10, 4)
        assert math.isclose(adapt.noise_scale, 200)


@pytest.mark.ranks(2)
def test_a_policy_is_a_function(comm):
    def encode_on_slow_links(view):
        assert view.settings.batch == 8 and len(view.ranks) == 2
        if all(rank.link_s > 0 for rank in view.ranks) and not view.settings.encoding:
            return view.settings._replace(encoding="bfloat16/hosts"), f"call {view.call}"
        return None

    adapt = tutti.Adapt(comm, [encode_on_slow_links], batch=8, rate=1, probe_bytes=1000)
    assert adapt.observe() == (1, 0, "")
    decision = adapt.observe()
    assert decision.reason == "encode_on_slow_links: encoding none -> bfloat16/hosts: call 2"
    assert adapt.settings.encoding == "bfloat16/hosts"
    assert adapt.observe().changed == 0
    adapt.close()


@pytest.mark.ranks(2)
def test_what_goes_wrong_in_a_policy_is_told_to_all(comm):
    def fails(view):
        if view.call == 1 and comm.rank == 1 and not done:
            done.append(1)
            raise KeyError("no such thing")
        return None

    def differs(view):
        return view.settings._replace(batch=view.settings.batch + (comm.rank if view.call == 2 else 0)), "by rank"

    done = []
    with tutti.Adapt(comm, [fails, differs], batch=8, rate=1) as adapt:
        with pytest.raises(KeyError if comm.rank == 1 else tutti.Mismatch):
            adapt.observe()
        assert adapt.observe().call == 1
        with pytest.raises(tutti.Mismatch, match="rank 1 has 'batch: 9'"):
            adapt.observe()
        assert adapt.settings.batch == 8
    with tutti.Adapt(comm, [lambda view: 3], batch=8, rate=1) as adapt:
        with pytest.raises(TypeError, match="a policy returns .settings, reason. or None, not 3"):
            adapt.observe()
    with pytest.raises(tutti.InvalidArgument, match="closed"):
        adapt.observe()
    with pytest.raises(tutti.InvalidArgument, match="synchrony"):
        tutti.BoundedWhenSlow(synchrony="some")
