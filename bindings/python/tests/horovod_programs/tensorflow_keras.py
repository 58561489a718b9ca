"""Keras trains over Horovod to the losses of one process that has the ranks' batches joined. With `tf-keras`, that Keras.

    tutti-run -n 2 python -m tutti.horovod tensorflow_keras.py [tf-keras]
"""

import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
IS_LEGACY = sys.argv[1:] == ["tf-keras"]
if IS_LEGACY:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"

import horovod.keras
import horovod.tensorflow.keras as hvd
import tensorflow as tf

assert horovod.keras is hvd
BATCH, STEPS = 16, 6

inputs = tf.random.stateless_normal([BATCH * STEPS, 8], [2, 1])
wanted = tf.reduce_sum(inputs[:, :3], 1, keepdims=True)


def train(rank, size, make, is_distributed, callbacks=()):
    """The losses of epochs, of this rank's share of each batch."""
    tf.keras.utils.set_random_seed(1 + (rank if is_distributed else 0))
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="tanh"), tf.keras.layers.Dense(1)])
    model.build([None, 8])
    optimizer = make()
    if is_distributed:
        assert hvd.DistributedOptimizer(optimizer) is optimizer
    model.compile(optimizer=optimizer, loss="mse", jit_compile=False)
    shape = [STEPS, BATCH, -1]
    x, y = (tf.reshape(tf.reshape(all_, shape)[:, rank::size], [-1, all_.shape[1]]) for all_ in (inputs, wanted))
    history = model.fit(
        x.numpy(), y.numpy(), batch_size=BATCH // size, epochs=3, shuffle=False, verbose=0, callbacks=list(callbacks)
    )
    return history.history["loss"], model


def main():
    hvd.init()
    r, n = hvd.rank(), hvd.size()
    kinds = [lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9), lambda: tf.keras.optimizers.Adam(0.01)]
    for make in kinds:
        callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
        ours, model = train(r, n, make, True, callbacks)
        alone, reference = train(0, 1, make, False)
        worst = max(abs(a - b) for a, b in zip(ours, alone))
        assert worst < 1e-5 and alone[-1] < 0.7 * alone[0], (ours, alone)
        for a, b in zip(model.variables, reference.variables):
            tf.debugging.assert_near(tf.convert_to_tensor(a), tf.convert_to_tensor(b), atol=1e-5)
        assert model.optimizer.__class__.__name__ in ("SGD", "Adam")
        if r == 0:
            print(f"{model.optimizer.__class__.__name__}: {' '.join(f'{loss:.6f}' for loss in ours)}, differs by {worst:.1e}")

    # A stored model comes back with a distributed optimizer.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        again = hvd.load_model(path)
    try:
        hvd.DistributedOptimizer(again.optimizer)
    except ValueError as error:
        assert "already" in str(error), error
    else:
        raise AssertionError("the optimizer of a stored model is not distributed")

    model.compile(optimizer="sgd", loss="mse", jit_compile=True)
    if n > 1:
        try:
            model.fit(inputs.numpy(), wanted.numpy(), verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
        except ValueError as error:
            assert "jit_compile=False" in str(error), error
        else:
            raise AssertionError("XLA is not refused")
    for wrong in (tf.Variable(1.0), "sgd"):
        try:
            hvd.DistributedOptimizer(wrong)
        except ValueError as error:
            assert "DistributedGradientTape" in str(error), error
        else:
            raise AssertionError("this is no optimizer")
    try:
        hvd.DistributedOptimizer(kinds[0](), backward_passes_per_step=2)
    except NotImplementedError:
        pass
    else:
        raise AssertionError("several passes are not refused")
    hvd.allreduce(tf.zeros([1]))  # all are here
    print(f"rank {r}: trained alike", flush=True)


main()
