"""Collectives from PyTorch, Tutti beside gloo in one run: times, ratios, and what a call costs before Tutti sees it.

    tutti-run -n 2 --no-prefix python3 bench/torch_groups.py            # the table
    tutti-run -n 2 --no-prefix python3 bench/torch_groups.py --dispatch  # microseconds of Python in a call of 8 bytes
    tutti-run -n 2 --no-prefix python3 bench/torch_groups.py --ddp      # steps of a model of 25 M parameters

The backends take turns, repeat by repeat; each time is the median of the repeats of the slowest rank's mean.
"""

import argparse
import statistics
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn

warnings.simplefilter("ignore")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1K,16K,256K,1M,4M,16M,64M", help="bytes, with K and M")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dispatch", action="store_true")
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--batch", type=int, default=16, help="of --ddp, for each rank")
    return parser.parse_args()


def bytes_of(text):
    return int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0)


def seconds_of(call, count, group):
    """Of one call, on the slowest rank."""
    dist.barrier(group)
    began = time.perf_counter()
    for _ in range(count):
        call()
    mine = torch.tensor([(time.perf_counter() - began) / count])
    dist.all_reduce(mine, dist.ReduceOp.MAX, group)
    return mine.item()


def all_gather(output, tensor, group):
    getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(output, tensor, group)


def reduce_scatter(output, tensor, group):
    getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)(output, tensor, group=group)


def measure_collectives(arguments, groups, rank, size):
    if rank == 0:
        print(f"{size} ranks, medians of {arguments.repeats}, microseconds")
        print(f"{'':22}{'bytes':>10}" + "".join(f"{name:>12}" for name in groups) + f"{'ratio':>9}")
    for size_bytes in map(bytes_of, arguments.sizes.split(",")):
        whole, other = torch.ones(size_bytes // 4), torch.ones(size_bytes // 4)
        part = torch.ones(size_bytes // 4 // size)
        calls = {
            "all_reduce": lambda group: dist.all_reduce(whole, group=group),
            "all_gather_into_tensor": lambda group: all_gather(whole, part, group),
            "reduce_scatter_tensor": lambda group: reduce_scatter(part, whole, group),
            "all_to_all_single": lambda group: dist.all_to_all_single(other, whole, group=group),
        }
        for name, call in calls.items():
            whole.fill_(1.0)
            count = max(3, min(200, (8 << 20) // size_bytes))
            times = {backend: [] for backend in groups}
            for repeat in range(arguments.repeats + 1):
                for backend, group in groups.items():
                    seconds = seconds_of(lambda: call(group), count, group)
                    if repeat > 0:  # the first one warms up
                        times[backend].append(seconds)
                    whole.fill_(1.0)
            medians = [statistics.median(seconds) * 1e6 for seconds in times.values()]
            if rank == 0:
                row = "".join(f"{median:12.1f}" for median in medians)
                print(f"{name:22}{size_bytes:10}{row}{medians[0] / medians[1]:9.2f}", flush=True)


def measure_dispatch(arguments, groups, rank):
    """The least of many repeats: what takes longer waited for a core."""
    import tutti_torch
    from tutti._library import library

    group = groups["tutti"]
    tensor = torch.ones(2)
    comm, address = tutti_torch.communicator(group)._state.pointer, tensor.data_ptr()

    def directly():
        library.allreduce(address, address, 2, 0, 1, comm)

    def least(call):
        return min(seconds_of(call, 200, group) for _ in range(20 * arguments.repeats)) * 1e6

    python, library_alone = least(lambda: dist.all_reduce(tensor, group=group)), least(directly)
    if rank == 0:
        print(f"all_reduce of 8 bytes: {python:.1f} us, of which the library has {library_alone:.1f} us")
        print(f"dispatch: {python - library_alone:.1f} us")


class Training:
    """A multilayer perceptron of 25 M parameters; `group` None: every rank by itself."""

    def __init__(self, group, rank):
        torch.manual_seed(1)
        layers = [nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1024)]
        self.model = nn.Sequential(*layers)
        if group is not None:
            self.model = nn.parallel.DistributedDataParallel(
                self.model, process_group=group, gradient_as_bucket_view=True
            )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.samples = torch.Generator().manual_seed(100 + rank)
        self.times, self.losses = [], []

    def step(self, batch):
        samples = torch.randn(batch, 1024, generator=self.samples)
        dist.barrier()
        began = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(self.model(samples), samples.sin())
        loss.backward()
        self.optimizer.step()
        dist.barrier()
        self.times.append(time.perf_counter() - began)
        self.losses.append(loss.item())


def measure_ddp(arguments, groups, rank, size):
    trainings = {name: Training(group, rank) for name, group in {"alone": None, **groups}.items()}
    for _ in range(arguments.repeats + 2):
        for training in trainings.values():
            training.step(arguments.batch)
    if rank != 0:
        return
    medians = {name: statistics.median(training.times[2:]) for name, training in trainings.items()}
    print(f"{size} ranks, batch {arguments.batch}, seconds a step; without communication {medians['alone']:.3f}")
    for name in groups:
        share = 100 * (1 - medians["alone"] / medians[name])
        loss = trainings[name].losses[-1]
        print(f"{name:6}{medians[name]:8.3f}, communication {share:.0f}% of it, last loss {loss:.6f}")
    print(f"ratio {medians['gloo'] / medians['tutti']:.2f}")


def main():
    arguments = parse()
    torch.set_num_threads(1)
    if not hasattr(dist.Backend, "TUTTI"):
        import tutti_torch

        tutti_torch.register()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = {"gloo": dist.group.WORLD, "tutti": dist.new_group(backend="tutti")}
    if arguments.dispatch:
        measure_dispatch(arguments, groups, rank)
    elif arguments.ddp:
        measure_ddp(arguments, groups, rank, size)
    else:
        measure_collectives(arguments, groups, rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
