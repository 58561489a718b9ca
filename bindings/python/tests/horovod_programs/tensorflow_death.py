"""A rank is killed while the others wait in a graph and outside of one: each learns which, by the name of its own operation.

    tutti-run -n 3 python -m tutti.horovod tensorflow_death.py
"""

import os
import signal
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
hvd.allreduce(tf.ones([1000]), name="first")
if hvd.rank() == 1:
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
began = time.monotonic()
for call in (tf.function(lambda: hvd.allreduce(tf.ones([1000]), name="loss")), lambda: hvd.allreduce(tf.ones([1000]), name="loss")):
    try:
        call()
    except (tf.errors.OpError, hvd.HorovodInternalError) as error:
        text = str(error)
        assert '"allreduce.loss": PROC_FAILED: rank 1 (host ' in text and "recv" not in text, text
    else:
        raise AssertionError("nobody misses rank 1")
print(f"the survivor has seen all, after {time.monotonic() - began - 0.3:.2f} s", flush=True)
