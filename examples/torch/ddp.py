"""DistributedDataParallel, also with gradients that travel as bfloat16 (--hook bf16, with the backend tutti)."""

import argparse

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="tutti")
parser.add_argument("--hook", choices=("fp16", "bf16"))
arguments = parser.parse_args()

dist.init_process_group(arguments.backend)
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
parallel = nn.parallel.DistributedDataParallel(model)
if arguments.hook:
    import tutti_torch.hooks

    parallel.register_comm_hook(None, getattr(tutti_torch.hooks, arguments.hook))
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)

torch.manual_seed(100 + rank)  # every rank has samples of its own
for step in range(8):
    samples = torch.randn(16, 32)
    wanted = samples.sin().sum(1, keepdim=True)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(parallel(samples), wanted)
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step} loss {mean.item() / size:.5f}")
dist.destroy_process_group()
