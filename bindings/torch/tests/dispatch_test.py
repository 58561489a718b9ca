"""Calls pass through PyTorch's dispatcher as with gloo: tutti-run -n 2 python3 dispatch_test.py [CASE...]

Each case runs with both backends, by itself, and with Tutti, where it says so, under torch.compile. The results must be the same:
tensors, counts, names, or the kind of failure. Only where gloo cannot do it at all may Tutti do more. A program that gives something
else under torch.compile than with gloo by itself is compiled with gloo, too: then that counts.
"""

import datetime
import gc
import os
import sys
import warnings
import weakref

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor, DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.profiler import ProfilerActivity, profile
from torch._subclasses.fake_tensor import FakeTensorMode

import tutti
import tutti_torch

warnings.simplefilter("ignore")
tutti_torch.register()
torch.set_num_threads(1)
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CPU = torch.device("cpu")
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0)


def own(count, dtype=torch.float32):
    """Numbers that are others on each rank."""
    return torch.arange(count, dtype=dtype) + 10 * rank


# ----------------------------------------------------------------------------------------- calls, also under torch.compile


def all_reduce(x):
    y = x + 1
    dist.all_reduce(y)
    return y * 2


def all_reduce_max(x):
    y = x + 1
    dist.all_reduce(y, dist.ReduceOp.MAX)
    return y


def all_reduce_later(x):
    y = x + 1
    work = dist.all_reduce(y, async_op=True)
    z = x * 3
    work.wait()
    return y + z


def broadcast(x):
    y = x * 2
    dist.broadcast(y, 1)
    return y + 1


def broadcast_later(x):
    y = x * 2
    dist.broadcast(y, 0, async_op=True).wait()
    return y + 1


def reduce(x):
    y = x * 2
    dist.reduce(y, 1)
    return y if rank == 1 else x


def scatter(x):
    y = torch.empty(2)
    dist.scatter(y, list(x[: 2 * size].split(2)) if rank == 0 else None, 0)
    return y + 1


def gather(x):
    parts = [torch.empty_like(x) for _ in range(size)] if rank == 1 else None
    dist.gather(x, parts, 1)
    return torch.cat(parts) if rank == 1 else x


def all_gather(x):
    parts = [torch.empty_like(x) for _ in range(size)]
    dist.all_gather(parts, x)
    return torch.cat(parts) + 1


def all_gather_into_tensor(x):
    whole = torch.empty(size * x.numel())
    dist.all_gather_into_tensor(whole, x)
    return whole + 1


def reduce_scatter(x):
    part = torch.empty(2)
    dist.reduce_scatter(part, list(x[: 2 * size].split(2)))
    return part + 1


def reduce_scatter_tensor(x):
    part = torch.empty(x.numel() // size)
    dist.reduce_scatter_tensor(part, x)
    return part + 1


def all_to_all(x):
    parts = [torch.empty(2) for _ in range(size)]
    dist.all_to_all(parts, list(x[: 2 * size].split(2)))
    return torch.cat(parts)


def all_to_all_single(x):
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x)
    return y + 1


def send_and_receive(x):
    y = x + 1
    if rank == 0:
        dist.send(y, 1)
    else:
        dist.recv(y, 0)
    return y


def send_and_receive_later(x):
    y = torch.empty_like(x)
    works = [dist.isend(x, 1 - rank), dist.irecv(y, 1 - rank)]
    for work in works:
        work.wait()
    return y


def messages_in_a_batch(x):
    y = torch.empty_like(x)
    ops = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return y


def barrier(x):
    dist.barrier()
    return x + 1


def functional_all_reduce(x):
    return functional.all_reduce(x, "sum", dist.group.WORLD) + 1


def functional_average(x):
    return functional.all_reduce(x, "avg", dist.group.WORLD) + 1


def functional_all_gather(x):
    return functional.all_gather_tensor(x, 0, dist.group.WORLD) + 1


def functional_reduce_scatter(x):
    return functional.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD) + 1


def functional_all_to_all(x):
    return functional.all_to_all_single(x, None, None, dist.group.WORLD) + 1


def functional_broadcast(x):
    return functional.broadcast(x, 0, dist.group.WORLD) + 1


def functional_coalesced(x):
    return torch.cat(functional.all_reduce_coalesced([x, x * 2], "sum", dist.group.WORLD))


COMPILED = [
    all_reduce,
    all_reduce_max,
    all_reduce_later,
    broadcast,
    broadcast_later,
    reduce,
    scatter,
    gather,
    all_gather,
    all_gather_into_tensor,
    reduce_scatter,
    reduce_scatter_tensor,
    all_to_all,
    all_to_all_single,
    send_and_receive,
    send_and_receive_later,
    messages_in_a_batch,
    barrier,
    functional_all_reduce,
    functional_average,
    functional_all_gather,
    functional_reduce_scatter,
    functional_all_to_all,
    functional_broadcast,
    functional_coalesced,
]


def called(function, how):
    def case():
        if how is None:
            return function(own(4 * size)), function(own(4 * size) + 1)
        torch._dynamo.reset()
        compiled = torch.compile(function, backend=how)
        first = compiled(own(4 * size))
        return first, compiled(own(4 * size) + 1)

    return case


# ------------------------------------------------------------------------------------------------------- other cases


def trained(how):
    """DistributedDataParallel under torch.compile: gradients after two steps."""

    def case():
        torch._dynamo.reset()
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        parallel = torch.nn.parallel.DistributedDataParallel(net)
        model = parallel if how is None else torch.compile(parallel, backend=how)
        for step in range(2):
            net.zero_grad()
            model(own(8) / 10 + step).sum().backward()
        return [parameter.grad.clone() for parameter in net.parameters()]

    return case


def recorded():
    """Names of the profiler's ranges in the order of the calls, with the backend's name taken out."""
    x, whole = own(64), torch.empty(64 * size)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.broadcast(x, 0)
        dist.reduce(x, 0)
        dist.all_gather([torch.empty(64) for _ in range(size)], x)
        dist.all_to_all_single(torch.empty(64), x)
        dist.barrier()
    ours = dist.get_backend() + ":"
    names = [event.name for event in found.events()]
    if ours == "tutti:":
        ranges = [event for event in found.events() if event.name.startswith(ours)]
        for event in ranges:
            assert event.time_range.elapsed_us() > 0, event
        told = {event.name: event.concrete_inputs for event in ranges}
        assert told["tutti:all_reduce"][-1] == 256, told  # bytes
        assert [event.input_shapes[0] for event in ranges if event.name == "tutti:all_reduce"] == [[64]] * 2
        del whole
    return sorted(name.replace(ours, "") for name in names if name.startswith((ours, "c10d::")))


def counted():
    x = own(4)
    with CommDebugMode() as counts:
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        dist.all_gather_into_tensor(torch.empty(4 * size), x)
        functional.all_reduce(x, "sum", dist.group.WORLD).sum()
    return sorted((str(op), count) for op, count in counts.get_comm_counts().items()), counts.get_total_counts()


def on_device(device):
    """Tensors without data: shapes come out, and nobody is asked for anything."""
    x, whole = torch.ones(4, device=device), torch.empty(4 * size, device=device)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.all_gather_into_tensor(whole, x)
    dist.reduce_scatter_tensor(x, whole)
    dist.all_to_all_single(x, torch.ones(4, device=device))
    summed = functional.all_reduce(x, "sum", dist.group.WORLD)
    return list(x.shape), list(whole.shape), list(summed.shape)


def faked():
    with FakeTensorMode():
        return on_device("cpu")


def imagined():
    return on_device("meta")


def grouped():
    group = dist.new_group(list(range(size)))
    x = own(3)
    dist.all_reduce(x, group=group)
    name = dist.get_backend(group) == dist.get_backend()
    description = (group.group_desc, len(group.group_name) > 0, group.size(), group.rank())
    dist.destroy_process_group(group)
    return x, name, description


def coalesced():
    tensors = [own(3), own(2) * 2]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    return tensors


def sent_as_objects():
    everybody, mine, said = [None] * size, [None], [{"from": rank}]
    dist.all_gather_object(everybody, {"rank": rank})
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    dist.broadcast_object_list(said, 1)
    to_root = [None] * size if rank == 0 else None
    dist.gather_object(rank, to_root, 0)
    return everybody, mine, said, to_root


def redistributed():
    mesh = init_device_mesh("cpu", (size,))
    rows = distribute_tensor(torch.arange(8.0 * size).view(-1, 4), mesh, [Shard(0)])
    whole = rows.redistribute(mesh, [Replicate()]).to_local()
    columns = rows.redistribute(mesh, [Shard(1)]).to_local()
    partial = DTensor.from_local(own(4), mesh, [Partial()])
    return whole, columns, partial.redistribute(mesh, [Shard(0)]).to_local(), partial.full_tensor()


def sharded():
    torch.manual_seed(5)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    fully_shard(net, mesh=init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = net(own(8) / 10).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def met():
    dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=60))
    return True


CASES = {}
PLAIN = {}  # of a compiled case, the same without the compiler
for _how in (None, "eager", "aot_eager"):
    _made = {_function.__name__: called(_function, _how) for _function in COMPILED}
    for _name, _case in {**_made, "DistributedDataParallel": trained(_how)}.items():
        CASES[f"{_name} {_how or 'called'}"] = _case
        if _how:
            PLAIN[f"{_name} {_how}"] = f"{_name} called"
for _function in (
    recorded,
    counted,
    faked,
    imagined,
    grouped,
    coalesced,
    sent_as_objects,
    redistributed,
    sharded,
    met,
):
    CASES[_function.__name__] = _function


# ------------------------------------------------------------------------------------------- what only Tutti promises


def failures_name_the_culprit():
    """Of calls under way, and of all that come later, from C++ and from Python."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=100))
    x = torch.ones(1)
    if rank == 0:
        group.set_timeout(datetime.timedelta(seconds=0.5))
        work = group.allreduce([x])
        calls = [
            work.wait,
            lambda: dist.all_reduce(x, group=group),
            lambda: dist.all_gather([x.clone(), x], x, group=group),
        ]
        for call in calls:
            try:
                call()
            except tutti.Timeout as error:
                assert isinstance(error, RuntimeError) and error.culprit == 1, error
                assert "Timed out" in str(error), error
            else:
                raise AssertionError("nobody misses rank 1")
        assert work.is_completed() and isinstance(work.exception(), tutti.Timeout), work.exception()
        try:
            work.get_future().wait()
        except RuntimeError as error:
            assert "TIMEOUT" in str(error), error
        else:
            raise AssertionError("a future of what failed has a value")
    dist.barrier()


def begin(backend, prefix):
    dist.init_process_group(
        backend,
        store=dist.PrefixStore(prefix, store),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=200),
    )
    assert dist.get_backend() == backend


def nothing_is_left():
    """After destroy_process_group: no group, no communicator, of all ranks or others, and they can be made again."""
    for number in range(2):
        begin("tutti", f"again {number}")
        kept = []
        for group in (dist.group.WORLD, dist.new_group()):
            dist.all_reduce(torch.ones(3), group=group)
            dist.all_reduce(torch.ones(3), group=group, async_op=True).wait()
            kept += [weakref.ref(tutti_torch.communicator(group)), weakref.ref(group)]
        dist.destroy_process_group(group)
        dist.destroy_process_group()
        del group
        gc.collect()
        assert [reference() for reference in kept] == [None] * 4, kept


# ---------------------------------------------------------------------------------------------------------- comparison


def outcome(case):
    try:
        return "done", case()
    except Exception as error:
        return "failed", type(error).__name__, str(error).splitlines()[:1]


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.allclose(a, b)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def is_worse(gloo, ours):
    if gloo[0] == "failed":
        # It may be gloo that cannot; what PyTorch itself cannot is the same for both.
        return ours[0] == "failed" and gloo[1] != ours[1]
    return not same(gloo, ours)


def run(backend, names, found, prefix=None):
    """With the groups of that backend, which stay."""
    begin(backend, prefix or backend)
    if backend == "tutti":
        assert type(dist.group.WORLD) is dist.ProcessGroup, "the backend in C++ is not used"
        assert dist.group.WORLD._get_backend(CPU).name() == "tutti"
    for name in names:
        found[backend, name] = outcome(CASES[name])
        dist.barrier()


def different(names, found):
    """Those compiled cases that give another result on any rank than the same without the compiler, and with gloo."""
    mine = [name for name in names if name in PLAIN and not same(found["gloo", PLAIN[name]], found["tutti", name])]
    store.set(f"different {rank}", "\n".join(mine))
    theirs = "\n".join(store.get(f"different {r}").decode() for r in range(size)).split("\n")
    return [name for name in names if name in theirs]


def main():
    names = [name for name in CASES if not sys.argv[1:] or name.split()[0] in sys.argv[1:]]
    found = {}
    run("gloo", [name for name in names if name not in PLAIN], found)
    dist.destroy_process_group()
    run("tutti", names, found)
    failures_name_the_culprit()
    dist.destroy_process_group()
    unlike = different(names, found)
    run("gloo", unlike, found, "gloo, compiled")
    dist.destroy_process_group()
    nothing_is_left()
    compared = [name for name in names if ("gloo", name) in found]
    bad = [name for name in compared if is_worse(found["gloo", name], found["tutti", name])]
    for name in bad:
        print(f"rank {rank}: {name}: gloo: {found['gloo', name]}; tutti: {found['tutti', name]}", flush=True)
    for name in compared:
        kinds = [found[backend, name][0] for backend in ("gloo", "tutti")]
        if rank == 0 and kinds[0] == "failed":
            print(f"{name}: gloo: {found['gloo', name][1:]}; tutti: {found['tutti', name][:1]}", flush=True)
    if bad:
        sys.exit(1)
    if rank == 0:
        print(f"{len(names)} cases are as with gloo, which had to compile {len(unlike)}", flush=True)


main()
