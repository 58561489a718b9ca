"""Which operations are ready on all ranks of a process set, and in which order they run. The protocol: _wire.py.

A pure state machine: it gets the time and what ranks have sent as arguments, and says what to tell them.

    a name:   unknown ──first rank──► waiting ──last member that has not joined──► ready ──orders()──► unknown
                                        │ a member that it waits for leaves            │ members disagree
                                        └────────────────► refused ◄───────────────────┘
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ._errors import ProtocolError
from ._wire import Fail, Joined, Left, Order, Refuse, Run, Submission

_SHOWN_MAX = 16  # ranks, and names, that a message lists
_ITEM_BYTES = {"64": 8, "32": 4, "16": 2}


def bytes_of(submission: Submission) -> int:
    """About as many as its tensors have."""
    total = 0
    for part in submission.parts:
        digits = part.dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
        total += part.element_count * _ITEM_BYTES.get(digits, 1)
    return total


def listed(ranks: List[int]) -> str:
    """ "rank 3", or "ranks 0, 1, 2"."""
    shown = ", ".join(map(str, ranks[:_SHOWN_MAX])) + (", ..." if len(ranks) > _SHOWN_MAX else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


class _Entry:
    """The submissions of ranks under one name."""

    __slots__ = ("by_rank", "began", "warned_after")

    def __init__(self, now: float, warn_seconds: float) -> None:
        self.by_rank: Dict[int, Submission] = {}
        self.began = now
        self.warned_after = warn_seconds


class Coordinator:
    """Of `ranks`: their numbers in the job, which messages for people have. Elsewhere ranks are those of the set."""

    def __init__(
        self, ranks: List[int], fusion_bytes: int, warn_seconds: float, fail_seconds: float
    ) -> None:
        """`warn_seconds`, `fail_seconds`: until a name that some ranks miss is warned of, and ends all; 0: never."""
        self._ranks = ranks
        self._fusion_bytes = fusion_bytes
        self._warn_seconds = warn_seconds
        self._fail_seconds = fail_seconds
        self._entries: Dict[str, _Entry] = {}
        self._ready: List[Tuple[str, _Entry]] = []
        self._orders: List[Order] = []
        self._joined: Set[int] = set()
        self._left: Set[int] = set()

    # ------------------------------------------------------------------------------------- what ranks say

    def hear(self, rank: int, submission: Submission, now: float) -> None:
        """A rank has that ready. ProtocolError: it may not say so now."""
        if rank in self._left or rank in self._joined:
            raise ProtocolError(f'"{submission.name}" after it has joined or left')
        if submission.kind == "join":
            self._join(rank)
            return
        entry = self._entries.get(submission.name)
        if entry is None:
            entry = self._entries[submission.name] = _Entry(now, self._warn_seconds)
        if rank in entry.by_rank:
            raise ProtocolError(f'"{submission.name}" for the second time')
        entry.by_rank[rank] = submission
        self._look_at(submission.name, entry)

    def leave(self, rank: int) -> None:
        """A rank has shut down: operations that wait for it are refused, and so are later ones."""
        if rank in self._left:
            raise ProtocolError("that it leaves, for the second time")
        self._flush()
        self._left.add(rank)
        self._orders.append(Left(rank))
        self._look_at_all()

    @property
    def has_everybody_left(self) -> bool:
        return len(self._left) == len(self._ranks)

    def _join(self, rank: int) -> None:
        self._joined.add(rank)
        self._look_at_all()
        if len(self._joined) == len(self._ranks):
            self._flush()  # ranks take part in what is ready by now as ranks that have joined
            self._joined.clear()
            self._orders.append(Joined(rank))

    def _look_at_all(self) -> None:
        for name, entry in list(self._entries.items()):
            self._look_at(name, entry)

    def _missing(self, entry: _Entry) -> List[int]:
        return [
            rank
            for rank in range(len(self._ranks))
            if rank not in entry.by_rank and rank not in self._joined
        ]

    def _look_at(self, name: str, entry: _Entry) -> None:
        missing_count = len(self._ranks) - len(entry.by_rank)
        if self._joined or self._left:
            missing = self._missing(entry)
            missing_count = len(missing)
            gone = [self._ranks[rank] for rank in missing if rank in self._left]
            if gone:
                del self._entries[name]
                have = "have" if len(gone) > 1 else "has"
                self._orders.append(Refuse(name, f'"{name}": {listed(gone)} {have} shut down Horovod'))
                return
        if missing_count == 0:
            del self._entries[name]
            self._ready.append((name, entry))

    # --------------------------------------------------------------------------------------------- orders

    def orders(self) -> List[Order]:
        """The orders for all members, in this order."""
        self._flush()
        orders, self._orders = self._orders, []
        return orders

    def _flush(self) -> None:
        """Makes orders of what is ready. Small allreduces of one kind become one."""
        ready, self._ready = self._ready, []
        fused: Dict[Any, List[Any]] = {}  # kind of allreduce: [bytes, its place among the orders]
        for name, entry in ready:
            trouble = self._disagreement(entry) or self._trouble_of_joined(entry)
            if trouble is not None:
                self._orders.append(Refuse(name, f'"{name}": {trouble}'))
                continue
            submission = next(iter(entry.by_rank.values()))
            described = (submission,) if len(entry.by_rank) < len(self._ranks) else ()
            size = bytes_of(submission)
            key = self._key(submission) if size < self._fusion_bytes else None
            open_one = None if key is None else fused.get((key, bool(described)))
            if open_one is not None and open_one[0] + size <= self._fusion_bytes:
                place = open_one[1]
                before = self._orders[place]
                self._orders[place] = Run(before.names + (name,), (), before.descriptions + described)
                open_one[0] += size
                continue
            if key is not None:
                fused[(key, bool(described))] = [size, len(self._orders)]
            self._orders.append(Run((name,), self._details(entry), described))

    def _key(self, submission: Submission) -> Optional[Tuple[Any, ...]]:
        """Allreduces with the same one may be fused; None: it may not."""
        if submission.kind != "allreduce":
            return None
        dtypes = {part.dtype for part in submission.parts}
        if len(dtypes) != 1:
            return None
        return (dtypes.pop(), submission.op, submission.prescale, submission.postscale)

    def _details(self, entry: _Entry) -> Tuple[Tuple[Any, ...], ...]:
        first = next(iter(entry.by_rank.values()))
        if first.kind not in ("allgather", "alltoall"):
            return ()
        made: List[Tuple[Any, ...]] = []
        for index in range(len(first.parts)):
            if first.kind == "allgather":
                made.append(
                    tuple(
                        entry.by_rank[rank].parts[index].shape[0] if rank in entry.by_rank else 0
                        for rank in range(len(self._ranks))
                    )
                )
            else:
                made.append(
                    tuple(
                        entry.by_rank[rank].parts[index].splits for rank in range(len(self._ranks))
                    )
                )
        return tuple(made)

    # -------------------------------------------------------------------------------------- disagreements

    def _disagreement(self, entry: _Entry) -> Optional[str]:
        """How what two ranks submitted differs; None: it does not."""
        ranks = sorted(entry.by_rank)
        first = entry.by_rank[ranks[0]]
        for rank in ranks[1:]:
            other = entry.by_rank[rank]
            for what, value_of in _MUST_AGREE:
                one, two = value_of(first), value_of(other)
                if one != two:
                    if what == "root":
                        one, two = self._ranks[one], self._ranks[two]
                    numbers = self._ranks[ranks[0]], self._ranks[rank]
                    return f"rank {numbers[0]} has {what} {_text(one)}, but rank {numbers[1]} has {_text(two)}"
        return None

    def _trouble_of_joined(self, entry: _Entry) -> Optional[str]:
        """Why ranks that have joined cannot take part in it."""
        if len(entry.by_rank) == len(self._ranks):
            return None
        absent = [rank for rank in range(len(self._ranks)) if rank not in entry.by_rank]
        joined = f"{listed([self._ranks[rank] for rank in absent])} called join()"
        first = next(iter(entry.by_rank.values()))
        if first.kind in ("allgather", "barrier"):
            return None
        if first.kind == "broadcast":
            return f"{joined}, and it is the root" if first.root in absent else None
        if first.kind == "allreduce" and first.op in ("Average", "Sum"):
            return None
        if first.kind == "allreduce":
            return f"{joined}, and only Average and Sum have a value for that, not {first.op}"
        return f"{joined}, and a {first.kind} needs all ranks"

    # --------------------------------------------------------------------------------------------- lateness

    def late(self, now: float) -> Tuple[List[str], Optional[Fail]]:
        """Warnings to log, each with names and the ranks that miss them; and what ends all, if it has come to that."""
        late: Dict[Tuple[str, str], List[Tuple[str, float]]] = {}  # ranks that miss it, and that have it: names
        for name, entry in self._entries.items():
            waited = now - entry.began
            if self._fail_seconds > 0 and waited >= self._fail_seconds:
                story = self._story(*self._halves(entry), [(name, waited)])
                return [], Fail(f"{story}; HOROVOD_STALL_SHUTDOWN_TIME_SECONDS ends that")
            if 0 < entry.warned_after <= waited:
                entry.warned_after = 2 * waited
                late.setdefault(self._halves(entry), []).append((name, waited))
        return [self._story(*ranks, names) for ranks, names in late.items()], None

    def next_look(self) -> Optional[float]:
        """When late() has something to say, if nothing happens until then; None: never."""
        limits = [
            entry.began + limit
            for entry in self._entries.values()
            for limit in (entry.warned_after, self._fail_seconds)
            if limit > 0
        ]
        return min(limits, default=None)

    def _halves(self, entry: _Entry) -> Tuple[str, str]:
        missing = [self._ranks[rank] for rank in self._missing(entry)]
        return listed(missing), listed([self._ranks[rank] for rank in sorted(entry.by_rank)])

    def _story(self, missing: str, ready: str, names: List[Tuple[str, float]]) -> str:
        shown = ", ".join(f'"{name}"' for name, _ in names[:_SHOWN_MAX])
        if len(names) > _SHOWN_MAX:
            shown += f" and {len(names) - _SHOWN_MAX} more"
        waited = max(seconds for _, seconds in names)
        return f"{missing} did not submit {shown}, which {ready} did {waited:.1f} s ago"


def _shapes_that_agree(submission: Submission) -> Any:
    """Of each part what must be the same on all ranks: all of the shape, or all but the first dimension."""
    if submission.kind in ("allgather", "alltoall"):
        return [("any",) + part.shape[1:] for part in submission.parts]
    return [part.shape for part in submission.parts]


_MUST_AGREE: Tuple[Tuple[str, Callable[[Submission], Any]], ...] = (
    ("kind", lambda one: one.kind),
    ("number of tensors", lambda one: len(one.parts)),
    ("ranks", lambda one: [part.splits for part in one.parts] if "process_set" in one.kind else None),
    ("dtype", lambda one: [part.dtype for part in one.parts]),
    ("shape", _shapes_that_agree),
    ("op", lambda one: one.op),
    ("root", lambda one: one.root),
    ("prescale_factor", lambda one: one.prescale),
    ("postscale_factor", lambda one: one.postscale),
)


def _text(value: Any) -> str:
    """A value of _MUST_AGREE for people."""
    if not isinstance(value, list):
        return str(value)
    shown = [f"({', '.join(map(str, entry))})" if isinstance(entry, tuple) else str(entry) for entry in value]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
