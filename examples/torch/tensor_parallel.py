"""Tensor parallelism with DTensor: the first matrix is cut by columns, the second by rows, sequences in between by ranks."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="tutti")
arguments = parser.parse_args()

dist.init_process_group(arguments.backend)
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(24, 48 * size), nn.ReLU(), nn.Linear(48 * size, 24))
plan = {
    "0": ColwiseParallel(input_layouts=Shard(0)),
    "2": RowwiseParallel(output_layouts=Shard(0)),
}
parallelize_module(model, mesh, plan)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

torch.manual_seed(100 + rank)
for step in range(8):
    samples = torch.randn(8, 24)  # this rank's part of the batch
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(samples), samples.cos())
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step} loss {mean.item() / size:.5f}")
dist.destroy_process_group()
