"""Data-parallel training: each process has samples of its own, and all keep the same weights.

    tutti-run -n 2 python examples/jax/data_parallel.py
    tutti-run -n 2 python examples/jax/data_parallel.py --collectives gloo   # the same losses

The program shards the batch along the mesh's axis `data` and says nothing of communication: XLA adds up the gradients.
"""

import argparse

import tutti_jax

parser = argparse.ArgumentParser()
parser.add_argument("--collectives", choices=("tutti", "gloo"), default="tutti")
parser.add_argument("--devices", type=int, default=1, help="of each process")
parser.add_argument("--steps", type=int, default=40)
arguments = parser.parse_args()

if arguments.collectives == "tutti":
    tutti_jax.enable()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

jax.config.update("jax_num_cpu_devices", arguments.devices)
tutti_jax.initialize(collectives=arguments.collectives)

mesh = Mesh(np.array(jax.devices()), ("data",))
by_sample, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
sizes = (8, 64, 64, 1)
batch = 16 * jax.device_count()


def make_weights():
    keys = jax.random.split(jax.random.key(1), len(sizes))
    pairs = zip(keys, sizes, sizes[1:])
    return [(jax.random.normal(key, (m, n)) / m**0.5, jnp.zeros(n)) for key, m, n in pairs]


def predict(weights, samples):
    for matrix, bias in weights[:-1]:
        samples = jax.nn.relu(samples @ matrix + bias)
    matrix, bias = weights[-1]
    return samples @ matrix + bias


def loss_of(weights, samples):
    wanted = jnp.sin(samples).sum(1, keepdims=True)
    return ((predict(weights, samples) - wanted) ** 2).mean()


@jax.jit
def train(weights, samples):
    loss, gradients = jax.value_and_grad(loss_of)(weights, samples)
    return loss, jax.tree.map(lambda weight, gradient: weight - 0.05 * gradient, weights, gradients)


# The key is the same everywhere, so that all processes begin with the same weights.
weights = jax.jit(make_weights, out_shardings=everywhere)()
for step in range(arguments.steps):
    # Each process makes the part of the batch that its devices have.
    mine = np.random.default_rng((step, jax.process_index())).standard_normal((batch // jax.process_count(), sizes[0]))
    samples = jax.make_array_from_process_local_data(by_sample, mine.astype(np.float32), (batch, sizes[0]))
    loss, weights = train(weights, samples)
    if jax.process_index() == 0:
        print(f"step {step} loss {loss:.5f}", flush=True)
jax.distributed.shutdown()
