"""A thread that waits for an operation that no rank matches does not keep the program from ending.

    tutti-run -n 2 python -m tutti.horovod threads.py
"""

import threading
import time

import horovod.torch as hvd
import torch

hvd.init()
rank = hvd.rank()


def wait_for_nobody():
    try:
        hvd.allreduce(torch.ones(1), name=f"of rank {rank} alone")
    except hvd.HorovodInternalError as error:
        assert f'"allreduce.of rank {rank} alone"' in str(error), error
        print(f"rank {rank} ends: {error}", flush=True)


threading.Thread(target=wait_for_nobody).start()
hvd.allreduce(torch.ones(1))
time.sleep(0.2)  # the thread waits by now
