"""Every function of horovod.tensorflow against what must come out, on as many ranks as start it.

Run as `tutti-run -n N python -m tutti.horovod tensorflow_functions.py`: it imports Horovod as programs do.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError

assert HorovodInternalError is hvd.HorovodInternalError is horovod.HorovodInternalError

FLOATS = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
INTEGERS = [tf.uint8, tf.int8, tf.int32, tf.int64]


def equal(got, wanted):
    wanted = tf.cast(wanted, got.dtype)
    assert isinstance(got, tf.Tensor) and got.shape == wanted.shape, (got, wanted)
    tf.debugging.assert_equal(got, wanted)


def raises(kinds, function, *arguments, says=(), **keywords):
    try:
        function(*arguments, **keywords)
    except kinds as error:
        for text in [says] if isinstance(says, str) else says:
            assert text in str(error), str(error)
        return
    raise AssertionError(f"{function} raised nothing")


def of_rank(rank, dtype=tf.float32, shape=(2, 3)):
    return tf.cast(tf.reshape(tf.range(tf.reduce_prod(shape)), shape) % 3 + rank + 1, dtype)


def both(function):
    """Eager and in a tf.function give the same."""
    function(lambda call: call())
    function(lambda call: tf.function(call)())


def test_allreduce(r, n):
    def check(run):
        for dtype in FLOATS + INTEGERS:
            stack = tf.stack([tf.cast(of_rank(rank, dtype), tf.float64) for rank in range(n)])
            mine = of_rank(r, dtype)
            for op, wanted in (
                (hvd.Sum, tf.reduce_sum(stack, 0)), (hvd.Min, tf.reduce_min(stack, 0)),
                (hvd.Max, tf.reduce_max(stack, 0)), (hvd.Product, tf.reduce_prod(stack, 0)),
            ):
                got = run(lambda: hvd.allreduce(mine, op=op))
                assert got.dtype == dtype
                equal(got, tf.cast(wanted, dtype))
            equal(mine, of_rank(r, dtype))  # the tensor itself has not changed
        equal(run(lambda: hvd.allreduce(tf.constant(float(r)))), (n - 1) / 2)
        equal(run(lambda: hvd.allreduce(tf.constant(float(r)), average=False)), float(sum(range(n))))
        equal(run(lambda: hvd.allreduce(tf.zeros([0]), name="empty")), tf.zeros([0]))
        factors = {"op": hvd.Sum, "prescale_factor": 0.5, "postscale_factor": 3.0}
        for dtype in FLOATS:
            equal(run(lambda: hvd.allreduce(tf.ones([4], dtype), **factors)), tf.fill([4], 1.5 * n))
        equal(run(lambda: hvd.allreduce(tf.ones([4], tf.int32), op=hvd.Sum, prescale_factor=2.0)), tf.fill([4], 2 * n))
        compressed = run(lambda: hvd.allreduce(tf.fill([3], 1.0 + r), compression=hvd.Compression.fp16))
        equal(compressed, tf.fill([3], (n + 1) / 2))
        assert compressed.dtype == tf.float32

    both(check)
    variable = tf.Variable([float(r)])
    equal(hvd.allreduce(variable, op=hvd.Sum), [float(sum(range(n)))])
    equal(hvd.allreduce([1, 2], op=hvd.Sum), [n, 2 * n])


def test_grouped_allreduce(r, n):
    def check(run):
        tensors = [tf.fill([3], float(r)), tf.ones([2, 2], tf.float64), tf.ones([1], tf.int64)]
        a, b, c = run(lambda: hvd.grouped_allreduce(tensors, op=hvd.Sum))
        equal(a, tf.fill([3], float(sum(range(n)))))
        equal(b, tf.fill([2, 2], tf.cast(n, tf.float64)))
        equal(c, [n])

    both(check)
    raises(ValueError, hvd.grouped_allreduce, [], says="grouped_allreduce")


def test_slices(r, n):
    def check(run):
        slices = tf.IndexedSlices(tf.fill([2, 3], float(r + 1)), tf.constant([0, r + 1], tf.int64), tf.constant([n + 1, 3], tf.int64))
        got = run(lambda: tf.convert_to_tensor(hvd.allreduce(slices, op=hvd.Sum)))
        equal(got, [[n * (n + 1) / 2] * 3] + [[float(rank + 1)] * 3 for rank in range(n)])
        got = run(lambda: tf.convert_to_tensor(hvd.allreduce(slices)))
        equal(got[0], [(n + 1) / 2] * 3)

    both(check)
    slices = tf.IndexedSlices(tf.ones([1, 1]), tf.constant([0]), tf.constant([1, 1]))
    raises(ValueError, hvd.allreduce, slices, op=hvd.Max, says="IndexedSlices")


def test_allgather(r, n):
    def check(run):
        for dtype in FLOATS + INTEGERS + [tf.bool, tf.complex64]:
            own = lambda rank: tf.cast(tf.fill([rank + 1, 2], rank % 2), dtype)
            equal(run(lambda: hvd.allgather(own(r))), tf.concat([own(rank) for rank in range(n)], 0))
        only_last = tf.fill([3 if r == n - 1 else 0, 2], 7.0)
        equal(run(lambda: hvd.allgather(only_last, name="uneven")), tf.fill([3, 2], 7.0))
        a, b = run(lambda: hvd.grouped_allgather([tf.constant([r]), tf.fill([1, 2], float(r))]))
        equal(a, tf.range(n))
        equal(b[:, 1], tf.cast(tf.range(n), tf.float32))

    both(check)
    raises(ValueError, hvd.allgather, 1.0, says="allgather takes tensors with a first dimension")


def test_broadcast(r, n):
    def check(run):
        for root in range(n):
            for dtype in FLOATS + INTEGERS + [tf.bool]:
                equal(run(lambda: hvd.broadcast(of_rank(r, dtype), root)), of_rank(root, dtype))

    both(check)
    variables = [tf.Variable(tf.fill([2], float(r))), tf.Variable(r, dtype=tf.int64)]
    hvd.broadcast_variables(variables, root_rank=n - 1)
    equal(variables[0].value(), [n - 1.0] * 2)
    equal(variables[1].value(), n - 1)

    @tf.function
    def change():
        variables[0].assign_add([float(r), 0.0])
        hvd.broadcast_variables(variables[:1], 0)

    change()
    equal(variables[0].value(), [n - 1.0] * 2)
    assert hvd.broadcast_(variables, 0)[0] is variables[0]
    raises(ValueError, hvd.broadcast, tf.ones([1]), n, says="root_rank")


def test_alltoall(r, n):
    def check(run):
        equal(run(lambda: hvd.alltoall(tf.range(n) * 10 + r)), [r * 10 + rank for rank in range(n)])
        splits = [rank + r for rank in range(n)]  # to rank `rank`
        send = tf.fill([sum(splits) + 1, 2], float(r))
        got, received = run(lambda: hvd.alltoall(send, splits))
        equal(received, [r + rank for rank in range(n)])
        equal(got, tf.concat([tf.fill([r + rank, 2], float(rank)) for rank in range(n)], 0))

    both(check)
    if n > 1:
        raises(ValueError, hvd.alltoall, tf.ones([n + 1]), says="divided")
    raises(ValueError, hvd.alltoall, tf.ones([n]), [0.5] * n, says="integers")


def test_reducescatter(r, n):
    rows = 2 * n + 1  # the first rank gets one more
    first, count = (0, 3) if r == 0 else (2 * r + 1, 2)

    def check(run):
        for dtype in FLOATS + INTEGERS:
            send = tf.cast(tf.reshape(tf.range(rows * 2), [rows, 2]), dtype)
            equal(run(lambda: hvd.reducescatter(send, op=hvd.Sum)), (send * tf.cast(n, dtype))[first : first + count])
        a, b = run(lambda: hvd.grouped_reducescatter([tf.ones([rows]), tf.ones([rows], tf.float64)], op=hvd.Sum, prescale_factor=2.0))
        equal(a, tf.fill([count], 2.0 * n))
        equal(b, tf.fill([count], tf.cast(2 * n, tf.float64)))

    both(check)


def test_gradients(r, n):
    def check(run):
        def gradient(function, tensor):
            variable = tf.Variable(tensor)

            def call():
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(function(variable.value()) * (r + 1))
                return tape.gradient(loss, variable)

            return run(call)

        total = n * (n + 1) / 2
        equal(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), tf.ones([3])), [total] * 3)
        equal(gradient(hvd.allreduce, tf.ones([3])), [total / n] * 3)
        equal(gradient(lambda x: hvd.broadcast(x, 0), tf.ones([3])), [total / n if r == 0 else 0.0] * 3)
        equal(gradient(hvd.allgather, tf.ones([r + 1, 2])), tf.fill([r + 1, 2], total / n))
        equal(gradient(hvd.alltoall, tf.ones([n])), tf.range(1.0, n + 1))
        equal(gradient(lambda x: hvd.alltoall(x, [1] * n)[0], tf.ones([n + 1])), [*map(float, range(1, n + 1)), 0.0])
        equal(gradient(hvd.reducescatter, tf.ones([n])), tf.range(1.0, n + 1))

    both(check)


def test_objects(r, n):
    thing = {"rank": r, "list": [1, (2, "three")]}
    assert hvd.broadcast_object(thing, n - 1)["rank"] == n - 1
    assert hvd.broadcast_object_fn(0, name="thing")(thing) == {"rank": 0, "list": [1, (2, "three")]}
    assert [each["rank"] for each in hvd.allgather_object(thing)] == list(range(n))


def test_process_sets(r, n):
    if n < 2:
        return
    even, odd = hvd.add_process_set(range(0, n, 2)), hvd.add_process_set([*range(1, n, 2)])
    own, other = (odd, even) if r % 2 else (even, odd)
    both(lambda run: equal(run(lambda: hvd.allreduce(tf.constant([r]), op=hvd.Sum, process_set=own)), [sum(own.ranks)]))
    both(lambda run: equal(run(lambda: hvd.allgather(tf.constant([r]), process_set=own)), own.ranks))
    hvd.barrier(process_set=own)
    raises(ValueError, hvd.allreduce, tf.ones([1]), process_set=other, says="not in process set")
    for one in (even, odd):
        hvd.remove_process_set(one)


def test_tape(r, n):
    table, weight = tf.Variable(tf.ones([4, 2])), tf.Variable([1.0, 2.0])
    unused = tf.Variable(1.0)

    def gradients(**options):
        with tf.GradientTape() as tape:
            rows = tf.gather(table, [r % 4, 0])
            loss = tf.reduce_sum(rows * weight) * (r + 1)
        tape = hvd.DistributedGradientTape(tape, **options)
        assert isinstance(tape, tf.GradientTape)
        return tape.gradient(loss, {"t": table, "w": [weight], "u": unused})

    for options in ({}, {"compression": hvd.Compression.fp16}, {"gradient_predivide_factor": 2.0}, {"sparse_as_dense": True}):
        for run in (gradients, tf.function(gradients)):
            got = run(**options)
            assert got["u"] is None
            if n > 1:
                assert isinstance(got["t"], tf.IndexedSlices) != options.get("sparse_as_dense", False)
            wanted = sum((rank + 1) * 2.0 for rank in range(n)) / n
            equal(got["w"][0], [wanted, wanted])
            rows = [0.0] * 4
            for rank in range(n):
                rows[rank % 4] += (rank + 1) / n
                rows[0] += (rank + 1) / n
            tf.debugging.assert_near(tf.convert_to_tensor(got["t"]), [[row, 2 * row] for row in rows])
    equal(gradients(op=hvd.Sum)["w"][0], [2.0 * n * (n + 1) / 2] * 2)
    raises(ValueError, hvd.DistributedGradientTape, 3)
    raises(ValueError, hvd.DistributedGradientTape, tf.GradientTape(), op=hvd.Sum, gradient_predivide_factor=2.0)


def test_disagreements(r, n):
    """Eager, the error is Horovod's; a graph wraps it in one of TensorFlow's with its text. Texts name the program's call."""
    if n > 1:
        names = ("rank 0", "rank 1")
        mine = tf.ones([2 + (r == 1)])
        raises(HorovodInternalError, hvd.allreduce, mine, name="s", says=('"allreduce.s"', "shape (2)", "(3)") + names)
        wrapped = tf.function(lambda: hvd.allreduce(mine, name="s"))
        raises(tf.errors.OpError, wrapped, says=('"allreduce.s"', "shape (2)", "(3)") + names)
        some = [tf.ones([2])] * (2 + (r == 1))
        raises(HorovodInternalError, hvd.grouped_allreduce, some, says=('"grouped_allreduce.noname.', "number of tensors"))
    raises(ValueError, hvd.grouped_allreduce, [tf.constant([True])], says="grouped_allreduce: there are no reductions of bool")
    raises(ValueError, hvd.allreduce, tf.constant([True]), says="allreduce: there are no reductions of bool")
    raises(ValueError, hvd.allreduce, tf.constant(["text"]), says="string")
    raises(NotImplementedError, hvd.allreduce, tf.ones([1]), op=hvd.Adasum, says="Adasum")
    raises(ValueError, hvd.allreduce, tf.ones([1]), op="Mean")
    equal(hvd.allreduce(tf.ones([1])), [1.0])


def test_join(r, n):
    """Rank r has r + 1 batches; those that have no more count as zeros."""
    for batch in range(r + 1):
        equal(hvd.allreduce(tf.fill([3], 2.0), op=hvd.Sum, name=f"batch.{batch}"), [2.0 * (n - batch)] * 3)
    assert 0 <= hvd.join() < n


def main():
    raises(ValueError, hvd.rank, says="hvd.init()")
    raises(ImportError, __import__, "horovod.tensorflow.elastic", says="elastic")
    tf.get_logger().setLevel("ERROR")  # that tests trace functions again and again is on purpose
    hvd.init()
    for name, function in list(globals().items()):
        if name.startswith("test_") and (not sys.argv[1:] or name in sys.argv[1:]):
            try:
                function(hvd.rank(), hvd.size())
            except BaseException:
                print(f"{name} failed", file=sys.stderr, flush=True)
                raise
            hvd.barrier()
    print(f"rank {hvd.rank()} of {hvd.size()}: all functions are right", flush=True)


main()
