"""Tutti as a backend of torch.distributed: init_process_group("tutti").

Nobody has to import this: PyTorch 2.5 and later load it through its entry point (group torch.backends), and for earlier
ones tutti_torch.pth does (see _autoload). It only makes the name known; Tutti itself is loaded with the first group.

Communication hooks for DistributedDataParallel are in tutti_torch.hooks. docs/torch.md tells the rest.
"""

BACKEND = "tutti"


def register() -> None:
    """Makes the backend known to torch.distributed. Any number of times."""
    import inspect

    # All of these modules may be half imported by now: it is their names that are there.
    from torch.distributed import is_available

    if not is_available():
        return
    from torch.distributed.distributed_c10d import Backend

    if hasattr(Backend, BACKEND.upper()):
        return
    # PyTorch 1.13 does not ask for which devices.
    takes_devices = "devices" in inspect.signature(Backend.register_backend).parameters
    more = {"devices": ["cpu"]} if takes_devices else {}
    Backend.register_backend(BACKEND, _create, **more)


def _create(store, rank, size, timeout):
    from ._group import create

    return create(store, rank, size, timeout)
