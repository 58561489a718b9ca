"""Trains a small classifier with MultiWorkerMirroredStrategy, its gradients summed by Tutti: tutti-run -n 2 python multi_worker.py

Each worker takes every n-th example of a synthetic data set. --collectives grpc leaves the sums to TensorFlow, for comparison; then the
workers' addresses must be in TF_CONFIG.
"""

import argparse
import os

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--collectives", choices=["tutti", "grpc"], default="tutti")
parser.add_argument("--steps", type=int, default=60)
arguments = parser.parse_args()

if arguments.collectives == "tutti":
    import tutti_tensorflow

    tutti_tensorflow.enable()  # before the strategy is made

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
worker, workers = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync

with strategy.scope():
    tf.random.set_seed(7)
    initial = [tf.random.stateless_normal([32, 64], [1, 1]) * 0.2, tf.random.stateless_normal([64, 4], [1, 2]) * 0.2]
    variables = [tf.Variable(value) for value in initial]

inputs = tf.random.stateless_normal([512, 32], [2, 1])
labels = tf.argmax(tf.matmul(inputs, tf.random.stateless_normal([32, 4], [2, 2])), axis=1)
own_inputs, own_labels = inputs[worker::workers], labels[worker::workers]


@tf.function
def step():
    def on_each():
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.matmul(own_inputs, variables[0]))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(own_labels, tf.matmul(hidden, variables[1]))
            loss = tf.reduce_sum(losses) / tf.cast(len(labels), tf.float32)
        gradients = tape.gradient(loss, variables)
        context = tf.distribute.get_replica_context()
        for variable, gradient in zip(variables, context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)):
            variable.assign_sub(0.5 * gradient)
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(on_each), axis=None)


for number in range(arguments.steps):
    loss = step()
    if worker == 0 and (number % 10 == 0 or number == arguments.steps - 1):
        print(f"step {number:3d}  loss {float(loss):.6f}", flush=True)
