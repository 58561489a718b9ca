"""Ranks that are late, that leave, that send nonsense, and that die: all others learn which, by name, and none hangs.

    tutti-run -n 3 python -m tutti.horovod faults.py
"""

import logging
import os
import signal
import sys
import time

import horovod.torch as hvd
import torch
from tutti.horovod._basics import engine

LONG_SECONDS = 20.0  # after which a wait is taken for one that hangs


class Heard(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append((time.monotonic(), record.getMessage()))


def wait_until(is_so):
    until = time.monotonic() + LONG_SECONDS
    while not is_so():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def error_of(function, *arguments, **keywords):
    began = time.monotonic()
    try:
        function(*arguments, **keywords)
    except hvd.HorovodInternalError as error:
        seconds = time.monotonic() - began
        assert seconds < LONG_SECONDS, seconds
        return str(error), seconds
    raise AssertionError("no error")


def again(**environment):
    """The same ranks begin anew."""
    hvd.shutdown()
    os.environ.update(environment)
    hvd.init()
    hvd.barrier()


def late(r):
    """A rank that has not submitted a name is warned of after two seconds, by both."""
    heard = Heard()
    logging.getLogger("tutti.horovod").addHandler(heard)
    began = time.monotonic()
    if r == 0:
        handle = hvd.allreduce_async(torch.ones(1), name="missing", op=hvd.Sum)
        wait_until(lambda: any("missing" in text for _, text in heard.texts))
        when, text = next(each for each in heard.texts if "missing" in each[1])
        assert 'rank 2 did not submit "allreduce.missing", which ranks 0, 1 did' in text, text
        assert when - began >= 1.9, when - began
        print(f"late: warned of after {when - began:.2f} s")
        assert not hvd.poll(handle)
        hvd.allreduce(torch.ones(1), name="another")  # others go on meanwhile
    elif r == 1:
        handle = hvd.allreduce_async(torch.ones(1), name="missing", op=hvd.Sum)
        hvd.allreduce(torch.ones(1), name="another")
    else:
        hvd.allreduce(torch.ones(1), name="another")  # rank 0 has seen the warning
        handle = hvd.allreduce_async(torch.ones(1), name="missing", op=hvd.Sum)
    assert hvd.synchronize(handle).item() == 3
    logging.getLogger("tutti.horovod").removeHandler(heard)


def stalled(r):
    """HOROVOD_STALL_SHUTDOWN_TIME_SECONDS ends all instead."""
    again(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="0.5")
    if r != 2:
        text, seconds = error_of(hvd.allreduce, torch.ones(1), name="stall")
        print(f"stalled: ended after {seconds:.2f} s")
    else:
        wait_until(lambda: engine().failure is not None)
        text, _ = error_of(hvd.allreduce, torch.ones(1), name="stall")
    assert 'rank 2 did not submit "allreduce.stall"' in text, text
    again(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="0")


def left(r):
    """A rank shuts down while others wait for it, also one that coordinates."""
    for leaver in (2, 0):
        if r == leaver:
            hvd.shutdown()
        else:
            text, _ = error_of(hvd.allreduce, torch.ones(1), name="left")
            # The third rank may have been told, and have shut down, too, before this one submitted it.
            ranks = text.rpartition("rank")[2]
            assert str(leaver) in ranks and "shut down Horovod" in text, text
        again()


def nonsense(r):
    """A member sends what is no message, and what is none for a member; the coordinator what is no order."""
    submission = ["allreduce.x", "allreduce", "Sum", None, 1.0, 1.0, [["float32", [2], []]]]
    unknown = ["orders", [["run", ["allreduce.never"], [], []]]]
    cases = [
        (1, ["ready", [submission[:6] + [[["float32", [-2], []]]]]], "-2"),
        (1, ["ready", [submission, submission]], "for the second time"),
        (1, ["orders", []], "orders"),
        (0, unknown, "allreduce.never"),
        (0, {"orders": 3}, "orders"),
    ]
    for sender, message, says in cases:
        if r == sender:
            channel = engine().sets[0].channel
            engine().call(lambda: channel.send(message, [1] if r == 0 else [0]))
        text, _ = error_of(hvd.allreduce, torch.ones(1), name="y" if r == 2 else "x" * (r + 1))
        assert says in text, text
        again()


def killed(r):
    """The others' handles, those that come later, and waits in join() end with the name of the rank."""
    handles = [hvd.allreduce_async(torch.ones(1000), name=f"n{i}") for i in range(5) if r != 1]
    if r == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    text, seconds = error_of(hvd.synchronize, handles[0])
    assert text.startswith('"allreduce.n0": PROC_FAILED: rank 1 (host ') and "recv" not in text, text
    for handle in handles[1:]:
        error_of(hvd.synchronize, handle)
    later, _ = error_of(hvd.barrier)
    assert later.startswith('"barrier.noname.') and "rank 1 (host " in later, later
    error_of(hvd.join)
    print(f"killed: named after {seconds - 0.5:.2f} s: {text}", flush=True)
    hvd.shutdown()


def main():
    logging.basicConfig()
    torch.set_num_threads(1)
    hvd.init()
    for case in (late, stalled, left, nonsense, killed):
        if not sys.argv[1:] or case.__name__ in sys.argv[1:]:
            case(hvd.rank())
    print("the survivor has seen all", flush=True)


main()
