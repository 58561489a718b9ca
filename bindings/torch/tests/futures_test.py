"""Futures and what can go wrong on the way to them. Every rank runs this: tutti-run -n 2 python3 futures_test.py [TEST...]

Needs 2 ranks. This file has a deadline of its own for each wait that could hang.
"""

import datetime
import faulthandler
import gc
import signal
import sys
import threading
import time
import warnings

import torch
import torch.distributed as dist

import tutti_torch

faulthandler.dump_traceback_later(200, exit=True)
warnings.simplefilter("ignore")
tutti_torch.register()
torch.set_num_threads(1)
dist.init_process_group("tutti", timeout=datetime.timedelta(seconds=150))
rank, size = dist.get_rank(), dist.get_world_size()
group = dist.group.WORLD
other = 1 - rank


def value(future):
    """The value that the future has, or the error that it raises, within a minute."""
    until = time.monotonic() + 60
    while not future.done():
        assert time.monotonic() < until, "a future is not completed"
        time.sleep(0.001)
    return future.value()


def future_of(tensor):
    return dist.all_reduce(tensor, async_op=True).get_future()


def raises(kind, call, text=""):
    try:
        call()
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"no {kind.__name__}")


# ------------------------------------------------------------------------------------------------- callbacks


def a_callback_may_wait_for_another_operation():
    """As PowerSGD's does: a callback waits for an operation that it started, and so does a callback in that one."""

    def once_more(done):
        return future_of(done.value()[0] + 1).wait()[0]

    def in_the_callback_of_a_callback(done):
        inner = future_of(done.value()).then(once_more)
        return inner.wait()

    chain = future_of(torch.ones(3)).then(once_more).then(in_the_callback_of_a_callback)
    assert value(chain).tolist() == [((size + 1) * size * size + 1) * size] * 3, chain.value()


def messages_to_come(count):
    """Futures of messages, and a function that sends the other rank its own. None is done before both have called that:
    a callback is called by the thread that adds it where the future is done by then."""
    futures = [dist.irecv(torch.zeros(1), other, tag=k).get_future() for k in range(count)]

    def send():
        dist.barrier()
        for k in range(count):
            dist.send(torch.full((1,), float(k)), other, tag=k)

    return futures, send


def a_callback_may_wait_for_what_is_not_started():
    """Many of them at a time, and each for what this thread starts only when all of them wait."""
    count = 10
    waiting = threading.Semaphore(0)
    later, released = [], threading.Event()

    def callback(done):
        waiting.release()
        assert released.wait(60)
        number = done.value()[0]
        return number + later[int(number)].wait()[0]

    futures, send = messages_to_come(count)
    chains = [future.then(callback) for future in futures]
    send()
    for _ in range(count):
        assert waiting.acquire(timeout=60), "a callback waits for that of another operation"
    later.extend(future_of(torch.full((1,), float(k))) for k in range(count))
    released.set()
    assert [value(chain).item() for chain in chains] == [size * k + k for k in range(count)]


def a_callback_does_not_hold_up_who_waits():
    """Neither wait(), with and without a deadline, nor other futures wait for a callback."""
    entered, leave = threading.Event(), threading.Event()

    def callback(done):
        entered.set()
        assert leave.wait(60)

    futures, send = messages_to_come(1)
    chain = futures[0].then(callback)
    send()
    assert entered.wait(60)
    dist.all_reduce(torch.ones(1), async_op=True).wait()
    dist.all_reduce(torch.ones(1), async_op=True).wait(datetime.timedelta(seconds=50))
    work = dist.all_reduce(torch.ones(1), async_op=True)
    assert value(work.get_future())[0].item() == size
    assert work.is_completed() and not chain.done()
    leave.set()
    value(chain)


def callbacks_are_called_for_all():
    """Also where many operations end at a time, and what one raises is its own."""
    count = 300
    seen = []

    def note(number):
        def callback(done):
            seen.append(number)
            if number % 7 == 0:
                raise ValueError(f"number {number}")
            return done.value()[0].tolist()

        return callback

    before = threading.active_count()
    chains = [future_of(torch.full((2,), float(k))).then(note(k)) for k in range(count)]
    for k, chain in enumerate(chains):
        if k % 7 == 0:
            raises(Exception, lambda: value(chain), f"number {k}")
        else:
            assert value(chain) == [k * size] * 2
    assert sorted(seen) == list(range(count))
    assert threading.active_count() <= before + 30, threading.enumerate()
    # They end when nobody needs them. Ranks go on together: each turn is a collective.
    until = time.monotonic() + 60
    are_many = True
    while are_many:
        assert time.monotonic() < until, threading.enumerate()
        time.sleep(0.01)
        ranks_with_many = torch.tensor(float(threading.active_count() > before + 3))
        are_many = value(future_of(ranks_with_many))[0].item() > 0


def dropped_work_in_cycles_is_completed():
    """The garbage collector may come anywhere, also while this thread has locks."""
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        tensors = [torch.ones(4) for _ in range(100)]
        for tensor in tensors:
            cycle = [dist.all_reduce(tensor, async_op=True)]
            cycle.append(cycle)
            cycle[0].get_future()
            del cycle
    finally:
        gc.set_threshold(*threshold)
    value(future_of(torch.ones(1)))
    until = time.monotonic() + 60
    while not all(tensor[0] == size for tensor in tensors):
        assert time.monotonic() < until
        time.sleep(0.001)


# ---------------------------------------------------------------------------------------- failing completions


def repeated_elements_are_refused():
    """Before anything is sent: their dense twin could not be copied back."""
    calls = [
        lambda tensor: dist.all_reduce(tensor, async_op=True),
        lambda tensor: dist.all_reduce(tensor),
        lambda tensor: dist.all_gather_into_tensor(tensor, torch.ones(4 // size)),
        lambda tensor: dist.all_gather([tensor] * size, torch.ones(4)),
        lambda tensor: dist.reduce_scatter(tensor, [torch.ones(4)] * size),
        lambda tensor: dist.all_to_all_single(tensor, torch.ones(4)),
        lambda tensor: dist.irecv(tensor, other),
        lambda tensor: group.allreduce_coalesced([torch.ones(1), tensor]),
    ]
    if not hasattr(dist, "all_gather_into_tensor"):
        del calls[2]
    for call in calls:
        raises(ValueError, lambda: call(torch.ones(1).expand(4)), "clone()")
    # A tensor that is only read may have any layout.
    outputs = [torch.zeros(4) for _ in range(size)]
    dist.all_gather(outputs, torch.ones(1).expand(4))
    assert torch.cat(outputs).tolist() == [1.0] * 4 * size
    assert value(future_of(torch.ones(1)))[0].item() == size


def a_failing_copy_is_its_futures_error():
    """The tensor is another one when its twin comes back."""
    columns = torch.zeros(4, 2)[:, 0]
    if rank == 0:
        work = dist.irecv(columns, 1, tag=5)
        future = work.get_future()
        columns.data = torch.zeros(7)
        dist.send(torch.ones(1), 1, tag=6)
        error = raises(RuntimeError, lambda: value(future))
        assert "size" in str(error), error
        raises(RuntimeError, work.wait, "size")
        assert work.is_completed() and not work.is_success() and "size" in str(work.exception())
        quiet = torch.zeros(4, 2)[:, 0]
        blocked = dist.irecv(quiet, 1, tag=7)
        quiet.data = torch.zeros(7)
        dist.send(torch.ones(1), 1, tag=6)
        raises(RuntimeError, blocked.wait, "size")
    else:
        for tag in (5, 7):
            dist.recv(torch.zeros(1), 0, tag=6)
            dist.send(torch.ones(4), 0, tag=tag)
    # All other futures go on, those of DistributedDataParallel among them.
    assert value(future_of(torch.ones(2)))[0].tolist() == [size] * 2
    parallel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    parallel(torch.ones(1, 4)).sum().backward()


def tensors_of_inference_may_have_gaps():
    with torch.inference_mode():
        tensor = torch.ones(4, 2)[:, 0]
        work = dist.all_reduce(tensor, async_op=True)
    value(work.get_future())
    assert tensor.tolist() == [size] * 4
    with torch.inference_mode():
        dist.all_reduce(tensor)
    assert tensor.tolist() == [size * size] * 4


def a_result_is_there_when_its_work_is_done():
    """Either thread may copy it back: the one that waits or another one."""
    for _ in range(20):
        tensor = torch.ones(1000, 200).t()[:100]
        work = dist.all_reduce(tensor, async_op=True)
        future = work.get_future()
        while not work.is_completed():
            pass
        assert (tensor == size).all()
        tensor = torch.ones(1000, 200).t()[:100]
        work = dist.all_reduce(tensor, async_op=True)
        future = work.get_future()
        work.wait()
        assert (tensor == size).all()
        value(future)


# -------------------------------------------------------------------------------------- exceptions in between


class _Wrong:
    """Options that the library cannot be called with."""

    asyncOp = False
    timeout = datetime.timedelta(milliseconds=-1)
    rootRank = "nobody"


def an_exception_ends_its_group_of_calls():
    """Later blocking calls of this thread do what they say."""
    raises(Exception, lambda: group.broadcast([torch.ones(1)], _Wrong()))
    blocking_calls_block()

    class Interrupted(Exception):
        pass

    def interrupt(number, frame):
        raise Interrupted

    # A signal comes while the call is under way: it is over, and then its exception is raised.
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        if rank == 0:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            raises(Interrupted, lambda: [dist.barrier(), time.sleep(30)])
        else:
            time.sleep(0.3)
            dist.barrier()
    finally:
        signal.signal(signal.SIGALRM, before)
    blocking_calls_block()


def blocking_calls_block():
    """A rank comes later to its call, which tells that it comes; the other one's call is not over by then."""
    if rank == 0:
        arrived = time.monotonic()
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == size, tensor
        assert time.monotonic() - arrived >= 0.2
        dist.barrier()
    else:
        time.sleep(0.3)
        dist.all_reduce(torch.ones(1))
        dist.barrier()


def an_exception_ends_its_coalescing():
    if hasattr(dist, "all_gather_into_tensor"):  # later than PyTorch 1.13
        manager = dist.distributed_c10d._coalescing_manager(group, torch.device("cpu"))
    else:
        manager = dist.distributed_c10d._coalescing_manager(group, [])

    def leave_it():
        with manager:
            group.allreduce([torch.ones(1)])
            raise KeyError("of the program")

    raises(KeyError, leave_it)
    if hasattr(dist.distributed_c10d, "_world"):
        dist.distributed_c10d._world.pg_coalesce_state.pop(group, None)  # PyTorch forgets to
    blocking_calls_block()
    work = group.allreduce([torch.ones(2).t()])
    assert value(work.get_future())[0].tolist() == [size] * 2
    assert work.is_completed()
    tensors = [torch.ones(2, 2).t() for _ in range(3)]
    # The backend in C++ is reached by a group of PyTorch's own.
    device = [torch.device("cpu")] if type(group) is dist.ProcessGroup else []
    group._start_coalescing(*device)
    first = group.allreduce([tensors[0]])
    raises(ValueError, lambda: group.allreduce([torch.ones(1).expand(2)]))
    raises(ValueError, lambda: group.allreduce([torch.ones(1), torch.ones(1)]))
    for tensor in tensors[1:]:
        group.allreduce([tensor])
    whole = group._end_coalescing(*device)
    value(whole.get_future())
    assert whole.is_completed() and first.is_completed()
    assert all((tensor == size).all() for tensor in tensors), tensors


# ---------------------------------------------------------------------------------- what PyTorch's C++ asks for


def hooks_in_cpp_get_lists_of_tensors():
    for kind in (dist.BuiltinCommHookType.ALLREDUCE, dist.BuiltinCommHookType.FP16_COMPRESS):
        torch.manual_seed(1)
        model = torch.nn.Linear(4, 2)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        parallel._register_builtin_comm_hook(kind)
        for _ in range(3):
            model.zero_grad()
            parallel(torch.full((1, 4), float(rank))).sum().backward()
            assert model.weight.grad.tolist() == [[0.5] * 4] * 2, model.weight.grad


TESTS = [
    a_callback_may_wait_for_another_operation,
    a_callback_may_wait_for_what_is_not_started,
    a_callback_does_not_hold_up_who_waits,
    callbacks_are_called_for_all,
    dropped_work_in_cycles_is_completed,
    repeated_elements_are_refused,
    a_failing_copy_is_its_futures_error,
    tensors_of_inference_may_have_gaps,
    a_result_is_there_when_its_work_is_done,
    an_exception_ends_its_group_of_calls,
    an_exception_ends_its_coalescing,
    hooks_in_cpp_get_lists_of_tensors,
]
chosen = [test for test in TESTS if len(sys.argv) == 1 or test.__name__ in sys.argv]
for test in chosen:
    print(test.__name__, file=sys.stderr, flush=True)
    test()
dist.barrier()
dist.destroy_process_group()
if rank == 0:
    print(f"{len(chosen)} passed")
