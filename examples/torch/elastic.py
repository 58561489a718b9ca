"""DistributedDataParallel in a loop that goes on when ranks die.

    tutti-run -n 3 --elastic 1 python3 elastic.py [--steps 60] [--fault STEP:RANK]...

A fault: the process that is this rank at first kills itself in this step.
"""

import argparse
import os
import signal

import torch
import torch.distributed as dist
from torch import nn

import tutti.elastic

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--fault", action="append", default=[])
parser.add_argument("--checkpoints")
arguments = parser.parse_args()
faults = [tuple(map(int, fault.split(":"))) for fault in arguments.fault]
is_first = os.environ.get("TUTTI_ELASTIC_JOIN", "0") == "0"

torch.manual_seed(1)
torch.set_num_threads(1)
data = torch.randn(3000, 32)
wanted = data.sin().sum(1, keepdim=True)

model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
state = tutti.elastic.torch_state(model, optimizer)
# The process group is of this process alone: the loop has the team, which may change.
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
parallel = nn.parallel.DistributedDataParallel(model)

loop = tutti.elastic.Loop(
    state,
    steps=arguments.steps,
    batch=96,
    samples=len(data),
    seed=1,
    deterministic=True,
    checkpoints=arguments.checkpoints,
)
tutti.elastic.attach(loop, parallel)

for step in loop:
    samples = torch.from_numpy(step.samples)
    optimizer.zero_grad()
    errors = parallel(data[samples]) - wanted[samples]
    loss = errors.square().sum() / step.batch_count  # a part of the mean
    if is_first and (step.number, step.rank) in faults:
        os.kill(os.getpid(), signal.SIGKILL)
    loss.backward()
    mean = loss.detach().reshape(1)
    loop.allreduce(mean)
    if loop.should_commit():
        optimizer.step()
        if step.rank == 0 and (step.number + 1) % 10 == 0:
            print(f"step {step.number + 1} loss {mean.item():.9f}", flush=True)
if step.rank == 0:
    print(loop.report(), flush=True)
loop.close()
dist.destroy_process_group()
