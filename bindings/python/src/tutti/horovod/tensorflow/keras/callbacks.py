"""Callbacks for model.fit(). They belong to the Keras that TensorFlow has as tf.keras."""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow as tf

from ..._basics import ProcessSet, global_process_set, size
from ..functions import broadcast_variables
from ..mpi_ops import grouped_allreduce


def _variables_of(optimizer: Any) -> List[Any]:
    found = getattr(optimizer, "variables", [])
    return list(found() if callable(found) else found)


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Gives all ranks what rank root_rank has in the model's and the optimizer's variables, when training begins.

    Variables that are not there yet, since the model has seen no batch, follow after the first one. ValueError: the model
    is compiled with XLA.
    """

    def __init__(
        self, root_rank: int, device: str = "", local_variables: Any = None, process_set: ProcessSet = global_process_set
    ) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._process_set = process_set
        self._known = -1  # how many variables have been given

    def on_train_begin(self, logs: Any = None) -> None:
        if getattr(self.model, "jit_compile", False) and size() > 1:
            raise ValueError(
                "this model is compiled with XLA, which cannot call Horovod's operations: model.compile(..., jit_compile=False)"
            )
        self._known = -1
        self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._broadcast()

    def _broadcast(self) -> None:
        """Where there are more than there were. Ranks have the same model, so this is so on all or on none."""
        variables = list(self.model.variables) if self.model.built else []
        own = {id(each) for each in variables}
        variables += [each for each in _variables_of(self.model.optimizer) if id(each) not in own]
        if len(variables) != self._known:
            self._known = len(variables)
            broadcast_variables(variables, self._root_rank, self._process_set)


class MetricAverageCallback(tf.keras.callbacks.Callback):
    """At the end of an epoch, replaces its metrics by their averages over all ranks, for callbacks that come later."""

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self._process_set = process_set

    def on_epoch_end(self, epoch: int, logs: Optional[Any] = None) -> None:
        names = sorted(logs or {})
        if not names or logs is None:
            return
        values = [tf.constant(float(logs[name]), tf.float64) for name in names]
        for name, average in zip(names, grouped_allreduce(values, process_set=self._process_set)):
            logs[name] = float(average)
