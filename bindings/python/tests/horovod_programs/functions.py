"""Every function of horovod.torch against what must come out, on as many ranks as start it.

Run as `tutti-run -n N python -m tutti.horovod functions.py`: it imports Horovod as programs do.
"""

import json
import os
import sys
import tempfile

import horovod
import horovod.torch as hvd
import numpy as np
import torch
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.mpi_ops import synchronize

assert HorovodInternalError is hvd.HorovodInternalError is horovod.HorovodInternalError
assert synchronize is hvd.synchronize

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]


def equal(got, wanted):
    wanted = wanted if isinstance(wanted, torch.Tensor) else torch.tensor(wanted, dtype=got.dtype)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, (got, wanted)
    assert torch.equal(got, wanted), (got, wanted)


def raises(kinds, function, *arguments, says=(), begins="", **keywords):
    try:
        function(*arguments, **keywords)
    except kinds as error:
        for text in [says] if isinstance(says, str) else says:
            assert text in str(error), str(error)
        assert str(error).startswith(begins), str(error)
        return
    raise AssertionError(f"{function} raised nothing")


def of_rank(rank, dtype=torch.float32, shape=(2, 3)):
    return (torch.arange(int(np.prod(shape))).reshape(shape) % 3 + rank + 1).to(dtype)


def of_all(size, **how):
    return [of_rank(rank, **how) for rank in range(size)]


def test_questions(r, n):
    assert hvd.is_initialized() and (hvd.local_rank(), hvd.local_size()) == (r, n)
    assert (hvd.cross_rank(), hvd.cross_size(), hvd.is_homogeneous()) == (0, 1, True)
    for ask in "mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built".split():
        assert not getattr(hvd, ask)()
    for ask in "ddl_built ccl_built cuda_built rocm_built".split():
        assert not getattr(hvd, ask)()
    hvd.init()  # once more is no harm


def test_allreduce(r, n):
    for dtype in FLOATS + INTEGERS:
        stack = torch.stack(of_all(n, dtype=dtype)).double()
        mine = of_rank(r, dtype)
        equal(hvd.allreduce(mine, op=hvd.Sum), stack.sum(0).to(dtype))
        equal(hvd.allreduce(mine, op=hvd.Min), stack.amin(0).to(dtype))
        equal(hvd.allreduce(mine, op=hvd.Max, name="largest"), stack.amax(0).to(dtype))
        equal(hvd.allreduce(mine, op=hvd.Product), stack.prod(0).to(dtype))
        equal(mine, of_rank(r, dtype))
        mean = stack.mean(0)
        got = hvd.allreduce(mine)
        assert got.dtype == dtype
        assert torch.allclose(got.double(), mean if dtype in FLOATS else mean.trunc(), rtol=1e-2)
    equal(hvd.allreduce(of_rank(r), average=False), torch.stack(of_all(n)).sum(0))
    equal(hvd.allreduce(torch.tensor(2.5)), torch.tensor(2.5))
    equal(hvd.allreduce(torch.empty(0)), torch.empty(0))
    equal(hvd.allreduce(torch.ones(4), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0), torch.full((4,), 1.5 * n))
    equal(hvd.allreduce(torch.ones(4, dtype=torch.int32), op=hvd.Sum, prescale_factor=2.0), torch.full((4,), 2 * n, dtype=torch.int32))
    equal(hvd.allreduce(torch.ones(4, dtype=torch.bfloat16), op=hvd.Sum, postscale_factor=0.5), torch.full((4,), n / 2, dtype=torch.bfloat16))
    equal(hvd.allreduce(torch.full((3,), 1.0 + r), compression=hvd.Compression.fp16), torch.full((3,), (n + 1) / 2))


def test_allreduce_in_place_and_async(r, n):
    tensor = of_rank(r)
    assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
    equal(tensor, torch.stack(of_all(n)).sum(0))
    gaps = of_rank(r).t()
    assert hvd.allreduce_(gaps, op=hvd.Sum, prescale_factor=2.0) is gaps
    equal(gaps, 2 * torch.stack(of_all(n)).sum(0).t())
    parameter = torch.nn.Parameter(torch.full((3,), float(r)))
    hvd.allreduce_(parameter, op=hvd.Max)
    equal(parameter.data, torch.full((3,), n - 1.0))
    handles = [hvd.allreduce_async(torch.full((5,), float(i)), name=f"n{i}", op=hvd.Sum) for i in range(50)]
    for i in reversed(range(50)):
        equal(hvd.synchronize(handles[i]), torch.full((5,), float(i * n)))
        assert hvd.poll(handles[i])
    equal(hvd.synchronize(handles[3]), torch.full((5,), 3.0 * n))  # once more
    tensor = torch.ones(3)
    assert hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum)) is tensor
    equal(tensor, torch.full((3,), float(n)))


def test_grouped_allreduce(r, n):
    tensors = [torch.ones(3) * r, torch.ones(2, 2, dtype=torch.float64), torch.ones(1, dtype=torch.int64)]
    results = hvd.grouped_allreduce(tensors, op=hvd.Sum, name="group")
    equal(results[0], torch.full((3,), float(sum(range(n)))))
    equal(results[1], torch.full((2, 2), n, dtype=torch.float64))
    equal(results[2], torch.tensor([n]))
    assert hvd.grouped_allreduce_(tensors, op=hvd.Sum)[1] is tensors[1]
    equal(tensors[2], torch.tensor([n]))
    equal(hvd.synchronize(hvd.grouped_allreduce_async([torch.ones(2)]))[0], torch.ones(2))
    equal(hvd.synchronize(hvd.grouped_allreduce_async_([torch.ones(2)], op=hvd.Sum))[0], torch.full((2,), float(n)))
    raises(ValueError, hvd.grouped_allreduce, [])


def test_sparse_allreduce(r, n):
    sparse = torch.sparse_coo_tensor([[0, r + 1]], [1.0, 2.0], (n + 1,))
    got = hvd.sparse_allreduce_async(sparse, name="sparse", op=hvd.Sum)().to_dense()
    equal(got, [float(n)] + [2.0] * n)


def test_allgather(r, n):
    for dtype in FLOATS + INTEGERS + [torch.bool, torch.complex64, torch.complex128]:
        wanted = torch.cat([torch.full((rank + 1, 2), rank % 2).to(dtype) for rank in range(n)])
        equal(hvd.allgather(torch.full((r + 1, 2), r % 2).to(dtype)), wanted)
    only_last = torch.full((3 if r == n - 1 else 0, 2), 7.0)
    equal(hvd.allgather(only_last, name="uneven"), torch.full((3, 2), 7.0))
    equal(hvd.allgather(torch.empty(0, 4)), torch.empty(0, 4))
    equal(hvd.synchronize(hvd.allgather_async(torch.tensor([r]))), torch.arange(n))
    a, b = hvd.grouped_allgather([torch.tensor([r]), torch.full((1, 2), float(r)).t().contiguous().t()])
    equal(a, torch.arange(n))
    equal(b, torch.arange(n).float().unsqueeze(1).expand(n, 2))
    assert len(hvd.synchronize(hvd.grouped_allgather_async([torch.ones(1)] * 3))) == 3
    raises(ValueError, hvd.allgather, torch.tensor(1.0))


def test_broadcast(r, n):
    for root in range(n):
        for dtype in FLOATS + INTEGERS + [torch.bool, torch.complex64]:
            equal(hvd.broadcast(of_rank(r, dtype), root), of_rank(root, dtype))
        tensor = of_rank(r)
        assert hvd.broadcast_(tensor, root, name="b") is tensor
        equal(tensor, of_rank(root))
        gaps = of_rank(r).t()
        equal(hvd.broadcast_(gaps, root), of_rank(root).t())
        equal(hvd.synchronize(hvd.broadcast_async(torch.tensor(r), root)), torch.tensor(root))
        equal(hvd.synchronize(hvd.broadcast_async_(torch.tensor(r), root)), torch.tensor(root))
    raises(ValueError, hvd.broadcast, torch.ones(1), n, says="root_rank")


def test_alltoall(r, n):
    equal(hvd.alltoall(torch.arange(n) * 10 + r), [r * 10 + rank for rank in range(n)])
    splits = torch.tensor([rank + r for rank in range(n)])  # to rank `rank`
    send = torch.full((int(splits.sum()), 2), float(r))
    got, received = hvd.alltoall(send, splits)
    equal(received, [r + rank for rank in range(n)])
    equal(got, torch.cat([torch.full((r + rank, 2), float(rank)) for rank in range(n)]))
    got, received = hvd.synchronize(hvd.alltoall_async(torch.ones(n, 3, dtype=torch.float16)))
    assert got.shape == (n, 3) and received.tolist() == [1] * n
    empty, received = hvd.alltoall(torch.empty(0, 2), [0] * n)
    assert empty.shape == (0, 2) and received.tolist() == [0] * n
    raises(ValueError, hvd.alltoall, torch.ones(n + 1), [1] * (n + 1))
    if n > 1:
        raises(ValueError, hvd.alltoall, torch.ones(n + 1), says="divided")


def test_reducescatter(r, n):
    rows = 2 * n + 1  # the first rank gets one more
    first, count = (0, 3) if r == 0 else (2 * r + 1, 2)
    for dtype in FLOATS + INTEGERS:
        send = torch.arange(rows * 2).reshape(rows, 2).to(dtype)
        equal(hvd.reducescatter(send, op=hvd.Sum), (send.double() * n)[first : first + count].to(dtype))
        equal(hvd.reducescatter(send), send[first : first + count])
    send = torch.ones(rows)
    equal(hvd.reducescatter(send, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5), torch.full((count,), float(n)))
    equal(send, torch.ones(rows))
    equal(hvd.synchronize(hvd.reducescatter_async(send, op=hvd.Sum)), torch.full((count,), float(n)))
    a, b = hvd.grouped_reducescatter([send, send.double()], compression=hvd.Compression.fp16)
    equal(a, torch.ones(count))
    equal(b, torch.ones(count, dtype=torch.float64))
    one_row = hvd.reducescatter(torch.ones(1, 2), op=hvd.Sum)  # fewer rows than ranks
    equal(one_row, torch.full((1 if r == 0 else 0, 2), float(n)))


def test_gradients(r, n):
    def gradient(function, tensor):
        tensor = tensor.requires_grad_()
        out = function(tensor)
        (out * (r + 1)).sum().backward()
        return tensor.grad

    total = n * (n + 1) / 2
    equal(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), torch.ones(3)), torch.full((3,), total))
    equal(gradient(hvd.allreduce, torch.ones(3)), torch.full((3,), total / n))
    equal(gradient(lambda x: hvd.broadcast(x, 0), torch.ones(3)), torch.full((3,), total / n if r == 0 else 0.0))
    equal(gradient(hvd.allgather, torch.ones(r + 1, 2)), torch.full((r + 1, 2), total / n))
    equal(gradient(hvd.alltoall, torch.ones(n)), torch.arange(n) + 1.0)
    equal(gradient(hvd.reducescatter, torch.ones(n)), torch.arange(n) + 1.0)


def test_objects(r, n):
    thing = {"rank": r, "list": [1, (2, "three")]}
    assert hvd.broadcast_object(thing, n - 1)["rank"] == n - 1
    assert hvd.broadcast_object(thing, 0, name="thing") == {"rank": 0, "list": [1, (2, "three")]}
    assert [each["rank"] for each in hvd.allgather_object(thing)] == list(range(n))
    assert hvd.allgather_object("x" * r, name="texts") == ["x" * rank for rank in range(n)]


def test_state(r, n):
    torch.manual_seed(r)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    hvd.broadcast_parameters(model.state_dict(), root_rank=n - 1)
    torch.manual_seed(n - 1)
    equal(model[0].weight.data, torch.nn.Linear(4, 3).weight.data)
    hvd.broadcast_parameters(list(model.named_parameters()), root_rank=0)
    hvd.broadcast_parameters([p.data for p in model.parameters()], root_rank=0)
    for kind in (torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad):
        optimizer = kind(model.parameters(), lr=0.1 * (r + 1))
        if r == 0:  # the others have no state yet
            for p in model.parameters():
                p.grad = torch.full_like(p, 2.0)
            optimizer.step()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert optimizer.param_groups[0]["lr"] == 0.1
        states = hvd.allgather_object(str(optimizer.state_dict()))
        assert len(set(states)) == 1
    raises(ValueError, hvd.broadcast_parameters, 3, 0)


def test_process_sets(r, n):
    assert hvd.global_process_set.ranks == list(range(n)) and hvd.global_process_set.rank() == r
    if n < 2:
        return
    even, odd = hvd.add_process_set(hvd.ProcessSet(range(0, n, 2))), hvd.add_process_set([*range(1, n, 2)])
    own, other = (odd, even) if r % 2 else (even, odd)
    assert own.included() and not other.included() and own.rank() == r // 2
    assert own.size() == len(own.ranks) and other.size() == len(other.ranks)
    equal(hvd.allreduce(torch.tensor([float(r)]), op=hvd.Sum, process_set=own), [float(sum(own.ranks))])
    equal(hvd.allgather(torch.tensor([r]), process_set=own), own.ranks)
    equal(hvd.broadcast(torch.tensor([r]), own.ranks[-1], process_set=own), own.ranks[-1:])
    equal(hvd.alltoall(torch.tensor([r] * own.size()), process_set=own), own.ranks)
    assert hvd.reducescatter(torch.ones(own.size()), op=hvd.Sum, process_set=own).tolist() == [own.size()]
    assert hvd.allgather_object(r, process_set=own) == own.ranks
    hvd.barrier(process_set=own)
    raises(ValueError, hvd.allreduce, torch.ones(1), process_set=other, says="not in process set")
    raises(ValueError, hvd.broadcast, torch.ones(1), other.ranks[0], process_set=own, says="root_rank")
    raises(ValueError, hvd.add_process_set, range(0, n, 2), says="duplicate")
    assert hvd.remove_process_set(even) and not hvd.remove_process_set(even)
    assert not hvd.remove_process_set(hvd.global_process_set)
    raises(ValueError, hvd.allreduce, torch.ones(1), process_set=even, says="not registered")
    again = hvd.add_process_set(range(0, n, 2))
    if again.included():
        equal(hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=again), [float(again.size())])
    raises(ValueError, hvd.add_process_set, [0, n], says="has not")
    raises(ValueError, hvd.ProcessSet, [0, 0])


def test_disagreements(r, n):
    """Each rank gets an error that names the name, ranks and both values; and all go on."""
    error = hvd.HorovodInternalError
    if n > 1:
        names = ("rank 0", "rank 1")
        shape = torch.ones(2 + (r == 1))
        raises(error, hvd.allreduce, shape, name="s", says=('"allreduce.s"', "shape (2)", "(3)") + names)
        dtype = torch.float64 if r == 1 else torch.float32
        raises(error, hvd.allreduce, torch.ones(2, dtype=dtype), name="d", says=("float32", "float64") + names)
        raises(error, hvd.allreduce, torch.ones(2), op=hvd.Min if r == 1 else hvd.Max, name="o", says=("Max", "Min"))
        raises(error, hvd.broadcast, torch.ones(2), int(r == 1), name="r", says="root 0, but rank 1 has 1")
        raises(error, hvd.allgather, torch.ones(2, 2 + (r == 1)), name="g", says="(any, 2), but rank 1 has (any, 3)")
        raises(error, hvd.allreduce, torch.ones(2), prescale_factor=1.0 + (r == 1), name="p", says="prescale_factor")
        raises(error, hvd.grouped_allreduce, [torch.ones(2)] * (2 + (r == 1)), name="n", says="number of tensors")
        raises(error, hvd.add_process_set, [0, 1] if r == 1 else [0], says="ranks")
        handle = hvd.allreduce_async(torch.ones(2), name="twice") if r == 0 else None
        if r == 0:
            raises(ValueError, hvd.allreduce_async, torch.ones(2), name="twice", says='"allreduce.twice"')
        handle = handle or hvd.allreduce_async(torch.ones(2), name="twice")
        hvd.synchronize(handle)
    raises(NotImplementedError, hvd.allreduce, torch.ones(1), op=hvd.Adasum, says="Adasum")
    raises(ValueError, hvd.allreduce, torch.ones(1), op="Mean")
    raises(ValueError, hvd.allreduce, torch.ones(1), op=hvd.Sum, average=True)
    raises(ValueError, hvd.allreduce, torch.ones(1, dtype=torch.bool), says="bool")
    for call in ("allreduce", "grouped_allreduce", "reducescatter", "grouped_reducescatter"):  # not one inside of it
        wrong = torch.ones(n, dtype=torch.bool)
        wrong = [wrong] if call.startswith("grouped") else wrong
        raises(ValueError, getattr(hvd, call), wrong, says="no reductions", begins=f"{call}:")
    raises(ValueError, hvd.allgather, torch.tensor(1.0), begins="allgather takes")
    raises(ValueError, hvd.grouped_allgather, [torch.tensor(1.0)], begins="grouped_allgather takes")
    if n > 1:
        two = [torch.ones(2 + (r == 1)), torch.ones(1)]
        raises(error, hvd.grouped_allreduce, two, begins='"grouped_allreduce.noname.')
        raises(error, hvd.grouped_reducescatter, [two[0].view(1, -1)], name="g", begins='"grouped_reducescatter.g"')
    raises(ValueError, hvd.allreduce, "no tensor", begins="allreduce takes")
    raises(ValueError, hvd.allreduce, torch.ones(1), name="x" * 5000, says="a name")
    raises(ValueError, hvd.poll, 3)
    equal(hvd.allreduce(torch.ones(1)), torch.ones(1))


def test_join(r, n):
    """Rank r has r + 1 batches; those that have no more count as zeros."""
    for _ in range(2):
        for batch in range(r + 1):
            going = n - batch  # ranks that still have one
            equal(hvd.allreduce(torch.full((3,), 2.0), op=hvd.Sum, name=f"batch.{batch}"), torch.full((3,), 2.0 * going))
            equal(hvd.allreduce(torch.ones(2, dtype=torch.bfloat16), name="mean"), torch.full((2,), going / n, dtype=torch.bfloat16))
            equal(hvd.allgather(torch.tensor([r]), name="who"), list(range(batch, n)))
        if r == n - 1 and n > 1:
            raises(hvd.HorovodInternalError, hvd.allreduce, torch.ones(1), op=hvd.Max, says="join()")
            raises(hvd.HorovodInternalError, hvd.broadcast, torch.ones(1), 0, says="join()")
            equal(hvd.broadcast(torch.tensor([5.0]), r), [5.0])
        last = hvd.join()
        assert 0 <= last < n
        assert len(set(hvd.allgather_object(last))) == 1


def test_sync_batch_norm(r, n):
    torch.manual_seed(0)
    whole = torch.randn(2 * n + n * (n - 1) // 2, 3, 4)  # rank r has 2 + r of them
    at = sum(2 + rank for rank in range(r))
    mine = whole[at : at + 2 + r].clone().requires_grad_()
    whole.requires_grad_()
    reference, layer = torch.nn.BatchNorm1d(3), hvd.SyncBatchNorm(3)
    wanted, got = reference(whole), layer(mine)
    assert torch.allclose(got, wanted[at : at + 2 + r], atol=1e-5)
    (wanted**3).sum().backward()
    (got**3).sum().backward()
    assert torch.allclose(mine.grad, whole.grad[at : at + 2 + r], atol=1e-4)
    assert torch.allclose(hvd.allreduce(layer.weight.grad, op=hvd.Sum), reference.weight.grad, atol=1e-3)
    assert torch.allclose(hvd.allreduce(layer.bias.grad, op=hvd.Sum), reference.bias.grad, atol=1e-3)
    assert torch.allclose(layer.running_mean, reference.running_mean, atol=1e-6)
    assert torch.allclose(layer.running_var, reference.running_var, atol=1e-6)
    layer.eval(), reference.eval()
    assert torch.allclose(layer(mine), reference(mine), atol=1e-5)


def test_timeline(r, n):
    path = os.path.join(tempfile.gettempdir(), f"timeline.{os.getpid()}.json")
    hvd.start_timeline(path, mark_cycles=True)
    hvd.allreduce(torch.ones(3), name="seen")
    hvd.barrier()
    hvd.stop_timeline()
    hvd.allreduce(torch.ones(3), name="unseen")
    if r == 0:
        with open(path) as file:
            events = json.load(file)
        os.remove(path)
        names = {event["name"] for event in events}
        rows = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
        assert {"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "BARRIER", "CYCLE_START"} <= names, names
        assert "allreduce.seen" in rows and "allreduce.unseen" not in rows
        assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")
        raises(OSError, hvd.start_timeline, "/nowhere/at/all", says="nowhere")


def test_children(r, n):
    """A forked child is no rank, and does not disturb its parent."""
    handle = hvd.allreduce_async(torch.ones(1), name="before the fork")
    pid = os.fork()
    if pid == 0:
        try:
            assert not hvd.is_initialized()
            raises(ValueError, hvd.allreduce, torch.ones(1), says="forked")
            raises(ValueError, hvd.synchronize, handle, says="forked")
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    equal(hvd.synchronize(handle), torch.ones(1))
    equal(hvd.allreduce(torch.ones(1)), torch.ones(1))


def test_init_again(r, n):
    hvd.shutdown()
    assert not hvd.is_initialized()
    raises(ValueError, hvd.allreduce, torch.ones(1), says="hvd.init()")
    raises(ValueError, hvd.rank, says="hvd.init()")
    hvd.init(comm=list(range(n)), process_sets=[hvd.ProcessSet([0])] if n > 1 else "dynamic")
    equal(hvd.allreduce(torch.ones(1), op=hvd.Sum), [float(n)])


def main():
    torch.set_num_threads(1)
    raises(ValueError, hvd.rank, says="hvd.init()")
    raises(ImportError, __import__, "horovod.spark", says="Spark")
    raises(ImportError, __import__, "horovod.torch.elastic", says="elastic")
    raises(NotImplementedError, horovod.run, print, says="tutti-run")
    run_all()
    if hvd.size() == 4:  # the same processes again, as a job of two ranks and two of one, which saves their start
        r = hvd.rank()
        hvd.shutdown()
        job = f"{os.environ['TUTTI_JOB_ID']}-{0 if r < 2 else r}"
        os.environ.update(TUTTI_JOB_ID=job, TUTTI_RANK=str(r if r < 2 else 0), TUTTI_SIZE="2" if r < 2 else "1")
        run_all()


def run_all():
    hvd.init()
    wanted = sys.argv[1:]
    for name, function in list(globals().items()):
        if name.startswith("test_") and (not wanted or name in wanted):
            try:
                function(hvd.rank(), hvd.size())
            except BaseException:
                print(f"{name} failed", file=sys.stderr, flush=True)
                raise
            hvd.barrier()
    print(f"rank {hvd.rank()} of {hvd.size()}: all functions are right", flush=True)


main()
