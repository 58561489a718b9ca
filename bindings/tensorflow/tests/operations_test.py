"""TensorFlow's collective operations over Tutti give what they should: tutti-run -n 4 python operations_test.py."""

import os
import random
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf
import tutti_tensorflow
from tensorflow.python.ops import collective_ops

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
raw = tf.raw_ops
ALL = 1
next_instance = 0


def instance():
    """The same on all ranks: they make the same tests in the same order."""
    global next_instance
    next_instance += 1
    return next_instance


def names(group=ALL, size=None, number=None):
    return {
        "group_size": size or SIZE,
        "group_key": group,
        "instance_key": instance() if number is None else number,
    }


def reduce(value, merge="Add", final="Id", **which):
    return raw.CollectiveReduceV2(
        input=value, ordering_token=[], merge_op=merge, final_op=final, **(which or names())
    )


def own(shape, dtype, rank=RANK):
    return tf.cast(tf.reshape(tf.range(tf.reduce_prod(shape)) % 7 + rank + 1, shape), dtype)


def every(shape, dtype):
    return [own(shape, dtype, rank) for rank in range(SIZE)]


def expect(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found, wanted)
    tf.debugging.assert_equal(found, wanted)


def reductions():
    for dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64):
        for shape in ([], [0], [5], [2, 3, 4], [40000]):
            parts = every(shape, dtype)
            expect(reduce(parts[RANK]), tf.add_n(parts))
            expect(reduce(parts[RANK], "Max"), tf.reduce_max(tf.stack(parts), 0))
            expect(reduce(parts[RANK], "Min"), tf.reduce_min(tf.stack(parts), 0))
            if dtype != tf.float16 and dtype != tf.bfloat16:
                expect(reduce(parts[RANK], "Mul"), tf.reduce_prod(tf.stack(parts), 0))
    expect(reduce(tf.fill([3], float(RANK)), final="Div"), tf.fill([3], (SIZE - 1) / 2))


def the_input_stays():
    value = tf.constant([1.0, 2.0])
    kept = tf.identity(value)
    reduce(value)
    expect(value, kept)


def moves():
    for dtype in (tf.float32, tf.int64, tf.float16):
        parts = every([2 * SIZE, 3], dtype)
        expect(
            raw.CollectiveGatherV2(input=parts[RANK], ordering_token=[], **names()), tf.concat(parts, 0)
        )
        expect(
            raw.CollectiveReduceScatterV2(
                input=parts[RANK], ordering_token=[], merge_op="Add", final_op="Id", **names()
            ),
            tf.add_n(parts)[2 * RANK : 2 * RANK + 2],
        )
        expect(
            raw.CollectiveAllToAllV2(input=parts[RANK], ordering_token=[], **names()),
            tf.concat([part[2 * RANK : 2 * RANK + 2] for part in parts], 0),
        )


def broadcasts():
    for root in range(SIZE):
        for value in (own([3, 2], tf.float32, root), tf.constant([True, False]), tf.constant(7, tf.int32)):
            which = names()
            if RANK == root:
                found = raw.CollectiveBcastSendV2(input=value, **which)
            else:
                found = raw.CollectiveBcastRecvV2(T=value.dtype, shape=value.shape, **which)
            expect(found, value)


def communicators():
    """The third version of the operations: a handle instead of keys, and each rank says its place."""
    place = SIZE - 1 - RANK
    handle = collective_ops.initialize_communicator(21, place, SIZE)
    for dtype in (tf.float32, tf.int64, tf.bfloat16):
        parts = every([2, 3], dtype)
        for reduction, wanted in (
            ("Add", tf.add_n(parts)), ("Max", tf.reduce_max(tf.stack(parts), 0)),
            ("Min", tf.reduce_min(tf.stack(parts), 0)), ("Mul", tf.cast(tf.reduce_prod(tf.cast(tf.stack(parts), tf.int64), 0), dtype)),
        ):
            expect(collective_ops.all_reduce_v3(handle, parts[RANK], reduction=reduction), wanted)
    sent = tf.reshape(tf.range(2 * SIZE), [2 * SIZE, 1]) + 100 * RANK  # rows in the order of places
    of_place = [tf.range(2 * place, 2 * place + 2) + 100 * (SIZE - 1 - other) for other in range(SIZE)]
    expect(collective_ops.all_to_all_v3(handle, sent), tf.reshape(tf.concat(of_place, 0), [2 * SIZE, 1]))
    expect(reduce(tf.ones([2]), **names(21)), tf.fill([2], float(SIZE)))  # the group of that number has no communicator

    @tf.function
    def step(value):
        for _ in range(4):  # operations on one communicator keep the order of the program
            value = collective_ops.all_reduce_v3(handle, value) + collective_ops.all_reduce_v3(handle, value)
        return value

    for _ in range(2):
        expect(step(tf.ones([3], tf.int32)), tf.fill([3], (2 * SIZE) ** 4))

    @tf.function
    def with_its_own():
        mine = collective_ops.initialize_communicator(22, RANK, SIZE)
        return collective_ops.all_reduce_v3(mine, tf.constant([RANK]))

    expect(with_its_own(), tf.constant([sum(range(SIZE))]))
    # A group's key from a table: the pairs of ranks beside each other, and a rank alone.
    if SIZE == 4:
        size, key = raw.CollectiveAssignGroupV2(group_assignment=[[0, 1], [2, 3]], device_index=RANK, base_key=30)
        expect(reduce(tf.constant([RANK]), group_size=size, group_key=key, instance_key=1), tf.constant([RANK // 2 * 4 + 1]))
    again = lambda: collective_ops.initialize_communicator(21, place, SIZE)
    refused(tf.errors.AlreadyExistsError, "group 21 has a communicator already", again)
    refused(tf.errors.InvalidArgumentError, "rank 9 of a communicator of 2", lambda: collective_ops.initialize_communicator(23, 9, 2))
    groups = tf.constant([list(range(SIZE))])
    refused(
        tf.errors.UnimplementedError, "group_assignment",
        lambda: collective_ops.all_reduce_v3(handle, sent, group_assignment=groups),
    )
    expect(collective_ops.all_reduce_v3(handle, tf.constant([1])), tf.constant([SIZE]))
    if SIZE > 1:
        same = lambda: collective_ops.initialize_communicator(24, 0, SIZE)
        refused(tf.errors.InvalidArgumentError, "both want place 0", same)


def orders_of_their_own():
    """Threads of each rank begin the collectives of two groups in an order that only this rank knows."""
    groups = {2: range(SIZE), 3: range(0, SIZE, 2)} if SIZE > 2 else {2: range(SIZE)}
    work = [(group, number) for group, ranks in groups.items() if RANK in ranks for number in range(24)]
    random.Random(f"{RANK} {time.time()}").shuffle(work)
    wrong = []

    def run(group, number):
        try:
            found = reduce(
                tf.fill([number + 1], float(RANK + number)), group_size=len(groups[group]), group_key=group,
                instance_key=number,
            )
            expect(found, tf.fill([number + 1], float(sum(rank + number for rank in groups[group]))))
        except Exception as error:  # of any kind: it is told below
            wrong.append(error)

    threads = [threading.Thread(target=run, args=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def in_a_function():
    @tf.function
    def step(value):
        with tf.control_dependencies(None):
            sums = [
                raw.CollectiveReduceV2(
                    input=value * factor, group_size=SIZE, group_key=ALL, instance_key=1000 + factor,
                    ordering_token=[], merge_op="Add", final_op="Id",
                )
                for factor in range(8)
            ]
        return tf.add_n(sums)

    for _ in range(3):
        expect(step(tf.constant([1, RANK])), tf.constant([28 * SIZE, 28 * sum(range(SIZE))]))


def refused(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"this should be refused: {text}")


def mistakes_are_told():
    one = tf.constant([1.0])
    refused(tf.errors.UnimplementedError, "merge_op Mul and final_op Div", lambda: reduce(one, "Mul", "Div"))
    refused(tf.errors.InvalidArgumentError, f"and the job has {SIZE}", lambda: reduce(one, **names(9, SIZE + 1)))
    if SIZE > 1:
        refused(
            tf.errors.InvalidArgumentError, "float32 [1]", lambda: reduce(tf.ones([1 + (RANK == SIZE - 1)]), **names(8))
        )
        refused(
            tf.errors.DeadlineExceededError, "rank",
            lambda: raw.CollectiveReduceV2(
                input=one, ordering_token=[], merge_op="Add", final_op="Id", timeout_seconds=0.3,
                **names(number=20000 + RANK),
            ),
        )
    expect(reduce(one), tf.constant([float(SIZE)]))


TESTS = [
    reductions,
    the_input_stays,
    moves,
    broadcasts,
    communicators,
    orders_of_their_own,
    in_a_function,
    mistakes_are_told,
]

if __name__ == "__main__":
    tutti_tensorflow.enable()
    os.environ.pop("TF_CONFIG", None)  # no cluster of TensorFlow's: these operations need none
    assert tutti_tensorflow.is_enabled()
    for test in TESTS:
        test()
        if RANK == 0:
            print(f"{test.__name__}: good", flush=True)
    old = collective_ops.initialize_communicator(40, RANK, SIZE)
    tutti_tensorflow.disable()
    refused(tf.errors.CancelledError, "is not enabled", lambda: reduce(tf.constant([1.0])))
    refused(tf.errors.FailedPreconditionError, "disabled", lambda: collective_ops.all_reduce_v3(old, tf.constant([1.0])))
