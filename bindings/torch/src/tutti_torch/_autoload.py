"""Registers the backend as soon as a program imports torch.distributed: imported by tutti_torch.pth when Python starts.

For PyTorch before 2.5, which does not look for entry points. A program that does not use PyTorch pays for this
small module and for one comparison an import: nothing else may be imported here.
"""

import sys

_MODULE = "torch.distributed.distributed_c10d"


class _Finder:
    """Finds nothing by itself; lets the others find the module that has the list of backends, and adds to its loading."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != _MODULE:
            return None
        sys.meta_path.remove(cls)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _register_after(spec.loader)
                return spec
        return None


def _register_after(loader):
    execute = loader.exec_module

    def exec_module(module):
        execute(module)
        from . import register

        register()

    loader.exec_module = exec_module


if _MODULE not in sys.modules:
    sys.meta_path.insert(0, _Finder)
