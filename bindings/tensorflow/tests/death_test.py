"""Rank 1 is killed while the others wait for it: each gets an error that names it, within a second or two."""

import os
import signal
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf
import tutti_tensorflow

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
tutti_tensorflow.enable()


def reduce(instance):
    return tf.raw_ops.CollectiveReduceV2(
        input=tf.ones([1000]), group_size=SIZE, group_key=1, instance_key=instance, ordering_token=[], merge_op="Add",
        final_op="Id",
    )


reduce(1)
open(f"through.{RANK}", "w").close()
if RANK == 1:
    while not all(os.path.exists(f"through.{rank}") for rank in range(SIZE)):  # what it has sent last may be lost with it
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
begin = time.monotonic()
try:
    reduce(2)
except tf.errors.UnavailableError as error:
    text = str(error)
    wanted = "PROC_FAILED: CollectiveReduceV2 sum float32 [1000] of group 1, instance 2: rank 1 (host "
    assert wanted in text and "recv" not in text and text.count("PROC_FAILED") == 1, text
    print(f"rank 1 is named after {time.monotonic() - begin:.1f} s", flush=True)
else:
    raise AssertionError("nobody misses rank 1")
