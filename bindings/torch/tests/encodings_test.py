"""A group with an encoding sends DDP's and FSDP's tensors in fewer bytes, and ranks stay alike: tutti-run -n 2 python3
encodings_test.py

Needs 2 ranks. All links are encoded, also those within a host, so that a test sees it.
"""

import datetime
import faulthandler
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti_torch

faulthandler.dump_traceback_later(280, exit=True)
warnings.simplefilter("ignore")
tutti_torch.register()
torch.set_num_threads(1)
LIMIT = datetime.timedelta(seconds=100)
FINE = 1 + 2.0**-20  # bfloat16 has no such number


def fine(count):
    return torch.full((count,), FINE)


def expect_all(tensor, wanted, call):
    assert torch.equal(tensor, torch.full_like(tensor, wanted)), f"{call}: {tensor[:4].tolist()}, not {wanted}"


def operations_of_training_are_encoded(group, size):
    tensor = fine(1000)
    dist.all_reduce(tensor, group=group)
    expect_all(tensor, float(size), "all_reduce")
    whole = torch.empty(1000 * size)
    dist.all_gather_into_tensor(whole, fine(1000), group=group)
    expect_all(whole, 1.0, "all_gather_into_tensor")
    parts = [torch.empty(300) for _ in range(size)]
    dist.all_gather(parts, fine(300), group=group)
    for part in parts:
        expect_all(part, 1.0, "all_gather")
    # An owner adds its own part as it is.
    block = torch.empty(500)
    dist.reduce_scatter_tensor(block, fine(500 * size), group=group)
    expect_all(block, FINE + (size - 1), "reduce_scatter_tensor")


def others_go_as_they_are(group, size):
    tensor = fine(1000)
    dist.broadcast(tensor, 0, group=group)
    expect_all(tensor, FINE, "broadcast")
    number = torch.tensor([1 + 2.0**-40], dtype=torch.float64)
    dist.all_reduce(number, group=group)
    expect_all(number, size * (1 + 2.0**-40), "all_reduce of float64")
    largest = fine(10)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    expect_all(largest, FINE, "all_reduce with MAX")


def messages_are_encoded(group, size):
    """By a rule for "send": the receiver gets rounded values, and the sender keeps its own."""
    rank = dist.get_rank()
    sent, received = torch.full((5000,), FINE), torch.zeros(5000)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, sent, (rank + 1) % size, group),
            dist.P2POp(dist.irecv, received, (rank - 1) % size, group),
        ]
    )
    for work in works:
        work.wait()
    expect_all(sent, FINE, "a tensor that was sent")
    expect_all(received, 1.0, "a tensor that was received")


def exchanges_are_encoded(group, size):
    """By a rule for "alltoall": blocks of any number of rows, as tokens go to experts."""
    rank = dist.get_rank()
    sent = torch.full((sum(range(1, size + 1)), 30), FINE)
    received = torch.empty((size * (rank + 1), 30))
    dist.all_to_all_single(received, sent, [rank + 1] * size, list(range(1, size + 1)), group=group)
    expect_all(received, 1.0, "all_to_all_single")
    expect_all(sent, FINE, "what was sent")
    numbers, others = torch.arange(size * 3), torch.empty(size * 3, dtype=torch.int64)
    dist.all_to_all_single(others, numbers, group=group)
    assert torch.equal(others, torch.arange(rank * 3, rank * 3 + 3).repeat(size)), "integers were not moved"


def alike(tensor, size):
    others = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(others, tensor)
    return all(torch.equal(other, tensor) for other in others)


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))


def train(parallel, steps=8):
    torch.manual_seed(100 + dist.get_rank())
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        samples = torch.randn(16, 64)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(parallel(samples), samples[:, :32].sin())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def flat(parallel):
    return torch.cat([parameter.detach().reshape(-1) for parameter in parallel.parameters()]).clone()


def data_parallel(encoded, plain, size):
    mine, exact = (DistributedDataParallel(model(), process_group=group) for group in (encoded, plain))
    losses, expected = train(mine), train(exact)
    assert alike(flat(mine), size), "replicas differ"
    assert not torch.equal(flat(mine), flat(exact)), "nothing was encoded"
    for loss, wanted in zip(losses, expected):
        assert abs(loss - wanted) <= 0.01 * wanted, f"losses {losses}, not {expected}"


def fully_sharded(encoded, plain, size):
    try:
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        return
    results = []
    for group in (encoded, plain):
        sharded = model()
        fully_shard(sharded, mesh=DeviceMesh.from_group(group, "cpu"))
        results.append(train(sharded))
    losses, expected = results
    assert losses != expected, "nothing was encoded"
    for loss, wanted in zip(losses, expected):
        assert abs(loss - wanted) <= 0.02 * wanted, f"losses {losses}, not {expected}"


def wrong_options_are_refused():
    for wrong, error, said in (
        ({"encoding": "a", "encodings": "b"}, ValueError, "not both"),
        ({"encoding": 1}, TypeError, "is int"),
        ({"encoding": "bfloat17/hosts"}, ValueError, "'bfloat17/hosts'; there are none, float16"),
        ({"encoding": "bfloat16/host"}, ValueError, "'bfloat16/host'; behind the name may stand /hosts"),
    ):
        try:
            tutti_torch.Options(**wrong)
        except error as refusal:
            assert said in str(refusal), refusal
            continue
        raise AssertionError(f"Options({wrong}) was taken")
    try:
        dist.new_group(backend="tutti", pg_options="bfloat16")
    except TypeError as error:
        assert "tutti_torch.Options" in str(error)
    else:
        raise AssertionError("a str was taken for options")


dist.init_process_group("tutti", timeout=LIMIT)
if "extended_api" not in dist.Backend.register_backend.__code__.co_varnames:
    print("this PyTorch hands no options to its backends")
    sys.exit(0)
SIZE = dist.get_world_size()
options = tutti_torch.Options(encoding="bfloat16/everywhere/required")
group = dist.new_group(backend="tutti", pg_options=options, timeout=LIMIT)
operations_of_training_are_encoded(group, SIZE)
others_go_as_they_are(group, SIZE)
data_parallel(group, dist.group.WORLD, SIZE)
fully_sharded(group, dist.group.WORLD, SIZE)
units = tutti_torch.Options(encodings="allgather=int8/everywhere/required;allreduce=int8/everywhere/required")
rules = tutti_torch.Options(encodings="send=bfloat16/everywhere/required")
messages_are_encoded(dist.new_group(backend="tutti", pg_options=rules, timeout=LIMIT), SIZE)
experts = tutti_torch.Options(encodings="alltoall=bfloat16/everywhere/required")
exchanges_are_encoded(dist.new_group(backend="tutti", pg_options=experts, timeout=LIMIT), SIZE)
data_parallel(dist.new_group(backend="tutti", pg_options=units, timeout=LIMIT), dist.group.WORLD, SIZE)
wrong_options_are_refused()
dist.destroy_process_group()
