"""FSDP2: parameters, gradients and the optimizer's state are cut among the ranks, and come together layer by layer.

With --replicas N they are cut among the ranks of each of N replicas (HSDP)."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="tutti")
parser.add_argument("--replicas", type=int, default=1)
arguments = parser.parse_args()

dist.init_process_group(arguments.backend)
rank, size = dist.get_rank(), dist.get_world_size()
if arguments.replicas == 1:
    mesh = init_device_mesh("cpu", (size,))
else:
    mesh = init_device_mesh("cpu", (arguments.replicas, size // arguments.replicas), mesh_dim_names=("replica", "shard"))

torch.manual_seed(1)
model = nn.Sequential(*[nn.Sequential(nn.Linear(30, 30), nn.Tanh()) for _ in range(3)])
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

torch.manual_seed(100 + rank)
for step in range(8):
    samples = torch.randn(16, 30)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(samples), samples.roll(1, 1))
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step} loss {mean.item() / size:.5f}")
dist.destroy_process_group()
