"""A timeline of operations, as a file of trace events that Chrome (chrome://tracing) and Perfetto show.

Each name has a row. NEGOTIATE_ALLREDUCE is the time from its submission here until all ranks were ready, and ALLREDUCE
that of the operation. Rank 0 writes it, from the engine's thread.
"""

from __future__ import annotations

import json
import time
from typing import Any, Dict

from ._operation import Operation


class Timeline:
    def __init__(self, path: str, mark_cycles: bool) -> None:
        """OSError: the file cannot be written."""
        self._file = open(path, "w", encoding="utf-8")
        self._mark_cycles = mark_cycles
        self._began = time.monotonic()
        self._rows: Dict[str, int] = {}
        self._file.write("[\n")
        self._write({"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "Horovod over Tutti"}}, True)

    def _write(self, event: Dict[str, Any], is_first: bool = False) -> None:
        self._file.write(("" if is_first else ",\n") + json.dumps(event))

    def _microseconds(self, when: float) -> float:
        return round((when - self._began) * 1e6, 1)

    def _row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self._rows) + 1
            self._write({"name": "thread_name", "ph": "M", "pid": 0, "tid": row, "args": {"name": name}})
        return row

    def cycle(self) -> None:
        """A message with what is ready goes out."""
        if self._mark_cycles:
            now = self._microseconds(time.monotonic())
            self._write({"name": "CYCLE_START", "ph": "i", "s": "p", "pid": 0, "tid": 0, "ts": now})

    def operation(self, operation: Operation) -> None:
        """One that is done."""
        if len(operation.times) < 2:
            return
        submitted, ordered = operation.times[:2]
        row = self._row(operation.submission.name)
        what = operation.submission.kind.upper()
        for name, begin, end in (
            (f"NEGOTIATE_{what}", submitted, ordered),
            (what, ordered, time.monotonic()),
        ):
            if begin < self._began:
                begin = min(self._began, end)
            if end >= self._began:
                duration = round((end - begin) * 1e6, 1)
                self._write(
                    {"name": name, "ph": "X", "pid": 0, "tid": row, "ts": self._microseconds(begin), "dur": duration}
                )

    def close(self) -> None:
        self._file.write("\n]\n")
        self._file.close()
