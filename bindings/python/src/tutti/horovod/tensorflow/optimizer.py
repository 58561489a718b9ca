"""DistributedGradientTape and DistributedOptimizer: gradients that are reduced over all ranks."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

import tensorflow as tf

from .._basics import Average, ProcessSet, global_process_set
from .._submit import operation_of
from .compression import Compression
from .mpi_ops import allreduce, as_it_is, grouped_allreduce

Reduce = Callable[[Sequence[Any]], List[Any]]


def _reduction(
    what: str,
    compression: Any,
    sparse_as_dense: bool,
    op: str,
    gradient_predivide_factor: float,
    process_set: ProcessSet,
) -> Reduce:
    """A function that reduces a list of gradients, in which None stands for none: dense ones as one operation, IndexedSlices each."""
    op = operation_of(op, None, what)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError(f"{what}: gradient_predivide_factor is not supported with op != Average")
    factors = (1 / gradient_predivide_factor, gradient_predivide_factor)

    def reduce(gradients: Sequence[Any]) -> List[Any]:
        made = list(gradients)
        if not process_set.included() or process_set.size() == 1:
            return made
        if sparse_as_dense:
            made = [tf.convert_to_tensor(each) if isinstance(each, tf.IndexedSlices) else each for each in made]
        dense = [i for i, each in enumerate(made) if each is not None and not isinstance(each, tf.IndexedSlices)]
        if dense:
            results = grouped_allreduce(
                [made[i] for i in dense],
                op=op,
                compression=compression,
                prescale_factor=factors[0],
                postscale_factor=factors[1],
                process_set=process_set,
            )
            for i, result in zip(dense, results):
                made[i] = result
        for i, each in enumerate(made):
            if isinstance(each, tf.IndexedSlices):
                made[i] = allreduce(each, op=op, process_set=process_set)
        return made

    return reduce


# ---------------------------------------------------------------------------------------------- the tape


class _DistributedGradientTape(tf.GradientTape):
    """Takes the place of the tape that it is made from, which is not to be used any more."""

    _reduce: Reduce

    @as_it_is
    def gradient(self, target: Any, sources: Any, *arguments: Any, **keywords: Any) -> Any:
        gradients = super().gradient(target, sources, *arguments, **keywords)
        return tf.nest.pack_sequence_as(gradients, self._reduce(tf.nest.flatten(gradients)))


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: str = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
) -> tf.GradientTape:
    """The tape, whose gradient() returns averages over all ranks (or what `op` says).

    Gradients of one call are reduced as one operation, so num_groups and groups change nothing; device_dense and
    device_sparse are for GPUs, and ignored. gradient_predivide_factor: with Average, gradients are divided by it before
    they are summed. sparse_as_dense: IndexedSlices are reduced as dense tensors, and not gathered.
    """
    if not isinstance(gradtape, tf.GradientTape):
        raise ValueError(f"DistributedGradientTape takes a tf.GradientTape, not {gradtape!r:.80}")
    made = object.__new__(_DistributedGradientTape)
    made.__dict__.update(vars(gradtape))
    made._reduce = _reduction(
        "DistributedGradientTape", compression, sparse_as_dense, op, gradient_predivide_factor, process_set
    )
    return made


# ------------------------------------------------------------------------------------------ the optimizer


class _Keras3:
    """Methods that DistributedOptimizer() adds to an optimizer of Keras 3: all its ways lead through apply()."""

    @as_it_is
    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        reduced = self._tutti_reduce(grads)  # type: ignore[attr-defined]
        return super().apply(reduced, trainable_variables)  # type: ignore[misc]


class _TfKeras:
    """The same for an optimizer of tf-keras, new or legacy."""

    @as_it_is
    def apply_gradients(self, grads_and_vars: Any, *arguments: Any, **keywords: Any) -> Any:
        pairs = list(grads_and_vars)
        reduced = self._tutti_reduce([gradient for gradient, _ in pairs])  # type: ignore[attr-defined]
        made = [(gradient, variable) for gradient, (_, variable) in zip(reduced, pairs)]
        return super().apply_gradients(made, *arguments, **keywords)  # type: ignore[misc]


def _addition_for(optimizer: Any) -> Any:
    kinds = [f"{kind.__module__}.{kind.__name__}" for kind in type(optimizer).__mro__]
    if any(kind.startswith("keras.src.") and kind.endswith("Optimizer") for kind in kinds):
        return _Keras3
    if any(kind.startswith("tf_keras.src.") for kind in kinds):
        return _TfKeras
    raise ValueError(
        f"DistributedOptimizer takes an optimizer of Keras 3 or of tf-keras, not {optimizer!r:.80}: with another one,"
        " use DistributedGradientTape"
    )


def DistributedOptimizer(
    optimizer: Any,
    name: Any = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: str = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The optimizer, which from now on averages gradients over all ranks (or what `op` says) before it applies them.

    It is the same object, with its state and its options, for model.compile() and for programs that call
    apply_gradients(). A model of Keras 3 is compiled with jit_compile=False: what XLA compiles cannot call an operation
    (BroadcastGlobalVariablesCallback looks at that). Options: as of DistributedGradientTape; backward_passes_per_step is 1.
    """
    what = "DistributedOptimizer"
    if backward_passes_per_step != 1:
        raise NotImplementedError(f"{what}: backward_passes_per_step is 1 here; add gradients up before they are applied")
    if hasattr(optimizer, "_tutti_reduce"):
        raise ValueError(f"{what}: this optimizer is one already")
    base = type(optimizer)
    addition = _addition_for(optimizer)
    # Under the name of its class, by which Keras stores it with a model, and finds it again.
    made = type(base.__name__, (addition, base), {"__module__": base.__module__, "__qualname__": base.__qualname__})
    reduce = _reduction(what, compression, sparse_as_dense, op, gradient_predivide_factor, process_set)
    optimizer.__class__ = made
    object.__setattr__(optimizer, "_tutti_reduce", reduce)  # past Keras, which would track it
    return optimizer
