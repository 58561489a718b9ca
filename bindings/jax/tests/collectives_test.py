"""JAX's collectives between processes that run over Tutti, with results checked against NumPy.

Every process of a job runs this program, under a launcher that Tutti knows: python collectives_test.py [DEVICES]. DEVICES is the
number of devices of each process, 1 if it is not given. The sections stand for those of JAX's own multi-process tests.
"""

import sys

import tutti_jax

tutti_jax.enable()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

DEVICES = int(sys.argv[1]) if len(sys.argv) > 1 else 1
# What XLA lets through. It reduces and gathers no 16-bit floats of IEEE over MPI; bfloat16 it widens itself.
REDUCED = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bfloat16", "complex64", "complex128"]
MOVED = REDUCED + ["bool", "float16", "float8_e4m3fn"]


def line():
    """A mesh of all devices, along x."""
    return Mesh(np.array(jax.devices()), ("x",))


def plane():
    """A mesh of half as many rows as devices, and two columns."""
    return Mesh(np.array(jax.devices()).reshape(-1, 2), ("x", "y"))


def spread(data, mesh, spec):
    """The array with these contents, of which each device has its part."""
    return jax.make_array_from_callback(data.shape, NamedSharding(mesh, spec), lambda index: data[index])


def numbers(shape, dtype, below=7):
    """Small whole numbers, so that sums are exact in any order; the same on all processes."""
    values = np.random.default_rng(42).integers(0, below, shape)
    return np.asarray(jnp.asarray(values).astype(dtype))


def check(result, expected):
    """Compares the parts that this process has."""
    assert result.shape == expected.shape, (result.shape, expected.shape)
    for shard in result.addressable_shards:
        found, wanted = np.asarray(shard.data), expected[shard.index]
        assert found.dtype == wanted.dtype and (found == wanted).all(), (found, wanted)


def run(function, data, mesh, spec, out_spec):
    mapped = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=out_spec, check_vma=False)
    return jax.jit(mapped)(spread(data, mesh, spec))


# ----------------------------------------------------------------------------------------------- all_reduce


def test_sum_of_every_dtype():
    n = jax.device_count()
    for dtype in REDUCED:
        data = numbers((n, 50), dtype)
        check(run(lambda a: lax.psum(a, "x"), data, line(), P("x"), P()), data.astype(np.result_type(dtype)).sum(0, keepdims=True).astype(dtype))


def test_greatest_and_least_of_every_dtype():
    n = jax.device_count()
    for dtype in REDUCED + ["bool"]:
        if dtype.startswith("complex"):
            continue
        data = numbers((n, 50), dtype)
        check(run(lambda a: lax.pmax(a, "x"), data, line(), P("x"), P()), data.max(0, keepdims=True))
        check(run(lambda a: lax.pmin(a, "x"), data, line(), P("x"), P()), data.min(0, keepdims=True))


def test_mean_of_large_arrays():
    n = jax.device_count()
    data = numbers((n, 300_001), "float32")
    check(run(lambda a: lax.pmean(a, "x"), data, line(), P("x"), P()), data.mean(0, keepdims=True, dtype=np.float64).astype(np.float32))


def test_sum_of_several_arrays_at_once():
    n = jax.device_count()
    mesh = line()
    first, second = numbers((n, 100), "int32"), numbers((n, 200), "float32")
    mapped = jax.shard_map(lambda a, b: lax.psum((a, b), "x"), mesh=mesh, in_specs=(P("x"), P("x")), out_specs=(P(), P()), check_vma=False)
    results = jax.jit(mapped)(spread(first, mesh, P("x")), spread(second, mesh, P("x")))
    check(results[0], first.sum(0, keepdims=True).astype(np.int32))
    check(results[1], second.sum(0, keepdims=True))


def test_sum_in_groups():
    n = jax.device_count()
    groups = [list(range(0, n, 2)), list(range(1, n, 2))]
    data = numbers((n, 30), "int32")
    expected = np.stack([data[device % 2 :: 2].sum(0) for device in range(n)]).astype(np.int32)
    check(run(lambda a: lax.psum(a, "x", axis_index_groups=groups), data, line(), P("x"), P("x")), expected)


def test_sum_of_the_devices_of_each_process():
    mine = jax.local_devices()
    mesh = Mesh(np.array(mine), ("x",))
    data = numbers((len(mine), 10), "float32") + jax.process_index()
    check(run(lambda a: lax.psum(a, "x"), data, mesh, P("x"), P()), data.sum(0, keepdims=True))


def test_the_same_bits_on_all_devices():
    n = jax.device_count()
    data = np.random.default_rng(7).standard_normal((n, 10_000)).astype(np.float32)
    sums = run(lambda a: lax.psum(a, "x"), data, line(), P("x"), P("x"))
    bits = run(lambda a: lax.all_gather(a, "x", tiled=True), np.zeros((n, 1), np.float32), line(), P("x"), P())  # a warm communicator
    assert bits.shape == (n, 1)
    parts = [np.asarray(shard.data) for shard in sums.addressable_shards]
    first = run(lambda a: lax.pmax(a, "x"), np.repeat(parts[0], n, 0), line(), P("x"), P())
    assert all((np.asarray(shard.data) == part).all() for shard in first.addressable_shards for part in parts)


# ------------------------------------------------------------------------------- all_gather, psum_scatter


def test_gather_of_every_dtype():
    n = jax.device_count()
    for dtype in MOVED:
        if dtype.startswith("float16") or dtype.startswith("float8"):
            continue  # XLA says: unsupported
        data = numbers((n, 3, 5), dtype)
        check(run(lambda a: lax.all_gather(a, "x"), data, line(), P("x"), P()), data.reshape(n, 1, 3, 5))
        check(run(lambda a: lax.all_gather(a, "x", axis=1, tiled=True), data, line(), P("x"), P()), data.reshape(1, n * 3, 5))


def test_what_xla_refuses_is_an_error():
    n = jax.device_count()
    for function in (lambda a: lax.psum(a, "x"), lambda a: lax.all_gather(a, "x")):
        try:
            run(function, numbers((n, 3), "float16"), line(), P("x"), P()).block_until_ready()
        except Exception as error:
            assert "Unsupported primitive type for reduction: f16" in str(error), error
        else:
            raise AssertionError("XLA reduces float16 over MPI: docs/start/jax.md says that it does not")


def test_scatter_of_sums():
    n = jax.device_count()
    for dtype in REDUCED:
        data = numbers((n, n * 4), dtype)
        expected = data.sum(0, dtype=data.dtype).astype(dtype).reshape(n, 4)
        check(run(lambda a: lax.psum_scatter(a[0], "x", tiled=True)[None], data, line(), P("x"), P("x")), expected)


# ----------------------------------------------------------------------------------- all_to_all, ppermute


def test_exchange_of_every_dtype():
    n = jax.device_count()
    for dtype in MOVED:
        data = numbers((n * n, 3), dtype)
        expected = data.reshape(n, n, 3).transpose(1, 0, 2).reshape(n * n, 3)
        check(run(lambda a: lax.all_to_all(a, "x", 0, 0, tiled=True), data, line(), P("x"), P("x")), expected)


def test_exchange_of_rows_for_columns():
    n = jax.device_count()
    data = numbers((2 * n, 3 * n), "float32")
    check(run(lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), data, line(), P("x", None), P(None, "x")), data)


def test_permutations():
    n = jax.device_count()
    for dtype in MOVED:
        data = numbers((n, 9), dtype)
        ring = [(i, (i + 1) % n) for i in range(n)]
        check(run(lambda a: lax.ppermute(a, "x", ring), data, line(), P("x"), P("x")), np.roll(data, 1, 0))
    # A device that gets nothing has zeros.
    expected = np.zeros_like(data)
    expected[1] = data[0]
    check(run(lambda a: lax.ppermute(a, "x", [(0, 1)]), data, line(), P("x"), P("x")), expected)


def test_many_permutations_of_large_arrays():
    n = jax.device_count()
    data = numbers((n, 200_000), "float32")
    ring = [(i, (i + 1) % n) for i in range(n)]

    def around(a):
        return lax.fori_loop(0, 5 * n, lambda _, b: lax.ppermute(b, "x", ring), a)

    check(run(around, data, line(), P("x"), P("x")), data)


# ----------------------------------------------------------------------------------------------- axis_index


def test_places():
    n = jax.device_count()
    zeros = np.zeros((n,), np.int32)
    check(run(lambda a: a + lax.axis_index("x"), zeros, line(), P("x"), P("x")), np.arange(n, dtype=np.int32))
    mesh = plane()
    zeros = np.zeros((n // 2, 2), np.int32)
    expected = (10 * np.arange(n // 2)[:, None] + np.arange(2)[None]).astype(np.int32)
    check(run(lambda a: a + 10 * lax.axis_index("x") + lax.axis_index("y"), zeros, mesh, P("x", "y"), P("x", "y")), expected)


# ----------------------------------------------------------------------------------------------------- pjit


def test_matrices_on_a_plane():
    n = jax.device_count()
    mesh = plane()
    data = numbers((4 * n, 6), "float32")
    product = jax.jit(lambda a: a @ a.T, out_shardings=NamedSharding(mesh, P("x", "y")))
    check(product(spread(data, mesh, P("x", "y"))), data @ data.T)


def test_sums_that_xla_finds_itself():
    n = jax.device_count()
    mesh = plane()
    data = numbers((4 * n, 6), "int32")
    total = jax.jit(lambda a: a.sum(), out_shardings=NamedSharding(mesh, P()))(spread(data, mesh, P("x", "y")))
    check(total, np.asarray(data.sum(), total.dtype))
    rows = jax.jit(lambda a: a.sum(1), out_shardings=NamedSharding(mesh, P("x")))(spread(data, mesh, P("x", "y")))
    check(rows, data.sum(1).astype(rows.dtype))


def test_other_shardings_and_orders_of_devices():
    n = jax.device_count()
    data = numbers((2 * n, 2 * n), "float32")
    devices = jax.devices()
    shuffled = Mesh(np.array(devices[::2] + devices[1::2]), ("x",))
    array = spread(data, line(), P("x"))
    check(jax.device_put(array, NamedSharding(line(), P(None, "x"))), data)
    doubled = jax.jit(lambda a: a + a.T, out_shardings=NamedSharding(shuffled, P("x")))
    check(doubled(spread(data, shuffled, P("x"))), data + data.T)


def test_programs_within_programs():
    n = jax.device_count()
    mesh = line()
    inner = jax.jit(lambda a: a * 2)
    outer = jax.jit(lambda a: inner(inner(a)).sum(), out_shardings=NamedSharding(mesh, P()))
    data = numbers((16 * n,), "float32")
    for _ in range(20):
        check(outer(spread(data, mesh, P("x"))), np.float32(4 * data.sum()))


def test_many_programs_under_way():
    """Dispatch is asynchronous: the programs of a process run one behind the other, in the same order everywhere.

    XLA, also with gloo, gets stuck where a process has several devices and more programs under way than it admits, 32.
    """
    n = jax.device_count()
    mesh = line()
    first = jax.jit(jax.shard_map(lambda a: lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False))
    second = jax.jit(jax.shard_map(lambda a: lax.pmax(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False))
    data = numbers((n, 1000), "float32")
    array = spread(data, mesh, P("x"))
    results = [(first if i % 3 else second)(array) for i in range(100 if DEVICES == 1 else 20)]
    for i, result in enumerate(results):
        check(result, data.sum(0, keepdims=True) if i % 3 else data.max(0, keepdims=True))


def test_gradients():
    n = jax.device_count()
    mesh = line()
    data = numbers((n, 8), "float32")

    def loss(weights, a):
        return ((a @ weights) ** 2).sum()

    weights = np.arange(8, dtype=np.float32)
    sharding = NamedSharding(mesh, P())
    gradient = jax.jit(jax.grad(loss), out_shardings=sharding)(spread(weights, mesh, P()), spread(data, mesh, P("x")))
    check(gradient, (2 * (data @ weights) @ data).astype(np.float32))


def main():
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", DEVICES)
    tutti_jax.initialize()
    assert jax.local_device_count() == DEVICES and jax.device_count() == DEVICES * jax.process_count()
    tests = [function for name, function in globals().items() if name.startswith("test_")]
    for test in tests:
        try:
            test()
        except BaseException:
            print(f"process {jax.process_index()}: {test.__name__} failed", file=sys.stderr, flush=True)
            raise
    print(f"{len(tests)} tests with {jax.process_count()} processes of {DEVICES} devices passed")


main()
