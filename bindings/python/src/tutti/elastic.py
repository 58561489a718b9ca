"""A training loop that goes on when ranks die: docs/how-to/elastic.md.

    loop = tutti.elastic.Loop({"weights": weights}, steps=1000, batch=512, samples=len(data), seed=1)
    for step in loop:
        gradients[...] = gradients_of(weights, data[step.samples]) / step.batch_count     # sums, not averages
        loop.allreduce(gradients)                # adds those of all ranks; does nothing once a rank has died
        if loop.should_commit():                 # the same answer on all ranks
            weights -= 0.1 * gradients
    print(loop.report())
    loop.close()

Start it with `tutti-run -n 4 --elastic 1 python3 program.py`.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    SupportsIndex,
    Tuple,
    Union,
)

import numpy as np
import numpy.typing as npt

from . import _callbacks, _header
from ._arguments import SIZE_MAX, integer, nanoseconds, text
from ._buffers import Array, Buffer, Buffers, Side
from ._communicator import Communicator, Options, _comm_options
from ._dtypes import dtype_of
from ._errors import Error, check, error_of, invalid
from ._header import ID_BYTES, Status
from ._library import library
from ._operations import Op
from ._store import Store, StoreAdapter

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Counters", "Loop", "Step", "attach", "daly", "ettr", "mttf", "torch_state", "young"]

_UPDATES = {"after": 0, "before": 1}
_REPLICATED, _SHARDED = 0, 1


class Step(NamedTuple):
    """A step that has begun."""

    #: Steps that count so far.
    number: int
    epoch: int
    #: The numbers of this rank's samples, in the order of the epoch.
    samples: "npt.NDArray[np.int64]"
    #: Samples of all ranks together.
    batch_count: int
    #: Of the team: changes when the communicator does.
    generation: int
    rank: int
    size: int
    #: 1, or more if this rank does the step again.
    attempt: int


class Counters(NamedTuple):
    """Accounts of the run so far; times in nanoseconds. include/tutti/train/elastic.h says what they are."""

    steps: int
    samples: int
    repeated: int
    undone: int
    failures: int
    replaced: int
    teams: int
    checkpoints: int
    elapsed_ns: int
    productive_ns: int
    checkpoint_ns: int
    write_ns: int
    interval_ns: int
    outage_ns: int
    outage_max_ns: int
    received_bytes: int


def _policy(thresholds: Mapping[str, float]) -> _header.ExcludePolicy:
    policy = _header.ExcludePolicy(size_bytes=ctypes.sizeof(_header.ExcludePolicy))
    for name, value in thresholds.items():
        if name in ("window", "stalled"):
            setattr(policy, f"{name}_ns", nanoseconds(name, value))
        elif name in ("late_share_max", "late_share_min"):
            setattr(policy, name, value)
        elif name in ("late_windows", "corrupt_count_max"):
            setattr(policy, name, integer(name, value, 0, Status.INVALID_OPTIONS))  # type: ignore[arg-type]
        else:
            raise invalid(Status.INVALID_OPTIONS, f"exclude: there is no threshold {name!r}")
    return policy


def _number(name: str, value: SupportsIndex) -> int:
    return integer(name, value, 0, Status.INVALID_OPTIONS, SIZE_MAX)


class Loop:
    """The loop, which owns its communicator.

    `arrays`: the state by name, the same on all ranks (NumPy arrays, or tensors in memory of the CPU): parameters,
    the optimizer's moments. They stay where they are. `shards`: further arrays, by name with dtype and number of
    elements, of which each rank has a part: shard().

    `update`: "after": change the state after should_commit() has said yes. "before": change it before should_commit(),
    which returns it to what it was if it says no; that costs a second copy. `partner`: each shard also at another rank;
    needs "before".

    `steps`: the loop is over after so many; 0: never. `batch`: samples of a step, of all ranks together. `samples`: of
    an epoch; 0: epochs do not end. `seed`: of their order; 0: in order.

    `replace_wait`: seconds for a process to come in the place of a rank that died (None: no wait); then the loop goes on
    with fewer ranks, at least `size_min`. `grow_every`, `grow_wait`: how often such a team looks for processes that join, and how
    long. `joins`: this process joins a team (None: as tutti-run says). `store`: where they find each other (None: as
    tutti-run says).

    `exclude`: put ranks out of the team that are sick, but not dead, or let a call run into its deadline: thresholds of the
    policy (tutti/exclude.h) by name, window and stalled in seconds; {}: its defaults; None: put no rank out. A rank that is
    put out gets Excluded.

    `checkpoints`: a directory for them, every `checkpoint_every` seconds (None: the interval of Daly, from measured
    costs and `mttf`, in seconds, or the failures so far).

    Further options are those of a Communicator; with `deterministic=True` a run whose dead ranks are replaced has the
    bits of a run without faults. Blocks until the ranks have come, or, for a process that joins, until a team takes it
    in. Raises as Communicator and join() do.
    """

    def __init__(
        self,
        arrays: Mapping[str, Buffer],
        *,
        shards: "Optional[Mapping[str, Tuple[npt.DTypeLike, int]]]" = None,
        update: str = "after",
        partner: bool = False,
        partner_distance: SupportsIndex = 0,
        steps: SupportsIndex = 0,
        batch: SupportsIndex = 1,
        samples: SupportsIndex = 0,
        seed: SupportsIndex = 0,
        size_min: SupportsIndex = 1,
        replace_wait: Optional[float] = 30.0,
        grow_every: float = 10.0,
        grow_wait: Optional[float] = 0.2,
        joins: Optional[bool] = None,
        join_wait: Optional[float] = None,
        store: Optional[Store] = None,
        exclude: Optional[Mapping[str, float]] = None,
        checkpoints: "Union[str, os.PathLike[str], None]" = None,
        checkpoint_every: Optional[float] = None,
        mttf: Optional[float] = None,
        rank: Optional[int] = None,
        size: Optional[int] = None,
        id: Optional[bytes] = None,
        **options: "Unpack[Options]",
    ) -> None:
        _callbacks.catch_up()
        self._handle: Optional[int] = None
        self._comm: Optional[Communicator] = None
        self._error: Optional[Error] = None
        self._generation = -1
        self._batch = (0, 0, 0)
        self._arrays = {name: Side(array, name, None, True) for name, array in arrays.items()}
        self._shards = {name: (np.dtype(kind), integer(name, count, 1, Status.INVALID_OPTIONS, SIZE_MAX))
                        for name, (kind, count) in (shards or {}).items()}
        self._adapter = None if store is None else StoreAdapter(store)
        comm_options = _comm_options(options)
        if rank is not None:
            comm_options.rank = integer("rank", rank, 0, Status.INVALID_RANK)
        if size is not None:
            comm_options.size = integer("size", size, 1, Status.INVALID_RANK)
        if id is not None:
            if len(id) != ID_BYTES:
                raise invalid(Status.INVALID_OPTIONS, f"an id has {ID_BYTES} bytes, not {len(id)}")
            name_bytes = _header.Id.from_buffer_copy(id)
            comm_options.id = ctypes.addressof(name_bytes)
        if update not in _UPDATES:
            raise invalid(Status.INVALID_OPTIONS, f'update is "after" or "before", not {update!r}')
        policy = None if exclude is None else _policy(exclude)
        folder = None if checkpoints is None else text("checkpoints", os.fspath(checkpoints))
        wanted = _header.ElasticOptions(
            size_bytes=ctypes.sizeof(_header.ElasticOptions),
            comm_options=ctypes.addressof(comm_options),
            store=None if self._adapter is None else self._adapter.address,
            joins=-1 if joins is None else int(joins),
            size_min=integer("size_min", size_min, 0, Status.INVALID_OPTIONS),
            update=_UPDATES[update],
            partner=int(partner),
            partner_distance=integer("partner_distance", partner_distance, 0, Status.INVALID_OPTIONS),
            replace_wait_ns=nanoseconds("replace_wait", replace_wait or None),
            grow_every_ns=nanoseconds("grow_every", grow_every),
            grow_wait_ns=nanoseconds("grow_wait", grow_wait or None),
            join_wait_ns=SIZE_MAX if join_wait is None else nanoseconds("join_wait", join_wait),
            step_count=_number("steps", steps),
            batch=_number("batch", batch),
            sample_count=_number("samples", samples),
            seed=_number("seed", seed),
            checkpoint_folder=folder,
            checkpoint_every_ns=nanoseconds("checkpoint_every", checkpoint_every),
            mttf_ns=nanoseconds("mttf", mttf),
            exclude_policy=None if policy is None else ctypes.addressof(policy),
        )
        self._open(wanted)

    def _open(self, wanted: _header.ElasticOptions) -> None:
        described = [
            _header.ElasticArray(text("a name", name), _REPLICATED, int(side.dtype), side.count, side.address)
            for name, side in self._arrays.items()
        ] + [
            _header.ElasticArray(text("a name", name), _SHARDED, int(dtype_of(kind, None, name)), count, None)
            for name, (kind, count) in self._shards.items()
        ]
        if any(side.is_list for side in self._arrays.values()):
            raise invalid(Status.INVALID_BUFFER, "an array of the state is one array, not a list of them")
        array = (_header.ElasticArray * len(described))(*described)
        handle = ctypes.c_void_p()
        status = library.elastic_open(array, len(described), ctypes.byref(wanted), ctypes.byref(handle))
        if status != Status.OK:
            raise error_of(status) from (self._adapter.error if self._adapter is not None else None)
        assert handle.value is not None
        self._handle = handle.value
        self._finalizer = weakref.finalize(self, _callbacks.later, _close, handle.value, self._adapter)
        self._finalizer.atexit = False

    def __enter__(self) -> "Loop":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _pointer(self) -> int:
        if self._handle is None:
            raise invalid(Status.INVALID_OPTIONS, "the loop is closed")
        return self._handle

    def close(self) -> None:
        """Waits for a checkpoint that is being written, and leaves. Call it on all ranks when the loop is over."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        self._let_go()
        self._finalizer.detach()
        check(library.elastic_close(handle))

    def _let_go(self) -> None:
        """The library is about to free the communicator."""
        if self._comm is not None:
            state = self._comm._state
            state.shut()
            state.handle = None
        self._comm = None

    # ------------------------------------------------------------------------------------------------ steps

    def __iter__(self) -> Iterator[Step]:
        while True:
            step = self.begin()
            if step is None:
                return
            yield step

    def begin(self) -> Optional[Step]:
        """Begins a step; None: the loop is over.

        If the team has lost ranks, first makes a team that can go on, with the same state on all ranks. Collective.
        Raises RankFailed if too few ranks, or too little of the state, is left.
        """
        found = _header.ElasticStep(size_bytes=ctypes.sizeof(_header.ElasticStep))
        self._error = None
        if self._comm is not None and self._comm.failure is not None:
            self._let_go()
        before = library.elastic_comm(self._pointer)
        check(library.elastic_begin(self._pointer, ctypes.byref(found)))
        if library.elastic_comm(self._pointer) != before or found.generation != self._generation:
            self._let_go()
        self._generation = found.generation
        self._batch = (found.epoch, found.batch_first, found.batch_count)
        if found.is_over:
            return None
        return Step(
            found.number,
            found.epoch,
            self._samples(found.epoch, found.first, found.count),
            found.batch_count,
            found.generation,
            found.rank,
            found.size,
            found.attempt,
        )

    def share(self, place: int, count: int) -> "npt.NDArray[np.int64]":
        """The samples of this step at a place of 0 to count - 1, if so many shared them and not all ranks of the team."""
        epoch, first, batch = self._batch
        begin, end = batch * place // count, batch * (place + 1) // count
        return self._samples(epoch, first + begin, end - begin)

    def _samples(self, epoch: int, first: int, count: int) -> "npt.NDArray[np.int64]":
        numbers = (library.elastic_sample(self._pointer, epoch, first + i) for i in range(count))
        return np.fromiter(numbers, np.int64, count)

    @property
    def comm(self) -> Communicator:
        """The communicator of the team; another when step.generation has changed."""
        if self._comm is None:
            handle = library.elastic_comm(self._pointer)
            self._comm = Communicator._from(ctypes.c_void_p(handle), owner=self)
        return self._comm

    def allreduce(self, arrays: Buffers, op: "Union[str, Op]" = "sum") -> None:
        """Adds up arrays of all ranks in place; a list is one buffer.

        Raises nothing if that fails: then this and further calls of the step do nothing, the arrays have any values, and
        should_commit() says no. Mistakes in arguments are raised.
        """
        if self._error is not None:
            return
        try:
            self.comm.allreduce(arrays, out=arrays, op=op)
        except Error as error:
            self.fail(error)
            if error.status.name.startswith("INVALID_"):
                raise

    def fail(self, error: Error) -> None:
        """Says that a call of this step failed on this rank, so that should_commit() will say no."""
        if self._error is None:
            self._error = error

    @property
    def failure(self) -> Optional[Error]:
        """The first failure in this step."""
        return self._error

    def should_commit(self) -> bool:
        """Ends the step: whether it counts, the same on all ranks. If not, the next step is this one again.

        Collective; raises what ends the loop for this rank.
        """
        work = Status.OK if self._error is None else self._error.status
        is_committed = ctypes.c_int()
        check(library.elastic_commit(self._pointer, int(work), ctypes.byref(is_committed)))
        if not is_committed.value:
            self._let_go()
        return bool(is_committed.value)

    def shard(self, name: str) -> Tuple[int, Array]:
        """This rank's part of a sharded array: its first element, and the elements; until step.generation changes."""
        if name not in self._shards:
            raise invalid(Status.INVALID_OPTIONS, f"there is no sharded array {name!r}")
        kind, part = self._shards[name][0], _header.ElasticPart()
        index = len(self._arrays) + list(self._shards).index(name)
        check(library.elastic_shard(self._pointer, index, ctypes.byref(part)))
        if part.count == 0:
            return part.first, np.empty(0, kind)
        memory = (ctypes.c_ubyte * (part.count * kind.itemsize)).from_address(part.data)
        return part.first, np.frombuffer(memory, kind)

    # --------------------------------------------------------------------------------------------- accounts

    @property
    def counters(self) -> Counters:
        """The accounts of the run so far."""
        found = _header.ElasticCounters(size_bytes=ctypes.sizeof(_header.ElasticCounters))
        check(library.elastic_count(self._pointer, ctypes.byref(found)))
        return Counters(*(getattr(found, name) for name in Counters._fields))

    def report(self) -> str:
        """The accounts in lines of text, with goodput and ETTR (effective training time ratio)."""
        room = ctypes.create_string_buffer(1000)
        check(library.elastic_report(self._pointer, room, len(room)))
        return room.value.decode().rstrip("\n")


def _close(handle: int, adapter: Optional[StoreAdapter]) -> None:
    del adapter  # kept until now
    library.elastic_close(handle)


# ------------------------------------------------------------------------------------------------------ models


def _costs(**costs: float) -> Any:
    return ctypes.byref(_header.ElasticCosts(**costs))


def mttf(*, failure_rate: float, nodes: float = 1) -> float:
    """Mean time to a failure of a job, in seconds; failure_rate: of one node, by the second."""
    return float(library.elastic_mttf(_costs(nodes=nodes, failure_rate=failure_rate)))


def young(*, write: float, mttf: float) -> float:
    """Seconds from one checkpoint to the next that cost least (Young 1974)."""
    return float(library.elastic_young(_costs(nodes=1, failure_rate=1 / mttf, write_s=write)))


def daly(*, write: float, mttf: float) -> float:
    """The same to a higher order (Daly 2006)."""
    return float(library.elastic_daly(_costs(nodes=1, failure_rate=1 / mttf, write_s=write)))


def ettr(*, nodes: float, failure_rate: float, restart: float, write: float, interval: float) -> float:
    """Expected effective training time ratio; times in seconds."""
    return float(
        library.elastic_ettr(
            _costs(nodes=nodes, failure_rate=failure_rate, restart_s=restart, write_s=write, interval_s=interval)
        )
    )


# ------------------------------------------------------------------------------------------------------- torch


def torch_state(model: Any, optimizer: Any) -> Dict[str, Any]:
    """The tensors of a model of PyTorch and its optimizer by name, for `arrays`; all in memory of the CPU.

    An optimizer makes its tensors in its first step. This lets it take a step with gradients of zero, and then sets
    parameters to what they were, and the optimizer's tensors to zero: so it is for optimizers whose tensors begin as
    zeros, such as SGD (without dampening), Adam and AdamW.
    """
    torch: Any = import_module("torch")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    with torch.no_grad():
        before = [p.detach().clone() for p in parameters]
        for p in parameters:
            p.grad = torch.zeros_like(p)
        optimizer.step()
        for p, value in zip(parameters, before):
            p.copy_(value)
            p.grad = None
        state = {f"model.{name}": value.detach() for name, value in model.state_dict(keep_vars=True).items()}
        for index, p in enumerate(parameters):
            for name, value in optimizer.state[p].items():
                if torch.is_tensor(value):
                    value.zero_()
                    state[f"optimizer.{index}.{name}"] = value
    return state


def attach(loop: Loop, parallel: Any) -> None:
    """Lets a DistributedDataParallel add up its gradients over the ranks of the loop:

        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
        parallel = DistributedDataParallel(model)
        tutti.elastic.attach(loop, parallel)

    The process group has only this process; the loop has the team, which may change. Let the loss be a sum over this
    rank's samples, divided by step.batch_count.

    DistributedDataParallel arranges its buckets anew after the first backward pass, which a process that joins has not
    done. So the gradients go in the order of the parameters, all at the end of the backward pass.
    """
    torch: Any = import_module("torch")
    order = {id(parameter): index for index, parameter in enumerate(parallel.parameters())}
    waiting: List[Tuple[int, Any]] = []

    def hook(_: Any, bucket: Any) -> Any:
        buffer, at = bucket.buffer(), 0
        for parameter in bucket.parameters():
            waiting.append((order[id(parameter)], buffer[at : at + parameter.numel()]))
            at += parameter.numel()
        if bucket.is_last():
            gradients = [gradient for _, gradient in sorted(waiting, key=lambda entry: entry[0])]
            waiting.clear()
            for kind in {gradient.dtype: None for gradient in gradients}:
                loop.allreduce([gradient for gradient in gradients if gradient.dtype == kind])
        done: Any = torch.futures.Future()
        done.set_result(buffer)  # its elements change until the last bucket is there; then they are used
        return done

    hook.__annotations__ = {}  # PyTorch refuses those that are not its own classes
    parallel.register_comm_hook(None, hook)
