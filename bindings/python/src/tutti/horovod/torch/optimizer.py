"""DistributedOptimizer: an optimizer whose gradients are reduced over all ranks while the backward pass goes on."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

import torch

from .._basics import Adasum, Average, ProcessSet, global_process_set, size
from .._util import split_list
from .compression import Compression
from .mpi_ops import (
    allreduce_async_,
    grouped_allreduce_async_,
    sparse_allreduce_async,
    synchronize,
)

Parameter = torch.Tensor
Named = Iterable[Tuple[str, Parameter]]


class _Pending:
    """The reduction of the gradients of some parameters, under way."""

    def __init__(self, parameters: Sequence[Parameter], wait: Callable[[], List[torch.Tensor]]) -> None:
        self.parameters = parameters
        self._wait = wait

    def finish(self) -> None:
        """Waits, and puts the results where the gradients are."""
        for parameter, result in zip(self.parameters, self._wait()):
            gradient = parameter.grad
            if gradient is None or gradient.is_sparse or result.is_sparse:
                is_sparse = gradient is not None and gradient.is_sparse
                parameter.grad = result.to_sparse() if is_sparse and not result.is_sparse else result
            elif result is not gradient:
                gradient.copy_(result)


class _Distributed:
    """What DistributedOptimizer() adds to an optimizer's class; it comes before that among the bases."""

    def _distribute(
        self,
        named_parameters: Optional[Named],
        compression: Any,
        backward_passes_per_step: int,
        op: str,
        gradient_predivide_factor: float,
        groups: Union[None, int, List[List[Parameter]]],
        sparse_as_dense: bool,
        process_set: ProcessSet,
    ) -> None:
        self._compression = compression
        self._op = op
        self._predivide_factor = gradient_predivide_factor
        self._sparse_as_dense = sparse_as_dense
        self._process_set = process_set
        self.backward_passes_per_step = backward_passes_per_step
        own = [p for group in self.param_groups for p in group["params"]]  # type: ignore[attr-defined]
        self._names = _names_of(own, named_parameters, self.param_groups)  # type: ignore[attr-defined]
        self._reduced = [p for p in own if p.requires_grad]
        self._passes_left = {p: backward_passes_per_step for p in self._reduced}
        self._pending: Dict[Parameter, _Pending] = {}
        self._group_of: Dict[Parameter, List[Parameter]] = {}
        for group in _groups_of(self._reduced, groups):
            for p in group:
                self._group_of[p] = group
        self._waiting: Set[Parameter] = set()  # whose gradients are ready, but not all of their group
        self._is_synchronized = False
        self._synchronizes = True
        self._hooks: List[Any] = []
        self._is_distributed = bool(process_set.included()) and process_set.size() != 1
        if self._is_distributed:
            for p in self._reduced:
                self._hooks.append(_after_accumulation(p, self._accumulated))

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up gradients here before they are reduced."""
        self.backward_passes_per_step = passes
        self._passes_left = {p: passes for p in self._reduced}

    def load_state_dict(self, *arguments: Any, **keywords: Any) -> None:
        self._pending.clear()
        self._waiting.clear()
        self._is_synchronized = False
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        super().load_state_dict(*arguments, **keywords)  # type: ignore[misc]

    # ----------------------------------------------------------------------------------- backward passes

    def _accumulated(self, p: Parameter) -> None:
        """A backward pass has added to that gradient."""
        if self._passes_left[p] <= 0:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to step(). Increase"
                " backward_passes_per_step to accumulate gradients locally."
            )
        self._passes_left[p] -= 1
        if self._passes_left[p] == 0:
            group = self._group_of[p]
            self._waiting.add(p)
            if all(other in self._waiting for other in group):
                self._reduce(group)

    def _reduce(self, group: List[Parameter]) -> None:
        self._waiting.difference_update(group)
        for p in group:
            if p.grad is None:  # it was not used here, but maybe on other ranks
                p.grad = torch.zeros_like(p)
        gradients = [p.grad for p in group if p.grad is not None]
        name = self._names[group[0]]
        factors = (1 / self._predivide_factor, self._predivide_factor) if self._op == Average else (1.0, 1.0)
        if self._sparse_as_dense:
            gradients = [each.to_dense() if each.is_sparse else each for each in gradients]
        if any(each.is_sparse for each in gradients):
            made = [
                sparse_allreduce_async(each, self._names[p], self._op, self._process_set)
                if each.is_sparse
                else _waiter(allreduce_async_(each, None, self._names[p], self._op, *factors, self._process_set))
                for p, each in zip(group, gradients)
            ]
            self._remember(group, lambda: [wait() for wait in made])
            return
        compressed, contexts = zip(*[self._compression.compress(each) for each in gradients])
        if len(group) == 1:
            handle = allreduce_async_(compressed[0], None, name, self._op, *factors, self._process_set)
        else:
            handle = grouped_allreduce_async_(compressed, None, name, self._op, *factors, self._process_set)

        def wait() -> List[torch.Tensor]:
            results = synchronize(handle)
            results = [results] if len(group) == 1 else results
            return [self._compression.decompress(each, context) for each, context in zip(results, contexts)]

        self._remember(group, wait)

    def _remember(self, group: List[Parameter], wait: Callable[[], List[torch.Tensor]]) -> None:
        pending = _Pending(group, wait)
        for p in group:
            self._pending[p] = pending

    # ---------------------------------------------------------------------------------------------- steps

    def synchronize(self) -> None:
        """Waits until all gradients are reduced. Those of parameters without one count as zeros."""
        if self._is_distributed:
            for p in self._reduced:
                if p not in self._pending:
                    self._reduce(self._group_of[p])
            try:
                for pending in dict.fromkeys(self._pending.values()):
                    pending.finish()
            finally:
                self._pending.clear()
                self._waiting.clear()
                self._passes_left = {p: self.backward_passes_per_step for p in self._reduced}
        self._is_synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """In this `with`, step() does not synchronize: for programs that did so before, to clip gradients, say."""
        self._synchronizes = False
        try:
            yield
        finally:
            self._synchronizes = True

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        if self._synchronizes:
            if self._is_synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after"
                    " optimizer.synchronize(). The gradients are reduced twice.",
                    stacklevel=2,
                )
            self.synchronize()
        self._is_synchronized = False
        return super().step(closure)  # type: ignore[misc]

    def zero_grad(self, *arguments: Any, **keywords: Any) -> None:
        if self._pending:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or"
                " optimizer.synchronize(). This is prohibited as it can cause a race condition."
            )
        super().zero_grad(*arguments, **keywords)  # type: ignore[misc]


def _waiter(handle: Any) -> Callable[[], torch.Tensor]:
    return lambda: synchronize(handle)  # type: ignore[no-any-return]


def _after_accumulation(p: Parameter, function: Callable[[Parameter], None]) -> Any:
    """Calls it whenever a backward pass has added to the gradient. Keep the handle that it returns."""
    if hasattr(p, "register_post_accumulate_grad_hook"):  # PyTorch 2.1 and later
        return p.register_post_accumulate_grad_hook(function)
    accumulates = p.expand_as(p).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    accumulates.register_hook(lambda *unused: function(p))
    return accumulates


def _names_of(
    own: List[Parameter], named: Optional[Named], param_groups: List[Dict[str, Any]]
) -> Dict[Parameter, str]:
    if named is None:
        return {
            p: f"allreduce.noname.{number}.{index}"
            for number, group in enumerate(param_groups)
            for index, p in enumerate(group["params"])
        }
    pairs = list(named)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by"
            " model.named_parameters()."
        )
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}"
        )
    made = {p: name for name, p in pairs}
    unnamed = [index for index, p in enumerate(own) if p not in made]
    if unnamed:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named. Their places in the"
            f" optimizer: {', '.join(map(str, unnamed))}"
        )
    return made


def _groups_of(
    parameters: List[Parameter], groups: Union[None, int, List[List[Parameter]]]
) -> List[List[Parameter]]:
    if groups is None or groups == 0:
        return [[p] for p in parameters]
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
        return split_list(parameters, groups)
    if not isinstance(groups, list):
        raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
    seen: Set[int] = set()
    known = {id(p) for p in parameters}
    made = []
    for group in groups:
        for p in group:
            if not isinstance(p, torch.Tensor):
                raise ValueError("groups must consist of torch.Tensor.")
            if id(p) in seen:
                raise ValueError("A parameter can only appear once in groups.")
            seen.add(id(p))
        members = [p for p in group if id(p) in known]
        if members:
            made.append(members)
    return made + [[p] for p in parameters if id(p) not in seen]


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Named] = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: str = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Union[None, int, List[List[Parameter]]] = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The optimizer, whose step() first waits until the gradients of all ranks are averaged (or what `op` says).

    Each gradient is reduced as soon as the backward pass has it. It has the options and the state of the optimizer that
    it is made from, whose place it takes.

    named_parameters: model.named_parameters(), whose names are those of the reductions. backward_passes_per_step: how
    many passes add up gradients before they are reduced. gradient_predivide_factor: with Average, gradients are divided
    by it before they are summed. groups: how many groups of gradients, or lists of their parameters, are reduced together.
    sparse_as_dense: sparse gradients are reduced as dense ones, and not gathered.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups != 0:
        warnings.warn("num_groups is now called groups", DeprecationWarning, stacklevel=2)
        if groups is None:
            groups = num_groups
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if op == Adasum and size() > 1:
        raise NotImplementedError("tutti.horovod has no Adasum; use op=hvd.Average")
    base = type(optimizer)
    made: Any = object.__new__(type(base.__name__, (_Distributed, base), {"__module__": __name__}))
    made.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    made._distribute(
        named_parameters,
        compression,
        backward_passes_per_step,
        Average if op == Adasum else op,
        gradient_predivide_factor,
        groups,
        sparse_as_dense,
        process_set,
    )
    return made
