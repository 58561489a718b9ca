"""Operations on tensors: blocking, `_async` (returns a handle), in place (`_`), and grouped.

All ranks of a process set do an operation of the same name, in any order. Without a name, the n-th such operation of a
kind has the name of the n-th one of the other ranks. The blocking forms that return a new tensor can be differentiated.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from ... import Dtype
from ..._buffers import Array
from .._basics import *  # noqa: F403
from .._errors import HorovodInternalError
from .._operation import Operation, Result, Tensor
from .._submit import (
    Handle,
    barrier,
    join,
    list_of,
    name_of,
    operation_of,
    poll,
    root_in,
    rows_of,
    submit,
    synchronize,
)
from .._wire import Part
from .compression import Compression

Tensors = Sequence[torch.Tensor]

# The dtypes of the library, and of NumPy, which has no bfloat16.
_DTYPES: Dict[torch.dtype, Dtype] = {
    getattr(torch, name): Dtype[name]
    for name in (
        "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
    )
    if hasattr(torch, name)
}
_CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).rpartition(".")[2]


# ---------------------------------------------------------------------------------------------- submitting


def _submit(
    what: str,
    kind: str,
    tensors: Sequence[Tensor],
    parts: Sequence[Part],
    collect: Callable[[Operation], Any],
    name: Optional[str],
    process_set: ProcessSet,
    finish: Optional[Callable[[Operation], None]] = None,
    op: Optional[str] = None,
    root: Optional[int] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
) -> Handle:
    """Starts what the program calls `what` (_submit.py)."""
    made = submit(
        what, kind, tensors, parts, _scale, name, process_set, finish, op, root, prescale, postscale
    )
    return Handle(made, collect)


def _scale(array: Array, dtype: Optional[Dtype], factor: float) -> None:
    tensor = torch.from_numpy(array)
    if dtype == Dtype.bfloat16:
        tensor = tensor.view(torch.bfloat16)
    if tensor.dtype.is_floating_point:
        tensor.mul_(factor)
    else:
        tensor.copy_((tensor.double() * factor).trunc())


def _dense(tensor: Any, what: str) -> torch.Tensor:
    """The tensor to send: itself, or a copy without gaps, which autograd does not see."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{what} takes a torch.Tensor, not {tensor!r:.80}")
    if tensor.is_sparse:
        raise ValueError(f"{what} takes no sparse tensor: to_dense() it, or use sparse_allreduce_async()")
    if not tensor.device.type == "cpu":
        raise ValueError(f"{what}: tutti.horovod takes tensors of the CPU, not of {tensor.device}")
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _array(tensor: torch.Tensor) -> Array:
    """The elements of a dense tensor, flat, as NumPy sees them; where it has no such dtype, as integers of that size."""
    flat = tensor.reshape(-1)
    if tensor.dtype in _NUMPY:
        return flat.numpy()
    if tensor.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    item_bytes = flat.element_size()
    return flat.view(_CARRIERS[item_bytes]).numpy()


_NUMPY = (torch.float16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def _reduced(tensor: torch.Tensor, what: str) -> Dtype:
    found = _DTYPES.get(tensor.dtype)
    if found is None:
        raise ValueError(f"{what}: there are no reductions of {tensor.dtype}")
    return found


def _array_to_reduce(tensor: torch.Tensor, dtype: Dtype) -> Array:
    array = _array(tensor)
    if tensor.dtype in _NUMPY:
        return array
    return array.view(np.uint16 if dtype == Dtype.bfloat16 else np.dtype(dtype.name))


def _tensor_of(result: Result, dtype: torch.dtype) -> torch.Tensor:
    if not result.memory.size:
        return torch.empty(result.shape, dtype=dtype)
    return torch.from_numpy(result.memory).view(dtype).reshape(result.shape)


# ----------------------------------------------------------------------------------------------- allreduce


def _allreduce_async(
    given: List[torch.Tensor],
    is_in_place: bool,
    collect: Callable[[List[torch.Tensor]], Any],
    what: str,
    average: Optional[bool],
    name: Optional[str],
    op: Optional[str],
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> Handle:
    reduction = operation_of(op, average, what)
    tensors, parts, outs, copies = [], [], [], []
    for tensor in given:
        send = _dense(tensor, what)
        dtype = _reduced(tensor, what)
        if not is_in_place:
            out = torch.empty_like(send, memory_format=torch.contiguous_format)
            outs.append(out)
        else:
            out = send
            outs.append(tensor)
            if send.data_ptr() != tensor.data_ptr():
                copies.append((tensor, send))
        array = _array_to_reduce(send, dtype)
        place = array if out is send else _array_to_reduce(out, dtype)
        tensors.append(Tensor(array, place, dtype))
        parts.append(Part(_name_of(tensor.dtype), tuple(tensor.shape)))
    return _submit(
        what,
        "allreduce",
        tensors,
        parts,
        lambda operation: collect(outs),
        name,
        process_set,
        _copy_back(copies),
        reduction,
        None,
        prescale_factor,
        postscale_factor,
    )


def _copy_back(copies: List[Tuple[torch.Tensor, torch.Tensor]]) -> Optional[Callable[[Operation], None]]:
    """Into tensors with gaps, when an operation on their dense twins is done."""
    if not copies:
        return None

    def copy_back(operation: Operation) -> None:
        for tensor, twin in copies:
            tensor.detach().copy_(twin)

    return copy_back


def _first(outs: List[torch.Tensor]) -> torch.Tensor:
    return outs[0]


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts allreduce(). The tensor must not change until synchronize() returns the result."""
    return _allreduce_async(
        [tensor], False, _first, "allreduce", average, name, op, prescale_factor, postscale_factor, process_set
    )


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts allreduce_(). The tensor must not be used until synchronize() returns it."""
    return _allreduce_async(
        [tensor], True, _first, "allreduce_", average, name, op, prescale_factor, postscale_factor, process_set
    )


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """allreduce() whose result is in the tensor."""
    handle = allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set)
    result: torch.Tensor = synchronize(handle)
    return result


def grouped_allreduce_async(
    tensors: Tensors,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts grouped_allreduce()."""
    what = "grouped_allreduce"
    given = list_of(tensors, what)
    return _allreduce_async(
        given, False, list, what, average, name, op, prescale_factor, postscale_factor, process_set
    )


def grouped_allreduce_async_(
    tensors: Tensors,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts grouped_allreduce_()."""
    what = "grouped_allreduce_"
    given = list_of(tensors, what)
    return _allreduce_async(
        given, True, list, what, average, name, op, prescale_factor, postscale_factor, process_set
    )


def grouped_allreduce_(
    tensors: Tensors,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """grouped_allreduce() whose results are in the tensors."""
    handle = grouped_allreduce_async_(
        tensors, average, name, op, prescale_factor, postscale_factor, process_set
    )
    result: List[torch.Tensor] = synchronize(handle)
    return result


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Tuple[Any, ...], *tensors: torch.Tensor) -> Any:
        ctx.how = how
        what, name, op, prescale, postscale, process_set = how
        handle = _allreduce_async(
            list(tensors), False, list, what, None, name, op, prescale, postscale, process_set
        )
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        what, _, *how = ctx.how
        return (None, *_Allreduce.apply((what, None, *how), *gradients))


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The average of the tensors of all ranks, or what `op` says; a new tensor. `average` is the old way to say op.

    The tensors are multiplied by prescale_factor before they are reduced, and the result by postscale_factor.
    """
    what = "allreduce"
    how = (what, name, operation_of(op, average, what), prescale_factor, postscale_factor, process_set)
    return _allreduce([tensor], how, compression)[0]


def grouped_allreduce(
    tensors: Tensors,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """allreduce() of several tensors, which begins when all ranks have all of them ready."""
    what = "grouped_allreduce"
    how = (what, name, operation_of(op, average, what), prescale_factor, postscale_factor, process_set)
    return _allreduce(list_of(tensors, what), how, compression)


def _allreduce(given: List[torch.Tensor], how: Tuple[Any, ...], compression: Any) -> List[torch.Tensor]:
    compressed, contexts = _compress(given, compression, how[0])
    results = _Allreduce.apply(how, *compressed)
    return [compression.decompress(result, context) for result, context in zip(results, contexts)]


def _compress(given: List[torch.Tensor], compression: Any, what: str) -> Tuple[Any, Any]:
    for tensor in given:
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{what} takes a torch.Tensor, not {tensor!r:.80}")
    compressed, contexts = zip(*[compression.compress(tensor) for tensor in given])
    return compressed, contexts


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: Optional[str],
    op: Optional[str],
    process_set: ProcessSet = global_process_set,
) -> Callable[[], torch.Tensor]:
    """Starts the sum or average of sparse tensors; call what it returns for the result, in which indices may repeat."""
    reduction = operation_of(op, None, "sparse_allreduce_async")
    if reduction not in (Average, Sum):
        raise ValueError(f"sparse_allreduce_async: op is Average or Sum, not {reduction}")
    own_name = name_of("sparse_allreduce", name, process_set)
    indices = allgather_async(tensor._indices().transpose(0, 1), f"{own_name}.indices", process_set)
    values = allgather_async(tensor._values(), f"{own_name}.values", process_set)

    def result() -> torch.Tensor:
        all_values, all_indices = synchronize(values), synchronize(indices)
        if reduction == Average:
            all_values = all_values / process_set.size()
        return torch.sparse_coo_tensor(all_indices.transpose(0, 1), all_values, tensor.size())

    return result


# ----------------------------------------------------------------------------------------------- allgather


def _allgather_async(
    given: List[torch.Tensor],
    collect: Callable[[List[torch.Tensor]], Any],
    what: str,
    name: Optional[str],
    process_set: ProcessSet,
) -> Handle:
    tensors, parts = [], []
    dtypes = []
    for tensor in given:
        send = _dense(tensor, what)
        if not send.dim():
            raise ValueError(f"{what} takes tensors with a first dimension; reshape(1) makes one")
        dtypes.append(tensor.dtype)
        tensors.append(Tensor(_array(send).view(_bytes_of(send))))
        parts.append(Part(_name_of(tensor.dtype), tuple(tensor.shape)))
    return _submit(
        what,
        "allgather",
        tensors,
        parts,
        lambda operation: collect(list(map(_tensor_of, operation.results, dtypes))),
        name,
        process_set,
    )


def _bytes_of(tensor: torch.Tensor) -> Any:
    """NumPy's dtype for elements that are only moved."""
    return np.dtype(f"V{tensor.element_size()}")


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts allgather()."""
    return _allgather_async([tensor], _first, "allgather", name, process_set)


def grouped_allgather_async(
    tensors: Tensors, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts grouped_allgather()."""
    what = "grouped_allgather"
    return _allgather_async(list_of(tensors, what), list, what, name, process_set)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, what: str, name: Optional[str], process_set: ProcessSet, *tensors: torch.Tensor
    ) -> Any:
        results = synchronize(_allgather_async(list(tensors), list, what, name, process_set))
        ctx.process_set = process_set
        ctx.rows = [tensor.shape[0] for tensor in tensors]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        # As Horovod: the gradient of this rank's rows, averaged over the ranks.
        averaged = grouped_allreduce(gradients, process_set=ctx.process_set)
        rows = allgather(torch.tensor([ctx.rows]), process_set=ctx.process_set)
        offsets = rows[: ctx.process_set.rank()].sum(0).tolist()
        own = [all_.narrow(0, at, count) for all_, at, count in zip(averaged, offsets, ctx.rows)]
        return (None, None, None, *own)


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The tensors of all ranks, one after the other along the first dimension, which may differ from rank to rank."""
    result: torch.Tensor = _Allgather.apply("allgather", name, process_set, tensor)[0]
    return result


def grouped_allgather(
    tensors: Tensors, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[torch.Tensor]:
    """allgather() of several tensors, which begins when all ranks have all of them ready."""
    what = "grouped_allgather"
    return list(_Allgather.apply(what, name, process_set, *list_of(tensors, what)))


# ----------------------------------------------------------------------------------------------- broadcast


def _broadcast_async(
    tensor: torch.Tensor,
    is_in_place: bool,
    root_rank: int,
    name: Optional[str],
    process_set: ProcessSet,
) -> Handle:
    what = "broadcast_" if is_in_place else "broadcast"
    send = _dense(tensor, what)
    root = root_in(process_set, root_rank, what)
    out, result = send, tensor
    copies = []
    if not is_in_place:
        out = result = torch.empty_like(send, memory_format=torch.contiguous_format)
    elif send.data_ptr() != tensor.data_ptr():
        copies.append((tensor, send))
    array = _array(send)
    return _submit(
        what,
        "broadcast",
        [Tensor(array, array if out is send else _array(out))],
        [Part(_name_of(tensor.dtype), tuple(tensor.shape))],
        lambda operation: result,
        name,
        process_set,
        _copy_back(copies),
        root=root,
    )


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts broadcast()."""
    return _broadcast_async(tensor, False, root_rank, name, process_set)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts broadcast_()."""
    return _broadcast_async(tensor, True, root_rank, name, process_set)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """broadcast() into the tensor itself."""
    result: torch.Tensor = synchronize(broadcast_async_(tensor, root_rank, name, process_set))
    return result


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet
    ) -> Any:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        averaged = allreduce(gradients[0], process_set=ctx.process_set)
        if rank() != ctx.root_rank:
            averaged = averaged * 0
        return averaged, None, None, None


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """A new tensor with what rank root_rank (its number in the job, also in a process set) has in its tensor."""
    result: torch.Tensor = _Broadcast.apply(tensor, root_rank, name, process_set)
    return result


# ------------------------------------------------------------------------------------------------ alltoall


def alltoall_async(
    tensor: torch.Tensor,
    splits: Union[None, torch.Tensor, Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts alltoall(); synchronize() returns the tensor, and how many rows have come from each rank."""
    what = "alltoall"
    send = _dense(tensor, what)
    if not send.dim():
        raise ValueError(f"{what} takes tensors with a first dimension")
    dtype = torch.int32
    if isinstance(splits, torch.Tensor):
        if splits.dtype.is_floating_point or splits.dim() != 1:
            raise ValueError(f"{what}: splits are integers, one for each rank")
        dtype = splits.dtype
    rows = rows_of(splits, send.shape[0], process_set, what)
    part = Part(_name_of(tensor.dtype), tuple(tensor.shape), tuple(rows))

    def collect(operation: Operation) -> Any:
        result = operation.results[0]
        return _tensor_of(result, tensor.dtype), torch.tensor(result.received, dtype=dtype)

    return _submit(
        what, what, [Tensor(_array(send).view(_bytes_of(send)))], [part], collect, name, process_set
    )


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet) -> Any:
        result, received = synchronize(alltoall_async(tensor, splits, name, process_set))
        ctx.process_set, ctx.received = process_set, received
        ctx.unsent = tensor.shape[0] - (sum(int(split) for split in splits) if splits is not None else tensor.shape[0])
        ctx.mark_non_differentiable(received)
        return result, received

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        back, _ = synchronize(alltoall_async(gradients[0], ctx.received, None, ctx.process_set))
        if ctx.unsent:
            back = torch.cat([back, back.new_zeros((ctx.unsent, *back.shape[1:]))])
        return back, None, None, None


def alltoall(
    tensor: torch.Tensor,
    splits: Union[None, torch.Tensor, Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Rows from all ranks, in their order: splits[r] rows go to rank r; without splits, to each equally many.

    With splits, it also returns how many rows have come from each rank.
    """
    result, received = _Alltoall.apply(tensor, splits, name, process_set)
    return result if splits is None else (result, received)


# ------------------------------------------------------------------------------------------- reducescatter


def _reducescatter_async(
    given: List[torch.Tensor],
    collect: Callable[[List[torch.Tensor]], Any],
    what: str,
    name: Optional[str],
    op: Optional[str],
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
) -> Handle:
    reduction = operation_of(op, None, what)
    tensors, parts, dtypes = [], [], []
    for tensor in given:
        send = _dense(tensor, what)
        if not send.dim():
            raise ValueError(f"{what} takes tensors with a first dimension")
        dtype = _reduced(tensor, what)
        dtypes.append(tensor.dtype)
        tensors.append(Tensor(_array_to_reduce(send, dtype), None, dtype))
        parts.append(Part(_name_of(tensor.dtype), tuple(tensor.shape)))
    return _submit(
        what,
        "reducescatter",
        tensors,
        parts,
        lambda operation: collect(list(map(_tensor_of, operation.results, dtypes))),
        name,
        process_set,
        None,
        reduction,
        None,
        prescale_factor,
        postscale_factor,
    )


def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: Optional[str] = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Starts reducescatter()."""
    return _reducescatter_async(
        [tensor], _first, "reducescatter", name, op, process_set, prescale_factor, postscale_factor
    )


def grouped_reducescatter_async(
    tensors: Tensors,
    name: Optional[str] = None,
    op: Optional[str] = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Starts grouped_reducescatter()."""
    what = "grouped_reducescatter"
    given = list_of(tensors, what)
    return _reducescatter_async(
        given, list, what, name, op, process_set, prescale_factor, postscale_factor
    )


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Tuple[Any, ...], *tensors: torch.Tensor) -> Any:
        ctx.how = how
        return tuple(synchronize(_reducescatter_async(list(tensors), list, *how)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        _, _, op, process_set, prescale, postscale = ctx.how
        factor = prescale * postscale * (process_set.size() if op == Sum else 1)
        return (None, *grouped_allgather([each * factor for each in gradients], process_set=process_set))


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[str] = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """This rank's rows of the reduction of all tensors. Lower ranks get a row more where they do not divide evenly."""
    what = "reducescatter"
    how = (what, name, operation_of(op, None, what), process_set, prescale_factor, postscale_factor)
    return _reducescatter([tensor], how, compression)[0]


def grouped_reducescatter(
    tensors: Tensors,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[str] = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    """reducescatter() of several tensors, which begins when all ranks have all of them ready."""
    what = "grouped_reducescatter"
    how = (what, name, operation_of(op, None, what), process_set, prescale_factor, postscale_factor)
    return _reducescatter(list_of(tensors, what), how, compression)


def _reducescatter(
    given: List[torch.Tensor], how: Tuple[Any, ...], compression: Any
) -> List[torch.Tensor]:
    compressed, contexts = _compress(given, compression, how[0])
    results = _Reducescatter.apply(how, *compressed)
    return [compression.decompress(result, context) for result, context in zip(results, contexts)]
