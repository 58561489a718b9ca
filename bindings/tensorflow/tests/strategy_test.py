"""Trains a model of tf-keras with MultiWorkerMirroredStrategy and prints its losses: over Tutti, or with `grpc` over TensorFlow's own
transport, which takes the workers' addresses from TF_CONFIG. The lines of both must be the same."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_USE_LEGACY_KERAS"] = "1"

if sys.argv[1:] != ["grpc"]:
    import tutti_tensorflow

    tutti_tensorflow.enable()

import tensorflow as tf

tf.keras.utils.set_random_seed(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
count, rank = strategy.num_replicas_in_sync, strategy.cluster_resolver.task_id
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(32), tf.keras.layers.Dense(1)]
    )
    model.compile(optimizer=tf.keras.optimizers.SGD(0.01, momentum=0.9), loss="mse")
inputs = tf.random.stateless_normal([256, 16], [1, 2])
data = tf.data.Dataset.from_tensor_slices((inputs, tf.reduce_sum(inputs[:, :4], 1, keepdims=True))).batch(32)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
history = model.fit(data.with_options(options), epochs=3, verbose=0)
if rank == 0:
    print(count, *[loss.hex() for loss in map(float, history.history["loss"])], flush=True)
