"""python -m tutti_torch: compiles the backend in C++ beforehand, for the PyTorch of this Python."""

import sys

from . import _native

try:
    _native.load(limit_seconds=3600, again=True)
except _native.CannotBuild as error:
    sys.exit(f"tutti_torch: {error}")
