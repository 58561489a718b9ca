"""Tutti as a backend of torch.distributed: init_process_group("tutti").

Nobody has to import this: PyTorch 2.5 and later load it through its entry point (group torch.backends), and for earlier
ones tutti_torch.pth does (see _autoload). It only makes the name known; Tutti itself is loaded with the first group.

Communication hooks for DistributedDataParallel are in tutti_torch.hooks. docs/start/torch.md tells the rest.
"""

BACKEND = "tutti"

# What DDP and FSDP send in every step: gradients, and shards of gradients and parameters.
_OF_TRAINING = ("allreduce", "reduce_scatter", "allgather")


class Options:
    """What a group may do beyond torch.distributed: the `pg_options` of init_process_group, new_group and init_device_mesh.

        dist.init_process_group("tutti", pg_options=tutti_torch.Options(encoding="bfloat16/hosts"))

    encoding: a permission to send in fewer bytes, which rounds: for allreduce, reduce_scatter and allgather, and so for
        DDP and FSDP. Broadcasts, with which weights are handed out once, go as they are.
    encodings: rules for operations and sizes instead, such as "allreduce:64k-=bfloat16/hosts;send=float16/hosts"; "send" is
        for send and recv.

    docs/how-to/encodings.md has the words for both. Values that an encoding does not take go as they are. Without options a group
    has what $TUTTI_ENCODINGS says. The same on all ranks. Groups that are split off have those of their parent.
    """

    def __init__(self, *, encoding=None, encodings=None):
        if encoding is not None and encodings is not None:
            raise ValueError("tutti_torch.Options takes encoding or encodings, not both")
        for name, value in (("encoding", encoding), ("encodings", encodings)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"tutti_torch.Options: {name} must be a str, is {type(value).__name__}")
        if encoding is not None:
            _check_encoding(encoding)
            encodings = ";".join(f"{operation}={encoding}" for operation in _OF_TRAINING)
        self.encodings = encodings

    def __repr__(self):
        return f"tutti_torch.Options(encodings={self.encodings!r})"


def _check_encoding(encoding):
    """A mistake is told in the caller's words, not in those of the rules that come of them."""
    from tutti import Encoding

    name, *words = encoding.split("/")
    names = [one.name.lower() for one in Encoding]
    if name not in names:
        raise ValueError(f"tutti_torch.Options: encoding is {encoding!r}; there are {', '.join(names)}")
    if not set(words) <= {"hosts", "racks", "everywhere", "allowed", "required"}:
        raise ValueError(
            f"tutti_torch.Options: encoding is {encoding!r}; behind the name may stand /hosts, /racks or /everywhere, "
            "and /allowed or /required"
        )


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
    # PyTorch 1.13 does not ask for which devices, and hands on no options.
    takes = inspect.signature(Backend.register_backend).parameters
    more = {"devices": ["cpu"]} if "devices" in takes else {}
    if "extended_api" in takes:
        Backend.register_backend(BACKEND, _create_with, extended_api=True, **more)
    else:
        Backend.register_backend(BACKEND, _create, **more)


def _create_with(given, options):
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"pg_options of the backend tutti must be tutti_torch.Options, is {type(options).__name__}")
    return _create(given.store, given.group_rank, given.group_size, given.timeout, options)


def _create(store, rank, size, timeout, options=None):
    from . import _native
    from ._group import create

    # Before the ranks meet, who wait until the group's deadline for one that compiles.
    native = _native.module(rank, timeout.total_seconds() / 2)
    group = create(store, rank, size, timeout, None if options is None else options.encodings)
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
