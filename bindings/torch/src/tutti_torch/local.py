"""Local SGD, DiLoCo and Streaming DiLoCo for the parameters of a module (docs/how-to/local-sgd.md).

    local = tutti_torch.local.Local(model, every=50)
    for samples in data:                                  # of this rank
        optimizer.zero_grad()
        loss_of(model(samples)).backward()
        optimizer.step()                                  # any optimizer, whose state stays on its rank
        local.step()
    local.synchronise()

The module is not wrapped, so there is no DistributedDataParallel: ranks exchange no gradients.
"""

from typing import Any, Dict, List, Optional

import torch


class Local:
    """Local training of a module, whose parameters are float32 on the CPU.

    `group`: the process group, of the backend tutti; None: all ranks. Its first rank's parameters become those of all ranks.
    `fragments`: into how many parts of about equal size the parameters are cut, in their order. `options`: as tutti.Local
    takes them. Buffers of the module, such as running means, stay on their rank.
    """

    def __init__(self, module: torch.nn.Module, group: Any = None, fragments: int = 1, **options: Any) -> None:
        import tutti

        from . import communicator

        self._parameters = dict(module.named_parameters())
        for name, parameter in self._parameters.items():
            if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
                raise TypeError(f"parameters must be float32 on the CPU, {name} is {parameter.dtype} on {parameter.device}")
        if not 1 <= fragments <= len(self._parameters):
            raise ValueError(f"fragments must be 1 to the number of parameters, {len(self._parameters)}, is {fragments}")
        self._comm = communicator(group).dup()  # of its own: the order of its calls needs no care for those of the group
        arrays = {name: _memory_of(parameter).numpy() for name, parameter in self._parameters.items()}
        for array in arrays.values():
            self._comm.broadcast(array, root=0, out=array)
        numbers = dict(zip(arrays, _cut([array.size for array in arrays.values()], fragments)))
        self._local = tutti.Local(self._comm, arrays, fragments=numbers, **options)

    def step(self) -> Any:
        """After each step of the optimizer. Returns a tutti.LocalResult."""
        return self._local.step()

    def synchronise(self) -> Any:
        """Makes the parameters of all ranks the same: at the end of training, and before state_dict()."""
        return self._local.synchronise()

    def change(self, **options: Any) -> None:
        """Takes other options, as tutti.Local.change does; the same on all ranks."""
        self._local.change(**options)

    def values(self) -> Dict[str, torch.Tensor]:
        """Copies of the global values of all parameters, by which to judge the module: for its load_state_dict()."""
        return {
            name: torch.from_numpy(self._local.values(name)).as_strided(parameter.shape, parameter.stride())
            for name, parameter in self._parameters.items()
        }

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """This rank's state, parameters included, for a checkpoint. After synchronise(), a run goes on with the same bits."""
        return {
            name: torch.from_numpy(array.astype("int64") if array.dtype.name == "uint64" else array)
            for name, array in self._local.state_dict().items()
        }

    def load_state_dict(self, state: Dict[str, torch.Tensor]) -> None:
        """Takes the dictionary of state_dict() of this rank, of as many ranks; before the first step."""
        self._local.load_state_dict({name: tensor.detach().cpu().numpy() for name, tensor in state.items()})

    @property
    def counters(self) -> Any:
        """A tutti.LocalCounters."""
        return self._local.counters

    def close(self) -> None:
        """Frees the state and its communicator."""
        self._local.close()
        self._comm.close()


def _memory_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    """The parameter as its memory has it: a vector."""
    flat: Optional[torch.Tensor] = parameter.detach()
    assert flat is not None
    if flat.storage_offset() == 0 and flat.numel() == flat.untyped_storage().nbytes() // 4:
        return flat.as_strided((flat.numel(),), (1,))
    return flat.view(-1)  # fails where there are gaps


def _cut(sizes: List[int], fragments: int) -> List[int]:
    """The fragment of each parameter: runs of about equal size, none without a parameter."""
    total, before, found = max(sum(sizes), 1), 0, []
    for index, size in enumerate(sizes):
        wanted = (before + size // 2) * fragments // total
        least = found[-1] if found else 0
        most = 0 if not found else least + 1
        must = fragments - (len(sizes) - index)  # so that each fragment still to come gets one
        found.append(max(least, min(wanted, most, fragments - 1), must))
        before += size
    return found
