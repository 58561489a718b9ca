"""Local training of a module: tutti-run -n 2 python3 local_test.py."""

import faulthandler

import torch
import torch.distributed as dist
from torch import nn

import tutti_torch
import tutti_torch.local

faulthandler.dump_traceback_later(120, exit=True)
tutti_torch.register()
torch.set_num_threads(1)
dist.init_process_group("tutti")
rank = dist.get_rank()


def make(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 5), nn.Linear(5, 1))
    return model.to(memory_format=torch.channels_last)


def train(model, local, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in steps:
        samples = torch.randn(8, 2, 4, 4, generator=torch.Generator().manual_seed(10 * step + rank))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(samples), samples.mean((1, 2, 3), keepdim=False).unsqueeze(1)).backward()
        optimizer.step()
        local.step()


def is_same(tensors):
    """Whether all ranks have these bits; the same answer on all of them."""
    differing = torch.zeros(1)
    for tensor in tensors:
        first = tensor.detach().clone().contiguous()
        dist.broadcast(first, 0)
        differing += not torch.equal(first, tensor.detach().contiguous())
    dist.all_reduce(differing)
    return differing.item() == 0


# Ranks begin with the first rank's parameters, and have the same after a synchronisation.
model = make(rank)
options = {"fragments": 3, "every": 6, "delay": 1, "mixing": 0.5}
local = tutti_torch.local.Local(model, **options)
assert is_same(model.parameters())
train(model, local, range(13))
assert not is_same(model.parameters())
assert is_same(local.values().values())
assert local.counters.synchronisations == 6
local.synchronise()
assert is_same(model.parameters())
for name, value in local.values().items():
    assert torch.equal(value, dict(model.named_parameters())[name])

# A state goes on in another module.
again = make(9)
other = tutti_torch.local.Local(again, **options)
other.load_state_dict(local.state_dict())
train(model, local, range(20, 30))
train(again, other, range(20, 30))
for one, two in zip(model.parameters(), again.parameters()):
    assert torch.equal(one, two)

# Local SGD averages parameters.
local.synchronise()
local.change(every=1, rate=1, momentum=0)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.fill_(rank)
local.step()
for parameter in model.parameters():
    assert torch.allclose(parameter, torch.full_like(parameter, (dist.get_world_size() - 1) / 2))

assert tutti_torch.local._cut([1, 1, 1], 3) == [0, 1, 2]
assert tutti_torch.local._cut([100, 1, 1], 3) == [0, 1, 2]
assert tutti_torch.local._cut([1, 1, 100], 3) == [0, 1, 2]
assert tutti_torch.local._cut([10, 10, 10, 10], 2) == [0, 0, 1, 1]
for wrong in (nn.Linear(2, 2).double(), nn.ReLU()):
    try:
        tutti_torch.local.Local(wrong)
    except (TypeError, ValueError):
        continue
    raise AssertionError("a module that cannot be trained was not refused")
local.close()
other.close()
dist.destroy_process_group()
print(f"rank {rank}: good")
