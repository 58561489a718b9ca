"""Hybrid sharded data parallel training (FSDP2) that goes on when ranks die: docs/how-to/elastic.md.

    loop = tutti_torch.hybrid.Loop(shards=2, steps=1000, batch=96, samples=len(data), seed=1)
    for layer in model:
        fully_shard(layer, mesh=loop.mesh)          # the ranks of one replica
    fully_shard(model, mesh=loop.mesh)
    loop.attach(model, torch.optim.AdamW(model.parameters()))
    for step in loop:
        loss = ...sum over step.samples / step.batch_count
        loss.backward()
        loop.allreduce_gradients()                  # over the replicas
        if loop.should_commit():
            optimizer.step()

Start it with `tutti-run -n 4 --elastic 2 python3 program.py`: 4 ranks are 2 replicas of 2 shards.

    replica 0   shard 0 ── shard 1      within a replica: FSDP's all_gather and reduce_scatter
                   │          │         across replicas: sums of the gradients of a shard, and the state for new processes
    replica 1   shard 0 ── shard 1

A tutti.elastic.Loop has the team of all ranks, and agrees on each step. Whenever the team changes:

    1. All ranks say which shard they have, and after how many steps. A process that is new takes a shard of which there are fewest.
    2. There are as many replicas as whole ones can be made, of ranks that have the state first. Ranks that are left over rest until
       the team changes again.
    3. The communicators within and across replicas are made anew, beneath the same process group, so FSDP's objects stay.
    4. If a rank of a replica lacks the state, all replicas broadcast that of replica 0, each shard by itself.

FSDP cannot be left in the middle of a pass. So once a rank has died, the calls of the process group raise nothing: they leave their
results with any values, and should_commit() says no. Whichever rank notices first revokes its two communicators, so all come to that.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.distributed as dist
import tutti
import tutti.elastic
from torch._C._distributed_c10d import ProcessGroup
from torch.distributed.constants import default_pg_timeout
from torch.distributed.device_mesh import init_device_mesh
from tutti.elastic import Step

from ._group import TuttiGroup
from ._work import Work, finished

__all__ = ["Loop", "Step"]

_BACKEND = "tutti_hybrid"
_NO_SHARD, _NO_STATE = -1, -1


# ------------------------------------------------------------------------------------------------ the process group


class _ForgivingWork(Work):
    """Its errors are those of the step."""

    def __init__(self, batch: Any, group: "_ReplicaGroup") -> None:
        super().__init__(batch)
        self._group = group

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        try:
            return super().wait(timeout)
        except tutti.Error as error:
            self._group.fail(error)
            return True


class _ReplicaGroup(TuttiGroup):
    """The process group of a replica: as many ranks as shards, over the communicator of the present team."""

    def __init__(self, rank: int, size: int, loop: "Loop") -> None:
        ProcessGroup.__init__(self, rank, size)
        self._take(dist.HashStore(), rank, size, default_pg_timeout, None)
        self._loop = loop

    def use(self, communicator: Optional[tutti.Communicator]) -> None:
        if communicator is not None:
            self.communicator = communicator
            self._state = communicator._state

    def fail(self, error: tutti.Error) -> None:
        self._loop._fail(error)

    def shutdown(self) -> None:
        """The communicators are the loop's, which closes them. A rank that has always rested never had any."""

    def _issue(self, function: Any, arguments: Any, options: Any, outputs: Any, keep: Any, copies: Any) -> Work:
        if self._loop.failure is not None:
            return finished(outputs)
        try:
            return super()._issue(function, arguments, options, outputs, keep, copies)
        except tutti.Error as error:
            self.fail(error)
            return finished(outputs)

    def _start(self, calls: Sequence[Any], options: Any, outputs: Any, keep: Any, copies: Any) -> Work:
        if self._loop.failure is not None:
            return finished(outputs)
        try:
            work = super()._start(calls, options, outputs, keep, copies)
        except tutti.Error as error:
            self.fail(error)
            return finished(outputs)
        return _ForgivingWork(work._batch, self)


def _make_group(rank: int, size: int, loop: "Loop") -> _ReplicaGroup:
    """As the default process group, since a mesh is made of ranks of it. Nothing is sent."""
    if dist.is_initialized():
        raise RuntimeError("tutti_torch.hybrid.Loop makes the process group: do not call init_process_group before it")
    group = _ReplicaGroup(rank, size, loop)
    if not hasattr(dist.Backend, _BACKEND.upper()):
        dist.Backend.register_backend(_BACKEND, lambda *_: _making[0], devices=["cpu"])
    _making[:] = [group]
    dist.init_process_group(_BACKEND, rank=rank, world_size=size, store=dist.HashStore())
    _making.clear()
    return group


_making: List[_ReplicaGroup] = []


# ---------------------------------------------------------------------------------------------------------- the team


class _Place(NamedTuple):
    """Of a rank in the team as it is."""

    shard: int
    replica: Optional[int]  # None: it rests
    replicas: int
    lacks_state: bool  # any rank of a replica does

    @property
    def number(self) -> int:
        """Among the ranks of the replicas, which are replicas * shards."""
        return (self.replica or 0) + self.replicas * self.shard


def _give_shards(shards: Sequence[int], count: int) -> List[int]:
    """Ranks that are new take, in turn, a shard that fewest have."""
    found = list(shards)
    for rank, shard in enumerate(found):
        if shard == _NO_SHARD:
            found[rank] = min(range(count), key=lambda candidate: (found.count(candidate), candidate))
    return found


def _place(rank: int, said: Sequence[Tuple[int, int]], step: int, count: int) -> _Place:
    """said: the shard and the number of steps of each rank. All ranks find the same replicas, or raise the same error."""
    shards = _give_shards([shard for shard, _ in said], count)

    def has_state(other: int) -> bool:
        return said[other][1] == step

    members = [sorted((other for other, its in enumerate(shards) if its == shard), key=lambda other: (not has_state(other), other))
               for shard in range(count)]
    replicas = min(len(of_shard) for of_shard in members)
    if replicas == 0 and len(said) < count:
        raise _lost(f"a replica needs {count} ranks, and the team has {len(said)}")
    if replicas == 0:
        gone = ", ".join(str(shard) for shard, of_shard in enumerate(members) if not of_shard)
        raise _lost(f"all ranks that had shard {gone} have died; the team has {len(said)} ranks with other shards")
    if step > 0 and not all(has_state(of_shard[0]) for of_shard in members):
        raise _lost("all ranks that had the state of a shard have died")
    replica = members[shards[rank]].index(rank)
    lacks_state = not all(has_state(other) for of_shard in members for other in of_shard[:replicas])
    return _Place(shards[rank], replica if replica < replicas else None, replicas, lacks_state)


def _lost(message: str) -> tutti.RankFailed:
    return tutti.RankFailed(tutti.Status.PROC_FAILED, f"tutti_torch.hybrid: {message}")


# ---------------------------------------------------------------------------------------------------------- the loop


def _local(tensor: Any) -> torch.Tensor:
    """This rank's part of a DTensor."""
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local.detach()


class Loop:
    """See the head of this file. `shards`: ranks of a replica. Further arguments are those of tutti.elastic.Loop; by default
    the team needs the ranks of one replica (size_min). Makes the default process group, which is this rank's replica."""

    def __init__(self, shards: int, **options: Any) -> None:
        if shards < 1:
            raise ValueError(f"shards is 1 or more, not {shards}")
        for name in ("update", "partner", "checkpoints"):
            if name in options:
                raise TypeError(f"tutti_torch.hybrid.Loop has no argument {name}")
        self.shards = shards
        self._loop = tutti.elastic.Loop({}, **{"size_min": shards, **options})
        self._shard, self._steps = _NO_SHARD, _NO_STATE
        self._number, self._generation = 0, -1
        self._place: Optional[_Place] = None
        self._within: Optional[tutti.Communicator] = None
        self._across: Optional[tutti.Communicator] = None
        self._model: Any = None
        self._optimizer: Any = None
        self._group: Optional[_ReplicaGroup] = None
        self._begun = self._begin()
        self._group = _make_group(self._shard, shards, self)
        self._group.use(self._within)
        #: For fully_shard.
        self.mesh = init_device_mesh("cpu", (shards,))

    def __enter__(self) -> "Loop":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaves; call it on all ranks when the loop is over."""
        self._let_go()
        if dist.is_initialized():
            dist.destroy_process_group()
        self._loop.close()

    def attach(self, model: Any, optimizer: Any) -> None:
        """The model, after fully_shard, and its optimizer: their tensors are the state, which new processes get. FSDP adds up
        gradients from now on, and does not average them. For optimizers as tutti.elastic.torch_state says."""
        tutti.elastic.torch_state(model, optimizer)  # makes the optimizer's tensors
        self._model, self._optimizer = model, optimizer
        for module in model.modules():
            if hasattr(module, "set_gradient_divide_factor"):
                module.set_gradient_divide_factor(1.0)

    def _state(self) -> List[torch.Tensor]:
        """FSDP gives tensors other memory before the first pass, so they are asked for when they are needed."""
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        tensors = list(self._model.state_dict().values())
        tensors += [value for p in parameters for value in self._optimizer.state[p].values() if torch.is_tensor(value)]
        return [_local(tensor) for tensor in tensors]

    # ------------------------------------------------------------------------------------------------------ steps

    def __iter__(self) -> Iterator[Step]:
        if self._optimizer is None:
            raise RuntimeError("call attach(model, optimizer) before the first step")
        while True:
            step = self._begun if self._begun is not None else self._begin()
            self._begun = None
            if step is None:
                return
            place = self._place
            if place is not None and place.replica is not None and self._bring_state(place):
                count = place.replicas * self.shards
                yield step._replace(samples=self._loop.share(place.number, count), rank=place.number, size=count)
            else:
                self.should_commit()

    def _begin(self) -> Optional[Step]:
        """Until this rank has its place in a team, or the loop is over."""
        if self._place is not None and self._loop.comm.failure is not None:
            self._let_go()
        while True:
            step = self._loop.begin()
            if step is None or (self._place is not None and step.generation == self._generation):
                return step
            self._let_go()
            self._number, self._generation = step.number, step.generation
            try:
                self._meet()
                return step
            except tutti.RankFailed as error:
                if self._loop.comm.failure is None:
                    raise
                self._fail(error)
            except tutti.Error as error:
                self._fail(error)
            self._loop.should_commit()
            self._let_go()

    def _meet(self) -> None:
        comm = self._loop.comm
        said = comm.allgather(np.array([self._shard, self._steps], np.int64)).reshape(comm.size, 2)
        place = _place(comm.rank, [(int(shard), int(steps)) for shard, steps in said], self._number, self.shards)
        self._within = comm.split(place.replica, place.shard)
        self._across = comm.split(None if place.replica is None else place.shard, place.replica or 0)
        self._shard, self._place = place.shard, place
        if self._group is not None:
            self._group.use(self._within)

    def _bring_state(self, place: _Place) -> bool:
        """Whether this rank has the state of its shard."""
        if place.lacks_state:
            self._call(self._across, self._state(), lambda comm, tensors: comm.broadcast(tensors, root=0))
            self._place = place._replace(lacks_state=False)
        return self.failure is None

    # ------------------------------------------------------------------------------------------------------ calls

    def allreduce(self, tensor: torch.Tensor) -> None:
        """Adds up a tensor of all ranks of replicas, in place. Raises nothing, as tutti.elastic.Loop.allreduce does."""
        for comm in (self._within, self._across):
            self._sum(comm, [tensor])

    def allreduce_gradients(self) -> None:
        """Adds up the gradients of this rank's shard over the replicas."""
        self._sum(self._across, [_local(p.grad) for p in self._model.parameters() if p.grad is not None])

    def _sum(self, comm: Optional[tutti.Communicator], tensors: List[torch.Tensor]) -> None:
        self._call(comm, tensors, lambda comm, alike: comm.allreduce(alike, out=alike))

    def _call(self, comm: Optional[tutti.Communicator], tensors: List[torch.Tensor], call: Any) -> None:
        """A call for all tensors of a dtype, until any fails."""
        for kind in {tensor.dtype: None for tensor in tensors}:
            alike = [tensor for tensor in tensors if tensor.dtype == kind and tensor.numel() > 0]
            if self.failure is not None or not alike:
                continue
            try:
                call(comm, alike)
            except tutti.Error as error:
                self._fail(error)
                if error.status.name.startswith("INVALID_"):
                    raise

    def should_commit(self) -> bool:
        """Ends the step: whether it counts, the same on all ranks. If it does, change the state."""
        is_committed = self._loop.should_commit()
        self._number += is_committed
        if not is_committed:
            self._let_go()
        elif self._place is not None and self._place.replica is not None:
            self._steps = self._number
        return is_committed

    def _fail(self, error: tutti.Error) -> None:
        """A call failed. Ranks that wait for this one in a call of this step are told to come to the agreement."""
        self._loop.fail(error)
        for comm in (self._within, self._across):
            if comm is not None and comm.failure is None:
                try:
                    comm.revoke("a call of this step failed on a rank")
                except tutti.Error:  # it has failed meanwhile
                    pass

    def _let_go(self) -> None:
        for comm in (self._within, self._across):
            if comm is not None:
                comm.close()
        self._within = self._across = self._place = None

    @property
    def comm(self) -> tutti.Communicator:
        """The communicator of the team, with the ranks that rest; another when step.generation has changed."""
        return self._loop.comm

    @property
    def failure(self) -> Optional[tutti.Error]:
        """The first failure in this step."""
        return self._loop.failure

    def report(self) -> str:
        """As tutti.elastic.Loop.report."""
        return self._loop.report()
