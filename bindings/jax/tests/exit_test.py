"""A program that ends without waiting for its results: it ends well, and so do the processes that do wait for them.

Every process of a job runs it, under a launcher that Tutti knows; process 0 waits for nothing.
"""

import tutti_jax

tutti_jax.initialize()

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

mesh = Mesh(np.array(jax.devices()), ("x",))
data = np.ones((jax.device_count(), 1_000_000), np.float32)
array = jax.make_array_from_callback(data.shape, NamedSharding(mesh, P("x")), lambda index: data[index])
mean = jax.jit(jax.shard_map(lambda a: jax.lax.pmean(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
for _ in range(40):
    array = mean(array)
if jax.process_index() > 0:
    assert (np.asarray(array.addressable_shards[0].data) == 1).all()
print("leaves")
