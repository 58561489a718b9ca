"""gpt_torch.py - the model of examples/gpt in PyTorch, trained by DistributedDataParallel or FSDP over gloo: the time of a step, and of the
same step on one rank by itself. For bench/exposed.

    tutti-run -n 2 --no-prefix python3 bench/peers/gpt_torch.py --way ddp --width 128 --layers 4 --heads 4 --batch 16 --context 128

Prints a line `torch VERSION WAY step_ms alone_ms`: medians of the slowest rank. `alone` is the plain model with the plain optimizer. Exit
code 77 and a reason: this PyTorch cannot do that over gloo.
"""

import argparse
import statistics
import sys
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

warnings.simplefilter("ignore")


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.gain


class Layer(nn.Module):
    def __init__(self, width, heads, hidden, context):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = Norm(width), Norm(width)
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        half = width // heads // 2
        angles = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        self.register_buffer("future", torch.full((context, context), -torch.inf).triu(1), persistent=False)

    def rotate(self, x):
        left, right = x.chunk(2, -1)
        return torch.cat((left * self.cosine - right * self.sine, left * self.sine + right * self.cosine), -1)

    def attend(self, x):
        samples, context, width = x.shape

        def split(y):
            return y.view(samples, context, self.heads, width // self.heads).transpose(1, 2)

        query, key, value = self.rotate(split(self.query(x))), self.rotate(split(self.key(x))), split(self.value(x))
        if hasattr(functional, "scaled_dot_product_attention"):
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            shares = query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5 + self.future
            mixed = shares.softmax(-1) @ value
        return self.output(mixed.transpose(1, 2).reshape(samples, context, width))

    def forward(self, x):
        x = x + self.attend(self.attention_norm(x))
        y = self.mlp_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        hidden = (options.width * 8 // 3 + 31) // 32 * 32  # as examples/gpt has it
        self.embedding = nn.Embedding(options.vocabulary, options.width)
        self.layers = nn.ModuleList(Layer(options.width, options.heads, hidden, options.context) for _ in range(options.layers))
        self.norm = Norm(options.width)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.norm(x), self.embedding.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def spread(way, model):
    """The model as that way trains it."""
    if way == "ddp":
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        print(f"PyTorch {torch.__version__} has no fully_shard, and its older FSDP does not work over gloo")
        sys.exit(77)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def median_ms(options, model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    numbers = torch.Generator().manual_seed(dist.get_rank())
    samples, times = options.batch // dist.get_world_size(), []
    for _ in range(options.steps):
        tokens = torch.randint(options.vocabulary, (samples, options.context + 1), generator=numbers)
        dist.barrier()
        began = time.perf_counter()
        model(tokens[:, :-1], tokens[:, 1:].contiguous()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - began)
    slowest = torch.tensor([statistics.median(times[2:] or times)])
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return 1e3 * slowest.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=("ddp", "fsdp"), required=True)
    for name, value in dict(vocabulary=512, context=128, width=128, layers=4, heads=4, batch=16, steps=12).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    alone_ms = median_ms(options, Model(options))
    try:
        step_ms = median_ms(options, spread(options.way, Model(options)))
    except (RuntimeError, NotImplementedError) as reason:
        print(f"PyTorch {torch.__version__}, {options.way} over gloo: {str(reason).splitlines()[0]}")
        sys.exit(77)
    if dist.get_rank() == 0:
        print(f"torch {torch.__version__} {options.way} {step_ms:.3f} {alone_ms:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
