"""The communicator and its collectives.

Every operation is one method here, which checks its arguments and says what to call; three decorators make its
forms from that: blocking, started and prepared.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from enum import IntEnum
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    Mapping,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypedDict,
    TypeVar,
    Union,
)

import numpy as np

from . import _callbacks, _calls, _header, _sparse
from ._buffers import (
    Array,
    Blocks,
    Buffer,
    Buffers,
    Side,
    address_of,
    empty_like,
    empty_part,
    empty_stack,
)
from ._arguments import INT_MAX, SIZE_MAX, integer, nanoseconds, permission, printable, text
from ._calls import Call, How, Prepared, Request, State
from ._errors import Failure, check, error_of, invalid
from ._header import ANY_RANK, ANY_TAG, ID_BYTES, NO_COLOR, Dtype, Encoding, Status
from ._library import library
from ._operations import SUM, Op, resolve
from ._sparse import SparseRows
from ._store import Store, StoreAdapter

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec, Unpack

    Parameters = ParamSpec("Parameters")

Result = TypeVar("Result")


def _blocking(
    method: "Callable[Concatenate[Communicator, Parameters], Call[Result]]",
) -> "Callable[Concatenate[Communicator, Parameters], Result]":
    @functools.wraps(method)
    def form(
        self: "Communicator", /, *arguments: "Parameters.args", **how: "Parameters.kwargs"
    ) -> Result:
        return _calls.run(self, method(self, *arguments, **how))

    return _named(form, method, "", "")


def _started(
    method: "Callable[Concatenate[Communicator, Parameters], Call[Result]]",
) -> "Callable[Concatenate[Communicator, Parameters], Request[Result]]":
    @functools.wraps(method)
    def form(
        self: "Communicator", /, *arguments: "Parameters.args", **how: "Parameters.kwargs"
    ) -> Request[Result]:
        return _calls.start(self, method(self, *arguments, **how))

    return _named(form, method, "_start", "Starts {} and returns a Request at once.")


def _prepared(
    method: "Callable[Concatenate[Communicator, Parameters], Call[Result]]",
) -> "Callable[Concatenate[Communicator, Parameters], Prepared[Result]]":
    @functools.wraps(method)
    def form(
        self: "Communicator", /, *arguments: "Parameters.args", **how: "Parameters.kwargs"
    ) -> Prepared[Result]:
        return _calls.prepare(self, method(self, *arguments, **how))

    return _named(form, method, "_prepare", "Plans {} once; Prepared.start() runs it.")


Form = TypeVar("Form", bound=Callable[..., Any])


def _named(form: Form, method: Callable[..., Any], ending: str, text: str) -> Form:
    name = method.__name__.lstrip("_")
    form.__name__ = name + ending
    form.__qualname__ = f"Communicator.{name}{ending}"
    form.__annotations__ = {k: v for k, v in method.__annotations__.items() if k != "return"}
    if text:
        form.__doc__ = text.format(name + "()")
    del form.__wrapped__  # type: ignore[attr-defined]  # or its signature would promise a Call
    form.__signature__ = _signature_of(method)  # type: ignore[attr-defined]
    return form


def _signature_of(method: Callable[..., Any]) -> Any:
    import inspect

    return inspect.signature(method).replace(return_annotation=inspect.Signature.empty)


class Message:
    """What was received. Good once the recv is done."""

    def __init__(self) -> None:
        self._struct = _header.Message(ctypes.sizeof(_header.Message), ANY_RANK, ANY_TAG, 0)

    @property
    def source(self) -> int:
        return int(self._struct.source)

    @property
    def tag(self) -> int:
        return int(self._struct.tag)

    @property
    def count(self) -> int:
        """How many elements came, at most those of the array."""
        return int(self._struct.count)

    def __repr__(self) -> str:
        return f"<tutti.Message from {self.source} with tag {self.tag}: {self.count} elements>"


class Footprint(NamedTuple):
    """What a communicator costs this rank."""

    private_bytes: int
    shared_bytes: int
    program_count: int
    link_count: int
    descriptor_count: int


class Options(TypedDict, total=False):
    """What a communicator can be told by keyword."""

    #: Default deadline of an operation, in seconds; else $TUTTI_TIMEOUT or 30 minutes.
    timeout: Optional[float]
    #: For all ranks to arrive; else $TUTTI_INIT_TIMEOUT or 5 minutes.
    init_timeout: Optional[float]
    #: The bits of results do not depend on size, offset or bucketing either.
    deterministic: bool
    #: Rules, such as "allreduce:0-64k=oneshot,64k-=ring"; else $TUTTI_ALGORITHMS.
    algorithms: Optional[str]
    #: "network": what goes between hosts is compared with a checksum, "on": within them, too, "off": not; else
    #: $TUTTI_INTEGRITY.
    integrity: Optional[str]
    #: "on": what goes between hosts is encrypted, "off": not; else $TUTTI_ENCRYPTION.
    encryption: Optional[str]
    #: Rules for encodings, such as "allreduce:64k-=bfloat16/hosts"; else $TUTTI_ENCODINGS, else none.
    encodings: Optional[str]


_OPTIONS = frozenset(Options.__annotations__)


def _cause_of(cause: "Union[_header.Cause, str]") -> int:
    if not isinstance(cause, str):
        return int(cause)
    try:
        return int(_header.Cause[cause.upper()])
    except KeyError:
        names = ", ".join(member.name.lower() for member in _header.Cause)
        raise invalid(Status.INVALID_OPTIONS, f"cause must be one of {names}, is {cause!r}") from None


def _comm_options(options: Options) -> _header.CommOptions:
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}")
    algorithms = options.get("algorithms")
    encodings = options.get("encodings")
    return _header.CommOptions(
        size_bytes=ctypes.sizeof(_header.CommOptions),
        rank=-1,
        size=-1,
        timeout_ns=nanoseconds("timeout", options.get("timeout")),
        init_timeout_ns=nanoseconds("init_timeout", options.get("init_timeout")),
        deterministic=int(options.get("deterministic", False)),
        algorithms=None if algorithms is None else text("algorithms", algorithms),
        integrity=_choice("integrity", _header.Integrity, options.get("integrity")),
        encryption=_choice("encryption", _header.Encryption, options.get("encryption")),
        encodings=None if encodings is None else text("encodings", encodings),
    )


def _choice(option: str, choices: Type[IntEnum], name: Optional[str]) -> int:
    if name is None:
        return choices["DEFAULT"]
    known = {choice.name.lower(): choice for choice in choices if choice.name != "DEFAULT"}
    if name not in known:
        wanted = " or ".join(f'"{known_name}"' for known_name in known)
        raise invalid(Status.INVALID_OPTIONS, f"{option} is {wanted}, not {name!r}")
    return known[name]


def create_id() -> bytes:
    """A fresh name for a communicator to be: made by one rank, carried to the others by the program."""
    made = _header.Id()
    check(library.id_create(ctypes.byref(made)))
    return bytes(made.bytes)


def join(
    store: Optional[Store] = None, *, id: Optional[bytes] = None, **options: "Unpack[Options]"
) -> "Communicator":
    """Joins ranks that call grow() or replace(), now or later; returns the new communicator.

    `store` is theirs, or `id` has the bytes that they left in it under "tutti/admission". Blocks until they have taken
    this process in, at most for the start-up deadline (`init_timeout`): then raises Timeout. Raises Error with the
    status AUTH_FAILED if they have another $TUTTI_SECRET.
    """
    _callbacks.catch_up()
    return Communicator._from(_meet(library.comm_join, _comm_options(options), id, store))


def _meet(
    function: Callable[..., int], wanted: _header.CommOptions, id: Optional[bytes], store: Optional[Store]
) -> ctypes.c_void_p:
    """The handle that comm_create or comm_join gives for these options, an id and a store."""
    if id is not None:
        if len(id) != ID_BYTES:
            raise invalid(Status.INVALID_OPTIONS, f"an id has {ID_BYTES} bytes, not {len(id)}")
        name_bytes = _header.Id.from_buffer_copy(id)
        wanted.id = ctypes.addressof(name_bytes)
    adapter = None
    if store is not None:
        adapter = StoreAdapter(store)
        wanted.store = adapter.address
    handle = ctypes.c_void_p()
    status = function(ctypes.byref(wanted), ctypes.byref(handle))
    if status != Status.OK:
        raise error_of(status) from (adapter.error if adapter is not None else None)
    return handle


def _is_of_one_process(kind: str) -> TypeError:
    return TypeError(
        f"a tutti.{kind} cannot be pickled or copied: its connections and memory belong to this process. Let each "
        "process create its own, from the launcher's environment, a store, or an id (tutti.create_id())"
    )


class Communicator:
    """Joins `size` ranks, numbered from 0; each is a process or a thread.

    Without arguments, everything is from the launcher's environment (tutti-run, torchrun, mpirun, srun). Else give
    `id` (from create_id(), the same on all ranks) or `store`, with `rank` and `size`; rank 0 of size 1 needs
    neither. Blocks until all ranks have arrived.

    Arrays are n-dimensional; "parts" of what is sent or received lie along the first axis, one a rank. `out` may
    have any shape with as many elements. What is left out is allocated. In place is what shares memory as the
    method says. A list (or tuple) of arrays is one buffer, one array after the other, without copies.

    Use it in `with`: the end frees it, after operations that are under way; an exception in the body aborts it,
    so that the other ranks do not wait. Calls must have the same order on all ranks: let one thread at a time
    issue them. A blocked call sees Ctrl-C only when it returns.
    """

    rank: int
    size: int

    def __init__(
        self,
        rank: Optional[int] = None,
        size: Optional[int] = None,
        *,
        id: Optional[bytes] = None,
        store: Optional[Store] = None,
        **options: "Unpack[Options]",
    ) -> None:
        _callbacks.catch_up()
        wanted = _comm_options(options)
        wanted.rank = -1 if rank is None else integer("rank", rank, 0, Status.INVALID_RANK)
        wanted.size = -1 if size is None else integer("size", size, 1, Status.INVALID_RANK)
        self._adopt(_meet(library.comm_create, wanted, id, store))

    def _adopt(self, handle: ctypes.c_void_p, owner: Any = None) -> None:
        assert handle.value is not None
        self._owner = owner
        self._state = State(handle.value, is_owned=owner is None)
        self.rank = library.comm_rank(handle)
        self.size = library.comm_size(handle)
        if owner is None:
            # Also at exit: the other ranks then learn that this one left, and functions in Python are called no more.
            self._finalizer: Any = weakref.finalize(self, _callbacks.later, self._state.leave, True)

    @classmethod
    def _from(cls, handle: ctypes.c_void_p, owner: Any = None) -> "Communicator":
        made = cls.__new__(cls)
        made._adopt(handle, owner)
        return made

    def __repr__(self) -> str:
        closed = "" if self._state.handle is not None else ", closed"
        return f"<tutti.Communicator, rank {self.rank} of {self.size}{closed}>"

    def __reduce__(self) -> NoReturn:
        raise _is_of_one_process("Communicator")

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Optional[type], error: Optional[BaseException], traceback: object) -> None:
        is_failure = error is not None and not (
            isinstance(error, GeneratorExit) or (isinstance(error, SystemExit) and not error.code)
        )
        if is_failure and self._state.handle is not None:
            self.abort(printable(f"{type(error).__name__}: {error}"))
        self.close()

    def close(self) -> None:
        """Leaves, after what this rank has started is done, and gives all memory back. Not collective.

        Without it the communicator is freed with its last reference, or at exit, but then what is under
        way is aborted rather than waited for.
        """
        if self._owner is not None:
            raise invalid(Status.INVALID_COMM, "the communicator of an axis is closed with its mesh")
        if not self._state.shut():
            raise invalid(
                Status.INVALID_COMM, "another thread is in a call of this communicator; abort() ends that"
            )
        if self._finalizer.detach() is not None:  # else it is closed, or another thread is closing it
            self._state.leave(is_hurried=False)

    def abort(self, reason: str) -> None:
        """Ends every present and future operation on all ranks with Aborted; from any thread, at any time."""
        self._state.abort(reason)

    def revoke(self, reason: Optional[str] = None) -> None:
        """Ends every present and future operation on all ranks with Revoked, so that all come to shrink; from any thread.

        The messages of the other ranks contain the reason.
        """
        if reason is None:
            check(self._state.call(library.comm_revoke, self._state.pointer))
        else:
            check(self._state.call(library.comm_revoke_because, self._state.pointer, text("reason", reason)))

    def agree(self, word: int) -> Tuple[int, bool]:
        """The bitwise and of the words (64 bits) of all that are left, the same on each; and whether nobody was missing.

        Collective over the ranks that are left; also when the communicator has failed.
        """
        both = ctypes.c_uint64(integer("word", word, 0, Status.INVALID_OPTIONS, 2**64 - 1))
        comm = self._state.pointer
        status = self._state.call(library.comm_agree, comm, ctypes.byref(both))
        if status != Status.PROC_FAILED:
            check(status, comm)
        return both.value, status == Status.OK

    def shrink(self, **options: "Unpack[Options]") -> "Communicator":
        """A communicator of the ranks that are left, in their old order; also when this one has failed.

        Collective over them. Raises Minority where most ranks are out of reach, and may go on by themselves.
        """
        made = self._derive(library.comm_shrink, _options_address(options))
        assert made is not None
        return made

    def exclude(
        self,
        ranks: Sequence[int],
        cause: "Union[_header.Cause, str]" = _header.Cause.NONE,
        reason: Optional[str] = None,
        whole_host: bool = False,
        **options: "Unpack[Options]",
    ) -> "Communicator":
        """A communicator without these ranks, even if they are alive, and against their will.

        Collective over the other ranks that are alive, with the same list on each; more than half of all ranks must
        call. The first call ends all operations, on all ranks, with Excluded. The causes are "late", "stalled",
        "corrupt" and "device"; all ranks are told the cause and the reason. The team refuses these processes when they
        join again; with whole_host, which must be the same on all ranks, all processes of their hosts.
        """
        numbers = [integer("ranks", rank, 0, Status.INVALID_RANK, 2**31 - 1) for rank in ranks]
        comm_options = _comm_options(options)
        wanted = _header.ExcludeOptions(
            size_bytes=ctypes.sizeof(_header.ExcludeOptions),
            cause=_cause_of(cause),
            whole_host=1 if whole_host else 0,
            reason=None if reason is None else text("reason", reason),
            comm_options=ctypes.addressof(comm_options),
        )
        made = self._derive(
            library.comm_exclude, (ctypes.c_int * len(numbers))(*numbers), len(numbers), ctypes.byref(wanted)
        )
        assert made is not None
        return made

    def grow(
        self,
        store: Store,
        joiners: int = 1,
        joiners_max: Optional[int] = None,
        *,
        wait: Optional[float] = None,
        **options: "Unpack[Options]",
    ) -> "Communicator":
        """A communicator of the ranks that are left and of processes that call join(), which come behind them.

        Waits until `joiners_max` processes have come (None: `joiners`), or until `wait` seconds have passed
        (None: the start-up deadline) and at least `joiners` are there. The processes find the ranks through the
        store, and need the same $TUTTI_SECRET. Collective over the ranks that are left; also when this
        communicator has failed. It stays as it is. Raises Timeout if too few processes come.
        """
        count = integer("joiners", joiners, 1, Status.INVALID_OPTIONS)
        most = count if joiners_max is None else joiners_max
        most = integer("joiners_max", most, count, Status.INVALID_OPTIONS)
        return self._enlarge(library.comm_grow, store, count, most, wait, options)

    def replace(
        self, store: Store, *, wait: Optional[float] = None, **options: "Unpack[Options]"
    ) -> "Communicator":
        """The same as grow(), with a process for each rank that is missing, which gets its number.

        The ranks that are left keep their numbers.
        """
        return self._enlarge(library.comm_replace, store, 0, 0, wait, options)

    def _enlarge(
        self,
        function: Any,
        store: Store,
        joiners: int,
        joiners_max: int,
        wait: Optional[float],
        options: Options,
    ) -> "Communicator":
        adapter = StoreAdapter(store)
        comm_options = _comm_options(options)
        wanted = _header.GrowOptions(
            size_bytes=ctypes.sizeof(_header.GrowOptions),
            store=adapter.address,
            joiner_min=joiners,
            joiner_max=joiners_max,
            wait_ns=nanoseconds("wait", wait),
            comm_options=ctypes.addressof(comm_options),
        )
        made = self._derive(function, ctypes.byref(wanted))
        assert made is not None
        return made

    @property
    def failure(self) -> Optional[Failure]:
        """Why it failed; None while it is healthy."""
        return self._state.failure()

    @property
    def footprint(self) -> Footprint:
        """What it costs this rank now; asked between operations."""
        found = _header.Footprint(size_bytes=ctypes.sizeof(_header.Footprint))
        check(self._state.call(library.comm_footprint, self._state.pointer, ctypes.byref(found)))
        return Footprint(*(getattr(found, name) for name in Footprint._fields))

    def explain(
        self,
        collective: str,
        count: int,
        dtype: Dtype = Dtype.float32,
        *,
        encoding: Union[str, Encoding, None] = None,
        peer: Optional[int] = None,
    ) -> str:
        """Which algorithm a call takes here, and why, in lines of text: `comm.explain("allreduce", 1 << 20)`.

        encoding: as the call asks for it; None: as the communicator's rules say.
        peer: of `"send"` alone, the rank that would get the message; the lines say whether it goes encoded, and why not.
        Not collective. Takes some milliseconds for a size that was not called before.
        """
        room = ctypes.create_string_buffer(8192)
        elements = integer("count", count, 0, Status.INVALID_COUNT, SIZE_MAX)
        asked = text("collective", collective)
        if peer is not None:
            asked += b":%d" % integer("peer", peer, 0, Status.INVALID_RANK)
        if encoding is not None:
            asked += b"=" + permission(encoding)
        check(
            self._state.call(
                library.comm_explain,
                self._state.pointer,
                asked,
                elements,
                int(dtype),
                room,
                len(room),
            )
        )
        return room.value.decode()

    @property
    def overlaps(self) -> bool:
        """Whether what is started may move while this rank computes, and not only instead."""
        return bool(self._state.call(library.comm_overlaps, self._state.pointer) == 1)

    # ------------------------------------------------------------------------- communicators from communicators

    def _derive(self, function: Any, *arguments: Any) -> "Optional[Communicator]":
        _callbacks.catch_up()
        handle = ctypes.c_void_p()
        comm = self._state.pointer
        check(self._state.call(function, comm, *arguments, ctypes.byref(handle)), comm)
        return None if handle.value is None else Communicator._from(handle)

    def split(
        self, color: Optional[int], key: int = 0, **options: "Unpack[Options]"
    ) -> "Optional[Communicator]":
        """Ranks of the same color (0 or more) form a communicator, ordered by key and then by rank here.

        Collective. A color of None: this rank gets None. What is not said in options is as here.
        """
        number = NO_COLOR if color is None else integer("color", color, 0, Status.INVALID_RANK)
        place = integer("key", key, -INT_MAX - 1, Status.INVALID_RANK)
        return self._derive(library.comm_split, number, place, _options_address(options))

    def dup(self, **options: "Unpack[Options]") -> "Communicator":
        """The same ranks once more; collective."""
        made = self._derive(library.comm_dup, _options_address(options))
        assert made is not None
        return made

    def group(self, ranks: Sequence[int], **options: "Unpack[Options]") -> "Communicator":
        """Those ranks of this communicator, in that order. Called by those ranks only, with the same list."""
        members = [integer("a rank", rank, 0, Status.INVALID_RANK, self.size - 1) for rank in ranks]
        numbers = (ctypes.c_int * len(members))(*members)
        made = self._derive(library.comm_group, numbers, len(ranks), _options_address(options))
        assert made is not None
        return made

    def mesh(
        self,
        axes: Optional[Mapping[str, int]] = None,
        options: Optional[Mapping[str, Options]] = None,
        **more_axes: int,
    ) -> "Mesh":
        """Numbers the ranks along named axes, the last one varying fastest: comm.mesh(dp=2, tp=4).

        Collective. `options` are for the communicators of the axes it names.
        """
        return Mesh(self, {**(axes or {}), **more_axes}, options or {})

    # -------------------------------------------------------------------------------------------- collectives

    def _is_root(self, root: int) -> bool:
        integer("root", root, 0, Status.INVALID_ROOT, self.size - 1)
        return root == self.rank

    def _collective(
        self,
        name: str,
        send: Optional[Buffers],
        out: Optional[Buffers],
        blocks: Tuple[int, int],
        allocate: Callable[[Side], Any],
        how: How,
        op: Union[str, Op, None] = None,
        root: Optional[int] = None,
    ) -> Call[Any]:
        """`blocks`: how many blocks of the call's count send and recv have here; 0: it is ignored."""
        wanted = how.get("dtype")
        send_blocks, recv_blocks = blocks
        sent = received = None
        if send_blocks > 0:
            if send is None:
                raise invalid(Status.INVALID_BUFFER, f"{name}: this rank has to send something")
            sent = Side(send, "send", wanted)
            count, rest = divmod(sent.count, send_blocks)
            if rest != 0:
                raise invalid(
                    Status.INVALID_COUNT,
                    f"{name}: {sent.count} elements to send are not {send_blocks} equal parts",
                )
        if recv_blocks > 0:
            if out is None and sent is None:
                raise invalid(
                    Status.INVALID_BUFFER, f"{name}: only root knows the shape; give `out` on the other ranks"
                )
            received = Side(allocate(sent) if out is None and sent else out, "out", wanted, True)
            if sent is None:
                count, rest = divmod(received.count, recv_blocks)
            elif received.count != count * recv_blocks:
                raise invalid(
                    Status.INVALID_COUNT,
                    f"{name}: out has {received.count} elements, but {count * recv_blocks} will come",
                )
            elif sent.dtype != received.dtype:
                raise invalid(
                    Status.INVALID_DTYPE,
                    f"{name}: send has {sent.dtype.name}, but out has {received.dtype.name}",
                )
        known = sent or received
        assert known is not None
        tail: Tuple[Any, ...] = (known.dtype,)
        operation = None
        if op is not None:
            operation = resolve(op, known.is_boolean)
            tail += (operation.handle,)
        if root is not None:
            tail += (root,)
        result = None if received is None else received.given
        if any(side is not None and side.is_list for side in (sent, received)):
            lists = [None if side is None else side.tensor_list() for side in (sent, received)]
            pointers = [None if one is None else ctypes.byref(one) for one in lists]
            arguments = (*pointers, *tail)
            return Call(name + "_list", arguments, result, (sent, received), how, operation)
        addresses = [None if side is None else side.address for side in (sent, received)]
        arguments = (*addresses, count, *tail)
        return Call(name, arguments, result, (sent, received), how, operation)

    def _allreduce(
        self,
        send: Buffers,
        out: Optional[Buffers] = None,
        op: Union[str, Op] = SUM,
        **how: "Unpack[How]",
    ) -> Call[Any]:
        """On every rank, the reduction of what all ranks send: an array of the same shape.

        In place: out is send.
        """
        return self._collective("allreduce", send, out, (1, 1), empty_like, how, op)

    def _reduce(
        self,
        send: Buffers,
        out: Optional[Buffers] = None,
        op: Union[str, Op] = SUM,
        root: int = 0,
        **how: "Unpack[How]",
    ) -> Call[Any]:
        """On root, the reduction of what all ranks send: an array of the same shape. Elsewhere None.

        In place: out is send on root.
        """
        blocks = (1, int(self._is_root(root)))
        return self._collective("reduce", send, out, blocks, empty_like, how, op, root)

    def _broadcast(
        self,
        array: Optional[Buffers],
        out: Optional[Buffers] = None,
        root: int = 0,
        **how: "Unpack[How]",
    ) -> Call[Any]:
        """On every rank, what root has.

        Without `out`, the array is read on root and filled elsewhere, and is the result. With it, the array
        is looked at on root only, and `out` is filled everywhere.
        """
        is_root = self._is_root(root)
        if out is None:
            out = array
        return self._collective(
            "broadcast", array, out, (int(is_root), 1), empty_like, how, root=root
        )

    def _gather(
        self,
        send: Buffers,
        out: Optional[Buffers] = None,
        root: int = 0,
        **how: "Unpack[How]",
    ) -> Call[Any]:
        """On root, what all ranks send, in their order: of shape (k, ...) it is (size, k, ...). Elsewhere None.

        Of a list it is a list of `size` such lists. In place: send is out[root] on root.
        """
        blocks = (1, self.size if self._is_root(root) else 0)
        return self._collective("gather", send, out, blocks, self._stack, how, root=root)

    def _scatter(
        self,
        send: Optional[Buffers],
        out: Optional[Buffers] = None,
        root: int = 0,
        **how: "Unpack[How]",
    ) -> Call[Any]:
        """On rank r, part r of what root sends: of shape (size, k, ...) it is (k, ...).

        Elsewhere than on root send is ignored, and `out` is needed. In place: out is send[root] on root.
        """
        blocks = (self.size if self._is_root(root) else 0, 1)
        return self._collective("scatter", send, out, blocks, self._part("scatter"), how, root=root)

    def _allgather(
        self, send: Buffers, out: Optional[Buffers] = None, **how: "Unpack[How]"
    ) -> Call[Any]:
        """On every rank, what all ranks send, in their order: of shape (k, ...) it is (size, k, ...).

        Of a list it is a list of `size` such lists. In place: send is out[rank].
        """
        return self._collective("allgather", send, out, (1, self.size), self._stack, how)

    def _reduce_scatter(
        self,
        send: Buffers,
        out: Optional[Buffers] = None,
        op: Union[str, Op] = SUM,
        **how: "Unpack[How]",
    ) -> Call[Any]:
        """On rank r, the reduction of part r of what all ranks send: of shape (size, k, ...) it is (k, ...).

        A list has one array a rank, of one shape, or `out` is given. In place: out is send[rank].
        """
        allocate = self._part("reduce_scatter")
        return self._collective("reduce_scatter", send, out, (self.size, 1), allocate, how, op)

    def _alltoall(
        self, send: Buffers, out: Optional[Buffers] = None, **how: "Unpack[How]"
    ) -> Call[Any]:
        """On rank r, part s of the result is part r of what rank s sends: of shape (size, k, ...) both.

        In place: out is send.
        """
        return self._collective("alltoall", send, out, (self.size, self.size), empty_like, how)

    def _stack(self, side: Side) -> Any:
        return empty_stack(side, self.size)

    def _part(self, call: str) -> Callable[[Side], Any]:
        return lambda side: empty_part(side, self.size, call)

    def _barrier(self, **how: "Unpack[How]") -> Call[None]:
        """No rank leaves before every rank has entered."""
        return Call("barrier", (), None, (), how)

    # ---------------------------------------------------------------------------------------- sparse tensors

    def sparse_allreduce(
        self,
        indices: Union[Buffer, Sequence[int]],
        values: Buffer,
        row_count: int,
        op: Union[str, Op] = SUM,
        *,
        timeout: Optional[float] = None,
        way: str = "chosen",
        deterministic: bool = False,
        dtype: Optional[Dtype] = None,
    ) -> SparseRows:
        """On every rank, the reduction of each row that any rank has, by increasing index.

        This rank has the rows `indices` (whole numbers below row_count, in any order, also several times) of a matrix of
        row_count rows; values[i] is row indices[i], a number or an array of any shape. Each rank gives as many as it
        likes. `way` is "chosen", "gather", "owner" or "dense": docs/how-to/sparse.md compares them. Blocks.
        """
        function = library.sparse_allreduce
        return _sparse.reduce(
            self, function, indices, values, row_count, op, timeout, way, deterministic, dtype
        )

    def sparse_push(
        self,
        indices: Union[Buffer, Sequence[int]],
        values: Buffer,
        row_count: int,
        op: Union[str, Op] = SUM,
        *,
        timeout: Optional[float] = None,
        dtype: Optional[Dtype] = None,
    ) -> SparseRows:
        """The same, but each rank gets only the rows that it owns: those of sparse_range(row_count, size, rank)."""
        function = library.sparse_push
        return _sparse.reduce(
            self, function, indices, values, row_count, op, timeout, "chosen", False, dtype
        )

    def sparse_pull(
        self,
        table: Buffer,
        indices: Union[Buffer, Sequence[int]],
        row_count: int,
        out: Optional[Array] = None,
        *,
        timeout: Optional[float] = None,
        dtype: Optional[Dtype] = None,
    ) -> Array:
        """Rows of a table of row_count rows, of which `table` has those that this rank owns: sparse_range().

        Row i of the result is row indices[i] of the whole table. Each rank asks for what it likes. Blocks.
        """
        return _sparse.pull(self, table, indices, row_count, out, timeout, dtype)

    # --------------------------------------------------------------------------------------------- v forms

    def _received(
        self, call: str, out: Optional[Buffer], dtype: np.dtype[Any], count: int, how: How
    ) -> Side:
        """The place for `count` elements: `out`, or a new array of one dimension."""
        made = np.zeros(count, dtype) if out is None else out
        side = Side(made, "out", how.get("dtype"), True)
        if side.is_list:
            raise invalid(Status.INVALID_BUFFER, f"{call}: out is a list, and v forms take none")
        return side

    def _sent(self, call: str, send: Optional[Buffer], how: How) -> Side:
        if send is None:
            raise invalid(Status.INVALID_BUFFER, f"{call}: this rank has to send something")
        side = Side(send, "send", how.get("dtype"))
        if side.is_list:
            raise invalid(Status.INVALID_BUFFER, f"{call}: send is a list, and v forms take none")
        return side

    def _gatherv(
        self,
        send: Buffer,
        counts: Optional[Sequence[int]] = None,
        displs: Optional[Sequence[int]] = None,
        out: Optional[Buffer] = None,
        root: int = 0,
        **how: "Unpack[How]",
    ) -> Call[Optional[Array]]:
        """On root, what all ranks send: counts[r] elements of rank r, at displs[r]. Elsewhere None.

        Counts, displs and out are ignored elsewhere. In place: send is that part of out on root.
        """
        sent = self._sent("gatherv", send, how)
        if not self._is_root(root):
            few = (sent.address, sent.count, None, None, None, sent.dtype, root)
            return Call("gatherv", few, None, (sent,), how)
        if counts is None:
            raise invalid(Status.INVALID_COUNT, "gatherv: root has to know the counts")
        blocks = Blocks("", self.size, counts, displs)
        received = self._received("gatherv", out, sent.arrays[0].dtype, blocks.extent, how)
        blocks.check(received, "out")
        _same_dtype("gatherv", sent, received)
        _check_own("gatherv", "send", sent, blocks.counts[self.rank])
        arguments = (
            sent.address,
            sent.count,
            received.address,
            blocks.keep_counts,
            blocks.keep_displs,
            sent.dtype,
            root,
        )
        return Call("gatherv", arguments, received.given, (sent, received, blocks), how)

    def _scatterv(
        self,
        send: Optional[Buffer],
        counts: Optional[Sequence[int]] = None,
        displs: Optional[Sequence[int]] = None,
        out: Optional[Buffer] = None,
        root: int = 0,
        **how: "Unpack[How]",
    ) -> Call[Array]:
        """On rank r, the counts[r] elements at displs[r] of what root sends.

        Elsewhere than on root `out` is needed, and all else is ignored. In place: out is that part of send on root.
        """
        if not self._is_root(root):
            if out is None:
                raise invalid(
                    Status.INVALID_BUFFER,
                    "scatterv: only root knows the counts; give `out` on the other ranks",
                )
            received = self._received("scatterv", out, np.dtype(np.uint8), 0, how)
            few = (None, None, None, received.address, received.count, received.dtype, root)
            return Call("scatterv", few, received.given, (received,), how)
        if counts is None:
            raise invalid(Status.INVALID_COUNT, "scatterv: root has to know the counts")
        sent = self._sent("scatterv", send, how)
        blocks = Blocks("", self.size, counts, displs)
        blocks.check(sent, "send")
        received = self._received(
            "scatterv", out, sent.arrays[0].dtype, blocks.counts[self.rank], how
        )
        _same_dtype("scatterv", sent, received)
        _check_own("scatterv", "out", received, blocks.counts[self.rank])
        arguments = (
            sent.address,
            blocks.keep_counts,
            blocks.keep_displs,
            received.address,
            received.count,
            sent.dtype,
            root,
        )
        return Call("scatterv", arguments, received.given, (sent, received, blocks), how)

    def _allgatherv(
        self,
        send: Buffer,
        counts: Sequence[int],
        displs: Optional[Sequence[int]] = None,
        out: Optional[Buffer] = None,
        **how: "Unpack[How]",
    ) -> Call[Array]:
        """On every rank, what all ranks send: counts[r] elements of rank r, at displs[r].

        The same counts on all ranks. In place: send is that part of out.
        """
        sent = self._sent("allgatherv", send, how)
        blocks = Blocks("", self.size, counts, displs)
        received = self._received("allgatherv", out, sent.arrays[0].dtype, blocks.extent, how)
        blocks.check(received, "out")
        _same_dtype("allgatherv", sent, received)
        _check_own("allgatherv", "send", sent, blocks.counts[self.rank])
        arguments = (
            sent.address,
            received.address,
            blocks.keep_counts,
            blocks.keep_displs,
            sent.dtype,
        )
        return Call("allgatherv", arguments, received.given, (sent, received, blocks), how)

    def _reduce_scatterv(
        self,
        send: Buffer,
        counts: Sequence[int],
        out: Optional[Buffer] = None,
        op: Union[str, Op] = SUM,
        **how: "Unpack[How]",
    ) -> Call[Array]:
        """On rank r, the reduction of block r, of counts[r] elements, of what all ranks send.

        The blocks lie one after the other; the same counts on all ranks. In place: out is block r of send.
        """
        sent = self._sent("reduce_scatterv", send, how)
        blocks = Blocks("", self.size, counts)
        _check_own("reduce_scatterv", "send", sent, blocks.extent)
        own = blocks.counts[self.rank]
        received = self._received("reduce_scatterv", out, sent.arrays[0].dtype, own, how)
        _same_dtype("reduce_scatterv", sent, received)
        _check_own("reduce_scatterv", "out", received, own)
        operation = resolve(op, sent.is_boolean)
        arguments = (
            sent.address,
            received.address,
            blocks.keep_counts,
            sent.dtype,
            operation.handle,
        )
        keep = (sent, received, blocks)
        return Call("reduce_scatterv", arguments, received.given, keep, how, operation)

    def _alltoallv(
        self,
        send: Buffer,
        send_counts: Sequence[int],
        recv_counts: Sequence[int],
        send_displs: Optional[Sequence[int]] = None,
        recv_displs: Optional[Sequence[int]] = None,
        out: Optional[Buffer] = None,
        **how: "Unpack[How]",
    ) -> Call[Array]:
        """On rank r, block s of the result is block r of what rank s sends.

        In place: out is send, with the same counts and displs for both.
        """
        sent = self._sent("alltoallv", send, how)
        out_blocks = Blocks("send_", self.size, send_counts, send_displs)
        in_blocks = Blocks("recv_", self.size, recv_counts, recv_displs)
        out_blocks.check(sent, "send")
        received = self._received("alltoallv", out, sent.arrays[0].dtype, in_blocks.extent, how)
        in_blocks.check(received, "out")
        _same_dtype("alltoallv", sent, received)
        arguments = (
            sent.address,
            out_blocks.keep_counts,
            out_blocks.keep_displs,
            received.address,
            in_blocks.keep_counts,
            in_blocks.keep_displs,
            sent.dtype,
        )
        keep = (sent, received, out_blocks, in_blocks)
        return Call("alltoallv", arguments, received.given, keep, how)

    # --------------------------------------------------------------------------------------- point to point

    def _send(self, send: Buffer, peer: int, tag: int = 0, **how: "Unpack[How]") -> Call[None]:
        """Sends an array to a rank (also to itself), with a tag of 0 or more.

        A large message waits for its recv: two ranks that send to each other use a group, or send_start.
        """
        to = integer("peer", peer, 0, Status.INVALID_RANK)
        number = integer("tag", tag, 0, Status.INVALID_TAG)
        sent = self._sent("send", send, how)
        return Call("send", (sent.address, sent.count, sent.dtype, to, number), None, (sent,), how)

    def _recv(
        self, out: Buffer, peer: int = ANY_RANK, tag: int = ANY_TAG, **how: "Unpack[How]"
    ) -> Call[Message]:
        """Receives an array of the same dtype, with at most as many elements, into `out`.

        From any rank and with any tag unless they are given. Returns who sent, the tag and the count.
        """
        source = integer("peer", peer, ANY_RANK, Status.INVALID_RANK)
        number = integer("tag", tag, ANY_TAG, Status.INVALID_TAG)
        received = self._received("recv", out, np.dtype(np.uint8), 0, how)
        message = Message()
        place = ctypes.byref(message._struct)
        arguments = (received.address, received.count, received.dtype, source, number, place)
        return Call("recv", arguments, message, (received, message), how)

    # ------------------------------------------------------------------------------- the forms of all of them

    allreduce = _blocking(_allreduce)
    allreduce_start = _started(_allreduce)
    allreduce_prepare = _prepared(_allreduce)
    reduce = _blocking(_reduce)
    reduce_start = _started(_reduce)
    reduce_prepare = _prepared(_reduce)
    broadcast = _blocking(_broadcast)
    broadcast_start = _started(_broadcast)
    broadcast_prepare = _prepared(_broadcast)
    gather = _blocking(_gather)
    gather_start = _started(_gather)
    gather_prepare = _prepared(_gather)
    scatter = _blocking(_scatter)
    scatter_start = _started(_scatter)
    scatter_prepare = _prepared(_scatter)
    allgather = _blocking(_allgather)
    allgather_start = _started(_allgather)
    allgather_prepare = _prepared(_allgather)
    reduce_scatter = _blocking(_reduce_scatter)
    reduce_scatter_start = _started(_reduce_scatter)
    reduce_scatter_prepare = _prepared(_reduce_scatter)
    alltoall = _blocking(_alltoall)
    alltoall_start = _started(_alltoall)
    alltoall_prepare = _prepared(_alltoall)
    barrier = _blocking(_barrier)
    barrier_start = _started(_barrier)
    barrier_prepare = _prepared(_barrier)
    gatherv = _blocking(_gatherv)
    gatherv_start = _started(_gatherv)
    gatherv_prepare = _prepared(_gatherv)
    scatterv = _blocking(_scatterv)
    scatterv_start = _started(_scatterv)
    scatterv_prepare = _prepared(_scatterv)
    allgatherv = _blocking(_allgatherv)
    allgatherv_start = _started(_allgatherv)
    allgatherv_prepare = _prepared(_allgatherv)
    reduce_scatterv = _blocking(_reduce_scatterv)
    reduce_scatterv_start = _started(_reduce_scatterv)
    reduce_scatterv_prepare = _prepared(_reduce_scatterv)
    alltoallv = _blocking(_alltoallv)
    alltoallv_start = _started(_alltoallv)
    alltoallv_prepare = _prepared(_alltoallv)
    send = _blocking(_send)
    send_start = _started(_send)
    send_prepare = _prepared(_send)
    recv = _blocking(_recv)
    recv_start = _started(_recv)
    recv_prepare = _prepared(_recv)


def _same_dtype(call: str, sent: Side, received: Side) -> None:
    if sent.dtype != received.dtype:
        raise invalid(
            Status.INVALID_DTYPE,
            f"{call}: send has {sent.dtype.name}, but out has {received.dtype.name}",
        )


def _check_own(call: str, name: str, side: Side, count: int) -> None:
    if side.count != count:
        raise invalid(
            Status.INVALID_COUNT,
            f"{call}: {name} has {side.count} elements, but {count} are in the counts",
        )


def _options_address(options: Options) -> Any:
    return ctypes.byref(_comm_options(options)) if options else None


# ----------------------------------------------------------------------------------------------- meshes


class _MeshState:
    """What mesh and axes share; the mesh is freed with the last of them."""

    def __init__(self, handle: int) -> None:
        self.states: Dict[str, State] = {}
        self.finalizer = weakref.finalize(
            self, _callbacks.later, _leave_mesh, handle, self.states, True
        )
        self.handle = handle


def _leave_mesh(handle: int, states: Dict[str, State], is_hurried: bool) -> None:
    for state in states.values():
        state.leave(is_hurried)
    if all(state.handle is None for state in states.values()):
        check(library.mesh_free(handle))


class Mesh:
    """Communicators along named axes: mesh["dp"] joins the ranks that differ from this one only along "dp".

    Its rank there is its coordinate. Made by Communicator.mesh().
    """

    def __init__(
        self, comm: Communicator, axes: Mapping[str, int], options: Mapping[str, Options]
    ) -> None:
        _callbacks.catch_up()
        unknown = options.keys() - axes.keys()
        if unknown:
            raise invalid(Status.INVALID_OPTIONS, f"options for {sorted(unknown)[0]!r}, which is no axis")
        array = (_header.Axis * len(axes))()
        keep = []
        for axis, (name, size) in zip(array, axes.items()):
            axis.name = text("an axis's name", name)
            axis.size = integer("an axis's size", size, 1, Status.INVALID_RANK)
            if name in options:
                keep.append(_comm_options(options[name]))
                axis.options = ctypes.addressof(keep[-1])
        handle = ctypes.c_void_p()
        pointer = comm._state.pointer
        create = library.mesh_create
        check(
            comm._state.call(create, pointer, array, len(axes), ctypes.byref(handle)), pointer
        )
        assert handle.value is not None
        self._state = _MeshState(handle.value)
        self._axes: Dict[str, Communicator] = {}
        for name in axes:
            along = ctypes.c_void_p(library.mesh_axis(handle, name.encode()))
            made = Communicator._from(along, owner=self._state)
            self._axes[name] = made
            self._state.states[name] = made._state

    def __reduce__(self) -> NoReturn:
        raise _is_of_one_process("Mesh")

    def __getitem__(self, name: str) -> Communicator:
        return self._axes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._axes)

    def __len__(self) -> int:
        return len(self._axes)

    @property
    def shape(self) -> Dict[str, int]:
        """The sizes of the axes."""
        return {name: comm.size for name, comm in self._axes.items()}

    @property
    def coordinates(self) -> Dict[str, int]:
        """Where this rank is."""
        return {name: comm.rank for name, comm in self._axes.items()}

    def close(self) -> None:
        """Frees it and its communicators, after what runs on them."""
        for comm in self._axes.values():
            if not comm._state.shut():
                raise invalid(Status.INVALID_COMM, "another thread is in a call on the mesh")
        if self._state.finalizer.detach() is not None:
            _leave_mesh(self._state.handle, self._state.states, False)

    def __enter__(self) -> "Mesh":
        return self

    def __exit__(self, kind: Optional[type], error: Optional[BaseException], traceback: object) -> None:
        if error is not None:
            for comm in self._axes.values():
                if comm._state.handle is not None:
                    comm.abort(printable(f"{type(error).__name__}: {error}"))
        self.close()

    def __repr__(self) -> str:
        return f"<tutti.Mesh {self.shape}, here {self.coordinates}>"


def init(**options: "Unpack[Options]") -> Communicator:
    """The communicator of all ranks that the launcher has started; collective."""
    return Communicator(**options)
