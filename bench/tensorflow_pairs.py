"""Collectives of TensorFlow over Tutti beside TensorFlow's own over gRPC, in alternating pairs (pairs.py says how).

    python bench/tensorflow_pairs.py              # 2 processes, 4 KiB to 16 MiB: the table, and the geometric mean
    python bench/tensorflow_pairs.py --ranks 4 --pairs 31

Each call is one tf.function that a MultiWorkerMirroredStrategy runs, as in a training step. Needs TensorFlow and tutti_tensorflow.
"""

import os

import pairs

OPERATIONS = ("all_reduce", "all_gather")


def work(side):
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    if side == "tutti":
        import tutti_tensorflow

        tutti_tensorflow.enable()
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker, count = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync

    def call_of(name, size_bytes):
        mine = tf.fill([size_bytes // 4], 1.0 + worker)

        @tf.function
        def step():
            def on_each():
                context = tf.distribute.get_replica_context()
                if name == "all_gather":
                    return context.all_gather(mine, axis=0)
                return context.all_reduce(tf.distribute.ReduceOp.SUM, mine)

            return strategy.run(on_each)

        if name == "all_reduce":
            tf.debugging.assert_equal(step(), tf.fill(mine.shape, count * (count + 1) / 2))
        return lambda: step()

    pairs.serve(call_of)


pairs.main(__doc__, "gRPC", OPERATIONS, work)
