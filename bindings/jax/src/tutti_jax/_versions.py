"""Which versions of jaxlib have been tried, and what to do with others.

jaxlib has MPItrampoline in it, which ends the process if the library that it loads lacks a name. So a version that nobody has
tried is tried first, in a process of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Dict, Optional, Tuple

# jaxlib: the ABI of MPItrampoline in it. docs/start/jax.md has the same table.
TRIED: Dict[str, Tuple[int, int, int]] = {
    "0.10.2": (2, 9, 0),
    "0.12.0.1": (2, 9, 0),
}

# The ABI that libtutti_jax.so has the names of.
ABI = (2, 9, 0)

_TRY = "import jaxlib.xla_client; print('loaded')"
_TRY_SECONDS = 120


class UnknownVersion(RuntimeError):
    """This jaxlib cannot load Tutti: its MPItrampoline wants another ABI, or it has none."""


def installed() -> Optional[str]:
    """The version of jaxlib that `import jax` would load; None: none is installed."""
    from importlib import metadata

    try:
        return metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return None


def check(library: str) -> None:
    """Raises UnknownVersion if `import jax` with that library would end the process, or never use it."""
    version = installed()
    if version is None:
        raise ImportError("jaxlib is not installed: pip install jax")
    wanted = TRIED.get(version)
    if wanted is None:
        wanted = _try_out(version, library)
    if wanted[0] != ABI[0] or wanted[1] > ABI[1]:
        raise UnknownVersion(_refusal(version, f"wants version {_dotted(wanted)} of MPItrampoline's ABI"))


def _try_out(version: str, library: str) -> Tuple[int, int, int]:
    """Loads jaxlib with the library in another process, which says what ABI it wants."""
    environment = dict(os.environ, MPITRAMPOLINE_LIB=library, MPITRAMPOLINE_VERBOSE="1", JAX_PLATFORMS="cpu")
    try:
        run = subprocess.run(
            [sys.executable, "-c", _TRY], env=environment, capture_output=True, text=True, timeout=_TRY_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise UnknownVersion(_refusal(version, f"was not loaded within {_TRY_SECONDS} s")) from None
    found = re.search(r"Requiring MPI ABI version (\d+)\.(\d+)\.(\d+)", run.stderr)
    if found is None:
        raise UnknownVersion(_refusal(version, "has no MPItrampoline, so it cannot reach MPI"))
    wanted = (int(found[1]), int(found[2]), int(found[3]))
    if "loaded" not in run.stdout:
        said = [line for line in run.stderr.splitlines() if not line.startswith("[MPItrampoline]")]
        why = f"wants version {_dotted(wanted)} of MPItrampoline's ABI and ends with status {run.returncode}"
        raise UnknownVersion(_refusal(version, why + (": " + "; ".join(said) if said else "")))
    return wanted


def _dotted(version: Tuple[int, int, int]) -> str:
    return ".".join(map(str, version))


def _refusal(version: str, why: str) -> str:
    return (
        f"jaxlib {version} {why}. Tutti has the ABI {_dotted(ABI)}, and was tried with jaxlib {', '.join(TRIED)}. "
        "See docs/start/jax.md"
    )
