"""Compression: gradients that have half the bytes on the way."""

from __future__ import annotations

from typing import Any, Tuple, Type

import tensorflow as tf

from .._compression import Compressor, NoneCompressor


class FP16Compressor(Compressor):
    """Floats become float16. Tutti adds those in float32, and rounds once in each step."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> Tuple[tf.Tensor, Any]:
        return (tf.cast(tensor, tf.float16) if tensor.dtype.is_floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        return tf.cast(tensor, ctx) if ctx is not None and ctx.is_floating else tensor


class Compression:
    """The choices for `compression=`."""

    none: Type[Compressor] = NoneCompressor
    fp16: Type[Compressor] = FP16Compressor
