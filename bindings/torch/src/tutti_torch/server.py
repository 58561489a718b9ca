"""Training with a parameter server: parameters and embeddings live on servers, workers push gradients and pull values.

    model = torch.nn.ModuleDict({
        "words": tutti_torch.server.Embedding(1_000_000, 64, optimizer=server.Adagrad(0.05)),
        "head": torch.nn.Linear(64, 1),
    })
    with tutti.init() as comm, tutti_torch.server.Optimizer(model, comm, server.Adam(0.001), servers=[0]) as optimizer:
        optimizer.serve()                       # returns at once on ranks that only work
        for words, labels in batches if optimizer.is_worker else ():
            loss(model["head"](model["words"](words).sum(1)), labels).backward()
            optimizer.step()                    # push, tick and pull, in one round trip

Each trainable parameter is a dense table of tutti.server, and each Embedding a table of rows. docs/how-to/
parameter-server.md says which mode to choose.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from tutti import Communicator, server


class Embedding(torch.nn.Module):
    """Rows that live on servers: as torch.nn.Embedding, but a worker only has the rows of its batch.

    A call pulls the rows of its indices, each once. Their gradients go to the servers with the optimizer's next step.
    `optimizer`, `initial` and `seed`: as tutti.server.Table takes them.
    """

    def __init__(
        self,
        rows: int,
        width: int,
        *,
        optimizer: server.Optimizer = server.SGD(),
        initial: server.Initial = server.Normal(1.0),
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.rows, self.width = rows, width
        self._spec: Dict[str, Any] = {"optimizer": optimizer, "initial": initial, "seed": seed}
        self._server: Optional[server.Server] = None
        self._name = ""
        self._used: List[Tuple[torch.Tensor, torch.Tensor]] = []  # indices, and rows with their gradients

    def extra_repr(self) -> str:
        return f"{self.rows}, {self.width}"

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        if self._server is None:
            raise RuntimeError("an Embedding needs an Optimizer of tutti_torch.server before its first call")
        different, inverse = torch.unique(indices, return_inverse=True)
        pulled = self._server.pull({self._name: different.cpu().numpy()})[self._name]
        rows = torch.from_numpy(pulled).to(indices.device)
        if torch.is_grad_enabled() and self.training:
            rows.requires_grad_()
            self._used.append((different.cpu(), rows))
        return torch.nn.functional.embedding(inverse, rows)

    def _table(self, name: str) -> server.Table:
        self._name = name
        return server.Table(name, rows=self.rows, width=self.width, **self._spec)

    def _gradients(self) -> Optional[Tuple[np.ndarray, np.ndarray]]:
        """Of all calls since the last step: a row may come several times."""
        used = [(indices, rows.grad) for indices, rows in self._used if rows.grad is not None]
        if not used:
            return None
        indices = torch.cat([indices for indices, _ in used])
        return indices.numpy(), torch.cat([_numbers(gradient) for _, gradient in used]).numpy()


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", torch.float32).contiguous()


class Optimizer:
    """The parameters of a model on servers, and the steps that a worker takes.

    `optimizer`: what servers do with gradients (tutti.server.SGD and others); an Embedding brings its own. `encoding`: how
    gradients travel, such as "bfloat16". Further options are those of tutti.server.Server: servers, workers, mode,
    staleness, quorum, average, queue_bytes, timeout, serve_timeout, backups, joiners_max, load_folder. Collective. All workers begin with the
    parameters of the lowest of them, or with load_folder with those that save() wrote; servers compute in float32, whatever
    dtype the model has.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        comm: Communicator,
        optimizer: server.Optimizer = server.SGD(),
        *,
        encoding: Optional[str] = None,
        **options: Any,
    ) -> None:
        tables = self._take_model(model, optimizer, encoding)
        mode = {key: options.pop(key) for key in ("mode", "staleness", "quorum") if key in options}
        self._take_server(server.Server(comm, tables, mode="asynchronous", **options))
        is_setter = options.get("load_folder") is None and self.is_worker and _is_lowest(comm, options)
        self._begin(comm, is_setter, {"mode": "synchronous", **mode})

    @classmethod
    def join(
        cls,
        model: torch.nn.Module,
        comm: Communicator,
        optimizer: server.Optimizer = server.SGD(),
        *,
        encoding: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> "Optimizer":
        """A worker of servers that run, on a process that was not there at their start, as tutti.server.Server.join().

        The model and `optimizer` are those of the other workers; its parameters become those that the servers have.
        """
        self = cls.__new__(cls)
        self._take_server(server.Server.join(comm, self._take_model(model, optimizer, encoding), timeout=timeout))
        self.pull()
        return self

    def _take_model(
        self, model: torch.nn.Module, optimizer: server.Optimizer, encoding: Optional[str]
    ) -> List[server.Table]:
        self._parameters = {
            name: parameter
            for name, parameter in model.named_parameters()
            if parameter.requires_grad and parameter.numel() > 0
        }
        self._embeddings = {
            name or "embedding": module for name, module in model.named_modules() if isinstance(module, Embedding)
        }
        self._how: Dict[str, Any] = {} if encoding is None else {"encoding": encoding}
        tables = [
            server.Table(name, shape=parameter.numel(), optimizer=optimizer)
            for name, parameter in self._parameters.items()
        ]
        return tables + [module._table(name) for name, module in self._embeddings.items()]

    def _take_server(self, made: server.Server) -> None:
        self.server = made
        for module in self._embeddings.values():
            module._server = made if self.is_worker else None

    def _begin(self, comm: Communicator, is_setter: bool, mode: Dict[str, Any]) -> None:
        """In every mode, the setter's parameters are on all servers before another worker pulls. Until then no worker
        waits for another in a clock: a quorum might not come about. Without a setter, servers have loaded theirs."""
        if is_setter:
            self.server.set({name: _numbers(p).flatten().numpy() for name, p in self._parameters.items()})
        if self.is_worker:
            self.server.tick()
        if is_setter:
            self.pull()  # waits for its update on each server
        comm.barrier()
        if self.is_worker:
            self.server.change_mode(**mode)
        if self.is_worker and not is_setter:
            self.pull()

    @property
    def is_worker(self) -> bool:
        return self.server.is_worker

    def serve(self, *, wait: Optional[float] = None) -> bool:
        """Blocks until all workers have left, on ranks that only serve; as tutti.server.Server.serve()."""
        return self.server.serve(wait=wait)

    def admit(self, comm: Communicator) -> None:
        """Lets workers in that call join(); as tutti.server.Server.admit()."""
        self.server.admit(comm)

    def step(self) -> None:
        """Pushes the gradients, ends this worker's clock, and takes the new parameters. Gradients are then gone.

        A parameter without a gradient takes no part: its moments do not change. A step that is refused, because of a
        gradient that is NaN or infinite, changes nothing, and the gradients stay. After tutti.Timeout servers have the
        gradients: the next call pushes nothing, and goes on waiting for that step. So call it again before you compute more.
        """
        gradients: Dict[str, Any] = {
            name: _numbers(p.grad).flatten().numpy() for name, p in self._parameters.items() if p.grad is not None
        }
        for name, module in self._embeddings.items():
            rows = module._gradients()
            if rows is not None:
                gradients[name] = rows
        self._store(self.server.push_pull(gradients, dict.fromkeys(self._parameters), **self._how))
        self.zero_grad()

    def zero_grad(self) -> None:
        """Forgets the gradients of parameters, and the rows that embeddings have pulled."""
        for parameter in self._parameters.values():
            parameter.grad = None
        for module in self._embeddings.values():
            module._used = []

    def pull(self) -> None:
        """Takes the parameters as servers have them now."""
        self._store(self.server.pull(dict.fromkeys(self._parameters)))

    def save(self, folder: "Union[str, os.PathLike[str]]") -> None:
        """Saves this server's part of the tables, for load_folder; as tutti.server.Server.save()."""
        self.server.save(folder)

    def _store(self, values: Dict[str, Any]) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(torch.from_numpy(values[name]).view(parameter.shape))

    def close(self) -> None:
        """Leaves; as tutti.server.Server.close()."""
        self.server.close()

    def __enter__(self) -> "Optimizer":
        return self

    def __exit__(self, kind: Optional[type], error: object, traceback: object) -> None:
        self.server.__exit__(kind, error, traceback)


def _is_lowest(comm: Communicator, options: Dict[str, Any]) -> bool:
    """Whether this worker is the lowest of them."""
    workers: Optional[Sequence[int]] = options.get("workers")
    if workers is None:
        servers = {int(rank) for rank in options.get("servers", (0,))}
        workers = [rank for rank in range(comm.size) if rank not in servers]
    return comm.rank == min(workers)
