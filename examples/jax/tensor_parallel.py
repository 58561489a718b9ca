"""Tensor-parallel training with `shard_map`: every device has a slice of each matrix, and the program communicates itself.

    tutti-run -n 2 python examples/jax/tensor_parallel.py
    tutti-run -n 2 python examples/jax/tensor_parallel.py --collectives gloo   # the same losses

A block is two matrices: the first is cut by columns, the second by rows. One psum adds up what the slices give, and one
ppermute shows a neighbour's value.
"""

import argparse

import tutti_jax

parser = argparse.ArgumentParser()
parser.add_argument("--collectives", choices=("tutti", "gloo"), default="tutti")
parser.add_argument("--devices", type=int, default=1, help="of each process")
parser.add_argument("--steps", type=int, default=20)
arguments = parser.parse_args()

if arguments.collectives == "tutti":
    tutti_jax.enable()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

jax.config.update("jax_num_cpu_devices", arguments.devices)
tutti_jax.initialize(collectives=arguments.collectives)

mesh = Mesh(np.array(jax.devices()), ("model",))
width, hidden = 16, 32 * jax.device_count()
cuts = {"first": P(None, "model"), "second": P("model", None)}  # of each device: columns, then rows


def make_weights():
    first, second = jax.random.split(jax.random.key(1))
    return {
        "first": jax.random.normal(first, (width, hidden)) / width**0.5,
        "second": jax.random.normal(second, (hidden, width)) / hidden**0.5,
    }


def local_loss(weights, samples):
    """What one device computes: with its slices, the loss that all of them get."""
    parts = jnp.tanh(samples @ weights["first"]) @ weights["second"]
    predicted = lax.psum(parts, "model")
    return ((predicted - jnp.roll(samples, 1, axis=1)) ** 2).mean()


def step_of(weights, samples):
    loss, gradients = jax.value_and_grad(local_loss)(weights, samples)
    norms = jnp.stack([jnp.square(gradient).sum() for gradient in jax.tree.leaves(gradients)]).sum()
    size = lax.axis_size("model")
    neighbour = lax.ppermute(norms, "model", [(i, (i + 1) % size) for i in range(size)])
    new = jax.tree.map(lambda weight, gradient: weight - 1.0 * gradient, weights, gradients)
    return loss, jnp.stack([norms, neighbour]), new


train = jax.jit(jax.shard_map(step_of, mesh=mesh, in_specs=(cuts, P()), out_specs=(P(), P("model"), cuts)))
shardings = {name: NamedSharding(mesh, cut) for name, cut in cuts.items()}
weights = jax.jit(make_weights, out_shardings=shardings)()
for step in range(arguments.steps):
    samples = np.random.default_rng(step).standard_normal((64, width)).astype(np.float32)  # the same everywhere
    loss, norms, weights = train(weights, samples)
    if jax.process_index() == 0:
        mine, neighbour = np.asarray(norms.addressable_shards[0].data)
        print(f"step {step} loss {loss:.5f} gradient {mine:.4f} neighbour's {neighbour:.4f}", flush=True)
jax.distributed.shutdown()
