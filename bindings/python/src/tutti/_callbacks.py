"""Where Python is called from the library: such code may not call back into it.

The garbage collector does not know that. What it frees there is freed by the next call from outside.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import Any, Callable, Deque, Iterator, Tuple


class _Inside(threading.local):
    is_inside = False


_inside = _Inside()
_waiting: Deque[Tuple[Callable[..., Any], Tuple[Any, ...]]] = deque()


@contextmanager
def inside() -> Iterator[None]:
    """Marks that this thread is in a function that the library has called."""
    before, _inside.is_inside = _inside.is_inside, True
    try:
        yield
    finally:
        _inside.is_inside = before


def later(function: Callable[..., Any], *arguments: Any) -> None:
    """Calls a finaliser, now or when that is allowed."""
    if _inside.is_inside:
        _waiting.append((function, arguments))
    else:
        function(*arguments)


def catch_up() -> None:
    """Calls what had to wait."""
    while _waiting and not _inside.is_inside:
        try:
            function, arguments = _waiting.popleft()
        except IndexError:  # another thread was faster
            return
        function(*arguments)
