"""The monitored barrier: through the store, so that the group survives it and even a dead rank is named."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, List

_GO = "go"


class Monitor:
    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store = store
        self._rank, self._size = rank, size
        self._count = 0

    def meet(self, timeout: timedelta, wait_all_ranks: bool) -> None:
        """Rank 0 hears of everybody and then lets all go; or raises who is missing, of whom it tells the others.

        Who comes after the verdict hears it, too. The words are those of PyTorch's own monitored barrier.
        """
        self._count += 1
        here = f"monitored/{self._count}/"
        if self._rank != 0:
            self._store.add(f"{here}{self._rank}", 1)
            self._follow(here, timeout)
            return
        wrong = self._what_is_wrong(here, timeout, wait_all_ranks)
        self._store.set(here + "verdict", wrong or _GO)
        self._store.add(here + "said", 1)
        if wrong:
            raise RuntimeError(wrong)

    def _what_is_wrong(self, here: str, timeout: timedelta, wait_all_ranks: bool) -> str:
        milliseconds = round(timeout.total_seconds() * 1000)
        if milliseconds <= 0:
            return f"Rank 0 timed out in monitoredBarrier after {milliseconds} ms."
        missing = self._missing(here, timeout, wait_all_ranks)
        if not missing:
            return ""
        ranks = "Ranks" if wait_all_ranks else "Rank"
        who = ", ".join(str(rank) for rank in missing)
        return f"{ranks} {who} failed to pass monitoredBarrier in {milliseconds} ms"

    def _missing(self, here: str, timeout: timedelta, wait_all_ranks: bool) -> List[int]:
        until = time.monotonic() + timeout.total_seconds()
        missing: List[int] = []
        for rank in range(1, self._size):
            # Who is late is looked for all the same, shortly.
            left = max(0.01, until - time.monotonic())
            if not self._is_there(f"{here}{rank}", timedelta(seconds=left)):
                missing.append(rank)
                if not wait_all_ranks:
                    break
        return missing

    def _follow(self, here: str, timeout: timedelta) -> None:
        said = f"it said nothing in {timeout}"
        if self._is_there(here + "said", timeout):
            said = bytes(self._store.get(here + "verdict")).decode()
        if said != _GO:
            raise RuntimeError(
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv"
                f" from rank 0: {said}. Please check rank 0 logs for faulty rank."
            )

    def _is_there(self, key: str, timeout: timedelta) -> bool:
        """Asks again and again. A wait that ends without an answer would not do: with PyTorch 1.13 the answer that comes
        later is taken for that of the store's next call."""
        until = time.monotonic() + timeout.total_seconds()
        nap = 0.001
        while self._store.add(key, 0) == 0:
            if time.monotonic() >= until:
                return False
            time.sleep(nap)
            nap = min(2 * nap, 0.05)
        return True
