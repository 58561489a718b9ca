"""The parameter server beside PyTorch: its optimizers give the bits of torch.optim, a model trains with it as without.

    tutti-run -n 3 python3 server_test.py        # rank 0 serves
"""

import os

os.environ["ATEN_CPU_CAPABILITY"] = "default"  # PyTorch's loops without fused operations, as servers have none

import shutil
import tempfile

import numpy as np
import torch

import tutti
import tutti_torch.server
from tutti import server

# PyTorch may take square roots from MKL, which rounds some of them up where IEEE 754 rounds down, or the other way round.
torch.Tensor.sqrt = lambda tensor: torch.from_numpy(np.sqrt(tensor.detach().numpy()))

STEPS = 30
COUNT = 999

PAIRS = [
    (server.SGD(0.1), lambda p: torch.optim.SGD(p, lr=0.1, foreach=False)),
    (server.SGD(0.1, weight_decay=0.01), lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01, foreach=False)),
    (server.SGD(0.1, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False)),
    (
        server.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, foreach=False),
    ),
    (
        server.Adagrad(0.1, rate_decay=0.01, initial_state=0.1),
        lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.01, initial_accumulator_value=0.1, foreach=False),
    ),
    (server.Adam(0.01), lambda p: torch.optim.Adam(p, lr=0.01, foreach=False)),
    (
        server.Adam(0.01, beta1=0.3, beta2=0.9, epsilon=1e-4, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.3, 0.9), eps=1e-4, weight_decay=0.1, foreach=False),
    ),
    (
        server.Adam(0.01, weight_decay=0.1, decoupled=True),
        lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, foreach=False),
    ),
]


def gradient_of(step, worker):
    return torch.randn(COUNT, generator=torch.Generator().manual_seed(100 * step + worker))


def expect_bits_of_torch(comm):
    """All optimizers, for a dense tensor and for rows that have gradients in each step."""
    tables = [server.Table(f"dense {i}", shape=COUNT, optimizer=ours) for i, (ours, _) in enumerate(PAIRS)]
    tables += [server.Table(f"rows {i}", rows=COUNT, optimizer=ours) for i, (ours, _) in enumerate(PAIRS)]
    begin = torch.randn(COUNT, generator=torch.Generator().manual_seed(7))
    indices = np.arange(COUNT)
    with server.Server(comm, tables, timeout=30) as made:
        made.serve()
        if not made.is_worker:
            return
        if comm.rank == 1:
            values = begin.numpy()
            made.set({f"dense {i}": values for i in range(len(PAIRS))})
            made.set({f"rows {i}": (indices, values.reshape(COUNT, 1)) for i in range(len(PAIRS))})
        made.tick()
        theirs = [begin.clone().requires_grad_() for _ in PAIRS]
        steppers = [make([parameter]) for parameter, (_, make) in zip(theirs, PAIRS)]
        for step in range(STEPS):
            own = gradient_of(step, comm.rank).numpy()
            pushed = {f"dense {i}": own for i in range(len(PAIRS))}
            pushed.update({f"rows {i}": (indices, own.reshape(COUNT, 1)) for i in range(len(PAIRS))})
            made.push(pushed)
            made.tick()
            for parameter, stepper in zip(theirs, steppers):
                parameter.grad = gradient_of(step, 1) + gradient_of(step, 2)
                stepper.step()
        wanted = {f"dense {i}": None for i in range(len(PAIRS))}
        wanted.update({f"rows {i}": indices for i in range(len(PAIRS))})
        found = made.pull(wanted)
        for i, parameter in enumerate(theirs):
            for kind in ("dense", "rows"):
                ours = torch.from_numpy(found[f"{kind} {i}"]).flatten()
                differ = int((ours != parameter.detach()).sum())
                assert differ == 0, f"{PAIRS[i][0]}, {kind}: {differ} of {COUNT} numbers differ"


class Model(torch.nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding
        self.head = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def forward(self, words):
        return self.head(self.embedding(words).sum(1)).squeeze(1)


def batch_of(step, worker):
    generator = torch.Generator().manual_seed(1000 * step + worker)
    words = torch.randint(0, 50, (16, 3), generator=generator)
    return words, (words.float().mean(1) > 25).float()


def loss_of(model, step, worker):
    words, labels = batch_of(step, worker)
    return torch.nn.functional.binary_cross_entropy_with_logits(model(words), labels)


def expect_the_training_of_torch(comm):
    """Two workers and a server, and the same model in PyTorch alone: the sum of both losses, SGD."""
    torch.manual_seed(comm.rank)  # workers begin with the parameters of the lowest
    model = Model(tutti_torch.server.Embedding(50, 4, optimizer=server.SGD(0.5), initial=server.Uniform(0.5), seed=3))
    with tutti_torch.server.Optimizer(model, comm, server.SGD(0.1, momentum=0.9), timeout=30) as optimizer:
        optimizer.serve()
        if not optimizer.is_worker:
            return
        with torch.no_grad():
            rows = model.embedding(torch.arange(50))
        twin = Model(torch.nn.Embedding(50, 4, _weight=rows.clone()))
        twin.head.load_state_dict(model.head.state_dict())
        steppers = (
            torch.optim.SGD(twin.embedding.parameters(), lr=0.5),
            torch.optim.SGD(twin.head.parameters(), lr=0.1, momentum=0.9),
        )
        losses = []
        for step in range(60):
            loss = loss_of(model, step, comm.rank)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            (loss_of(twin, step, 1) + loss_of(twin, step, 2)).backward()
            for stepper in steppers:
                stepper.step()
                stepper.zero_grad()
        model.eval()
        with torch.no_grad():
            assert torch.allclose(model.embedding(torch.arange(50)), twin.embedding.weight, atol=1e-4)
        for ours, theirs in zip(model.head.parameters(), twin.head.parameters()):
            assert torch.allclose(ours, theirs, atol=1e-4)
        assert losses[-1] < losses[0] / 2, losses


def expect_one_beginning(comm):
    """Also where workers wait for nobody: all have the parameters of the lowest, rank 1."""
    for mode in ({"mode": "asynchronous"}, {"mode": "quorum", "quorum": 2}, {"mode": "bounded", "staleness": 3}):
        torch.manual_seed(comm.rank)
        model = torch.nn.Linear(30, 40)
        with tutti_torch.server.Optimizer(model, comm, timeout=30, **mode) as optimizer:
            optimizer.serve()
            torch.manual_seed(1)
            assert not optimizer.is_worker or torch.equal(model.weight, torch.nn.Linear(30, 40).weight), mode


def expect_a_later_run_to_begin_where_it_was_saved(comm):
    """Not with the parameters that the model begins with; and the optimizer's moments are there, too."""
    folder = comm.broadcast(np.frombuffer(tempfile.mkdtemp().ljust(200).encode(), np.uint8).copy(), root=0)
    folder = folder.tobytes().decode().strip()
    values = []
    for load_folder in (None, folder):
        torch.manual_seed(comm.rank)
        words = tutti_torch.server.Embedding(9, 30, optimizer=server.SGD(1.0), initial=1.0)
        model = torch.nn.ModuleDict({"words": words, "head": torch.nn.Linear(30, 40)})
        with tutti_torch.server.Optimizer(
            model, comm, server.SGD(0.1, momentum=0.9), timeout=30, load_folder=load_folder
        ) as optimizer:
            for _ in range(2 if optimizer.is_worker else 0):
                values.append(model["head"].bias.detach().clone())
                model["head"](words(torch.tensor([3]))).sum().backward()
                optimizer.step()
            values.append(model["head"].bias.detach().clone())
            comm.barrier()
            if optimizer.server.is_server:
                optimizer.save(folder)
            comm.barrier()
    if comm.rank == 0:
        shutil.rmtree(folder)
    else:
        assert torch.equal(values[2], values[3]), "the later run begins with other parameters"
        gradient, steps = 2.0, [values[i] - values[i + 1] for i in (0, 1, 3, 4)]  # of two workers
        for i, moment in enumerate((1, 1.9, 2.71, 3.439)):
            assert torch.allclose(steps[i], torch.full((40,), 0.1 * gradient * moment), atol=1e-5), (i, steps[i])


def expect_a_refused_step_to_keep_its_gradients(comm):
    words = tutti_torch.server.Embedding(9, 2, optimizer=server.SGD(1.0), initial=0.0)
    model = torch.nn.ModuleDict({"words": words, "head": torch.nn.Linear(2, 1)})
    with tutti_torch.server.Optimizer(model, comm, timeout=30, mode="asynchronous") as optimizer:
        optimizer.serve()
        if not optimizer.is_worker:
            return
        own = torch.tensor([comm.rank])
        model["head"](words(own)).sum().backward()
        model["head"].bias.grad[0] = float("nan")
        try:
            optimizer.step()
        except tutti.Error as error:
            assert "nan" in str(error), error
        else:
            raise AssertionError("a gradient that is NaN was pushed")
        model["head"].bias.grad[0] = 0
        optimizer.step()
        with torch.no_grad():
            assert words(own).any()


def expect_a_step_that_timed_out_to_go_on(comm):
    model = torch.nn.Linear(1, 1, bias=False)
    with tutti_torch.server.Optimizer(model, comm, server.SGD(1.0), timeout=0.2) as optimizer:
        begin = model.weight.item()
        if comm.rank == 1:
            for _ in range(2):
                model.weight.grad = torch.ones(1, 1)
                try:
                    optimizer.step()
                except tutti.Timeout:
                    continue
                raise AssertionError("rank 2 has not pushed yet")
        comm.barrier()
        if optimizer.is_worker:
            model.weight.grad = torch.ones(1, 1)
            while model.weight.grad is not None:
                try:
                    optimizer.step()
                except tutti.Timeout:  # a busy machine
                    pass
            assert model.weight.item() == begin - 2, (model.weight, begin)
        comm.barrier()


def expect_models_of_many_tensors_to_step(comm):
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(3)) for _ in range(1500)])
    with tutti_torch.server.Optimizer(model, comm, server.SGD(1.0), timeout=30) as optimizer:
        optimizer.serve()
        if optimizer.is_worker:
            sum(parameter.sum() for parameter in model).backward()
            optimizer.step()
            assert all(torch.equal(parameter, torch.full((3,), -2.0)) for parameter in model)


def expect_a_worker_that_comes_to_have_the_servers_parameters(comm):
    model = torch.nn.Linear(3, 1, bias=False)
    if comm.rank < 2:
        with comm.group([0, 1]) as base:
            optimizer = tutti_torch.server.Optimizer(
                model, base, server.SGD(1.0), timeout=30, mode="asynchronous", joiners_max=1
            )
    if comm.rank == 1:
        model.weight.grad = torch.ones(1, 3)
        optimizer.step()
    comm.barrier()
    if comm.rank != 1:
        with comm.group([0, 2]) as grown:
            if comm.rank == 0:
                optimizer.admit(grown)
            else:
                optimizer = tutti_torch.server.Optimizer.join(model, grown, server.SGD(1.0), timeout=30)
    weights = model.weight.detach().numpy().copy()
    first = comm.broadcast(weights.copy(), root=1)
    if comm.rank == 2:
        assert np.array_equal(first, weights), "it begins with other parameters"
        model.weight.grad = torch.ones(1, 3)
        optimizer.step()
        assert np.allclose(model.weight.detach().numpy(), weights - 1)
    comm.barrier()
    optimizer.close()


def expect_no_call_without_a_server():
    try:
        tutti_torch.server.Embedding(5, 2)(torch.tensor([1]))
    except RuntimeError as error:
        assert "needs an Optimizer" in str(error)
    else:
        raise AssertionError("an Embedding without servers has rows")


with tutti.init() as comm:
    expect_no_call_without_a_server()
    expect_one_beginning(comm)
    expect_a_later_run_to_begin_where_it_was_saved(comm)
    expect_a_step_that_timed_out_to_go_on(comm)
    expect_models_of_many_tensors_to_step(comm)
    expect_a_refused_step_to_keep_its_gradients(comm)
    expect_a_worker_that_comes_to_have_the_servers_parameters(comm)
    expect_bits_of_torch(comm)
    expect_the_training_of_torch(comm)
    print(f"rank {comm.rank}: the bits of torch.optim, and a model that trains as in PyTorch alone")
