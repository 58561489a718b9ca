"""A replica that lost a rank rests, and a process that comes later makes it whole. Run by tests/bindings/torch_hybrid_test.sh:

    tutti-run -n 4 --elastic 2 --restarts 1 python3 hybrid_late.py

The loop goes on until the process has come, however long that takes, and for some steps more. Then both replicas have the same state.
"""

import os
import signal
import time

import numpy as np
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

import tutti_torch.hybrid

FAULT, MORE = 8, 10
STEPS = 1_000_000
is_new = os.environ.get("TUTTI_ELASTIC_JOIN", "0") != "0"
dies = not is_new and os.environ["RANK"] == "3"

torch.manual_seed(1)
torch.set_num_threads(1)
data = torch.randn(3000, 31)
wanted = data.sin().sum(1, keepdim=True)

loop = tutti_torch.hybrid.Loop(2, steps=STEPS, batch=96, samples=len(data), seed=1, deterministic=True, replace_wait=0, grow_every=0.2)
model = nn.Sequential(nn.Linear(31, 63), nn.Tanh(), nn.Linear(63, 1))
fully_shard(model[0], mesh=loop.mesh)
fully_shard(model, mesh=loop.mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loop.attach(model, optimizer)


def check_alike() -> None:
    for tensor in loop._state():
        all_replicas = loop._across.allgather(tensor.contiguous().numpy().reshape(-1))
        assert np.array_equal(*np.split(all_replicas, 2)), "the replicas differ"


sizes, grown, losses = [], None, []
for step in loop:
    if step.number == FAULT and dies:
        os.kill(os.getpid(), signal.SIGKILL)
    if step.number > FAULT and step.size == 2:
        time.sleep(0.01)
    samples = torch.from_numpy(step.samples)
    optimizer.zero_grad()
    loss = (model(data[samples]) - wanted[samples]).square().sum() / step.batch_count
    loss.backward()
    loop.allreduce_gradients()
    mean = loss.detach().reshape(1)
    loop.allreduce(mean)
    if not loop.should_commit():
        continue
    optimizer.step()
    sizes.append(step.size)
    losses.append(mean.item())
    if step.number > FAULT and step.size == 4:
        grown = step.number if grown is None else grown
        if step.number == grown + MORE:
            check_alike()
            break
if step.rank == 0:
    changes = [size for i, size in enumerate(sizes) if i == 0 or sizes[i - 1] != size]
    assert changes == [4, 2, 4], changes
    assert losses[-1] < losses[FAULT - 1], (losses[FAULT - 1], losses[-1])
    print("both replicas are whole and alike", flush=True)
loop.close()
