"""A communication hook for DistributedDataParallel that averages gradients in fewer bytes, with error feedback.

    compression = tutti_torch.compression.Compression(model, "powersgd", rank=4)
    parallel.register_comm_hook(compression, tutti_torch.compression.hook)

A compressor of Tutti (docs/how-to/compression.md) has the gradients of all of DDP's buckets, any number of them:

    backward pass     bucket 0 ───► bucket 1 ───► bucket 2, the last one
    hook                 │ ready       │ ready       │ ready, finish: second exchanges of all buckets, in their order
    first exchanges      ├────────►    ├────────►    ├────────►

The ranks start second exchanges in the order of buckets, never in the order in which first ones happen to end. Its state
belongs to the names of parameters: DDP makes its buckets anew after the first step, and the state goes on.
"""

# PyTorch compares the annotations of hooks with types: they must not be turned into text.
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist


class Compression:
    """State of `hook`, for one DistributedDataParallel.

    `model`: the module whose parameters are trained, with float32 gradients on the CPU. `method` and `options`: as
    tutti.Compressor takes them. `group`: the process group, of the backend tutti; None: all ranks.
    """

    def __init__(self, model: torch.nn.Module, method: str, group: Any = None, **options: Any) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._method = method
        self._group = group
        self._options = options
        self._comm: Any = None
        self._compressor: Any = None
        self._layout: List[Tuple[str, int, Tuple[int, ...]]] = []  # of the last step, in the order of the backward pass
        self._is_steady = False  # it was the same for two steps
        self._loaded: Optional[Dict[str, Any]] = None
        self._begin()

    def _begin(self) -> None:
        self._arrived: List[Tuple[str, torch.Tensor]] = []
        self._futures: List[Tuple[torch.futures.Future, torch.Tensor]] = []

    # ------------------------------------------------------------------------------------------------- in a step

    def _take(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        if buffer.dtype != torch.float32 or buffer.device.type != "cpu":
            raise TypeError(f"gradients must be float32 on the CPU, are {buffer.dtype} on {buffer.device}")
        first = len(self._arrived)
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            name = self._names.get(id(parameter))
            if name is None:
                raise ValueError("a gradient is of a parameter that the model given to Compression does not have")
            self._arrived.append((name, _flat_or_matrix(gradient)))
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._futures.append((future, buffer))
        if self._is_steady:
            if self._layout[first : len(self._arrived)] != _layout_of(self._arrived[first:]):
                raise RuntimeError("DistributedDataParallel has other buckets than in the steps before")
            for name, _ in self._arrived[first:]:
                self._compressor.ready(name)
        if bucket.is_last():
            self._finish()
        return future

    def _finish(self) -> None:
        layout = _layout_of(self._arrived)
        if not self._is_steady:
            self._is_steady = layout == self._layout
            if not self._is_steady:
                self._rebuild(layout)
            for name, _ in self._arrived:
                self._compressor.ready(name)
        self._compressor.finish()
        for future, buffer in self._futures:
            future.set_result(buffer)
        self._begin()

    def _rebuild(self, layout: List[Tuple[str, int, Tuple[int, ...]]]) -> None:
        import tutti

        from . import communicator

        if self._comm is None:  # of its own: the order of its calls needs no care for those of the group
            self._comm = communicator(self._group).dup()
        gradients = {name: gradient.numpy() for name, gradient in reversed(self._arrived)}
        made = tutti.Compressor(self._comm, gradients, self._method, **self._options)
        if self._compressor is not None:
            made.take(self._compressor)
            self._compressor.close()
        elif self._loaded is not None:
            made.load_state_dict(self._loaded)
            self._loaded = None
        self._compressor = made
        self._layout = layout

    # ------------------------------------------------------------------------------------------------ between steps

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """This rank's state, for a checkpoint with the parameters; each rank has its own. Empty before the first step."""
        if self._compressor is None:
            return {}
        return {name: _from_array(array) for name, array in self._compressor.state_dict().items()}

    def load_state_dict(self, state: Dict[str, torch.Tensor]) -> None:
        """Takes the dictionary of state_dict() of this rank, of as many ranks. All ranks call it. Before the first step, the
        dictionaries are checked in that step."""
        arrays = {name: _to_array(tensor) for name, tensor in state.items()}
        if self._compressor is not None:
            self._compressor.load_state_dict(arrays)
        elif arrays:
            self._loaded = arrays

    @property
    def ratio(self) -> float:
        """How many times fewer bytes a rank contributes than its gradients have; 1 before the first step."""
        if self._compressor is None:
            return 1.0
        counters = self._compressor.counters
        return counters.gradient_bytes / max(counters.payload_bytes, 1)

    def close(self) -> None:
        """Frees the compressor and its communicator."""
        if self._compressor is not None:
            self._compressor.close()
            self._comm.close()


def _flat_or_matrix(gradient: torch.Tensor) -> torch.Tensor:
    """The gradient as its memory has it. In another order than its shape says, such as channels_last, it is a vector."""
    gradient = gradient.detach()
    return gradient if gradient.is_contiguous() else gradient.as_strided((gradient.numel(),), (1,))


def _layout_of(arrived: List[Tuple[str, torch.Tensor]]) -> List[Tuple[str, int, Tuple[int, ...]]]:
    return [(name, gradient.data_ptr(), tuple(gradient.shape)) for name, gradient in arrived]


def _from_array(array: Any) -> torch.Tensor:
    if array.dtype.name == "uint64":  # which older versions of PyTorch do not have
        array = array.astype("int64")
    return torch.from_numpy(array)


def _to_array(tensor: torch.Tensor) -> Any:
    array = tensor.detach().cpu().numpy()
    return array.astype("uint64") if array.dtype.name == "int64" else array


def hook(state: Compression, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook; register it with its state."""
    return state._take(bucket)
