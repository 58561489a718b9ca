"""The names that programs import from horovod.common.util."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Iterator, List, Sequence

from ._basics import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    mpi_built,
    nccl_built,
    rocm_built,
)

__all__ = [
    "ccl_built",
    "cuda_built",
    "ddl_built",
    "env",
    "gloo_built",
    "is_iterable",
    "mpi_built",
    "nccl_built",
    "rocm_built",
    "split_list",
]


def is_iterable(value: Any) -> bool:
    try:
        iter(value)
    except TypeError:
        return False
    return True


def split_list(values: Sequence[Any], count: int) -> List[List[Any]]:
    """At most `count` runs of about equally many."""
    each, rest = divmod(len(values), count)
    made, at = [], 0
    for number in range(count):
        length = each + (number < rest)
        if length:
            made.append(list(values[at : at + length]))
        at += length
    return made


@contextmanager
def env(**variables: str) -> Iterator[None]:
    """These environment variables, in the body of a `with`."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
