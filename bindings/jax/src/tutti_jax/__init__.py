"""Tutti under JAX: collectives between the processes of a job, on CPUs.

    import tutti_jax
    tutti_jax.enable()                 # before the first import of jax

    import jax
    jax.distributed.initialize(...)    # or, under tutti-run, torchrun, mpirun or srun: tutti_jax.initialize()

A program that imports jax first, or that must not be changed: `python -m tutti_jax program.py`. docs/start/jax.md tells the
rest.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ._versions import ABI, TRIED, UnknownVersion, installed

__all__ = ["ABI", "TRIED", "UnknownVersion", "enable", "initialize", "installed", "library_path"]

_VARIABLE = "MPITRAMPOLINE_LIB"


def library_path() -> str:
    """The libtutti_jax.so that is used."""
    from . import _front

    return _front.path()


def enable() -> None:
    """Makes JAX use Tutti where it would use gloo. Call it before jax is imported; any number of times.

    Raises UnknownVersion if this jaxlib would end the process, RuntimeError if jaxlib has been imported without Tutti, and
    ImportError if there is no jaxlib. Then nothing has changed.
    """
    from . import _front, _versions

    if "jaxlib.xla_client" in sys.modules or "jaxlib._jax" in sys.modules:
        if not _front.was_loaded_by_jaxlib() and not _enabled:
            raise RuntimeError(
                "jax was imported before tutti_jax.enable(), and jaxlib looks for MPI only once. Call enable() before the first "
                "`import jax`, or start the program with `python -m tutti_jax`"
            )
    else:
        _versions.check(_front.path())
    _front.load()
    _load_jaxlib(_front.path())

    import jax

    jax.config.update("jax_cpu_collectives_implementation", "mpi")


_enabled = False


def _load_jaxlib(library: str) -> None:
    """jaxlib reads the variable when it is loaded. Processes that this one starts do not inherit it."""
    global _enabled
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = library
    try:
        import jaxlib.xla_client  # noqa: F401

        _enabled = True
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def initialize(*, collectives: str = "tutti", **options: Any) -> None:
    """enable() and jax.distributed.initialize() under a launcher that Tutti knows: tutti-run, torchrun, mpirun, srun.

    The processes meet through Tutti first, and process 0 tells the others where JAX's coordinator is to listen. With
    collectives="gloo" JAX takes gloo, for comparisons. Options are those of jax.distributed.initialize().
    """
    if collectives == "tutti":
        enable()
    import jax

    from ._meeting import meet

    if collectives != "tutti":
        jax.config.update("jax_cpu_collectives_implementation", collectives)
    address, size, rank = meet()
    jax.distributed.initialize(address, size, rank, **options)
