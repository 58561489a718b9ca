"""FSDP2 within replicas, and replicas that come and go: a loop that goes on when ranks die.

    tutti-run -n 4 --elastic 2 python3 hybrid.py [--steps 40] [--fault STEP:RANK]... [--replace-wait 30]

Four ranks are two replicas, of two shards each. A fault: the process that is this rank at first kills itself in this step. Ranks get other
numbers when the team changes.
"""

import argparse
import os
import signal

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

import tutti_torch.hybrid

parser = argparse.ArgumentParser()
parser.add_argument("--shards", type=int, default=2)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--fault", action="append", default=[])
parser.add_argument("--replace-wait", type=float, default=30)
arguments = parser.parse_args()
faults = [tuple(map(int, fault.split(":"))) for fault in arguments.fault]
first_rank = int(os.environ["RANK"]) if os.environ.get("TUTTI_ELASTIC_JOIN", "0") == "0" else -1

torch.manual_seed(1)
torch.set_num_threads(1)
data = torch.randn(3000, 31)
wanted = data.sin().sum(1, keepdim=True)

loop = tutti_torch.hybrid.Loop(
    arguments.shards,
    steps=arguments.steps,
    batch=96,
    samples=len(data),
    seed=1,
    deterministic=True,
    replace_wait=arguments.replace_wait,
    grow_every=0.5,
)
model = nn.Sequential(nn.Linear(31, 63), nn.Tanh(), nn.Linear(63, 63), nn.Tanh(), nn.Linear(63, 1))
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=loop.mesh)
fully_shard(model, mesh=loop.mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loop.attach(model, optimizer)

for step in loop:
    samples = torch.from_numpy(step.samples)
    optimizer.zero_grad()
    loss = (model(data[samples]) - wanted[samples]).square().sum() / step.batch_count  # a part of the mean
    if (step.number, first_rank) in faults:
        os.kill(os.getpid(), signal.SIGKILL)
    loss.backward()
    loop.allreduce_gradients()
    mean = loss.detach().reshape(1)
    loop.allreduce(mean)
    if loop.should_commit():
        optimizer.step()
        if step.rank == 0 and (step.number + 1) % 10 == 0:
            print(f"step {step.number + 1} loss {mean.item():.9f}, {step.size} ranks", flush=True)
if loop.comm.rank == 0:  # not step.rank: a rank that rests from the first step on has had no step
    print(loop.report(), flush=True)
loop.close()
