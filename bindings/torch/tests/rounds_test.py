"""Groups leave nothing behind: rounds_test.py [ROUNDS]

One process, without the garbage collector, always on the same port, which a server that is left over would still have.
"""

import gc
import os
import socket
import sys
import threading
import warnings

import torch
import torch.distributed as dist

import tutti_torch

warnings.simplefilter("ignore")
tutti_torch.register()
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 12


def here():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), threading.active_count()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
gc.disable()
counts = []
for _ in range(rounds):
    dist.init_process_group("tutti", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    pair = dist.new_group([0])
    dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
    dist.all_reduce(torch.ones(3), group=pair)
    dist.barrier()
    del pair
    dist.destroy_process_group()
    counts.append(here())
# The first rounds open what a process has once. Of the threads that complete futures there are now one, now three.
for column, slack in zip(zip(*counts), (0, 2, 2)):
    assert max(column[4:]) <= max(column[:4]) + slack, f"descriptors, threads, those of Python: {counts}"
print(f"{rounds} rounds: {counts[-1][0]} descriptors, {counts[-1][1]} threads")
