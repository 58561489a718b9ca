"""The process group does what torch.distributed promises. Every rank runs this: tutti-run -n 3 python3 group_test.py

Needs 3 ranks. The last tests end their groups by failures.
"""

import datetime
import gc
import os
import sys
import time
import warnings

import torch
import torch.distributed as dist

import tutti
import tutti_torch
import tutti_torch.hooks

warnings.simplefilter("ignore")
tutti_torch.register()
torch.set_num_threads(1)
dist.init_process_group("tutti", timeout=datetime.timedelta(seconds=100))
rank, size = dist.get_rank(), dist.get_world_size()
group = dist.group.WORLD
in_python = isinstance(group, tutti_torch._group.TuttiGroup)
assert in_python is (os.environ.get("TUTTI_TORCH_BACKEND") == "python") or "TUTTI_TORCH_BACKEND" not in os.environ
assert isinstance(tutti_torch.communicator(), tutti.Communicator)
RANKS = range(size)
ALL = size * (size - 1) // 2


def equal(tensor, wanted):
    found = tensor.tolist()
    assert found == wanted, f"rank {rank}: {found}, not {wanted}"


def every_dtype_is_reduced():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int64):
        tensor = torch.full((5,), rank + 1).to(dtype)
        dist.all_reduce(tensor)
        equal(tensor, [size * (size + 1) // 2] * 5)
    flags = torch.tensor([rank == 0, True, False])
    dist.all_reduce(flags)
    equal(flags, [True, True, False])
    number = torch.tensor([complex(1, rank)])
    dist.all_reduce(number)
    equal(number, [complex(size, ALL)])


def every_operation_is_known():
    for op, wanted in (
        (dist.ReduceOp.MAX, size),
        (dist.ReduceOp.MIN, 1),
        (dist.ReduceOp.PRODUCT, 6),
        (dist.ReduceOp.AVG, 2),
        (dist.ReduceOp.BOR, 3),
        (dist.ReduceOp.BAND, 0),
        (dist.ReduceOp.BXOR, 0),
    ):
        tensor = torch.tensor([rank + 1])
        dist.all_reduce(tensor, op)
        equal(tensor, [wanted])


def tensors_may_have_gaps():
    tensor = torch.arange(12.0).view(3, 4).t()
    assert not tensor.is_contiguous()
    dist.all_reduce(tensor)
    equal(tensor, (torch.arange(12.0).view(3, 4).t() * size).tolist())
    outputs = [torch.zeros(2, 3).t() for _ in RANKS]
    dist.all_gather(outputs, torch.full((2, 3), float(rank)).t())
    for r in RANKS:
        equal(outputs[r], [[r, r]] * 3)
    whole = torch.zeros(size * 2, 2)[:, 0]
    group._allgather_base(whole, torch.full((2,), float(rank))).wait()
    equal(whole, [float(r) for r in RANKS for _ in range(2)])


def blocks_go_where_they_belong():
    whole = torch.zeros(size, 2)
    group._allgather_base(whole, torch.full((2,), float(rank))).wait()
    equal(whole[:, 1], list(RANKS))
    part = torch.zeros(2)
    group._reduce_scatter_base(part, torch.arange(2.0 * size)).wait()
    equal(part, [2 * rank * size, (2 * rank + 1) * size])
    dist.reduce_scatter(part, [torch.full((2,), float(r)) for r in RANKS])
    equal(part, [rank * size] * 2)
    outputs = [torch.zeros(1) for _ in RANKS] if rank == 1 else None
    dist.gather(torch.tensor([float(rank)]), outputs, dst=1)
    if rank == 1:
        equal(torch.cat(outputs), list(RANKS))
    dist.scatter(part, [torch.full((2,), 7.0 * r) for r in RANKS] if rank == 2 else None, src=2)
    equal(part, [7.0 * rank] * 2)
    dist.reduce(part, dst=0)
    if rank == 0:
        equal(part, [7.0 * ALL] * 2)
    said = torch.tensor([rank])
    dist.broadcast(said, 1)
    equal(said, [1])


def rows_are_exchanged():
    to_them = [1 + (rank + r) % 2 for r in RANKS]
    sent = torch.full((sum(to_them), 2), float(rank))
    received = torch.zeros(sum(to_them), 2)
    dist.all_to_all_single(received, sent, to_them, to_them)
    equal(received[:, 0], [r for r in RANKS for _ in range(to_them[r])])
    outputs = [torch.zeros(rows, 2) for rows in to_them]
    dist.all_to_all(outputs, list(sent.split(to_them)))
    equal(torch.cat(outputs)[:, 1], received[:, 0].tolist())
    even = torch.zeros(size, dtype=torch.bool)
    dist.all_to_all_single(even, torch.arange(size) == rank)
    equal(even, [r == rank for r in RANKS])


def several_tensors_are_one_call():
    tensors = [torch.ones(2), torch.ones(3, dtype=torch.float64), torch.ones(2, 2).t()]
    group.allreduce_coalesced(tensors).wait()
    assert all((tensor == size).all() for tensor in tensors)
    wholes = [torch.zeros(size * 2), torch.zeros(size, dtype=torch.int32)]
    parts = [torch.full((2,), float(rank)), torch.tensor([rank], dtype=torch.int32)]
    group.allgather_into_tensor_coalesced(wholes, parts).wait()
    equal(wholes[1], list(RANKS))
    group.reduce_scatter_tensor_coalesced(parts, wholes).wait()
    equal(parts[0], [rank * size] * 2)
    lists = [[torch.zeros(1), torch.zeros(2)] for _ in RANKS]
    group.allgather_coalesced(lists, [torch.tensor([float(rank)]), torch.ones(2)]).wait()
    equal(torch.cat([of_rank[0] for of_rank in lists]), list(RANKS))
    group._start_coalescing(torch.device("cpu"))
    some = [torch.ones(3) for _ in range(4)]
    for tensor in some:
        group.allreduce([tensor])
    group._end_coalescing(torch.device("cpu")).wait()
    assert all((tensor == size).all() for tensor in some)


def messages_have_sources():
    right, left = (rank + 1) % size, (rank - 1) % size
    sent = dist.isend(torch.tensor([rank, 5]), right, tag=3)
    got = torch.zeros(2, dtype=torch.int64)
    assert dist.recv(got, tag=3) == left
    sent.wait()
    equal(got, [left, 5])
    place = torch.zeros(2, 2)[:, 1]
    works = [dist.isend(torch.ones(2) * rank, left), dist.irecv(place, right)]
    for work in works:
        work.wait()
    equal(place, [right] * 2)


def futures_are_completed():
    total = torch.ones(1000)
    future = group.allreduce([total]).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert doubled.wait()[0] == 2 * size
    works = [dist.all_reduce(torch.ones(k + 1), async_op=True) for k in range(50)]
    futures = [work.get_future() for work in works]
    while not works[-1].is_completed():
        pass
    assert [future.wait()[0][0].item() for future in futures] == [size] * 50
    assert works[0].is_success() and works[0].exception() is None
    equal(works[1].result()[0], [size] * 2)


def work_may_be_dropped():
    tensors = [torch.ones(100000) for _ in range(20)]
    for tensor in tensors:
        group.allreduce([tensor])
        gc.collect()
    dist.barrier()
    # What was started before the barrier may end after it, but not after the next call of this kind.
    group.allreduce([torch.ones(1)]).wait()
    while not all(tensor[-1] == size for tensor in tensors):
        pass


def one_rank_may_wait_where_others_do_not():
    tensor = torch.ones(3)
    if rank == 0:
        dist.all_reduce(tensor, async_op=True).wait()
    else:
        dist.all_reduce(tensor)
    equal(tensor, [size] * 3)


def sparse_tensors_are_summed():
    sparse = torch.sparse_coo_tensor([[rank, 0]], [1.0, 10.0], (size,))
    dist.all_reduce(sparse)
    equal(sparse.to_dense(), [1.0 + 10.0 * size] + [1.0] * (size - 1))
    assert sparse.is_coalesced() and sparse._nnz() == size
    # Several entries of one place, two sparse dimensions, and rows.
    places = [[2, rank, 2], [1, 0, 1]]
    rows = torch.tensor([[1, 2], [3, 4], [5, 6]]) * (rank + 1)
    for dtype in (torch.int64, torch.float16, torch.bfloat16):
        sparse = torch.sparse_coo_tensor(places, rows.to(dtype), (size + 3, 2, 2))
        expected = torch.zeros((size + 3, 2, 2), dtype=dtype)
        for other in range(size):
            expected[2, 1] += torch.tensor([6, 8], dtype=dtype) * (other + 1)
            expected[other, 0] += torch.tensor([3, 4], dtype=dtype) * (other + 1)
        dist.all_reduce(sparse)
        equal(sparse.to_dense(), expected.tolist())
    flags = torch.sparse_coo_tensor([[rank]], [True], (size + 1,))
    dist.all_reduce(flags)
    equal(flags.to_dense(), [True] * size + [False])
    # Ranks that have nothing, and nothing at all.
    empty = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), torch.empty(0), (4,))
    given = torch.sparse_coo_tensor([[3]], [2.0], (4,)) if rank == 0 else empty.clone()
    dist.all_reduce(given)
    equal(given.to_dense(), [0, 0, 0, 2])
    dist.all_reduce(empty)
    assert empty._nnz() == 0
    # A rank that differs, and one that is wrong, end the call on all.
    other_size = 4 if rank == 0 else 5
    differs = torch.sparse_coo_tensor([[1]], [1.0], (other_size,))
    for wrong, op, words in ((differs, dist.ReduceOp.SUM, "row_count"), (given, dist.ReduceOp.MAX, "only be summed")):
        try:
            dist.all_reduce(wrong, op=op)
        except (ValueError, RuntimeError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def groups_have_their_own_ranks():
    pair = dist.new_group([0, 2])
    halves = group.split_group([0, 2])
    if rank == 1:
        assert halves is None
        return
    tensor = torch.tensor([1 << rank])
    dist.all_reduce(tensor, group=pair)
    equal(tensor, [5])
    assert halves.size() == 2 and halves.rank() == rank // 2
    halves.allreduce([tensor]).wait()
    equal(tensor, [10])
    halves.shutdown()


def gradients_are_averaged():
    for hook, tolerance in ((None, 0), (tutti_torch.hooks.fp16, 1e-3), (tutti_torch.hooks.bf16, 1e-2)):
        torch.manual_seed(1)
        model = torch.nn.Linear(4, 2)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        if hook is not None:
            parallel.register_comm_hook(None, hook)
        parallel(torch.full((1, 4), float(rank))).sum().backward()
        assert (model.weight.grad - ALL / size).abs().max() <= tolerance, model.weight.grad


def storages_are_registered():
    tensor = torch.full((1000,), float(rank))
    tutti_torch.register_storage(tensor)
    tutti_torch.register_storage(tensor[10:20])  # the same storage
    dist.all_reduce(tensor)
    equal(tensor[:3], [ALL] * 3)
    tutti_torch.unregister_storage(tensor[5:])
    tutti_torch.unregister_storage(tensor)
    for wrong in (tensor, torch.empty(0), torch.empty(5, device="meta")):
        try:
            tutti_torch.unregister_storage(wrong)
        except RuntimeError as error:
            assert error.status == tutti.Status.INVALID_BUFFER
        else:
            raise AssertionError("what is not registered was unregistered")
    try:
        tutti_torch.register_storage(torch.empty(0))
    except tutti.InvalidArgument:
        pass
    else:
        raise AssertionError("a storage of 0 bytes was registered")


def mistakes_change_nothing():
    for wrong in (
        lambda: group._allgather_base(torch.zeros(size), torch.zeros(2)),
        lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4)),
        lambda: group.allreduce([torch.zeros(1), torch.zeros(1)]),
        lambda: dist.all_reduce(torch.zeros(1), dist.ReduceOp.BAND),
    ):
        try:
            wrong()
        except (ValueError, RuntimeError):
            continue
        raise AssertionError("a mistake passes")
    dist.barrier()


def a_shut_group_takes_no_calls():
    """Neither while another thread frees it, nor afterwards."""
    own = [dist.new_group([one]) for one in RANKS][rank]
    communicator = tutti_torch.communicator(own)
    tensor = torch.ones(3)
    calls = (
        lambda: dist.all_reduce(tensor, group=own),
        lambda: dist.all_reduce(tensor, group=own, async_op=True),
        lambda: dist.all_gather([torch.zeros(3)], tensor, group=own),
        lambda: dist.barrier(own),
    )

    def expect_refusals():
        for call in calls:
            try:
                call()
            except RuntimeError as error:
                assert isinstance(error, tutti.InvalidArgument) and "closed" in str(error), error
            else:
                raise AssertionError("a shut group takes a call")

    for call in calls:
        call()
    communicator._state.is_shut = True
    expect_refusals()
    communicator._state.is_shut = False
    communicator.close()
    expect_refusals()


def a_missing_rank_is_named():
    """By a barrier that the group survives; who comes too late hears of it."""
    limit = datetime.timedelta(seconds=0.5 if rank == 0 else 60)
    if rank == 1:
        dist.barrier()
    try:
        group.monitored_barrier(limit)
    except RuntimeError as error:
        assert "Rank 1 failed to pass monitoredBarrier" in str(error), error
    else:
        raise AssertionError("nobody misses rank 1")
    if rank != 1:
        dist.barrier()
    group.monitored_barrier()


def a_deadline_has_a_name():
    """In a group of two, where only one can be missed, however slow the machine is."""
    pair = dist.new_group([0, 2], timeout=datetime.timedelta(seconds=100))
    if rank == 0:
        pair.set_timeout(datetime.timedelta(seconds=0.5))
        tensor = torch.ones(1)
        try:
            dist.all_reduce(tensor, group=pair)
        except tutti.Timeout as error:
            assert isinstance(error, RuntimeError) and error.culprit == 1, error
        else:
            raise AssertionError("rank 2 is not missed")
        try:
            pair.allreduce([tensor]).get_future().wait()
        except RuntimeError as error:
            assert "TIMEOUT" in str(error), error
        else:
            raise AssertionError("a group goes on after its end")
    dist.barrier()


class _Set:
    """Variables of the environment, in `with`."""

    def __init__(self, **variables):
        self.variables = variables

    def __enter__(self):
        os.environ.update(self.variables)

    def __exit__(self, *_):
        for name in self.variables:
            del os.environ[name]


def the_environment_has_the_deadline_where_none_is_given():
    with _Set(TUTTI_TIMEOUT="0.5s"):
        short = dist.new_group([0, 2])
    with _Set(TUTTI_TIMEOUT="0.5s", TUTTI_INIT_TIMEOUT="0.5s"):
        long = dist.new_group([0, 2], timeout=datetime.timedelta(seconds=100))
    if rank == 0:
        try:
            dist.all_reduce(torch.ones(1), group=short)
        except tutti.Timeout as error:
            assert error.culprit == 1, error
        else:
            raise AssertionError("rank 2 is not missed")
    if rank == 2:
        time.sleep(1.5)
    if rank != 1:
        dist.all_reduce(torch.ones(1), group=long)
    dist.barrier()


def the_environment_says_how_long_ranks_wait_for_each_other():
    """With a rank that never comes: otherwise this would take 30 minutes, or 100 seconds."""
    default = dist.distributed_c10d.default_pg_timeout
    for option, given in ("0.5s", default), ("100s", datetime.timedelta(seconds=0.5)):
        with _Set(TUTTI_INIT_TIMEOUT=option):
            try:
                tutti_torch._group.create(dist.HashStore(), 0, 2, given)
            except tutti.Timeout as error:
                assert "1" in str(error), error
            else:
                raise AssertionError("rank 1 is not missed")
    dist.barrier()


def an_abort_ends_calls():
    other = dist.new_group()
    if rank == 0:
        other.abort()
        return
    try:
        dist.barrier(other)
    except tutti.Aborted as error:
        assert isinstance(error, RuntimeError) and error.culprit == 0, error
    else:
        raise AssertionError("an aborted group goes on")


TESTS = [
    every_dtype_is_reduced,
    every_operation_is_known,
    tensors_may_have_gaps,
    blocks_go_where_they_belong,
    rows_are_exchanged,
    several_tensors_are_one_call,
    messages_have_sources,
    futures_are_completed,
    work_may_be_dropped,
    one_rank_may_wait_where_others_do_not,
    sparse_tensors_are_summed,
    groups_have_their_own_ranks,
    gradients_are_averaged,
    storages_are_registered,
    mistakes_change_nothing,
    a_shut_group_takes_no_calls,
    a_missing_rank_is_named,
    the_environment_has_the_deadline_where_none_is_given,
    the_environment_says_how_long_ranks_wait_for_each_other,
    a_deadline_has_a_name,
    an_abort_ends_calls,
]
for test in TESTS:
    print(test.__name__, file=sys.stderr, flush=True)
    test()
dist.barrier()
dist.destroy_process_group()
if rank == 0:
    print(f"{len(TESTS)} passed")
