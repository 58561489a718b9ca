"""ZeroRedundancyOptimizer: every rank keeps the optimizer's state of a part of the parameters."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="tutti")
arguments = parser.parse_args()

dist.init_process_group(arguments.backend)
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(1)
model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(48, 48), nn.Tanh())])
parallel = nn.parallel.DistributedDataParallel(model)
optimizer = ZeroRedundancyOptimizer(parallel.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)

torch.manual_seed(100 + rank)
for step in range(8):
    samples = torch.randn(16, 48)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(parallel(samples), samples.roll(1, 1))
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step} loss {mean.item() / size:.5f}")
dist.destroy_process_group()
