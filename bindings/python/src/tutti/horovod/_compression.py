"""Compression, for tensors of any kind: torch/compression.py and tensorflow/compression.py add the choices."""

from __future__ import annotations

from typing import Any, Tuple


class Compressor:
    """Compresses a tensor before an operation, and restores it after."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """The tensor to send, and the facts that decompress() needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        raise NotImplementedError


class NoneCompressor(Compressor):
    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor
