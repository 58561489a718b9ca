"""DiLoCo: every rank trains with AdamW alone, and ranks synchronise every few steps; tutti-run -n 2 python3 diloco.py."""

import argparse

import torch
import torch.distributed as dist
from torch import nn

import tutti_torch.local

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--every", type=int, default=10)
parser.add_argument("--fragments", type=int, default=2)
parser.add_argument("--delay", type=int, default=1)
parser.add_argument("--mixing", type=float, default=0.5)
arguments = parser.parse_args()

dist.init_process_group("tutti")
rank = dist.get_rank()

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
local = tutti_torch.local.Local(
    model, fragments=arguments.fragments, every=arguments.every, delay=arguments.delay, mixing=arguments.mixing, rate=0.4
)


def samples_of(generator, count):
    samples = torch.randn(count, 16, generator=generator)
    return samples, samples[:, :8].sin().sum(1, keepdim=True) - samples[:, 8:].square().mean(1, keepdim=True)


mine = torch.Generator().manual_seed(100 + rank)
held_out = samples_of(torch.Generator().manual_seed(7), 500)
for step in range(arguments.steps):
    samples, wanted = samples_of(mine, 32)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(samples), wanted).backward()
    optimizer.step()
    local.step()
local.synchronise()

with torch.no_grad():
    loss = nn.functional.mse_loss(model(held_out[0]), held_out[1]).item()
counters = local.counters
print(f"rank {rank}: loss {loss:.6f}, {counters.synchronisations} synchronisations, {counters.sent_bytes} bytes")
local.close()
dist.destroy_process_group()
