"""Tutti as a backend of torch.distributed: init_process_group("tutti").

Nobody has to import this: PyTorch 2.5 and later load it through its entry point (group torch.backends), and for earlier
ones tutti_torch.pth does (see _autoload). It only makes the name known; Tutti itself is loaded with the first group.

Communication hooks for DistributedDataParallel are in tutti_torch.hooks. docs/start/torch.md tells the rest.
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
    from . import _native
    from ._group import create

    # Before the ranks meet, who wait until the group's deadline for one that compiles.
    native = _native.module(rank, timeout.total_seconds() / 2)
    group = create(store, rank, size, timeout)
    if native is None:
        return group
    from tutti._library import library

    return native.Backend(group, rank, size, library.path)


def communicator(group=None):
    """The tutti.Communicator beneath a process group; None: that of all ranks."""
    import torch
    import torch.distributed as dist

    found = group if group is not None else dist.group.WORLD
    if not hasattr(found, "communicator"):
        found = found._get_backend(torch.device("cpu"))
        found = getattr(found, "wrapped_pg", found).group  # wrapped by TORCH_DISTRIBUTED_DEBUG=DETAIL
    return found.communicator


def register_storage(tensor):
    """Registers the memory of a tensor's storage (tutti.register): worth it for tensors that are used in many operations.

    It stays registered, and alive, until unregister_storage was called as often as this, with any tensor of the storage.
    """
    from ._storages import register

    register(tensor)


def unregister_storage(tensor):
    """Ends one register_storage. While an operation uses the memory: tutti.Error with the status IN_PROGRESS, and nothing
    has changed."""
    from ._storages import unregister

    unregister(tensor)
