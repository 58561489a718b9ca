"""Collectives of JAX over Tutti beside gloo, in alternating pairs (pairs.py says how).

    python bench/jax_pairs.py                     # 2 processes, 4 KiB to 16 MiB: the table, and the geometric mean
    python bench/jax_pairs.py --ranks 4 --pairs 31

Needs JAX and tutti_jax.
"""

import pairs

OPERATIONS = ("psum", "all_gather", "psum_scatter", "all_to_all", "ppermute")


def work(side):
    import tutti_jax

    tutti_jax.initialize(collectives=side)
    import jax
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    size = jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("x",))
    ring = [(i, (i + 1) % size) for i in range(size)]
    functions = {
        "psum": (lambda a: lax.psum(a, "x"), P()),
        "all_gather": (lambda a: lax.all_gather(a, "x", tiled=True), P()),
        "psum_scatter": (lambda a: lax.psum_scatter(a, "x", tiled=True), P("x")),
        "all_to_all": (lambda a: lax.all_to_all(a, "x", 0, 0, tiled=True), P("x")),
        "ppermute": (lambda a: lax.ppermute(a, "x", ring), P("x")),
    }

    def call_of(name, size_bytes):
        function, out = functions[name]
        compiled = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False))
        mine = np.full(size_bytes // 4, 1.0 + jax.process_index(), np.float32)
        array = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine, (size_bytes // 4 * size,))
        result = np.asarray(compiled(array).addressable_shards[0].data)
        if name.startswith("psum"):
            assert (result == size * (size + 1) / 2).all(), result
        return lambda: compiled(array).block_until_ready()

    pairs.serve(call_of)
    jax.distributed.shutdown()


pairs.main(__doc__, "gloo", OPERATIONS, work)
