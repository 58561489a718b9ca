"""Trains a small classifier with horovod.tensorflow: tutti-run -n 2 python3 -m tutti.horovod classifier.py

Each rank takes every n-th example of a batch, so the losses are those of one process that has the whole batch:
python3 -m tutti.horovod classifier.py
"""

import argparse

import horovod.tensorflow as hvd
import tensorflow as tf

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=60)
arguments = parser.parse_args()

hvd.init()
rank, size = hvd.rank(), hvd.size()

tf.random.set_seed(rank)  # so that the ranks begin with different models, until they get that of rank 0
variables = [tf.Variable(tf.random.normal([32, 64]) * 0.2), tf.Variable(tf.random.normal([64, 4]) * 0.2)]
hvd.broadcast_variables(variables, root_rank=0)

inputs = tf.random.stateless_normal([512, 32], [2, 1])
labels = tf.argmax(tf.matmul(inputs, tf.random.stateless_normal([32, 4], [2, 2])), axis=1)


@tf.function
def step(own_inputs, own_labels):
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(tf.matmul(own_inputs, variables[0]))
        logits = tf.matmul(hidden, variables[1])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(own_labels, logits))
    tape = hvd.DistributedGradientTape(tape)
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        variable.assign_sub(0.5 * gradient)
    return hvd.allreduce(loss, name="loss")


for number in range(arguments.steps):
    loss = step(inputs[rank::size], labels[rank::size])
    if rank == 0 and (number % 10 == 0 or number == arguments.steps - 1):
        print(f"step {number:3d}  loss {float(loss):.6f}", flush=True)
