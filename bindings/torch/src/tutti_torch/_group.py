"""The process group: every method of torch.distributed.ProcessGroup, by its old and its new name.

A method says which function of the library to call with what. Then either it is called at once and waited for, which
is what PyTorch says by asyncOp = False and costs the least, or it is started, and a Work stands for it. Both kinds
meet: on another rank the same call may be of the other one (a blocking call within a group of calls counts as started).

Calls must have the same order on all ranks of a group: let one thread at a time issue them, as PyTorch demands.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from datetime import timedelta
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
import tutti
from torch._C._distributed_c10d import ProcessGroup, _create_work_from_future
from torch.distributed.constants import default_pg_timeout
from tutti import ANY_RANK
from tutti._calls import nanoseconds
from tutti._errors import error_of
from tutti._header import CallOptions, Message
from tutti._library import library

from . import BACKEND, _sparse
from ._errors import as_runtime_error
from ._monitor import Monitor
from ._tensors import (
    Blocks,
    Copies,
    List_,
    copy_back,
    dense,
    dense_to_write,
    dtype_of,
    dtype_to_reduce,
    only,
    operation_of,
)
from ._work import Batch, Work, finished


class _Function:
    """A collective of the library, in the two forms that are used."""

    __slots__ = ("within_group", "start")

    def __init__(self, name: str) -> None:
        self.within_group = getattr(library, name + "_with")
        self.start = getattr(library, name + "_start")


_ALLREDUCE = _Function("allreduce")
_ALLREDUCE_LIST = _Function("allreduce_list")
_REDUCE = _Function("reduce")
_BROADCAST = _Function("broadcast")
_GATHER_LIST = _Function("gather_list")
_SCATTER_LIST = _Function("scatter_list")
_ALLGATHER = _Function("allgather")
_ALLGATHER_LIST = _Function("allgather_list")
_REDUCE_SCATTER = _Function("reduce_scatter")
_REDUCE_SCATTER_LIST = _Function("reduce_scatter_list")
_ALLTOALLV = _Function("alltoallv")
_BARRIER = _Function("barrier")
_SEND = _Function("send")
_RECV = _Function("recv")

_begin_group = library.group_begin
_end_group = library.group_end
_BYTES = int(tutti.uint8)
_DONE = finished([])


class _Options:
    """Stands for PyTorch's options where they were left out."""

    asyncOp = True
    timeout = timedelta(milliseconds=-1)

    def __init__(self, reduce_op: Any = dist.ReduceOp.SUM, root: int = 0) -> None:
        self.reduceOp = reduce_op
        self.rootRank = root


_NO_OPTIONS = _Options()


def _options(given: Any) -> Any:
    """What the caller gave: options, nothing, or only a root or a reduction."""
    if hasattr(given, "timeout"):
        return given
    if given is None:
        return _NO_OPTIONS
    return _Options(root=given) if isinstance(given, int) else _Options(given)


def _listed(tensors: Any) -> Any:
    """PyTorch takes lists of one tensor, and mostly the tensor as well."""
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def _by_dtype(tensors: Sequence[torch.Tensor]) -> List[List[torch.Tensor]]:
    alike: Dict[torch.dtype, List[torch.Tensor]] = {}
    for tensor in tensors:
        alike.setdefault(tensor.dtype, []).append(tensor)
    return list(alike.values())


# What is called, with what; and what is kept for it and copied back after it.
_Call = Tuple[_Function, Tuple[Any, ...]]
_CallOfPair = Tuple[_Call, Any, Copies]


class _StoreOfTorch:
    """A store of PyTorch's as tutti wants one."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        self._store.wait([key], timedelta(seconds=timeout))
        return bytes(self._store.get(key))


def _seconds_of(timeout: timedelta, option: str) -> Optional[float]:
    """A group's timeout; None: the user gave none, so PyTorch gives its default, and the environment has one for Tutti."""
    if timeout == default_pg_timeout and os.environ.get(option):
        return None
    return timeout.total_seconds()


def create(
    store: Any, rank: int, size: int, timeout: timedelta, encodings: Optional[str] = None
) -> "TuttiGroup":
    """What torch.distributed calls for init_process_group and new_group. encodings: see Options."""
    # A store may live longer than the groups that meet in it; every rank makes equally many of each name.
    number = store.add(f"tutti/{rank}", 1)
    own_store = dist.PrefixStore(f"tutti/{number}", store)
    return _Group(own_store, rank, size, timeout, encodings)


class TuttiGroup(ProcessGroup):
    """See torch.distributed.ProcessGroup. `communicator` is the tutti.Communicator that does it all."""

    # What PyTorch asks of a group, or of the backend that a group has for a device.
    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False
    _device_types = [torch.device("cpu")]

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, encodings: Optional[str] = None
    ) -> None:
        super().__init__(rank, size)
        try:
            self.communicator = tutti.Communicator(
                rank,
                size,
                store=_StoreOfTorch(store),
                timeout=_seconds_of(timeout, "TUTTI_TIMEOUT"),
                init_timeout=_seconds_of(timeout, "TUTTI_INIT_TIMEOUT"),
                encodings=encodings,
            )
        except tutti.Error as error:
            raise as_runtime_error(error) from error.__cause__
        self._state = self.communicator._state
        self._take(store, rank, size, timeout, encodings)

    def _take(self, store: Any, rank: int, size: int, timeout: timedelta, encodings: Optional[str]) -> None:
        """All but the communicator, which hybrid.py changes while the group lives on."""
        self._rank, self._size = rank, size
        self._store = store
        self._encodings = encodings
        self._timeout = timeout
        self._monitor = Monitor(store, rank, size)
        self._own_timeouts: Dict[timedelta, CallOptions] = {}
        self._default_options: Optional[int] = None
        self._sequence = 0
        self._split_count = 0
        self._coalesced: Optional[Batch] = None  # what was started since coalescing began

    # ---------------------------------------------------------------------------------------- how calls are made

    def _call_options(self, timeout: timedelta) -> Optional[int]:
        """The address of options with that deadline; PyTorch's way to say "the default" is a negative one."""
        if timeout.days < 0 or not timeout:
            return self._default_options
        made = self._own_timeouts.get(timeout)
        if made is None:
            made = CallOptions(
                ctypes.sizeof(CallOptions), nanoseconds("timeout", timeout.total_seconds()), None, 0, 0
            )
            self._own_timeouts[timeout] = made
        return ctypes.addressof(made)

    def _issue(
        self,
        function: _Function,
        arguments: Tuple[Any, ...],
        options: Any,
        outputs: Sequence[torch.Tensor],
        keep: Any,
        copies: Copies,
    ) -> Work:
        """One call of the library. `keep` is what must live until it is done."""
        if getattr(options, "asyncOp", True):
            return self._start([(function, arguments)], options, outputs, keep, copies)
        self._sequence += 1
        how = self._call_options(options.timeout)
        state = self._state
        comm = self._pointer()
        error: Optional[tutti.Error] = None
        ended = 0
        state.inside.append(None)  # nobody frees the communicator meanwhile
        try:
            state.expect_open()
            try:
                _begin_group()
                status = function.within_group(*arguments, how, comm)
                if status != 0:
                    error = error_of(status, comm)
            finally:  # also after an exception: in an open group later calls of this thread would only be started
                ended = _end_group()
            if ended != 0 and error is None:
                error = error_of(ended, comm)
        except tutti.Error as closed:
            error = closed
        finally:
            state.inside.pop()
        if error is not None:
            raise as_runtime_error(error)
        if copies:
            copy_back(copies)
        return _DONE

    def _pointer(self) -> int:
        try:
            return self._state.pointer
        except tutti.Error as error:
            raise as_runtime_error(error) from None

    def raise_error_of(self, status: int) -> None:
        """Of a call that native/direct.h made in this thread, the last one of the library. The thread is still inside."""
        raise as_runtime_error(error_of(status, self._state.handle))

    def _start(
        self, calls: Sequence[_Call], options: Any, outputs: Any, keep: Any, copies: Copies
    ) -> Work:
        """Calls of the library that are one to PyTorch."""
        self._sequence += 1
        how = self._call_options(options.timeout)
        state, comm = self._state, self._pointer()
        batch = Batch()
        batch.add(outputs, keep, copies)
        for function, arguments in calls:
            batch.start(function.start, state, (*arguments, how, comm))
        batch.seal()
        if self._coalesced is not None:
            self._coalesced.include(batch)
        return Work(batch)

    def _start_coalescing(self, device: Any = None) -> None:
        """The end of coalescing will wait for what is started from now on. Nothing else depends on that: an exception may keep
        PyTorch from ever coming to the end."""
        self._coalesced = Batch()

    def _end_coalescing(self, device: Any = None) -> Work:
        batch, self._coalesced = self._coalesced, None
        if batch is None:
            raise RuntimeError("coalescing ends that was not begun")
        batch.seal()
        return Work(batch)

    # ---------------------------------------------------------------------------------------------- collectives

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _listed(tensors), _options(opts)
        tensor = only(tensors, "allreduce")
        if tensor.is_sparse:
            return _sparse.allreduce(self, tensor, opts)
        copies: Copies = []
        place = dense_to_write(tensor, copies)
        dtype, factor = dtype_to_reduce(place)
        address = place.data_ptr()
        op = operation_of(opts.reduceOp, place.dtype)
        arguments = (address, address, place.numel() * factor, dtype, op)
        return self._issue(_ALLREDUCE, arguments, opts, tensors, place, copies)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        opts = _options(opts)
        if any(tensor.is_sparse for tensor in tensors):
            raise ValueError("sparse tensors cannot be coalesced")
        copies: Copies = []
        calls, keep = [], []
        for alike in _by_dtype([dense_to_write(tensor, copies) for tensor in tensors]):
            dtype, factor = dtype_to_reduce(alike[0])
            both = List_(alike, factor)
            op = operation_of(opts.reduceOp, alike[0].dtype)
            calls.append((_ALLREDUCE_LIST, (both.address, both.address, dtype, op)))
            keep.append(both)
        return self._start(calls, opts, tensors, keep, copies)

    def reduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _listed(tensors), _options(opts)
        tensor = only(tensors, "reduce")
        is_root = opts.rootRank == self._rank
        copies: Copies = []
        place = dense_to_write(tensor, copies) if is_root else dense(tensor)
        dtype, factor = dtype_to_reduce(place)
        address = place.data_ptr()
        op = operation_of(opts.reduceOp, place.dtype)
        result = address if is_root else None
        arguments = (address, result, place.numel() * factor, dtype, op, opts.rootRank)
        return self._issue(_REDUCE, arguments, opts, tensors, place, copies)

    def broadcast(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _listed(tensors), _options(opts)
        tensor = only(tensors, "broadcast")
        copies: Copies = []
        is_root = opts.rootRank == self._rank
        place = dense(tensor) if is_root else dense_to_write(tensor, copies)
        dtype, factor = dtype_of(place)
        address = place.data_ptr()
        arguments = (address, address, place.numel() * factor, dtype, opts.rootRank)
        return self._issue(_BROADCAST, arguments, opts, tensors, place, copies)

    def gather(self, output_lists: Any, inputs: Any, opts: Any = None) -> Work:
        opts = _options(opts)
        send = dense(only(_listed(inputs), "gather"))
        dtype, factor = dtype_of(send)
        copies: Copies = []
        outputs: Any = []
        result = None
        if opts.rootRank == self._rank:
            outputs = only(output_lists, "gather")
            self._expect(outputs, send, "gather")
            result = List_([dense_to_write(output, copies) for output in outputs], factor)
        own = List_([send], factor)
        address = None if result is None else result.address
        arguments = (own.address, address, dtype, opts.rootRank)
        return self._issue(_GATHER_LIST, arguments, opts, outputs, (own, result), copies)

    def scatter(self, outputs: Any, input_lists: Any, opts: Any = None) -> Work:
        outputs, opts = _listed(outputs), _options(opts)
        output = only(outputs, "scatter")
        copies: Copies = []
        own_tensor = dense_to_write(output, copies)
        dtype, factor = dtype_of(output)
        send = None
        if opts.rootRank == self._rank:
            inputs = only(input_lists, "scatter")
            self._expect(inputs, output, "scatter")
            send = List_([dense(tensor) for tensor in inputs], factor)
        own = List_([own_tensor], factor)
        address = None if send is None else send.address
        arguments = (address, own.address, dtype, opts.rootRank)
        return self._issue(_SCATTER_LIST, arguments, opts, outputs, (own, send), copies)

    def allgather(self, output_lists: Any, inputs: Any, opts: Any = None) -> Work:
        if isinstance(inputs, torch.Tensor):
            output_lists, inputs = [output_lists], [inputs]
        send = dense(only(inputs, "allgather"))
        outputs = only(output_lists, "allgather")
        self._expect(outputs, send, "allgather")
        copies: Copies = []
        dtype, factor = dtype_of(send)
        own = List_([send], factor)
        result = List_([dense_to_write(output, copies) for output in outputs], factor)
        arguments = (own.address, result.address, dtype)
        return self._issue(_ALLGATHER_LIST, arguments, _options(opts), outputs, (own, result), copies)

    def allgather_coalesced(self, output_lists: Any, inputs: Any, opts: Any = None) -> Work:
        """output_lists[r][k] becomes inputs[k] of rank r."""
        copies: Copies = []
        calls, keep = [], []
        for k, tensor in enumerate(inputs):
            send = dense(tensor)
            outputs = [of_rank[k] for of_rank in output_lists]
            self._expect(outputs, send, "allgather_coalesced")
            dtype, factor = dtype_of(send)
            own = List_([send], factor)
            result = List_([dense_to_write(output, copies) for output in outputs], factor)
            calls.append((_ALLGATHER_LIST, (own.address, result.address, dtype)))
            keep.append((own, result))
        return self._start(calls, _options(opts), output_lists, keep, copies)

    def reduce_scatter(self, outputs: Any, input_lists: Any, opts: Any = None) -> Work:
        if isinstance(outputs, torch.Tensor):
            outputs, input_lists = [outputs], [input_lists]
        opts = _options(opts)
        output = only(outputs, "reduce_scatter")
        inputs = only(input_lists, "reduce_scatter")
        self._expect(inputs, output, "reduce_scatter")
        copies: Copies = []
        dtype, factor = dtype_to_reduce(output)
        send = List_([dense(tensor) for tensor in inputs], factor)
        result = List_([dense_to_write(output, copies)], factor)
        op = operation_of(opts.reduceOp, output.dtype)
        arguments = (send.address, result.address, dtype, op)
        return self._issue(_REDUCE_SCATTER_LIST, arguments, opts, outputs, (send, result), copies)
    # --------------------------------------------------------------------- one tensor for the blocks of all ranks

    def _allgather_call(self, output: torch.Tensor, tensor: torch.Tensor) -> _CallOfPair:
        self._expect_blocks(output, tensor, "allgather")
        copies: Copies = []
        send, place = dense(tensor), dense_to_write(output, copies)
        dtype, factor = dtype_of(send)
        arguments = (send.data_ptr(), place.data_ptr(), send.numel() * factor, dtype)
        return (_ALLGATHER, arguments), (send, place), copies

    def _reduce_scatter_call(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any
    ) -> _CallOfPair:
        self._expect_blocks(tensor, output, "reduce_scatter")
        copies: Copies = []
        send, place = dense(tensor), dense_to_write(output, copies)
        dtype, factor = dtype_to_reduce(place)
        op = operation_of(opts.reduceOp, place.dtype)
        arguments = (send.data_ptr(), place.data_ptr(), place.numel() * factor, dtype, op)
        return (_REDUCE_SCATTER, arguments), (send, place), copies

    def _start_pairs(self, pairs: Sequence[_CallOfPair], opts: Any, outputs: Any) -> Work:
        calls = [call for call, _, _ in pairs]
        keep = [kept for _, kept, _ in pairs]
        copies = [copy for _, _, copied in pairs for copy in copied]
        return self._start(calls, _options(opts), outputs, keep, copies)

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> Work:
        call, keep, copies = self._allgather_call(output, tensor)
        return self._issue(*call, _options(opts), [output], keep, copies)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        pairs = [self._allgather_call(output, tensor) for output, tensor in zip(outputs, inputs)]
        return self._start_pairs(pairs, opts, outputs)

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> Work:
        opts = _options(opts)
        call, keep, copies = self._reduce_scatter_call(output, tensor, opts)
        return self._issue(*call, opts, [output], keep, copies)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = _options(opts)
        pairs = [
            self._reduce_scatter_call(output, tensor, opts) for output, tensor in zip(outputs, inputs)
        ]
        return self._start_pairs(pairs, opts, outputs)

    # The names that they had before PyTorch 2.13, or have there.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ------------------------------------------------------------------------------------------------ all to all

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        if len(outputs) != self._size or len(inputs) != self._size:
            raise ValueError(f"alltoall takes {self._size} tensors to send and to fill, one for each rank")
        copies: Copies = []
        places = [dense_to_write(output, copies) for output in outputs]
        sends = [dense(tensor) for tensor in inputs]
        return self._exchange(
            Blocks.of_tensors(sends),
            Blocks.of_tensors(places),
            _BYTES,  # blocks of several lists have no common alignment
            opts,
            outputs,
            (sends, places),
            copies,
        )

    def all_to_all_single(
        self, output: torch.Tensor, tensor: torch.Tensor, output_rows: Any, input_rows: Any, opts: Any = None
    ) -> Work:
        copies: Copies = []
        place, send = dense_to_write(output, copies), dense(tensor)
        if output.dtype is not tensor.dtype:
            raise ValueError(f"alltoall from {tensor.dtype} to {output.dtype}")
        sent = Blocks.of_rows(send, input_rows, self._size, "what is sent")
        received = Blocks.of_rows(place, output_rows, self._size, "what is filled")
        return self._exchange(sent, received, dtype_of(send)[0], opts, [output], (place, send), copies)

    alltoall_base = all_to_all_single

    def _exchange(
        self, sent: Blocks, received: Blocks, dtype: int, opts: Any, outputs: Any, keep: Any, copies: Copies
    ) -> Work:
        """No rank knows whether all blocks of all are alike, so it is the v form always."""
        arguments = (
            sent.base,
            sent.counts,
            sent.displs,
            received.base,
            received.counts,
            received.displs,
            dtype,
        )
        return self._issue(_ALLTOALLV, arguments, _options(opts), outputs, keep, copies)

    # -------------------------------------------------------------------------------------------- point to point

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        tensor = dense(only(_listed(tensors), "send"))
        dtype, factor = dtype_of(tensor)
        arguments = (tensor.data_ptr(), tensor.numel() * factor, dtype, peer, tag)
        return self._start([(_SEND, arguments)], _NO_OPTIONS, [], tensor, [])

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        return self._receive(tensors, peer, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        return self._receive(tensors, ANY_RANK, tag)

    def _receive(self, tensors: Any, peer: int, tag: int) -> Work:
        tensors = _listed(tensors)
        copies: Copies = []
        place = dense_to_write(only(tensors, "recv"), copies)
        dtype, factor = dtype_of(place)
        message = Message(ctypes.sizeof(Message), ANY_RANK, tag, 0)
        arguments = (
            place.data_ptr(),
            place.numel() * factor,
            dtype,
            peer,
            tag,
            ctypes.addressof(message),
        )
        work = self._start([(_RECV, arguments)], _NO_OPTIONS, tensors, (place, message), copies)
        work.message = message
        return work

    # -------------------------------------------------------------------------------------------------- barriers

    def barrier(self, opts: Any = None) -> Work:
        return self._issue(_BARRIER, (), _options(opts), [], None, [])

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """A barrier that names, on rank 0, who did not come, and after which the group lives on."""
        self._monitor.meet(timeout if timeout is not None else self._timeout, wait_all_ranks)

    # ------------------------------------------------------------------------------------------- the group itself

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: Optional[timedelta] = None,
        opts: Any = None,
        group_name: Optional[str] = None,
        group_desc: Optional[str] = None,
        devices: Any = None,
    ) -> "Optional[TuttiGroup]":
        """A group of those ranks; all ranks call it, and those that are not listed get None."""
        self._split_count += 1
        if self._rank not in ranks:
            return None
        name = "-".join(str(rank) for rank in ranks)
        store = dist.PrefixStore(f"split/{self._split_count}/{name}", self._store)
        encodings = getattr(opts, "encodings", self._encodings)
        own_rank = list(ranks).index(self._rank)
        made = create(store, own_rank, len(ranks), timeout or self._timeout, encodings)
        made.group_name, made.group_desc = group_name or name, group_desc or ""
        return made

    splitGroup = split_group

    def abort(self) -> None:
        """Ends what is under way, on all ranks."""
        self.communicator.abort("torch.distributed aborts the process group")

    def shutdown(self) -> None:
        """Leaves, after what this rank has started is done."""
        if self._state.handle is not None:
            self.communicator.close()

    def set_timeout(self, timeout: timedelta) -> None:
        """The deadline of calls from now on that are given none of their own."""
        self._timeout = timeout
        self._default_options = self._call_options(timeout)

    _set_default_timeout = set_timeout

    def get_timeout(self) -> timedelta:
        return self._timeout

    def getBackendName(self) -> str:
        return BACKEND

    name = getBackendName
    _get_backend_name = getBackendName

    # PyTorch would keep its names in a backend of its own.
    group_name = ""
    group_desc = ""

    def _set_group_name(self, name: str) -> None:
        self.group_name = name

    def _set_group_desc(self, description: str) -> None:
        self.group_desc = description

    def getGroupName(self) -> str:
        return self.group_name

    def getGroupDesc(self) -> str:
        return self.group_desc

    setGroupName = _set_group_name
    setGroupDesc = _set_group_desc

    def _get_backend(self, device: Any) -> "TuttiGroup":
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"the backend tutti is for tensors of the CPU, not of {device}")
        return self

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        """All ranks count from zero."""

    # --------------------------------------------------------------------------------------------------- checks

    def _expect(self, tensors: Sequence[torch.Tensor], like: torch.Tensor, call: str) -> None:
        """One tensor for each rank, of the same size."""
        if len(tensors) != self._size:
            raise ValueError(f"{call}: {len(tensors)} tensors for {self._size} ranks")
        for tensor in tensors:
            if tensor.numel() != like.numel() or tensor.dtype is not like.dtype:
                raise ValueError(
                    f"{call}: {tensor.numel()} elements of {tensor.dtype} beside {like.numel()} of {like.dtype}"
                )

    def _expect_blocks(self, blocks: torch.Tensor, block: torch.Tensor, call: str) -> None:
        if blocks.numel() != block.numel() * self._size or blocks.dtype is not block.dtype:
            raise ValueError(
                f"{call}: {blocks.numel()} elements of {blocks.dtype} are not {self._size} times"
                f" {block.numel()} of {block.dtype}"
            )


class _GroupOfOldTorch(TuttiGroup):
    """For versions whose C++ does not keep the Work that it gets from Python: it would then wait for what is no more.

    It gets a Work of its own over the future instead, and only functions of Python get ours, which is faster.
    """


def _for_callers_in_cpp(name: str) -> Any:
    method = getattr(TuttiGroup, name)

    @functools.wraps(method)
    def call(self: TuttiGroup, *arguments: Any, **named: Any) -> Any:
        work = method(self, *arguments, **named)
        if sys._getframe(1).f_globals.get("__name__") == dist.distributed_c10d.__name__:
            return work
        return _create_work_from_future(work.get_future_for_cpp())

    return call


for _name in ("allreduce", "allreduce_coalesced", "allgather", "broadcast", "reduce_scatter", "barrier", "send", "recv"):
    setattr(_GroupOfOldTorch, _name, _for_callers_in_cpp(_name))
_keeps_work = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 6)
_Group = TuttiGroup if _keeps_work else _GroupOfOldTorch
