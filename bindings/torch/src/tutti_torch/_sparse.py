"""Sums of sparse tensors: everybody gets everybody's entries and adds them up.

It is over when the call returns: how many entries there are has to be known before they are exchanged.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ._work import Work, finished


def allreduce(group: Any, tensor: torch.Tensor, opts: Any) -> Work:
    if opts.reduceOp != dist.ReduceOp.SUM:
        raise ValueError("sparse tensors can only be summed")
    own = tensor.detach().coalesce()
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(group.size())]
    group.allgather([counts], [torch.tensor([own._nnz()])]).wait()
    longest = max(int(count) for count in counts)
    indices = _gather_rows(group, own.indices().t().contiguous(), longest)
    values = _gather_rows(group, own.values().contiguous(), longest)
    entries = [int(count) for count in counts]
    total = torch.sparse_coo_tensor(
        torch.cat([rows[:n] for rows, n in zip(indices, entries)]).t(),
        torch.cat([rows[:n] for rows, n in zip(values, entries)]),
        tensor.shape,
    ).coalesce()
    with torch.no_grad():
        tensor.copy_(total)
    return finished([tensor])


def _gather_rows(group: Any, rows: torch.Tensor, longest: int) -> "list[torch.Tensor]":
    """The rows of all ranks, each filled up to as many as the longest one has."""
    padded = rows.new_zeros((longest, *rows.shape[1:]))
    padded[: rows.shape[0]] = rows
    gathered = [torch.empty_like(padded) for _ in range(group.size())]
    group.allgather([gathered], [padded]).wait()
    return gathered
