"""The version, which has its home in tutti.h: an installed package knows it, a source tree has the header."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path


def _read() -> str:
    folder = Path(__file__).resolve().parent
    if folder.parts[-4:] != ("bindings", "python", "src", "tutti"):
        return metadata.version("tutti-comm")
    header = folder.parents[3] / "include" / "tutti" / "tutti.h"
    return ".".join(re.findall(r"#define TUTTI_VERSION_\w+ (\d+)", header.read_text()))


__version__ = _read()
