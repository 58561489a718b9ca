"""The version, which has its home in tutti.h: an installed package knows it, a source tree has the header."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path


def _read() -> str:
    header = Path(__file__).resolve().parents[4] / "include" / "tutti" / "tutti.h"
    if header.exists():
        numbers = re.findall(r"#define TUTTI_VERSION_\w+ (\d+)", header.read_text())
        return ".".join(numbers)
    return metadata.version("tutti")


__version__ = _read()
