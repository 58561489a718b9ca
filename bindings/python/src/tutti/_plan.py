"""Plans of one's own: written step by step or read, proven, and registered as algorithms."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TYPE_CHECKING, SupportsIndex, Union

from . import _callbacks
from ._arguments import SIZE_MAX, integer, text
from ._errors import check
from ._header import Dtype, Status
from ._library import library

if TYPE_CHECKING:
    from ._communicator import Communicator


class Plan:
    """What every rank of a collective sends, receives, reduces and copies: docs/how-to/own-plans.md.

        plan = tutti.Plan("allreduce", ranks=2)
        for rank in range(2):
            plan.scratch(rank, like=0)
            plan.step(rank, f"in[0] -> scratch[0], to {1 - rank}")
        plan.step(0, "scratch[0] + from 1 -> out[0]  final")
        plan.step(1, "from 0 + scratch[0] -> out[0]  final")
        plan.register(comm, "swap")
        comm.allreduce(array, algorithm="swap")

    It is for one collective, number of ranks and, where there is one, root; each block is cut into `parts` chunks.
    Nothing can be added to a plan that was read, or used. One thread at a time may use it.
    """

    __slots__ = ("_handle", "_finalizer", "__weakref__")

    def __init__(
        self, collective: str, ranks: SupportsIndex, root: SupportsIndex = 0, parts: SupportsIndex = 1
    ) -> None:
        handle = ctypes.c_void_p()
        check(
            library.plan_create(
                text("collective", collective),
                integer("ranks", ranks, 2, Status.INVALID_RANK),
                integer("root", root, 0, Status.INVALID_ROOT),
                integer("parts", parts, 1, Status.INVALID_COUNT),
                ctypes.byref(handle),
            )
        )
        self._adopt(handle)

    def _adopt(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        # At exit the system takes the memory.
        self._finalizer = weakref.finalize(self, _callbacks.later, library.plan_free, handle)
        self._finalizer.atexit = False

    @classmethod
    def _from(cls, handle: ctypes.c_void_p) -> "Plan":
        made = cls.__new__(cls)
        made._adopt(handle)
        return made

    @classmethod
    def parse(cls, plan: str) -> "Plan":
        """A plan in its text form, which str() gives."""
        handle = ctypes.c_void_p()
        words = plan.encode()
        check(library.plan_parse(words, len(words), ctypes.byref(handle)))
        return cls._from(handle)

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> "Plan":
        """The same from a file, of this user or of root, which nobody else may be able to write."""
        handle = ctypes.c_void_p()
        check(library.plan_load(text("path", os.fspath(path)), ctypes.byref(handle)))
        return cls._from(handle)

    def scratch(self, rank: SupportsIndex, like: SupportsIndex) -> None:
        """One more scratch chunk for that rank, of the size of the chunks of class `like`."""
        number = integer("rank", rank, 0, Status.INVALID_RANK)
        check(
            library.plan_scratch(
                self._handle, number, integer("like", like, 0, Status.INVALID_COUNT, 2**32 - 1)
            )
        )

    def step(self, rank: SupportsIndex, step: str, lane: SupportsIndex = 0) -> None:
        """One more step for that rank. Steps of a lane run one after the other, and lanes side by side."""
        number = integer("rank", rank, 0, Status.INVALID_RANK)
        check(
            library.plan_step(
                self._handle,
                number,
                integer("lane", lane, 0, Status.INVALID_OPTIONS),
                text("step", step),
            )
        )

    def verify(self) -> None:
        """Proves that it is right; raises InvalidArgument with the step that is wrong, or that cannot be read."""
        check(library.plan_verify(self._handle))

    def __str__(self) -> str:
        size = ctypes.c_size_t()
        check(library.plan_text(self._handle, None, 0, ctypes.byref(size)))
        room = ctypes.create_string_buffer(size.value)
        check(library.plan_text(self._handle, room, len(room), None))
        return room.value.decode()

    def cost(
        self, comm: "Communicator", count: SupportsIndex, dtype: Dtype = Dtype.float32
    ) -> float:
        """Seconds that a call with blocks of `count` elements would take by it on the ranks of comm, as the model has it.

        Not collective. comm.explain() has the algorithms to compare it with.
        """
        time_ns = ctypes.c_uint64()
        elements = integer("count", count, 0, Status.INVALID_COUNT, SIZE_MAX)
        state = comm._state
        check(
            state.call(
                library.plan_cost, self._handle, state.pointer, elements, int(dtype), ctypes.byref(time_ns)
            )
        )
        return time_ns.value * 1e-9

    def register(self, comm: "Communicator", name: str) -> None:
        """Lets calls on comm take it as their `algorithm`, by that name. Collective over comm.

        All ranks register the same plan under the same name, or all get an error, and comm stays as it is.
        """
        state = comm._state
        check(state.call(library.plan_register, self._handle, state.pointer, text("name", name)))
