"""Operations on tensors of TensorFlow: eager, and in a tf.function. All can be differentiated.

All ranks of a process set do an operation of the same name, in any order. Without a name, the n-th such operation of a
kind has the name of the n-th one of the other ranks. In a tf.function operations run one after the other in the order
of the program, each when the function runs and not when it is traced: a node of the graph calls Python, which waits. So
gradients are reduced by one grouped operation (optimizer.py) and not by one for each.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from ... import Dtype
from ..._buffers import Array
from .._basics import Average, ProcessSet, Sum, global_process_set, rank
from .._operation import Operation, Tensor
from .._submit import list_of, operation_of, root_in, rows_of, set_number, submit
from .._wire import Part
from .compression import Compression

_BFLOAT16 = np.dtype(tf.bfloat16.as_numpy_dtype)
_REDUCED: Dict[Any, Dtype] = {
    np.dtype(name): Dtype[name]
    for name in "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
}
_REDUCED[_BFLOAT16] = Dtype.bfloat16

# Functions that tf.function leaves as they are: it would translate what these functions call, down to this module's `if`.
as_it_is = tf.autograph.experimental.do_not_convert
# The body of an operation: arrays in, arrays out. It blocks.
Run = Callable[[List[Array]], List[Array]]


def _call(run: Run, tensors: Sequence[tf.Tensor], dtypes: Sequence[Any], shapes: Sequence[Any]) -> List[tf.Tensor]:
    """Runs it now, or when the graph does."""
    if tf.executing_eagerly():
        results = run([tensor.numpy() for tensor in tensors])
        return [tf.convert_to_tensor(result, dtype) for result, dtype in zip(results, dtypes)]
    nodes = tf.numpy_function(lambda *arrays: run(list(arrays)), tensors, list(dtypes), stateful=True)
    made = []
    for node, shape in zip(nodes, shapes):
        node.set_shape(shape)
        made.append(node)
    return made


def _tensor_of(value: Any, what: str) -> tf.Tensor:
    if isinstance(value, tf.IndexedSlices):
        raise ValueError(f"{what} takes no IndexedSlices: tf.convert_to_tensor() makes a tensor of them")
    try:
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} takes a tensor, not {value!r:.80}: {error}") from None
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_complex or tensor.dtype.is_bool):
        raise ValueError(f"{what}: there is no operation on {tensor.dtype.name}")
    return tensor


def _reduced(tensor: tf.Tensor, what: str) -> tf.Tensor:
    if np.dtype(tensor.dtype.as_numpy_dtype) not in _REDUCED:
        raise ValueError(f"{what}: there are no reductions of {tensor.dtype.name}")
    return tensor


def _with_rows(tensor: tf.Tensor, what: str) -> tf.Tensor:
    if tensor.shape.rank == 0:
        raise ValueError(f"{what} takes tensors with a first dimension; tf.reshape(tensor, [1]) makes one")
    return tensor


def _any_rows(tensor: tf.Tensor) -> tf.TensorShape:
    if tensor.shape.rank is None:
        return tf.TensorShape(None)
    return tf.TensorShape([None] + tensor.shape.as_list()[1:])


# ---------------------------------------------------------------------------------------------- arrays


def _flat(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1)


def _carried(array: Array) -> Array:
    """As the library takes it for reductions: NumPy's own dtypes, and bfloat16 as integers of its size."""
    return array.view(np.uint16) if array.dtype == _BFLOAT16 else array


def _bytes_of(array: Array) -> Array:
    """Elements that are only moved."""
    return _flat(array).view(np.dtype(f"V{array.dtype.itemsize}"))


def _part(array: Array, splits: Tuple[int, ...] = ()) -> Part:
    return Part(array.dtype.name, tuple(array.shape), splits)


def _scale(array: Array, dtype: Optional[Dtype], factor: float) -> None:
    if dtype == Dtype.bfloat16:
        values = array.view(_BFLOAT16)
        values[...] = (values.astype(np.float32) * factor).astype(_BFLOAT16)
    elif array.dtype.kind == "f":
        array *= array.dtype.type(factor) if array.dtype.itemsize > 2 else np.float32(factor)
    else:
        array[...] = np.trunc(array.astype(np.float64) * factor).astype(array.dtype)


def _results(operation: Operation, arrays: List[Array]) -> List[Array]:
    return [
        result.memory.view(array.dtype).reshape(result.shape) if result.memory.size else np.empty(result.shape, array.dtype)
        for result, array in zip(operation.results, arrays)
    ]


# -------------------------------------------------------------------------------------------- allreduce


def _allreduce(
    what: str,
    tensors: Sequence[tf.Tensor],
    name: Optional[str],
    op: str,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> List[tf.Tensor]:
    set_number(process_set)

    def run(arrays: List[Array]) -> List[Array]:
        outs = [np.empty(array.shape, array.dtype) for array in arrays]
        made = [
            Tensor(_carried(_flat(array)), _carried(out.reshape(-1)), _REDUCED[array.dtype])
            for array, out in zip(arrays, outs)
        ]
        parts = [_part(array) for array in arrays]
        submit(
            what, "allreduce", made, parts, _scale, name, process_set, None, op, None, prescale, postscale
        ).wait()
        return outs

    @tf.custom_gradient
    def forward(*inputs: tf.Tensor) -> Any:
        def backward(*gradients: tf.Tensor) -> List[tf.Tensor]:
            return _allreduce(what, gradients, None, op, prescale, postscale, process_set)

        dtypes, shapes = [each.dtype for each in inputs], [each.shape for each in inputs]
        return _call(run, inputs, dtypes, shapes), backward

    return list(forward(*[_reduced(_tensor_of(tensor, what), what) for tensor in tensors]))


def _allreduce_slices(
    what: str, slices: tf.IndexedSlices, name: Optional[str], op: str, process_set: ProcessSet
) -> tf.IndexedSlices:
    """The rows of all ranks; the same row may come from several, which adds up."""
    if op not in (Average, Sum):
        raise ValueError(f"{what}: op of IndexedSlices is Average or Sum, not {op}")
    values, indices = _allgather(what, [slices.values, slices.indices], name, process_set)
    if op == Average:
        values = values / tf.cast(len(process_set._members()), values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


@as_it_is
def allreduce(
    tensor: Any,
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The average of the tensors of all ranks, or what `op` says. `average` is the old way to say op.

    The tensors are multiplied by prescale_factor before they are reduced, and the result by postscale_factor. Of
    IndexedSlices (Average and Sum alone, without factors) the result is IndexedSlices with the rows of all ranks.
    device_dense and device_sparse are for GPUs, and ignored.
    """
    what = "allreduce"
    reduction = operation_of(op, average, what)
    if isinstance(tensor, tf.IndexedSlices):
        return _allreduce_slices(what, tensor, name, reduction, process_set)
    compressed, context = compression.compress(_tensor_of(tensor, what))
    made = _allreduce(what, [compressed], name, reduction, prescale_factor, postscale_factor, process_set)
    return compression.decompress(made[0], context)


@as_it_is
def grouped_allreduce(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """allreduce() of several tensors as one operation."""
    what = "grouped_allreduce"
    reduction = operation_of(op, average, what)
    given = [_tensor_of(tensor, what) for tensor in list_of(tensors, what)]
    compressed, contexts = zip(*[compression.compress(tensor) for tensor in given])
    made = _allreduce(what, compressed, name, reduction, prescale_factor, postscale_factor, process_set)
    return [compression.decompress(result, context) for result, context in zip(made, contexts)]


# -------------------------------------------------------------------------------------------- allgather


def _allgather(
    what: str, tensors: Sequence[Any], name: Optional[str], process_set: ProcessSet
) -> List[tf.Tensor]:
    set_number(process_set)

    def run(arrays: List[Array]) -> List[Array]:
        made = [Tensor(_bytes_of(array)) for array in arrays]
        parts = [_part(array) for array in arrays]
        operation = submit(what, "allgather", made, parts, _scale, name, process_set)
        operation.wait()
        return _results(operation, arrays)

    @tf.custom_gradient
    def forward(*inputs: tf.Tensor) -> Any:
        def backward(*gradients: tf.Tensor) -> List[tf.Tensor]:
            # As Horovod: the gradient of this rank's rows, averaged over the ranks.
            averaged = _allreduce(what, gradients, None, Average, 1.0, 1.0, process_set)
            rows = _allgather(what, [[tf.shape(each, tf.int64)[0] for each in inputs]], None, process_set)[0]
            rows = tf.reshape(rows, [-1, len(inputs)])
            own = process_set.rank()
            begins = tf.reduce_sum(rows[:own], 0)
            return [each[begins[i] : begins[i] + rows[own, i]] for i, each in enumerate(averaged)]

        dtypes, shapes = [each.dtype for each in inputs], [_any_rows(each) for each in inputs]
        return _call(run, inputs, dtypes, shapes), backward

    return list(forward(*[_with_rows(_tensor_of(tensor, what), what) for tensor in tensors]))


@as_it_is
def allgather(
    tensor: Any,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The tensors of all ranks, one after the other along the first dimension, which may differ from rank to rank."""
    return _allgather("allgather", [tensor], name, process_set)[0]


@as_it_is
def grouped_allgather(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> List[tf.Tensor]:
    """allgather() of several tensors as one operation."""
    what = "grouped_allgather"
    return _allgather(what, list_of(tensors, what), name, process_set)


# -------------------------------------------------------------------------------------------- broadcast


@as_it_is
def broadcast_all(
    what: str, tensors: Sequence[Any], root_rank: int, name: Optional[str], process_set: ProcessSet
) -> List[tf.Tensor]:
    """Several tensors from one root, as one operation."""
    root = root_in(process_set, root_rank, what)

    def run(arrays: List[Array]) -> List[Array]:
        outs = [np.empty(array.shape, array.dtype) for array in arrays]
        made = [Tensor(_bytes_of(array), _bytes_of(out)) for array, out in zip(arrays, outs)]
        parts = [_part(array) for array in arrays]
        submit(what, "broadcast", made, parts, _scale, name, process_set, root=root).wait()
        return outs

    @tf.custom_gradient
    def forward(*inputs: tf.Tensor) -> Any:
        def backward(*gradients: tf.Tensor) -> List[tf.Tensor]:
            averaged = _allreduce(what, gradients, None, Average, 1.0, 1.0, process_set)
            return averaged if rank() == root_rank else [tf.zeros_like(each) for each in averaged]

        dtypes, shapes = [each.dtype for each in inputs], [each.shape for each in inputs]
        return _call(run, inputs, dtypes, shapes), backward

    return list(forward(*[_tensor_of(tensor, what) for tensor in tensors]))


@as_it_is
def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The tensor of rank root_rank (its number in the job, also in a process set), on all ranks."""
    return broadcast_all("broadcast", [tensor], root_rank, name, process_set)[0]


# --------------------------------------------------------------------------------------------- alltoall


def _alltoall(
    tensor: tf.Tensor, splits: Optional[tf.Tensor], name: Optional[str], process_set: ProcessSet
) -> Tuple[tf.Tensor, tf.Tensor]:
    what = "alltoall"
    set_number(process_set)

    def run(arrays: List[Array]) -> List[Array]:
        array = arrays[0]
        rows = rows_of(arrays[1] if len(arrays) > 1 else None, array.shape[0], process_set, what)
        made, parts = [Tensor(_bytes_of(array))], [_part(array, tuple(rows))]
        operation = submit(what, what, made, parts, _scale, name, process_set)
        operation.wait()
        return _results(operation, arrays[:1]) + [np.array(operation.results[0].received, np.int32)]

    @tf.custom_gradient
    def forward(*inputs: tf.Tensor) -> Any:
        dtypes, shapes = [tensor.dtype, tf.int32], [_any_rows(tensor), [len(process_set._members())]]
        result, received = _call(run, inputs, dtypes, shapes)

        def backward(gradient: tf.Tensor, _: tf.Tensor) -> List[Any]:
            back, _ = _alltoall(gradient, received, None, process_set)
            unsent = tf.shape(inputs[0])[0] - tf.shape(back)[0]  # rows that the splits left here
            back = tf.concat([back, tf.zeros(tf.concat([[unsent], tf.shape(back)[1:]], 0), back.dtype)], 0)
            back = tf.ensure_shape(back, inputs[0].shape)
            return [back, None][: len(inputs)]

        return [result, received], backward

    inputs = [tensor] if splits is None else [tensor, splits]
    result, received = forward(*inputs)
    return result, received


@as_it_is
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Rows from all ranks, in their order: splits[r] rows go to rank r; without splits, to each equally many.

    With splits, it also returns how many rows have come from each rank.
    """
    what = "alltoall"
    given = _with_rows(_tensor_of(tensor, what), what)
    if splits is None:
        return _alltoall(given, None, name, process_set)[0]
    rows = tf.convert_to_tensor(splits)
    if rows.shape.rank != 1 or not rows.dtype.is_integer:
        raise ValueError(f"{what}: splits are integers, one for each rank")
    return _alltoall(given, rows, name, process_set)


# ---------------------------------------------------------------------------------------- reducescatter


def _reducescatter(
    what: str,
    tensors: Sequence[tf.Tensor],
    name: Optional[str],
    op: str,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> List[tf.Tensor]:
    set_number(process_set)

    def run(arrays: List[Array]) -> List[Array]:
        made = [Tensor(_carried(_flat(array)), None, _REDUCED[array.dtype]) for array in arrays]
        parts = [_part(array) for array in arrays]
        operation = submit(
            what, "reducescatter", made, parts, _scale, name, process_set, None, op, None, prescale, postscale
        )
        operation.wait()
        return _results(operation, arrays)

    @tf.custom_gradient
    def forward(*inputs: tf.Tensor) -> Any:
        def backward(*gradients: tf.Tensor) -> List[tf.Tensor]:
            factor = prescale * postscale * (len(process_set._members()) if op == Sum else 1)
            scaled = [each * tf.cast(factor, each.dtype) for each in gradients]
            return _allgather(what, scaled, None, process_set)

        dtypes, shapes = [each.dtype for each in inputs], [_any_rows(each) for each in inputs]
        return _call(run, inputs, dtypes, shapes), backward

    given = [_with_rows(_reduced(_tensor_of(tensor, what), what), what) for tensor in tensors]
    return list(forward(*given))


@as_it_is
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: Optional[str] = Average,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """This rank's rows of the reduction of all tensors. Lower ranks get a row more where they do not divide evenly."""
    what = "reducescatter"
    reduction = operation_of(op, None, what)
    compressed, context = compression.compress(_tensor_of(tensor, what))
    made = _reducescatter(what, [compressed], name, reduction, prescale_factor, postscale_factor, process_set)
    return compression.decompress(made[0], context)


@as_it_is
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: Optional[str] = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """reducescatter() of several tensors as one operation."""
    what = "grouped_reducescatter"
    reduction = operation_of(op, None, what)
    given = [_tensor_of(tensor, what) for tensor in list_of(tensors, what)]
    compressed, contexts = zip(*[compression.compress(tensor) for tensor in given])
    made = _reducescatter(what, compressed, name, reduction, prescale_factor, postscale_factor, process_set)
    return [compression.decompress(result, context) for result, context in zip(made, contexts)]
