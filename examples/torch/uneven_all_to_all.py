"""A mixture of experts: every rank has one, and samples go to the expert that they ask for, however many those are."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_to_all_single

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="tutti")
arguments = parser.parse_args()

dist.init_process_group(arguments.backend)
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(1 + rank)
expert = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))
optimizer = torch.optim.SGD(expert.parameters(), lr=0.5)

torch.manual_seed(100 + rank)
for step in range(8):
    samples = torch.randn(40, 16)
    choice, order = (samples[:, 0].abs() * 2 % size).long().sort()
    there = torch.bincount(choice, minlength=size)
    here = torch.empty_like(there)
    dist.all_to_all_single(here, there)

    to_them, from_them = there.tolist(), here.tolist()
    came = torch.empty(sum(from_them), 16)
    came = all_to_all_single(came, samples[order], from_them, to_them)
    back = all_to_all_single(torch.empty(40, 16), expert(came), to_them, from_them)

    optimizer.zero_grad()
    loss = nn.functional.mse_loss(back, samples[order].sin())
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step} loss {mean.item() / size:.5f}")
dist.destroy_process_group()
