"""DistributedOptimizer trains to the losses and parameters of PyTorch's DistributedDataParallel over gloo.

    tutti-run -n 2 python -m tutti.horovod train.py
"""

import datetime
import sys
import time

import horovod.torch as hvd
import torch
import torch.distributed as dist
import torch.nn.functional as functional

STEPS = 8


class Net(torch.nn.Module):
    def __init__(self, is_sparse=False):
        super().__init__()
        torch.manual_seed(3)
        self.table = torch.nn.Embedding(20, 8, sparse=is_sparse)
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(self.table(x).mean(1))


def batches(r, passes):
    made = torch.Generator().manual_seed(100 + r)
    for _ in range(STEPS):
        yield [
            (torch.randint(20, (6, 3), generator=made), torch.randint(4, (6,), generator=made)) for _ in range(passes)
        ]


def optimizer_of(net, is_sparse, kind):
    if kind == "adam" and not is_sparse:
        return torch.optim.Adam(net.parameters(), lr=0.01)
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.0 if is_sparse else 0.9)


def train(net, parallel, optimizer, r, passes=1, clip=False):
    losses = []
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    for batch in batches(r, passes):
        optimizer.zero_grad()
        for index, (x, y) in enumerate(batch):
            loss = functional.cross_entropy(parallel(x), y)
            if index < passes - 1 and hasattr(parallel, "no_sync"):
                with parallel.no_sync():
                    loss.backward()
            else:
                loss.backward()
            losses.append(loss.item())
        if clip:
            if hasattr(optimizer, "synchronize"):
                optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            if hasattr(optimizer, "skip_synchronize"):
                with optimizer.skip_synchronize():
                    optimizer.step()
                schedule.step()
                continue
        optimizer.step()
        schedule.step()
    return losses


def with_ddp(r, is_sparse=False, kind="sgd", **how):
    net = Net(is_sparse)
    parallel = torch.nn.parallel.DistributedDataParallel(net)
    return train(net, parallel, optimizer_of(net, is_sparse, kind), r, **how), net


def with_horovod(r, options, is_sparse=False, kind="sgd", **how):
    net = Net(is_sparse)
    if r != 0:
        for p in net.parameters():
            p.data.zero_()
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    optimizer = optimizer_of(net, is_sparse, kind)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    options = options(net) if callable(options) else options
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters(), **options)
    assert isinstance(optimizer, (torch.optim.SGD, torch.optim.Adam))
    return train(net, net, optimizer, r, **how), net


def compare(what, ours, theirs, tolerance):
    losses = torch.tensor([ours[0], theirs[0]], dtype=torch.float64)
    worst = (losses[0] - losses[1]).abs().max().item()
    for one, two in zip(ours[1].parameters(), theirs[1].parameters()):
        worst = max(worst, (one - two).abs().max().item())
    assert worst <= tolerance, f"{what}: differs by {worst}"
    if hvd.rank() == 0:
        print(f"{what}: differs by {worst:.1e}")


def check_rules(r):
    net = Net()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1))
    x, y = next(batches(r, 1))[0]
    functional.cross_entropy(net(x), y).backward()
    for wrong in (optimizer.zero_grad, lambda: functional.cross_entropy(net(x), y).backward()):
        try:
            wrong()
        except AssertionError:
            continue
        raise RuntimeError("it was allowed")
    optimizer.step()
    for options in (
        {"named_parameters": list(net.named_parameters())[:1]},
        {"named_parameters": [("a", p) for p in net.parameters()]},
        {"named_parameters": list(net.parameters())},
        {"backward_passes_per_step": 0},
        {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
        {"groups": -1},
        {"groups": [[list(net.parameters())[0]] * 2]},
    ):
        try:
            hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), **options)
        except ValueError:
            continue
        raise RuntimeError(f"{options} were allowed")


def time_beside_gloo(r):
    """Medians of alternating rounds; for people to read."""
    tensor, times = torch.ones(1024), {"tutti.horovod": [], "gloo": []}
    for _ in range(15):
        for name in times:
            hvd.barrier()
            for _ in range(10):
                began = time.perf_counter()
                if name == "gloo":
                    dist.all_reduce(tensor)
                else:
                    hvd.allreduce_(tensor, name="timed")
                times[name].append(time.perf_counter() - began)
    if r == 0:
        for name, seconds in times.items():
            print(f"allreduce of 4 KiB, {name}: {sorted(seconds)[len(seconds) // 2] * 1e6:.0f} us")


def main():
    torch.set_num_threads(1)
    hvd.init()
    r = hvd.rank()
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    near = 1e-6
    plain = with_ddp(r)
    compare("plain", with_horovod(r, {}), plain, near)
    compare("groups", with_horovod(r, {"groups": 2}), plain, near)
    lists = lambda net: {"groups": [list(net.layers.parameters())]}
    compare("lists as groups", with_horovod(r, lists), plain, near)
    compare("predivided", with_horovod(r, {"gradient_predivide_factor": 2.0}), plain, near)
    compare("16 bits", with_horovod(r, {"compression": hvd.Compression.fp16}), plain, 3e-3)
    compare("adam", with_horovod(r, {}, kind="adam"), with_ddp(r, kind="adam"), 1e-4)
    compare("clipped", with_horovod(r, {}, clip=True), with_ddp(r, clip=True), near)
    passes = {"backward_passes_per_step": 3}
    compare("three passes", with_horovod(r, passes, passes=3), with_ddp(r, passes=3), 3e-6)
    sparse = with_ddp(r, is_sparse=True)
    compare("sparse", with_horovod(r, {}, is_sparse=True), sparse, near)
    compare("sparse as dense", with_horovod(r, {"sparse_as_dense": True}, is_sparse=True), sparse, near)
    check_rules(r)
    if "times" in sys.argv[1:]:
        time_beside_gloo(r)
    dist.destroy_process_group()
    print(f"rank {r}: trained alike")


main()
