"""Training that adapts itself: policies see all ranks, and change settings on all of them: docs/how-to/adapt.md."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, SupportsIndex, Tuple, Union

from . import _callbacks, _header
from ._arguments import SIZE_MAX, integer, printable, text
from ._blocks import Block
from ._communicator import Communicator
from ._errors import check, invalid
from ._header import Status
from ._library import library

_SYNCHRONIES = ("full", "local", "bounded")


class AdaptSettings(NamedTuple):
    """The settings that policies may change; view.settings._replace(batch=128) is another one."""

    #: Samples of a step, of all ranks together.
    batch: int
    #: Learning rate.
    rate: float
    #: "full", "local" (ranks synchronise every `every` steps) or "bounded" (by `staleness` steps).
    synchrony: str = "full"
    every: int = 1
    staleness: int = 0
    #: As calls take it; "": none.
    encoding: str = ""


class AdaptRank(NamedTuple):
    """A rank, as all ranks see it. Numbers that are not known are 0."""

    step_s: float
    staleness: float
    link_s: float


class AdaptView(NamedTuple):
    """All that a policy may look at. The same on all ranks."""

    call: int
    ranks: Sequence[AdaptRank]
    #: In samples; 0: not known; infinity: the gradient cannot be told from noise.
    noise_scale: float
    noise_count: int
    settings: AdaptSettings


class AdaptDecision(NamedTuple):
    """A decision. The same on all ranks."""

    call: int
    changed: int
    #: A line for each policy that changed settings: its name, settings before and after, and why.
    reason: str


#: A function of a view that returns the wanted settings and the reason, or None.
AdaptFunction = Callable[[AdaptView], Optional[Tuple[AdaptSettings, str]]]


class BatchByNoise:
    """A policy: doubles the batch when the noise scale has been at least `grow` times the batch for `calls` calls in a row,
    and halves it when it has been at most `shrink` times the batch as often; rate times (new / old batch) ** rate_power."""

    name = "batch by noise"
    _function = "batch_by_noise_decide"

    def __init__(
        self,
        batch_min: SupportsIndex = 1,
        batch_max: SupportsIndex = 1 << 20,
        grow: float = 2.0,
        shrink: float = 0.25,
        rate_power: float = 1.0,
        calls: SupportsIndex = 3,
    ) -> None:
        if not 0 < 2 * shrink < grow:
            raise invalid(Status.INVALID_OPTIONS, f"grow must be above 2 shrink, are {grow} and {shrink}")
        self._context = _header.BatchByNoise(
            ctypes.sizeof(_header.BatchByNoise),
            integer("batch_min", batch_min, 1, Status.INVALID_OPTIONS, SIZE_MAX),
            integer("batch_max", batch_max, 1, Status.INVALID_OPTIONS, SIZE_MAX),
            grow,
            shrink,
            rate_power,
            integer("calls", calls, 1, Status.INVALID_OPTIONS),
        )


class BoundedWhenSlow:
    """A policy: another synchrony while the slowest rank needs at least `slow` times as long as the median of the others,
    for `calls` calls in a row; "full" again when it has needed at most `fair` times as long as often."""

    name = "bounded when slow"
    _function = "bounded_when_slow_decide"

    def __init__(
        self,
        slow: float = 1.5,
        fair: float = 1.2,
        synchrony: str = "bounded",
        every: SupportsIndex = 8,
        staleness: SupportsIndex = 4,
        calls: SupportsIndex = 3,
    ) -> None:
        if not 1 <= fair < slow:
            raise invalid(Status.INVALID_OPTIONS, f"slow must be above fair, and fair 1 or more: {slow}, {fair}")
        self._context = _header.BoundedWhenSlow(
            ctypes.sizeof(_header.BoundedWhenSlow),
            slow,
            fair,
            _synchrony_number(synchrony),
            integer("every", every, 1, Status.INVALID_OPTIONS),
            integer("staleness", staleness, 0, Status.INVALID_OPTIONS),
            integer("calls", calls, 1, Status.INVALID_OPTIONS),
        )


class Noise:
    """An estimate of the gradient noise scale, without ranks: from the squared norms of two mean gradients."""

    def __init__(self, smoothing: float = 0.9) -> None:
        self._noise = _header.Noise(ctypes.sizeof(_header.Noise), smoothing)

    def add(self, small_batch: float, small_squared: float, large_batch: float, large_squared: float) -> None:
        """Adds the estimate of a small and a large batch, of so many samples."""
        check(
            library.noise_add(ctypes.byref(self._noise), small_batch, small_squared, large_batch, large_squared)
        )

    @property
    def scale(self) -> float:
        """In samples. 0: not known; infinity: the gradient cannot be told from noise."""
        found: float = library.noise_scale(ctypes.byref(self._noise))
        return found


class Adapt(Block):
    """Observes a job, and lets policies change its settings, at a call that all ranks make.

        adapt = tutti.Adapt(comm, [tutti.BatchByNoise(), tutti.BoundedWhenSlow()], batch=64, rate=0.1)
        decision = adapt.observe(step_s=seconds)
        if decision.changed:
            apply(adapt.settings)

    A policy is one of these, or a function of an AdaptView that returns the wanted AdaptSettings and the reason, or None. It
    decides from views alone, so that all ranks decide alike, and must not call Tutti. All ranks give the same.
    """

    _noun = "observer"

    def __init__(
        self,
        comm: Communicator,
        policies: Sequence[Union[BatchByNoise, BoundedWhenSlow, AdaptFunction]],
        *,
        batch: int,
        rate: float,
        synchrony: str = "full",
        every: int = 1,
        staleness: int = 0,
        encoding: str = "",
        probe_bytes: SupportsIndex = 0,
        noise_smoothing: float = 0.9,
    ) -> None:
        _callbacks.catch_up()
        self._error: Optional[BaseException] = None
        self._kept: List[Any] = list(policies)  # contexts
        listed = (_header.AdaptPolicy * len(policies))(*(self._policy(policy) for policy in policies))
        first = _header.AdaptSettings(ctypes.sizeof(_header.AdaptSettings))
        _fill(first, AdaptSettings(batch, rate, synchrony, every, staleness, encoding))
        options = _header.AdaptOptions(
            ctypes.sizeof(_header.AdaptOptions),
            integer("probe_bytes", probe_bytes, 0, Status.INVALID_OPTIONS, SIZE_MAX),
            noise_smoothing,
        )
        self._create(
            comm,
            library.adapt_free,
            library.adapt_create,
            listed,
            len(policies),
            ctypes.byref(first),
            ctypes.byref(options),
        )

    def _policy(self, policy: Union[BatchByNoise, BoundedWhenSlow, AdaptFunction]) -> _header.AdaptPolicy:
        if isinstance(policy, (BatchByNoise, BoundedWhenSlow)):
            decide: Any = getattr(library, policy._function)
            context = ctypes.addressof(policy._context)
            name = policy.name
        else:
            decide = _header.AdaptDecide(self._decider(policy))
            self._kept.append(decide)
            context = None
            name = getattr(policy, "__name__", type(policy).__name__)[:150]
        return _header.AdaptPolicy(text("name", name), ctypes.cast(decide, ctypes.c_void_p).value, context)

    def _decider(self, function: AdaptFunction) -> Callable[..., None]:
        def decide(view: Any, wanted: Any, reason: int, reason_bytes: int, context: Any) -> None:
            try:
                with _callbacks.inside():
                    found = function(_view_of(view.contents))
                if found is None:
                    return
                if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], AdaptSettings):
                    raise TypeError(f"a policy returns (settings, reason) or None, not {found!r}")
                settings, why = found
                _fill(wanted.contents, settings)
                line = printable(why).replace("\n", " ").encode()[: reason_bytes - 1]
                ctypes.memmove(reason, line + b"\0", len(line) + 1)
            except BaseException as error:  # goes on in observe(); settings that make no sense tell the other ranks
                self._error = error
                wanted.contents.batch = 0

        return decide

    def observe(
        self,
        *,
        step_s: float = 0.0,
        staleness: float = 0.0,
        small_batch: float = 0.0,
        small_squared: float = 0.0,
        large_batch: float = 0.0,
        large_squared: float = 0.0,
    ) -> AdaptDecision:
        """Gathers what all ranks have seen since the last call, and lets the policies decide. `step_s`: seconds of computing
        a step, without waiting; `small_batch`, `small_squared`: samples in this rank's gradient, and its squared norm;
        `large_batch`, `large_squared`: the same of the average. Give 0 for what you do not know."""
        sample = _header.AdaptSample(
            ctypes.sizeof(_header.AdaptSample),
            step_s,
            staleness,
            small_batch,
            small_squared,
            large_batch,
            large_squared,
        )
        decision = _header.AdaptDecision(ctypes.sizeof(_header.AdaptDecision))
        self._error = None
        status = self._comm._state.call(
            library.adapt_observe, self._address, ctypes.byref(sample), ctypes.byref(decision)
        )
        error, self._error = self._error, None
        if error is not None:
            raise error
        check(status, self._comm._state.handle)
        return AdaptDecision(decision.call, decision.changed, decision.reason.decode(errors="replace"))

    @property
    def settings(self) -> AdaptSettings:
        """The settings as they are now."""
        found = library.adapt_current(self._address)
        return _settings_of(_header.AdaptSettings.from_address(found))

    @property
    def noise_scale(self) -> float:
        """The estimate of the gradient noise scale, in samples, from all calls so far."""
        found: float = library.noise_scale(library.adapt_noise(self._address))
        return found


def _synchrony_number(synchrony: str) -> int:
    if synchrony not in _SYNCHRONIES:
        raise invalid(Status.INVALID_OPTIONS, f'synchrony is "full", "local" or "bounded", not {synchrony!r}')
    return _SYNCHRONIES.index(synchrony)


def _fill(to: _header.AdaptSettings, settings: AdaptSettings) -> None:
    encoding = text("encoding", settings.encoding)
    if len(encoding) > 63:
        raise invalid(Status.INVALID_OPTIONS, f"encoding is longer than 63 bytes: {settings.encoding!r}")
    to.batch = integer("batch", settings.batch, 1, Status.INVALID_OPTIONS, SIZE_MAX)
    to.rate = settings.rate
    to.synchrony = _synchrony_number(settings.synchrony)
    to.every = integer("every", settings.every, 1, Status.INVALID_OPTIONS)
    to.staleness = integer("staleness", settings.staleness, 0, Status.INVALID_OPTIONS)
    to.encoding = encoding


def _settings_of(settings: _header.AdaptSettings) -> AdaptSettings:
    return AdaptSettings(
        settings.batch,
        settings.rate,
        _SYNCHRONIES[settings.synchrony],
        settings.every,
        settings.staleness,
        settings.encoding.decode(errors="replace"),
    )


def _view_of(view: _header.AdaptView) -> AdaptView:
    return AdaptView(
        view.call,
        tuple(
            AdaptRank(view.ranks[r].step_s, view.ranks[r].staleness, view.ranks[r].link_s)
            for r in range(view.rank_count)
        ),
        view.noise_scale,
        view.noise_count,
        _settings_of(view.settings.contents),
    )
