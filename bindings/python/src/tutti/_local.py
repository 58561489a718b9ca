"""Ranks that train alone for many steps, and synchronise their parameters now and then: docs/how-to/local-sgd.md."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Mapping, NamedTuple, Optional, SupportsIndex

import numpy as np

from . import _callbacks, _header
from ._arguments import integer, text
from ._blocks import Block, check_state, float32_array
from ._buffers import Array, Buffer, address_of
from ._communicator import Communicator
from ._errors import check, invalid
from ._header import Status
from ._library import library


class LocalResult(NamedTuple):
    """The result of a step, the same on all ranks."""

    #: That was synchronised; None: none, or all of them.
    fragment: Optional[int]
    #: Fragments that were left out, because their average was not finite.
    dropped: int


class LocalCounters(NamedTuple):
    """Counts of local training, on this rank."""

    steps: int
    synchronisations: int
    dropped: int
    parameter_bytes: int
    state_bytes: int
    sent_bytes: int
    waited_ns: int


class Local(Block):
    """Local SGD, DiLoCo and Streaming DiLoCo over the ranks of a communicator.

        local = tutti.Local(comm, {"layer 1": first, "layer 2": second}, every=50)
        for step in range(steps):
            train_one_step(first, second)
            local.step()
        local.synchronise()

    `tensors`: the parameters by name, float32, the same values on all ranks; they change in place. `fragments`: the number
    of the fragment of each tensor, from 0 on; without it there is one fragment. The defaults are those of DiLoCo; local SGD
    is rate=1, momentum=0. All ranks give the same. Arrays stay where they are until it is closed. Calls are collective.
    """

    _noun = "local training"

    def __init__(
        self,
        comm: Communicator,
        tensors: Mapping[str, Buffer],
        *,
        fragments: Optional[Mapping[str, int]] = None,
        every: SupportsIndex = 100,
        delay: SupportsIndex = 0,
        mixing: float = 0.0,
        rate: float = 0.7,
        momentum: float = 0.9,
        nesterov: bool = True,
        priority: SupportsIndex = 0,
        encoding: Optional[str] = None,
    ) -> None:
        _callbacks.catch_up()
        self._arrays = {name: float32_array(array, name, "synchronised") for name, array in tensors.items()}
        self._indices = {name: index for index, name in enumerate(self._arrays)}
        if fragments is not None and fragments.keys() != self._arrays.keys():
            raise invalid(Status.INVALID_OPTIONS, "fragments must have the names of the tensors")
        listed = (_header.LocalTensor * len(self._arrays))(
            *(
                _header.LocalTensor(
                    text("name", name),
                    address_of(array),
                    array.size,
                    integer("fragment", 0 if fragments is None else fragments[name], 0, Status.INVALID_OPTIONS),
                )
                for name, array in self._arrays.items()
            )
        )
        options = _options(every, delay, mixing, rate, momentum, nesterov, priority, encoding)
        self._create(
            comm, library.local_free, library.local_create, listed, len(self._arrays), ctypes.byref(options)
        )

    def step(self) -> LocalResult:
        """This rank has taken a step. Synchronises the fragment that is due, if one is."""
        return self._step(library.local_step)

    def synchronise(self) -> LocalResult:
        """Synchronises all fragments now: parameters are then the same on all ranks."""
        return self._step(library.local_synchronise)

    def _step(self, function: object) -> LocalResult:
        result = _header.LocalResult()
        self._call(function, ctypes.byref(result))
        return LocalResult(None if result.fragment < 0 else result.fragment, result.dropped)

    def change(
        self,
        *,
        every: SupportsIndex = 100,
        delay: SupportsIndex = 0,
        mixing: float = 0.0,
        rate: float = 0.7,
        momentum: float = 0.9,
        nesterov: bool = True,
        priority: SupportsIndex = 0,
        encoding: Optional[str] = None,
    ) -> None:
        """Takes these options, the same on all ranks; options that are not given are as in DiLoCo. The schedule begins again."""
        options = _options(every, delay, mixing, rate, momentum, nesterov, priority, encoding)
        self._call(library.local_change, ctypes.byref(options))

    def values(self, name: str) -> Array:
        """A copy of the global values of a tensor, those of the last synchronisation, by which to judge a model."""
        if name not in self._indices:
            raise invalid(Status.INVALID_OPTIONS, f"there is no tensor {name!r}")
        found = ctypes.c_void_p()
        check(library.local_values(self._address, self._indices[name], ctypes.byref(found)))
        array = self._arrays[name]
        if found.value is None:
            return np.empty(array.shape, np.float32)
        memory: Any = (ctypes.c_char * array.nbytes).from_address(found.value)
        return np.ndarray(array.shape, np.float32, buffer=memory).copy()

    def take(self, other: "Optional[Local]") -> None:
        """Takes the state of another one with the same tensors, which can only be closed afterwards: with the communicator
        that shrink() made. None: this rank joins, and its parameters become the global values."""
        self._call(library.local_take, None if other is None else other._address)

    def state_dict(self) -> Dict[str, Array]:
        """Copies of this rank's parameters, global values, momentum and counts, by name. Taken after synchronise(), it lets a
        run go on with the same bits; in the middle of a schedule, load_state_dict() begins the schedule again."""
        return {name: array.copy() for name, array in self._parts(library.local_parts)}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Takes parameters, global values and momentum of the dictionary of state_dict() of this rank. Before the first step.
        Nothing has changed if it is refused."""
        parts = {
            name: array
            for name, array in self._parts(library.local_parts)
            if not name.startswith("local training, ") and not name.endswith(", average")
        }
        given = check_state(state, parts)
        for name, array in parts.items():
            array[...] = given[name]

    @property
    def counters(self) -> LocalCounters:
        """Counts, and bytes of this rank."""
        found = _header.LocalCounters(size_bytes=ctypes.sizeof(_header.LocalCounters))
        self._call(library.local_count, ctypes.byref(found))
        return LocalCounters(*(getattr(found, name) for name in LocalCounters._fields))


def _options(
    every: SupportsIndex,
    delay: SupportsIndex,
    mixing: float,
    rate: float,
    momentum: float,
    nesterov: bool,
    priority: SupportsIndex,
    encoding: Optional[str],
) -> _header.LocalOptions:
    return _header.LocalOptions(
        ctypes.sizeof(_header.LocalOptions),
        integer("every", every, 1, Status.INVALID_OPTIONS),
        integer("delay", delay, 0, Status.INVALID_OPTIONS),
        mixing,
        rate,
        momentum,
        int(nesterov),
        integer("priority", priority, -100, Status.INVALID_OPTIONS, 100),
        None if encoding is None else text("encoding", encoding),
    )
