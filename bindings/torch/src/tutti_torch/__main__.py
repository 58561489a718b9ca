"""python -m tutti_torch: compiles the backend in C++ beforehand, for the PyTorch of this Python, unless it is ready made. Says which file
a program would load, or what is missing."""

import sys

try:
    import torch  # noqa: F401: _native needs it
except (ImportError, OSError) as error:  # OSError: a library of it is missing
    sys.exit(f"tutti_torch: PyTorch cannot be imported by {sys.executable} ({error}): pip install torch")

from . import _native

try:
    print(f"tutti_torch: the backend in C++ is {_native.load(limit_seconds=3600, again=True).__file__}")
except _native.CannotBuild as error:
    sys.exit(f"tutti_torch: {error}")
