"""Lets `import horovod`, `import horovod.torch` and the like find the modules here, in place of Horovod, installed or not.

The modules are the same objects under both names, so an exception that is caught by one name was raised by the other.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any, Dict, Optional, Sequence

_PACKAGE = __package__ or "tutti.horovod"
_NAME = "horovod"
# Modules that programs import by these names, and where what they want is.
_MODULES: Dict[str, str] = {
    "horovod.common": _PACKAGE,
    "horovod.common.exceptions": f"{_PACKAGE}._errors",
    "horovod.common.process_sets": f"{_PACKAGE}._basics",
    "horovod.common.util": f"{_PACKAGE}._util",
    "horovod.version": _PACKAGE,
    "horovod.keras": f"{_PACKAGE}.tensorflow.keras",
    "horovod.keras.callbacks": f"{_PACKAGE}.tensorflow.keras.callbacks",
}
_PACKAGES = (
    _NAME,
    "horovod.common",
    "horovod.keras",
    "horovod.tensorflow",
    "horovod.tensorflow.keras",
    "horovod.torch",
)
_ABSENT: Dict[str, str] = {
    "mxnet": "there is no front for MXNet",
    "spark": "Spark is not supported",
    "ray": "Ray is not supported",
    "runner": "start ranks with tutti-run, torchrun, mpirun or srun",
    "run": "start ranks with tutti-run, torchrun, mpirun or srun",
    "data": "only horovod.torch, horovod.tensorflow and horovod.keras are there",
    "torch.elastic": "there is no elastic training",
    "tensorflow.elastic": "there is no elastic training",
    "tensorflow.keras.elastic": "there is no elastic training",
    "tensorflow.data": "there is no service for data",
    "keras.elastic": "there is no elastic training",
}


class _Loader(importlib.abc.Loader):
    def __init__(self, real: str) -> None:
        self._real = real
        self._spec: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._real)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put that of the other name there


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name != _NAME and not name.startswith(_NAME + "."):
            return None
        below = name[len(_NAME) + 1 :]
        for absent, why in _ABSENT.items():
            if below == absent or below.startswith(absent + "."):
                raise ModuleNotFoundError(f"{name} is not part of tutti.horovod: {why}", name=name)
        real = _MODULES.get(name, _PACKAGE + name[len(_NAME) :])
        if importlib.util.find_spec(real) is None:
            raise ModuleNotFoundError(f"{name} is not part of tutti.horovod", name=name)
        return importlib.machinery.ModuleSpec(name, _Loader(real), is_package=name in _PACKAGES)


_finder = _Finder()


def install() -> None:
    """From now on, this process finds `horovod` here. RuntimeError: it has imported another one already."""
    loaded = sys.modules.get(_NAME)
    if loaded is not None and loaded is not sys.modules.get(_PACKAGE):
        raise RuntimeError(f"Horovod is imported already, from {getattr(loaded, '__file__', 'somewhere')}")
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
