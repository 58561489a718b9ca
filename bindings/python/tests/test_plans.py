"""Plans that Python writes, and what is wrong with them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti


def swap(operands=("scratch[0] + from 1", "from 0 + scratch[0]")):
    plan = tutti.Plan("allreduce", ranks=2)
    for rank in range(2):
        plan.scratch(rank, like=0)
        plan.step(rank, f"in[0] -> scratch[0], to {1 - rank}")
        plan.step(rank, f"{operands[rank]} -> out[0]  final")
    return plan


def test_a_plan_is_written_and_read_back(tmp_path):
    plan = swap()
    plan.verify()
    again = tutti.Plan.parse(str(plan))
    again.verify()
    assert str(again) == str(plan)
    assert str(plan).startswith("plan allreduce ranks 2 parts 1\n")
    path = tmp_path / "swap.plan"
    path.write_text(str(plan))
    path.chmod(0o600)
    assert str(tutti.Plan.load(path)) == str(plan)
    path.chmod(0o666)
    with pytest.raises(tutti.InvalidArgument, match="other users can write it"):
        tutti.Plan.load(path)


def test_wrong_plans_are_refused_with_their_step():
    with pytest.raises(tutti.InvalidArgument, match=r"rank 1 lane 0 step 1 \(copy\)"):
        swap(("scratch[0] + from 1", "scratch[0]")).verify()
    plan = tutti.Plan("barrier", 2)
    plan.step(0, "in[] -> nowhere", lane=0)
    with pytest.raises(tutti.InvalidArgument, match="rank 0 lane 0 step 0 cannot be read"):
        plan.verify()
    with pytest.raises(tutti.InvalidArgument, match="line 1"):
        tutti.Plan.parse("nothing")
    with pytest.raises(tutti.InvalidArgument, match="allreduced"):
        tutti.Plan("allreduced", 2)
    with pytest.raises(tutti.InvalidArgument):
        tutti.Plan("allreduce", 1)
    with pytest.raises(tutti.InvalidArgument):
        tutti.Plan("allreduce", 2).step(0, "in[0] -> to 1", lane=-1)


@pytest.mark.ranks(2)
def test_a_registered_plan_runs(comm):
    plan = swap()
    assert 0 < plan.cost(comm, 1000) < plan.cost(comm, 10**7) < 10
    plan.register(comm, "swap")
    mine = np.arange(100, dtype=np.float32) + comm.rank
    assert_array_equal(comm.allreduce(mine, algorithm="swap"), 2 * np.arange(100) + 1)
    with pytest.raises(tutti.InvalidArgument, match="already"):
        plan.register(comm, "swap")
    with pytest.raises(tutti.Mismatch, match="different names"):
        plan.register(comm, f"swap-{comm.rank}")
    comm.barrier()


@pytest.mark.ranks(3)
def test_a_plan_for_other_ranks_is_not_registered(comm):
    with pytest.raises(tutti.InvalidArgument, match="for 2 ranks, and there are 3"):
        swap().register(comm, "swap")
    comm.barrier()
