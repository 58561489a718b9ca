"""SyncBatchNorm: batch normalization with the mean and the variance of the batches of all ranks."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as functional
from torch.nn.modules.batchnorm import _BatchNorm

from .._basics import Sum, size
from .mpi_ops import allgather_async, allreduce_async, synchronize


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d, 2d and 3d, for inputs of two dimensions or more. All ranks must train at the same time.

    Ranks may have batches of different sizes.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        uses_batch = self.training or not self.track_running_stats
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        factor = self.momentum
        if factor is None:  # the average of all batches
            factor = 1.0 / float(self.num_batches_tracked) if self.num_batches_tracked is not None else 0.0
        if not uses_batch or size() == 1:
            return functional.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, uses_batch, factor, self.eps
            )
        made: torch.Tensor = _Normalize.apply(
            input,
            self.weight,
            self.bias,
            self.running_mean if self.training else None,
            self.running_var if self.training else None,
            self.eps,
            factor,
        )
        return made


def _along_channels(vector: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return vector.to(like.dtype).reshape(1, -1, *[1] * (like.dim() - 2))


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: Optional[torch.Tensor],
        bias: Optional[torch.Tensor],
        running_mean: Optional[torch.Tensor],
        running_var: Optional[torch.Tensor],
        eps: float,
        momentum: float,
    ) -> Any:
        channels = input.shape[1]
        over = [axis for axis in range(input.dim()) if axis != 1]
        own = torch.zeros(2 * channels + 1, dtype=torch.float64)  # elements of a channel, means, squared distances
        own[0] = input.numel() // channels if channels else 0
        if input.numel():
            precise = input.detach().double()
            own[1 : channels + 1] = precise.mean(over)
            own[channels + 1 :] = precise.var(over, unbiased=False) * own[0]
        handle = allgather_async(own.unsqueeze(0), name="sync_batch_norm.forward")
        everybody = synchronize(handle)
        counts, means = everybody[:, :1], everybody[:, 1 : channels + 1]
        count = counts.sum()
        mean = (counts * means).sum(0) / count
        variance = (everybody[:, channels + 1 :] + counts * (means - mean) ** 2).sum(0) / count
        if running_mean is not None and running_var is not None:
            unbiased = variance * (count / (count - 1).clamp(min=1))
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
            running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
        inverse = torch.rsqrt(variance + eps)
        normal = (input - _along_channels(mean, input)) * _along_channels(inverse, input)
        ctx.count = float(count)
        ctx.has_bias = bias is not None
        ctx.save_for_backward(normal, weight, inverse)
        out = normal if weight is None else normal * _along_channels(weight, input)
        return out if bias is None else out + _along_channels(bias, input)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        gradient = gradients[0]
        normal, weight, inverse = ctx.saved_tensors
        over = [axis for axis in range(gradient.dim()) if axis != 1]
        sums = torch.stack([gradient.double().sum(over), (gradient * normal).double().sum(over)])
        of_weight = None if weight is None else sums[1].to(weight.dtype)
        of_bias = sums[0].to(gradient.dtype) if ctx.has_bias else None
        of_input = None
        if ctx.needs_input_grad[0]:
            handle = allreduce_async(sums, op=Sum, name="sync_batch_norm.backward")
            means = synchronize(handle) / ctx.count
            centered = gradient - _along_channels(means[0], gradient) - normal * _along_channels(means[1], gradient)
            scale = inverse if weight is None else inverse * weight.double()
            of_input = centered * _along_channels(scale, gradient)
        return of_input, of_weight, of_bias, None, None, None, None
