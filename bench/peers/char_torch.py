"""char_torch.py - the model, the text and the batches of examples/train_char in PyTorch, trained by DistributedDataParallel: for
bench/time_to_loss.

    tutti-run -n 4 --no-prefix python3 bench/peers/char_torch.py --backend gloo --hook fp16 --steps 2000

The first parameters and the rows of each batch are those of train_char with the same seed, so float32 gradients give the same losses up to
rounding. Hooks: none; fp16 and powersgd of PyTorch, with one bucket for all gradients; and, with --backend tutti, any method of tutti_torch.compression, as
int8 or powersgd. Prints lines as train_char does.
"""

import argparse
import datetime
import os
import time
import warnings

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

warnings.simplefilter("ignore")

CONTEXT, EMBEDDING, RUN, EVERY, EVALUATED_MAX, REPORTS, MOMENTUM = 12, 16, 500, 20, 8192, 12, 0.9
LICENCES = ("GPL-3", "Apache-2.0", "LGPL-2.1", "MPL-2.0", "GFDL-1.3", "GPL-2")
WARM_STEPS = 10  # DDP makes its buckets anew after the first step, and PowerSGD begins after the second


def random_at(seed, place):
    """SplitMix64, as train_char has it; seed and places may be arrays."""
    with np.errstate(over="ignore"):
        one = np.uint64(1)
        z = (np.uint64(seed) + one) * np.uint64(0xD1342543DE82EF95) + (np.asarray(place, np.uint64) + one) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def random_matrix(seed, part, rows, columns, scale):
    units = (random_at(random_at(seed, part), np.arange(rows * columns)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return nn.Parameter(torch.from_numpy((scale * (2 * units - 1)).astype(np.float32).reshape(rows, columns)))


class Text:
    def __init__(self):
        data = b"".join(open(f"/usr/share/common-licenses/{name}", "rb").read() for name in LICENCES
                        if os.path.exists(f"/usr/share/common-licenses/{name}"))
        symbols, self.characters = np.unique(np.frombuffer(data, np.uint8), return_inverse=True)
        self.symbols = len(symbols)
        places = np.arange(CONTEXT, len(data))
        is_held_out = places // RUN % EVERY == EVERY // 2
        self.train, self.held_out = places[~is_held_out], places[is_held_out]

    def rows(self, places):
        contexts = self.characters[places[:, None] + np.arange(-CONTEXT, 0)]
        return torch.from_numpy(contexts), torch.from_numpy(self.characters[places])


class Model(nn.Module):
    def __init__(self, hidden, symbols, seed):
        super().__init__()
        inputs = CONTEXT * EMBEDDING
        self.embedding = random_matrix(seed, 1, symbols, EMBEDDING, 1)
        self.weights1 = random_matrix(seed, 2, inputs, hidden, (3 / inputs) ** 0.5)
        self.bias1 = nn.Parameter(torch.zeros(hidden))
        self.weights2 = random_matrix(seed, 3, hidden, symbols, (1 / hidden) ** 0.5)
        self.bias2 = nn.Parameter(torch.zeros(symbols))

    def forward(self, contexts, nexts, reduction="mean"):
        hidden = torch.tanh(torch.addmm(self.bias1, self.embedding[contexts].flatten(1), self.weights1))
        return functional.cross_entropy(torch.addmm(self.bias2, hidden, self.weights2), nexts, reduction=reduction)


def spread(options, model):
    parallel = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if options.backend == "gloo" and options.hook == "fp16":
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif options.backend == "gloo" and options.hook == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd

        state = powersgd.PowerSGDState(None, matrix_approximation_rank=options.rank, start_powerSGD_iter=2, min_compression_rate=1)
        parallel.register_comm_hook(state, powersgd.powerSGD_hook)
    elif options.hook != "none":
        import tutti_torch.compression

        rank = {"rank": options.rank} if options.hook == "powersgd" else {}
        compression = tutti_torch.compression.Compression(model, options.hook, **rank)
        parallel.register_comm_hook(compression, tutti_torch.compression.hook)
    return parallel


def all_sum(number):
    tensor = torch.tensor([number], dtype=torch.float64)
    dist.all_reduce(tensor)
    return tensor.item()


def evaluate(model, text, places):
    count = min(len(places), EVALUATED_MAX)
    chosen = places[np.arange(count) * len(places) // count]
    with torch.no_grad():
        return model(*text.rows(chosen), reduction="mean").item()


def train(options, text, model):
    rank, size = dist.get_rank(), dist.get_world_size()
    parallel = spread(options, model)
    mine = np.arange(options.batch * rank // size, options.batch * (rank + 1) // size)
    velocities = [torch.zeros_like(parameter) for parameter in model.parameters()]
    losses, reported, began = [], 0, time.perf_counter()
    for step in range(options.steps):
        if step == min(WARM_STEPS, options.steps - 1):
            began, first = time.perf_counter(), step
        draws = random_at(options.seed, step * options.batch + mine) % np.uint64(len(text.train))
        loss = parallel(*text.rows(text.train[draws.astype(np.int64)]))
        loss.backward()
        losses.append(loss.item())
        rate = options.lr * (1 - 0.9 * step / options.steps)
        with torch.no_grad():
            for parameter, velocity in zip(model.parameters(), velocities):
                velocity.mul_(MOMENTUM).add_(parameter.grad, alpha=-rate)
                parameter.add_(velocity)
                parameter.grad.zero_()
        if step + 1 >= options.steps * (reported + 1) // REPORTS and not options.only_time:
            mean = all_sum(sum(losses) / len(losses)) / size
            reported, losses = reported + 1, []
            if rank == 0:
                print(f"step {step + 1:7} of {options.steps}  loss {mean:.4f}", flush=True)
    return time.perf_counter() - began, options.steps - first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("gloo", "tutti"), default="gloo")
    parser.add_argument("--hook", default="none")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--only-time", action="store_true")
    for name, value in dict(steps=2000, batch=128, hidden=128, seed=1).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=0.2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.backend == "tutti":
        import tutti_torch

        tutti_torch.register()
    dist.init_process_group(options.backend, timeout=datetime.timedelta(hours=1))
    text = Text()
    model = Model(options.hidden, text.symbols, options.seed)
    seconds, steps = train(options, text, model)
    held_out = 0 if options.only_time else evaluate(model, text, text.held_out)
    if dist.get_rank() == 0:
        print(f"final loss     {held_out:.4f} on what was held out of the text")
        print(f"step           {1e3 * seconds / steps:.3f} ms", flush=True)
    dist.destroy_process_group()
    os._exit(0)  # gloo now and then aborts when a process ends, after all is done


if __name__ == "__main__":
    main()
