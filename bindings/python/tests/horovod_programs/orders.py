"""Random orders of named operations, another one on each rank: all results are right, and nothing hangs.

    tutti-run -n 4 python -m tutti.horovod orders.py COUNT [SEED]
"""

import random
import sys

import horovod.torch as hvd
import torch

BATCH = 50  # operations under way at a time


def start(kind, name, number, r, n, process_set):
    """Starts operation `number`, and returns its handle, and what must come out."""
    ranks = list(process_set.ranks)
    count = number % 37 + 1
    dtype = (torch.float32, torch.float64, torch.int64)[number % 3]
    mine = torch.full((count,), r + number % 5, dtype=dtype)
    all_ = torch.tensor([[float(rank + number % 5)] * count for rank in ranks], dtype=torch.float64)
    how = {"name": name, "process_set": process_set}
    own = ranks.index(r)
    if kind == 0:
        return hvd.allreduce_async(mine, op=hvd.Sum, **how), all_.sum(0)
    if kind == 1:
        return hvd.allreduce_async_(mine, op=hvd.Max, **how), all_.amax(0)
    if kind == 2:
        rows = torch.full(((r + number) % 4,), float(r))
        return hvd.allgather_async(rows, **how), torch.tensor([float(k) for k in ranks for _ in range((k + number) % 4)])
    if kind == 3:
        return hvd.broadcast_async(mine, ranks[number % len(ranks)], **how), all_[number % len(ranks)]
    if kind == 4:
        send = torch.tensor([100.0 * r + k for k in ranks])
        return hvd.alltoall_async(send, **how), torch.tensor([100.0 * k + r for k in ranks])
    if kind == 5:
        each, rest = divmod(count, len(ranks))
        at = own * each + min(own, rest)
        return hvd.reducescatter_async(mine, op=hvd.Sum, **how), all_.sum(0)[at : at + each + (own < rest)]
    pair = [mine, mine.clone()]
    return hvd.grouped_allreduce_async(pair, op=hvd.Sum, **how), all_.sum(0)


def check(result, wanted, name):
    if isinstance(result, tuple):  # alltoall
        result = result[0]
    for each in result if isinstance(result, list) else [result]:
        assert torch.equal(each.double(), wanted.double()), (name, each, wanted)


def main():
    count, seed = int(sys.argv[1]), int((sys.argv[2:] or [1])[0])
    hvd.init()
    r, n = hvd.rank(), hvd.size()
    sets = [hvd.global_process_set]
    if n > 2:
        sets.append(hvd.add_process_set(range(n - 1)))
        sets.append(hvd.add_process_set([0, n - 1]))
    alike, own = random.Random(seed), random.Random(seed * 1000 + r)
    print(f"seed {seed}", flush=True)
    done = 0
    while done < count:
        batch = []
        for index in range(min(BATCH, count - done)):
            process_set = sets[alike.randrange(len(sets)) if alike.random() < 0.3 else 0]
            batch.append((alike.randrange(7), f"operation.{index}", done + index, process_set))
        done += len(batch)
        mine = [entry for entry in batch if entry[3].included()]
        own.shuffle(mine)
        started = []
        for kind, name, number, process_set in mine:
            started.append((start(kind, name, number, r, n, process_set), name))
            if own.random() < 0.02:  # it may be ready by now, or not
                hvd.poll(started[own.randrange(len(started))][0][0])
        own.shuffle(started)
        for (handle, wanted), name in started:
            check(hvd.synchronize(handle), wanted, name)
    hvd.barrier()
    print(f"rank {r}: {done} operations are right")


main()
