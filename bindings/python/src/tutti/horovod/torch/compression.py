"""Compression: gradients that have half the bytes on the way."""

from __future__ import annotations

from typing import Any, Tuple, Type

import torch

from .._compression import Compressor, NoneCompressor


class FP16Compressor(Compressor):
    """Floats become float16. Tutti adds those in float32, and rounds once in each step."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        return (tensor.half() if tensor.dtype.is_floating_point else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor.to(ctx) if ctx is not None and ctx.is_floating_point else tensor


class Compression:
    """The choices for `compression=`."""

    none: Type[Compressor] = NoneCompressor
    fp16: Type[Compressor] = FP16Compressor
