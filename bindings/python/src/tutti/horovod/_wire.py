"""The messages by which ranks agree on an order of named operations.

Ranks submit operations in any order, also from several threads. A collective of the library needs the same
order on all ranks. In each process set the lowest rank, its coordinator, makes that order:

    application          engine (a thread per process)              engine of the coordinator
        │ allreduce("w")      │                                          │
        ├── submission ──────►│  ["ready", [submissions ...]]            │
        │                     ├─────────── control communicator ────────►│ table: name ─► ranks that are ready
        │                     │                                          │ complete: all members, but those that joined
        │                     │  ["orders", [order ...]]                 │ fuses small allreduces of one kind
        │                     │◄─────────── control communicator ────────┤
        │                     ├═══════════ data communicator ═══════════►│ every member starts the same operations,
        │◄── handle done ─────┤          (allreduce, allgatherv, ...)    │ in the order of the orders

Invariants
  1. Members start operations of a set's data communicator only when an order says so, in the order of the orders, which
     come over one connection and cannot overtake each other. So the calls have the same order on all ranks.
  2. Messages from another rank are checked here, field by field and bound by bound, before anything else sees it. A
     message that is none ends the job with an error that names its sender.
  3. Members that disagree about a name (shape, dtype, operation, root ...) all get an error of that name, and go on.

Messages are JSON, which no input can make do anything, in frames of at most FRAME_BYTES, as a receive needs a place
of a known size. Members send:

    ["ready", [submission ...]]       submission: [name, kind, op, root, prescale, postscale, [part ...]]
    ["leave"]                         part: [dtype, [dimension ...], [split ...]]
The coordinator sends:

    ["orders", [order ...]]           order: ["run", [name ...], details, descriptions] | ["error", name, text]
    ["fail", text]                        | ["joined", rank] | ["left", rank]
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._buffers import Array
from ._errors import ProtocolError

FRAME_BYTES = 32 << 10
MESSAGE_BYTES_MAX = 64 << 20
NAME_CHARACTERS_MAX = 4096
PARTS_MAX = 1 << 16
DIMENSIONS_MAX = 64
LENGTH_MAX = 1 << 48
TEXT_CHARACTERS_MAX = 1 << 16

KINDS = (
    "allreduce",
    "allgather",
    "broadcast",
    "alltoall",
    "reducescatter",
    "barrier",
    "join",
    "add_process_set",
    "remove_process_set",
)
OPERATIONS = ("Average", "Sum", "Min", "Max", "Product")

_HEADER = struct.Struct("<HBBI")  # magic, version, whether more frames follow, bytes of this one
_MAGIC = 0x5448
_VERSION = 1
BODY_BYTES_MAX = FRAME_BYTES - _HEADER.size


class Part(NamedTuple):
    """One tensor of a submission. An alltoall has the rows for each rank in `splits`."""

    dtype: str
    shape: Tuple[int, ...]
    splits: Tuple[int, ...] = ()

    @property
    def element_count(self) -> int:
        return math.prod(self.shape)

    @property
    def row_count(self) -> int:
        """Elements of one row: of all dimensions but the first."""
        return math.prod(self.shape[1:])


class Submission(NamedTuple):
    """An operation that a rank wants to do under a name. A grouped operation has several parts."""

    name: str
    kind: str
    parts: Tuple[Part, ...] = ()
    op: Optional[str] = None
    root: Optional[int] = None
    prescale: float = 1.0
    postscale: float = 1.0


# ------------------------------------------------------------------------------------------ frames


def frames_of(message: Any) -> List[Array]:
    """The message as frames; each is one send."""
    body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > MESSAGE_BYTES_MAX:
        raise ValueError(f"a message of {len(body)} bytes, more than {MESSAGE_BYTES_MAX}: fewer operations at once")
    made = []
    for at in range(0, len(body), BODY_BYTES_MAX):
        piece = body[at : at + BODY_BYTES_MAX]
        has_more = at + BODY_BYTES_MAX < len(body)
        header = _HEADER.pack(_MAGIC, _VERSION, has_more, len(piece))
        made.append(np.frombuffer(header + piece, np.uint8))
    return made


class Assembler:
    """Puts the frames of one sender together again."""

    def __init__(self) -> None:
        self._pieces: List[bytes] = []
        self._size = 0

    def add(self, frame: bytes) -> Optional[Any]:
        """The message that this frame completes, not yet checked; None if more follow."""
        if len(frame) < _HEADER.size:
            raise ProtocolError(f"a frame of {len(frame)} bytes")
        magic, version, more, size = _HEADER.unpack_from(frame)
        if magic != _MAGIC or version != _VERSION or more > 1:
            raise ProtocolError(f"a frame that begins with {frame[:8].hex()}")
        if size != len(frame) - _HEADER.size:
            raise ProtocolError(f"a frame of {len(frame)} bytes that says {size}")
        self._pieces.append(frame[_HEADER.size :])
        self._size += size
        if self._size > MESSAGE_BYTES_MAX:
            raise ProtocolError(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
        if more:
            return None
        body, self._pieces, self._size = b"".join(self._pieces), [], 0
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a message that is no JSON: {error}") from None


# ------------------------------------------------------------------------------------------ checks


def _list(value: Any, what: str, least: int = 0, most: int = 1 << 20) -> List[Any]:
    if type(value) is not list or not least <= len(value) <= most:
        raise ProtocolError(f"{what} that is {_shown(value)}")
    return value


def _text(value: Any, what: str, most: int) -> str:
    if type(value) is not str or len(value) > most:
        raise ProtocolError(f"{what} that is {_shown(value)}")
    return value


def _integer(value: Any, what: str, most: int = LENGTH_MAX) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ProtocolError(f"{what} that is {_shown(value)}")
    return value


def _factor(value: Any, what: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ProtocolError(f"{what} that is {_shown(value)}")
    return float(value)


def _shown(value: Any) -> str:
    return f"{value!r:.80}"


def _lengths(value: Any, what: str, most: int) -> Tuple[int, ...]:
    return tuple(_integer(length, what) for length in _list(value, what, 0, most))


def _parse_part(value: Any) -> Part:
    dtype, shape, splits = _list(value, "a part", 3, 3)
    part = Part(
        _text(dtype, "a dtype", 64),
        _lengths(shape, "a shape", DIMENSIONS_MAX),
        _lengths(splits, "splits", 1 << 20),
    )
    if part.element_count > LENGTH_MAX:
        raise ProtocolError(f"a tensor of shape {list(part.shape)}")
    return part


def parse_submission(value: Any, size: int) -> Submission:
    """Of a member of a set of `size` ranks."""
    name, kind, op, root, prescale, postscale, parts = _list(value, "a submission", 7, 7)
    if kind not in KINDS:
        raise ProtocolError(f"a kind that is {_shown(kind)}")
    if op is not None and op not in OPERATIONS:
        raise ProtocolError(f"an operation that is {_shown(op)}")
    if (op is not None) != (kind in ("allreduce", "reducescatter")):
        raise ProtocolError(f"a {kind} whose operation is {_shown(op)}")
    if (root is not None) != (kind == "broadcast"):
        raise ProtocolError(f"a {kind} whose root is {_shown(root)}")
    made = Submission(
        _text(name, "a name", NAME_CHARACTERS_MAX),
        kind,
        tuple(_parse_part(part) for part in _list(parts, "parts", 0, PARTS_MAX)),
        op,
        None if root is None else _integer(root, "a root", size - 1),
        _factor(prescale, "a factor"),
        _factor(postscale, "a factor"),
    )
    for part in made.parts:
        if kind in ("allgather", "alltoall", "reducescatter") and not part.shape:
            raise ProtocolError(f"a {kind} of a tensor without dimensions")
        if kind == "alltoall" and (len(part.splits) != size or sum(part.splits) > part.shape[0]):
            raise ProtocolError(f"splits that are {list(part.splits)}, of {part.shape[0]} rows for {size} ranks")
    return made


def wire_of(submission: Submission) -> List[Any]:
    parts = [[part.dtype, list(part.shape), list(part.splits)] for part in submission.parts]
    return [
        submission.name,
        submission.kind,
        submission.op,
        submission.root,
        submission.prescale,
        submission.postscale,
        parts,
    ]


def parse_from_member(message: Any, size: int) -> Optional[List[Submission]]:
    """The submissions that it has ready; None: it leaves."""
    fields = _list(message, "a message", 1, 2)
    if fields == ["leave"]:
        return None
    if fields[0] != "ready" or len(fields) != 2:
        raise ProtocolError(f"a message that begins with {_shown(fields[0])}")
    return [parse_submission(value, size) for value in _list(fields[1], "what is ready")]


# ------------------------------------------------------------------------------------------ orders


class Run(NamedTuple):
    """Start these operations now.

    details: for an allgather, of each part, the rows of each rank; for an alltoall, of each part and rank, its splits.
    descriptions: of the operations, when some ranks have joined, and have to take part in what they never submitted.
    """

    names: Tuple[str, ...]
    details: Tuple[Tuple[Any, ...], ...] = ()
    descriptions: Tuple[Submission, ...] = ()


class Refuse(NamedTuple):
    """Ranks disagree about that name, or one of them has left."""

    name: str
    text: str


class Joined(NamedTuple):
    """All ranks have joined, this one as the last."""

    rank: int


class Left(NamedTuple):
    """A rank has shut down."""

    rank: int


class Fail(NamedTuple):
    """Everything is over."""

    text: str


Order = Any  # one of these five


def wire_of_orders(orders: Sequence[Order]) -> Any:
    made: List[Any] = []
    for order in orders:
        if isinstance(order, Run):
            descriptions = [wire_of(submission) for submission in order.descriptions]
            made.append(["run", list(order.names), order.details, descriptions])
        elif isinstance(order, Refuse):
            made.append(["error", order.name, order.text])
        elif isinstance(order, Joined):
            made.append(["joined", order.rank])
        elif isinstance(order, Left):
            made.append(["left", order.rank])
        else:
            made.append(["fail", order.text])
    return ["orders", made]


def parse_from_coordinator(message: Any, size: int) -> List[Order]:
    fields = _list(message, "a message", 2, 2)
    if fields[0] != "orders":
        raise ProtocolError(f"a message that begins with {_shown(fields[0])}")
    return [_parse_order(value, size) for value in _list(fields[1], "orders")]


def _parse_order(value: Any, size: int) -> Order:
    fields = _list(value, "an order", 2, 4)
    kind, rest = fields[0], fields[1:]
    if kind == "run" and len(rest) == 3:
        names = tuple(_text(name, "a name", NAME_CHARACTERS_MAX) for name in _list(rest[0], "names", 1))
        details = tuple(_parse_detail(detail, size) for detail in _list(rest[1], "details"))
        described = tuple(parse_submission(one, size) for one in _list(rest[2], "descriptions"))
        if described and [one.name for one in described] != list(names):
            raise ProtocolError("descriptions of other operations")
        return Run(names, details, described)
    if kind == "error" and len(rest) == 2:
        name = _text(rest[0], "a name", NAME_CHARACTERS_MAX)
        return Refuse(name, _text(rest[1], "a text", TEXT_CHARACTERS_MAX))
    if kind == "joined" and len(rest) == 1:
        return Joined(_integer(rest[0], "a rank", size - 1))
    if kind == "left" and len(rest) == 1:
        return Left(_integer(rest[0], "a rank", size - 1))
    if kind == "fail" and len(rest) == 1:
        return Fail(_text(rest[0], "a text", TEXT_CHARACTERS_MAX))
    raise ProtocolError(f"an order that is {_shown(value)}")


def _parse_detail(detail: Any, size: int) -> Tuple[Any, ...]:
    """Of one part: for each rank its rows, or its splits."""
    return tuple(
        _lengths(entry, "splits", size) if type(entry) is list else _integer(entry, "rows")
        for entry in _list(detail, "a detail", size, size)
    )
