"""What Horovod's environment variables say, as far as they mean something here."""

from __future__ import annotations

import math
import os
from typing import NamedTuple, Optional


class Settings(NamedTuple):
    fusion_bytes: int  # small allreduces become one of at most as many
    cycle_seconds: float  # how long what is submitted may wait for more, while earlier operations are not ordered yet
    warn_seconds: float  # until a name that some ranks miss is warned of; 0: never
    fail_seconds: float  # until it ends the job; 0: never
    timeline: Optional[str]
    mark_cycles: bool


def _number(name: str, default: float) -> float:
    text = os.environ.get(name)
    if text is None or text == "":
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value or math.isinf(value):
        raise ValueError(f"{name} must be a number from 0 on, is {text!r}")
    return value


def _switch(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes", "on")


def read_settings() -> Settings:
    """ValueError: a variable has a value that makes no sense."""
    is_checked = not _switch("HOROVOD_STALL_CHECK_DISABLE")
    return Settings(
        int(_number("HOROVOD_FUSION_THRESHOLD", 64 << 20)),
        _number("HOROVOD_CYCLE_TIME", 1.0) / 1e3,
        _number("HOROVOD_STALL_CHECK_TIME_SECONDS", 2.0) if is_checked else 0.0,
        _number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0.0) if is_checked else 0.0,
        os.environ.get("HOROVOD_TIMELINE") or None,
        _switch("HOROVOD_TIMELINE_MARK_CYCLES"),
    )
