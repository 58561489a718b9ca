"""Pipeline parallelism: every rank has a layer, and microbatches go from one to the next and back."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="tutti")
arguments = parser.parse_args()

dist.init_process_group(arguments.backend)
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(1 + rank)
layer = nn.Sequential(nn.Linear(20, 20), nn.Tanh())
stage = PipelineStage(layer, rank, size, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)

torch.manual_seed(100)
for step in range(8):
    samples = torch.randn(16, 20)
    optimizer.zero_grad()
    losses = []
    if rank == 0:
        schedule.step(samples)
    elif rank == size - 1:
        schedule.step(target=samples.roll(1, 1).tanh(), losses=losses)
    else:
        schedule.step()
    optimizer.step()
    if rank == size - 1:
        print(f"step {step} loss {torch.stack(losses).mean().item():.5f}")
dist.destroy_process_group()
