"""Runs another program in this process, as `python PROGRAM` and `python -m MODULE` do: for `python -m` of the fronts."""

from __future__ import annotations

import os
import runpy
import sys
from typing import List, Optional, Tuple


def read_program(arguments: List[str]) -> Optional[Tuple[bool, List[str]]]:
    """Whether a module is meant, and its name or the program's file with its arguments; None: there is neither."""
    is_module = arguments[:1] == ["-m"]
    rest = arguments[is_module:]
    if not rest or (rest[0].startswith("-") and not is_module):
        return None
    return is_module, rest


def run_program(is_module: bool, arguments: List[str]) -> None:
    """Runs it, and returns when it has ended. It finds modules beside its file, or in the current directory."""
    sys.argv[:] = arguments
    if not getattr(sys.flags, "safe_path", False):  # else Python has put no folder there
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(arguments[0]))
    if is_module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(arguments[0], run_name="__main__")
